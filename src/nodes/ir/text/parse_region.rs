//! The parser of regions, of the graph, and of yields, updates and outputs in their bodies.
//!
//! Invariant: every region that is opened is closed, even if its body has errors.

use super::lexer::Tok;
use super::parser::{Defined, MAX_ERRORS, Parser};
use super::strings::{brief_text_string, unescape_string};
use crate::arena::{Region, Sym, Value};
use crate::error::{Error, Kind, Location, Result};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Op;
use hashbrown::HashMap;

/// An argument in the head of a region.
struct Argument<'t> {
    name: Defined<'t>,
    ty: Ty,
    loc: Option<Location<Sym>>,
}

impl<'t> Parser<'t, '_> {
    pub(super) fn parse_region(&mut self) -> Result<()> {
        self.advance();
        let Tok::Region(name) = self.tok.tok else { return Err(self.expected("the region's name, like @body")) };
        let d = self.define(name)?;
        if self.regions.contains_key(&d.label) {
            let why = format!("region @{name} is defined already");
            return Err(Error::new(Kind::Name, why).at(self.location_of(&d.token)));
        }
        // Undefined until it is closed: after an error, its users are skipped.
        self.regions.insert(d.label, Region::NONE);
        self.values = HashMap::new();
        let args = self.parse_region_head()?;
        let name = if d.name.is_some() { self.e.strings.str(d.name).to_string() } else { String::new() };
        let errors = self.errors.len();
        self.e.open_region(&name);
        for (i, arg) in args.iter().enumerate() {
            self.set_location(&arg.name.token);
            let attrs = ArgAttrs { index: i as i64, dtype: arg.ty.dtype, shape: arg.ty.shape };
            let v = self.e.emit(Op::ARG, &[], &attrs.list()).at(0);
            if let Some(loc) = arg.loc {
                self.e.relocate(i, loc);
            }
            self.bind(&arg.name, v);
        }
        let yields = self.parse_region_body(false);
        let r = self.e.close_region(&yields);
        // The error about an undefined value has been recorded at its use.
        let _ = self.e.take_error();
        if self.errors.len() == errors {
            self.regions.insert(d.label, r);
        }
        Ok(())
    }

    /// `(%c: f32[4], %x: f32[4]) {`.
    fn parse_region_head(&mut self) -> Result<Vec<Argument<'t>>> {
        let mut args = Vec::new();
        self.expect(b'(', "( and the region's arguments")?;
        while let Tok::Value(name) = self.tok.tok {
            let name = self.define(name)?;
            self.expect(b':', ": and the argument's type")?;
            args.push(Argument { name, ty: self.parse_type()?, loc: self.location()? });
            if !self.comma() {
                break;
            }
        }
        self.expect(b')', "an argument like %x: f32[4], or )")?;
        self.expect(b'{', "{")?;
        Ok(args)
    }

    pub(super) fn parse_entry_region(&mut self) -> Result<()> {
        self.advance();
        let Tok::Region(name) = self.tok.tok else { return Err(self.expected("the graph's name, like @mlp")) };
        let token = self.tok;
        let d = self.define(name)?;
        if !d.name.is_some() {
            return Err(self.error(&token, "a graph has a name, not a number"));
        }
        let name = self.e.strings.str(d.name).to_string();
        self.e.rename(&name);
        if self.is(b'(') {
            return Err(self.error(&self.tok, "a graph has no arguments: write %x = input : f32[4] in its body"));
        }
        self.expect(b'{', "{")?;
        self.values = HashMap::new();
        self.parse_region_body(true);
        Ok(())
    }

    /// Parses statements up to the closing brace. The yields of a region.
    fn parse_region_body(&mut self, entry: bool) -> Vec<Value> {
        let mut last = None;
        while self.errors.len() < MAX_ERRORS {
            let start = self.tok;
            let done = match start.tok {
                Tok::End => {
                    self.keep(self.expected("}"));
                    break;
                }
                Tok::Punct(b'}') => break,
                Tok::Word("yield" | "return" | "update") | Tok::Value(_) if last.is_some() => {
                    let end = if entry { "return" } else { "yield" };
                    Err(self.error(&start, format!("nothing follows {end} but }}")))
                }
                Tok::Word("yield") if !entry => self.parse_region_yields().map(|y| last = Some(y)),
                Tok::Word("return") if entry => self.parse_region_outputs().map(|()| last = Some(Vec::new())),
                Tok::Word("update") if entry => self.parse_region_update(),
                Tok::Value(_) => self.parse_node_statement(entry),
                _ => Err(self.expected_in_region(entry)),
            };
            if let Err(e) = done.and_then(|()| self.end_of_line()) {
                self.keep(e);
                let last_word = matches!(start.tok, Tok::Word("yield" | "return"));
                last = last.or_else(|| last_word.then(Vec::new));
                self.next_line(start.start);
            }
        }
        if last.is_none() && self.is(b'}') {
            let end = if entry { "return" } else { "yield" };
            self.keep(self.error(&self.tok, format!("{end} is missing before the closing brace")));
        }
        if self.is(b'}') {
            self.advance();
        }
        last.unwrap_or_default()
    }

    fn expected_in_region(&self, entry: bool) -> Error {
        let t = &self.tok;
        let word = brief_text_string(self.lex.slice(t)).into_owned();
        let message = match t.tok {
            Tok::Bad(why) => format!("{word}: {why}"),
            Tok::Word("return") => "a region ends with yield, not return".to_string(),
            Tok::Word("yield") => "a graph ends with return, not yield".to_string(),
            Tok::Word("update") => "update stands in the graph only".to_string(),
            Tok::Word(w) if self.ops.contains_key(w) => format!("write %y = {word} …: a node's results have names"),
            _ if entry => format!("{word} starts no statement; %y = …, update or return is expected"),
            _ => format!("{word} starts no statement; %y = … or yield is expected"),
        };
        self.error(t, message)
    }

    fn parse_region_yields(&mut self) -> Result<Vec<Value>> {
        self.advance();
        self.parse_values()
    }

    fn parse_region_outputs(&mut self) -> Result<()> {
        self.advance();
        if self.tok.first || self.is(b'}') || self.tok.tok == Tok::End {
            return Ok(());
        }
        loop {
            let start = self.tok;
            let name = match start.tok {
                Tok::Word(w) => w.into(),
                Tok::Str(raw) => unescape_string(raw).map_err(|m| self.error(&start, m))?,
                _ => return Err(self.expected("an output like loss=%3")),
            };
            self.advance();
            self.expect(b'=', "= and the output's value")?;
            let v = self.parse_value()?;
            self.set_location(&start);
            self.e.output(&name, v);
            self.keep_emitted();
            if !self.comma() {
                break;
            }
        }
        Ok(())
    }

    fn parse_region_update(&mut self) -> Result<()> {
        let start = self.tok;
        self.advance();
        let leaf = self.parse_value()?;
        if self.tok.tok != Tok::Arrow || self.tok.first {
            return Err(self.expected("<- and the next value"));
        }
        self.advance();
        let next = self.parse_value()?;
        self.set_location(&start);
        self.e.update(leaf, next);
        self.keep_emitted();
        Ok(())
    }
}
