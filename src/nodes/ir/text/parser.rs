//! The state of the parser: the current token, the *labels* (names or numbers of values and regions) defined so far,
//! and the errors.
//!
//! A text is read once, from start to end; each statement adds its nodes to the graph when it is read. Regions and
//! their bodies are in `parse_region`, nodes in `parse_node`, attribute values in `parse_attr`, types in `parse_type`.
//! Invariant: every iteration of a loop consumes a token, so the time is linear in the text, and no function calls
//! itself. A bad statement defines its labels as [`Value::NONE`]; later nodes on them are skipped without an error.

use super::lexer::{Lexer, Name, Tok, Token};
use super::strings::{brief_text_string, unescape_string};
use crate::arena::{Region, Sym, Value};
use crate::error::{Error, Kind, Location, Result};
use crate::names::list_names;
use crate::nodes::ir::asked_sizes::AskedSizes;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::opdef::Op;
use hashbrown::HashMap;

/// Errors after which the parser stops.
pub const MAX_ERRORS: usize = 100;

/// The label of a value or a region in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Label {
    Number(u32),
    Name(Sym),
}

/// The definition of a label: its token, and the debug name of the value or region.
#[derive(Clone, Copy)]
pub(super) struct Defined<'t> {
    pub(super) token: Token<'t>,
    pub(super) label: Label,
    pub(super) name: Sym,
}

/// The state of the parser.
pub(super) struct Parser<'t, 'e> {
    pub(super) lex: Lexer<'t>,
    pub(super) tok: Token<'t>,
    pub(super) e: &'e mut Emit,
    /// The token before `tok`.
    pub(super) before: Token<'t>,
    pub(super) ops: HashMap<&'static str, Op>,
    pub(super) values: HashMap<Label, Value>,
    pub(super) regions: HashMap<Label, Region>,
    /// True if only attributes are parsed. Regions are then the closed regions of `e`, by name.
    pub(super) lone: bool,
    /// The sizes of symbols.
    pub(super) sizes: AskedSizes,
    pub(super) errors: Vec<Error>,
}

impl<'t, 'e> Parser<'t, 'e> {
    pub(super) fn new(text: &'t str, e: &'e mut Emit) -> Parser<'t, 'e> {
        let mut lex = Lexer::new(text);
        let tok = lex.next();
        let ops = e.ops.iter().enumerate().map(|(i, d)| (d.name, Op(i as u16))).collect();
        let (values, regions) = (HashMap::new(), HashMap::new());
        let sizes = AskedSizes::default();
        Parser { lex, tok, before: tok, e, ops, values, regions, lone: false, sizes, errors: Vec::new() }
    }

    /// Parses the whole text into the writer.
    pub(super) fn parse_file(mut self) -> Result<(), Vec<Error>> {
        let mut graph = false;
        while self.tok.tok != Tok::End && self.errors.len() < MAX_ERRORS {
            let start = self.tok;
            let item = match start.tok {
                Tok::Word("region") if graph => Err(self.error(&start, "regions stand before the graph")),
                Tok::Word("graph") if graph => {
                    Err(self.error(&start, "a text holds one graph, and this is the second"))
                }
                Tok::Word("region") => self.parse_region(),
                Tok::Word("graph") => {
                    graph = true;
                    self.parse_entry_region()
                }
                _ => Err(self.expected_item()),
            };
            if let Err(e) = item {
                self.keep(e);
                self.next_line(start.start);
                // The body of a bad head is skipped: its errors would only follow from the head.
                while !matches!(self.tok.tok, Tok::End | Tok::Word("region" | "graph")) {
                    self.next_line(self.tok.start);
                }
            }
        }
        if !graph && self.errors.is_empty() {
            self.keep(self.error(&self.tok, "the text has no graph"));
        }
        if let Some(name) = self.sizes.unused().filter(|_| self.errors.is_empty()) {
            let used = self.sizes.used();
            let known = match used.is_empty() {
                true => "it has none".to_string(),
                false => format!("it has {}", list_names(used)),
            };
            let text = format!("a size is bound for {name:?}, but the text has no such symbol; {known}");
            self.keep(Error::new(Kind::Name, text));
        }
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    fn expected_item(&self) -> Error {
        let found = brief_text_string(self.lex.slice(&self.tok)).into_owned();
        self.error(&self.tok, format!("{found} stands where region or graph is expected"))
    }

    // Tokens.

    pub(super) fn advance(&mut self) {
        self.before = self.tok;
        self.tok = self.lex.next();
    }

    pub(super) fn is(&self, punct: u8) -> bool {
        self.tok.tok == Tok::Punct(punct)
    }

    /// Consumes a comma on this line. True if there was one.
    pub(super) fn comma(&mut self) -> bool {
        let comma = self.is(b',') && !self.tok.first;
        if comma {
            self.advance();
        }
        comma
    }

    pub(super) fn expect(&mut self, punct: u8, what: &str) -> Result<()> {
        if !self.is(punct) || self.tok.first {
            return Err(self.expected(what));
        }
        self.advance();
        Ok(())
    }

    // Errors.

    pub(super) fn location_of(&self, t: &Token<'_>) -> Location {
        Location::Text(t.line, self.lex.column(t.line_start, t.start))
    }

    pub(super) fn error(&self, t: &Token<'_>, message: impl Into<String>) -> Error {
        Error::new(Kind::Syntax, message).at(self.location_of(t))
    }

    /// The error that `what` is expected at the current token.
    pub(super) fn expected(&self, what: &str) -> Error {
        let t = &self.tok;
        match t.tok {
            Tok::Bad(why) => self.error(t, format!("{}: {why}", brief_text_string(self.lex.slice(t)))),
            // The error is on the line that ends too early, not on the next line.
            _ if t.first || t.tok == Tok::End => {
                let end = if t.tok == Tok::End { "text" } else { "line" };
                let b = &self.before;
                let location = Location::Text(b.line, self.lex.column(b.line_start, b.end));
                Error::new(Kind::Syntax, format!("the {end} ends where {what} is expected")).at(location)
            }
            _ => self.error(t, format!("{} stands where {what} is expected", brief_text_string(self.lex.slice(t)))),
        }
    }

    pub(super) fn keep(&mut self, e: Error) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(e);
        }
    }

    /// Moves the error of `e`, if there is one, to the parser's errors.
    pub(super) fn keep_emitted(&mut self) {
        if let Some(e) = self.e.take_error() {
            self.keep(e);
        }
    }

    /// Skips to the next line, at least past the token at `start`.
    pub(super) fn next_line(&mut self, start: usize) {
        while self.tok.tok != Tok::End && (self.tok.start == start || !self.tok.first) {
            self.advance();
        }
    }

    pub(super) fn end_of_line(&mut self) -> Result<()> {
        match self.tok.first || self.is(b'}') || self.tok.tok == Tok::End {
            true => Ok(()),
            false => Err(self.expected("the end of the line")),
        }
    }

    /// Later nodes get the location of `t`.
    pub(super) fn set_location(&mut self, t: &Token<'_>) {
        let col = self.lex.column(t.line_start, t.start);
        self.e.set_location(Location::Text(t.line, col));
    }

    /// True at `loc(`. An attribute may be called `loc` too, but then `=` follows.
    pub(super) fn at_location(&self) -> bool {
        self.tok.tok == Tok::Word("loc") && !self.tok.first && self.lex.follows(b'(')
    }

    /// Parses `loc("file.rs":12)`, if it is here.
    pub(super) fn location(&mut self) -> Result<Option<Location<Sym>>> {
        if !self.at_location() {
            return Ok(None);
        }
        self.advance();
        self.expect(b'(', "(")?;
        let t = self.tok;
        let Tok::Str(raw) = t.tok else { return Err(self.expected("the name of a file in quotes")) };
        let file = unescape_string(raw).map_err(|m| self.error(&t, m))?;
        let file = self.e.strings.intern(&file);
        self.advance();
        self.expect(b':', ": and the number of a line")?;
        let number = match self.tok.tok {
            Tok::Word(w) if w.bytes().all(|c| c.is_ascii_digit()) => w.parse().ok().filter(|&n| n > 0),
            _ => None,
        };
        let Some(line) = number else { return Err(self.expected("the number of a line, from 1")) };
        self.advance();
        self.expect(b')', ")")?;
        Ok(Some(Location::Source(file, line)))
    }

    // Labels.

    fn parse_label(&mut self, t: &Token<'t>, name: Name<'t>) -> Result<Label> {
        Ok(match name {
            Name::Number(n) => Label::Number(n),
            Name::Plain(s) => Label::Name(self.e.strings.intern(s)),
            Name::Quoted(raw) => {
                let s = unescape_string(raw).map_err(|m| self.error(t, m))?;
                Label::Name(self.e.strings.intern(&s))
            }
        })
    }

    /// Parses a label that is defined at the current token. A name in quotes may follow a number.
    pub(super) fn define(&mut self, name: Name<'t>) -> Result<Defined<'t>> {
        let token = self.tok;
        let label = self.parse_label(&token, name)?;
        self.advance();
        let mut known = if let Label::Name(s) = label { s } else { Sym::NONE };
        if let (Label::Number(_), Tok::Str(raw), false) = (label, self.tok.tok, self.tok.first) {
            let s = unescape_string(raw).map_err(|m| self.error(&token, m))?;
            known = self.e.strings.intern(&s);
            self.advance();
        }
        Ok(Defined { token, label, name: known })
    }

    /// Binds `d` to `v`.
    pub(super) fn bind(&mut self, d: &Defined<'t>, v: Value) {
        if self.values.contains_key(&d.label) {
            let what = brief_text_string(self.lex.slice(&d.token)).into_owned();
            let e = Error::new(Kind::Name, format!("{what} is defined already in this region"));
            return self.keep(e.at(self.location_of(&d.token)));
        }
        self.values.insert(d.label, v);
        if d.name.is_some() {
            self.e.set_name(v, d.name);
        }
    }

    /// The value that the current token names.
    pub(super) fn parse_value(&mut self) -> Result<Value> {
        let t = self.tok;
        let Tok::Value(name) = t.tok else { return Err(self.expected("a value like %x")) };
        let label = self.parse_label(&t, name)?;
        self.advance();
        if let Some(&v) = self.values.get(&label) {
            return Ok(v);
        }
        let what = brief_text_string(self.lex.slice(&t)).into_owned();
        let why = format!("{what} is not defined before this line in this region");
        self.keep(Error::new(Kind::Name, why).at(self.location_of(&t)));
        // Later uses of the name are no further errors.
        self.values.insert(label, Value::NONE);
        Ok(Value::NONE)
    }

    /// The region of the current token, `name`.
    pub(super) fn parse_region_use(&mut self, name: Name<'t>) -> Result<Region> {
        let t = self.tok;
        let label = self.parse_label(&t, name)?;
        self.advance();
        let found = match (self.lone, label) {
            (true, Label::Name(s)) => self.e.region_called(s),
            _ => self.regions.get(&label).copied(),
        };
        found.ok_or_else(|| {
            let why = format!("region @{name} is not defined before this line");
            Error::new(Kind::Name, why).at(self.location_of(&t))
        })
    }

    /// Values separated by commas, to the end of the line.
    pub(super) fn parse_values(&mut self) -> Result<Vec<Value>> {
        let mut list = Vec::new();
        if !matches!(self.tok.tok, Tok::Value(_)) || self.tok.first {
            return Ok(list);
        }
        loop {
            list.push(self.parse_value()?);
            if !self.comma() {
                break;
            }
        }
        match self.tok.tok {
            Tok::Value(_) if !self.tok.first => Err(self.error(&self.tok, "a comma stands between values")),
            _ => Ok(list),
        }
    }
}
