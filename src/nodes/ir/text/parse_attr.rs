//! Attributes and types in a text, read by the kind that the schema names.
//!
//! Invariant: [`Parser::parse_attr`] reads what [`print`](super::print()) writes, to the bit.

use super::lexer::Tok;
use super::parser::Parser;
use super::strings::{brief_text_string, unescape_string};
use crate::error::{Error, Result};
use crate::names::nearest_name;
use crate::nodes::ir::attrs::{Field, Kind, Owned};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::emit::Emit;

fn read_f64(word: &str) -> Option<f64> {
    match word {
        "inf" | "+inf" => return Some(f64::INFINITY),
        "-inf" => return Some(f64::NEG_INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    if let Some(hex) = word.strip_prefix("nan0x") {
        let digits = hex.bytes().all(|c| c.is_ascii_hexdigit());
        return u64::from_str_radix(hex, 16).ok().filter(|_| digits).map(f64::from_bits).filter(|x| x.is_nan());
    }
    // A number too large for an f64 is an error, not an infinity.
    let digit = word.bytes().any(|c| c.is_ascii_digit());
    word.parse().ok().filter(|x: &f64| digit && x.is_finite())
}

fn read_bytes(word: &str) -> Option<Vec<u8>> {
    let hex = word.strip_prefix("0x")?.as_bytes();
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let pair = |p: &[u8]| Some(digit(p[0])? << 4 | digit(p[1])?);
    if hex.len().is_multiple_of(2) { hex.chunks_exact(2).map(pair).collect() } else { None }
}

/// A description of values of `kind`, for messages.
pub(in crate::nodes) fn describe_attr_kind(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "true or false".into(),
        Kind::Int => "a 64-bit integer".into(),
        Kind::F64 => "a 64-bit number".into(),
        Kind::DType => {
            format!("an element type ({})", DType::ALL.iter().map(|d| d.name()).collect::<Vec<_>>().join(", "))
        }
        Kind::Shape => "a shape like [2,3]".into(),
        Kind::Ints => "a list of integers like [0,1]".into(),
        Kind::Floats => "a list of numbers like [0.5,1.0]".into(),
        Kind::Sym => "a string in quotes".into(),
        Kind::Region => "a region like @body".into(),
        Kind::Bytes => "bytes in hex like 0x0000803f".into(),
        Kind::Choice(names) => format!("one of {}", names.join(", ")),
    }
}

impl<'t> Parser<'t, '_> {
    /// Parses the value of attribute `field` of `op`.
    pub(super) fn parse_attr(&mut self, op: &str, field: &Field) -> Result<Owned> {
        let start = self.tok;
        let read = match field.kind {
            Kind::Shape if self.is(b'[') => return self.parse_type_shape().map(Owned::Shape),
            Kind::Ints if self.is(b'[') => return self.parse_attr_ints("an integer").map(Owned::Ints),
            Kind::Int if matches!(start.tok, Tok::Word(_)) && !start.first => {
                let looks = describe_attr_kind(&field.kind);
                let wrong = |found: &str| format!("attribute {} of {op} takes {looks}, not {found}", field.name);
                return self.parse_size(&wrong).map(Owned::Int);
            }
            Kind::Floats if self.is(b'[') => {
                return self.parse_attr_list("a number", Self::parse_attr_number).map(Owned::Floats);
            }
            Kind::Sym => match start.tok {
                Tok::Str(raw) => {
                    let s = unescape_string(raw).map_err(|m| self.error(&start, m))?;
                    Some(Owned::Sym(self.e.strings.intern(&s)))
                }
                _ => None,
            },
            Kind::Region => match start.tok {
                Tok::Region(name) => return self.parse_region_use(name).map(Owned::Region),
                _ => None,
            },
            kind => match start.tok {
                Tok::Word(word) => read_word(kind, word),
                _ => None,
            },
        };
        if start.first {
            return Err(self.expected(&format!("the value of attribute {}", field.name)));
        }
        match read {
            Some(owned) => {
                self.advance();
                Ok(owned)
            }
            None => {
                let found = brief_text_string(self.lex.slice(&start)).into_owned();
                let looks = describe_attr_kind(&field.kind);
                Err(self.error(&start, format!("attribute {} of {op} takes {looks}, not {found}", field.name)))
            }
        }
    }

    /// Parses an item of a list of numbers.
    fn parse_attr_number(&mut self) -> Result<f64> {
        let word = self.tok;
        let found = self.lex.slice(&word);
        let number = read_f64(found);
        self.advance();
        number.ok_or_else(|| self.error(&word, format!("{} is not a number", brief_text_string(found))))
    }

    /// Parses `[1,2*batch,3]`.
    pub(super) fn parse_attr_ints<T>(&mut self, what: &str) -> Result<Vec<T>>
    where
        T: std::str::FromStr + TryFrom<i64>,
    {
        self.parse_attr_list(what, |p| p.parse_size(&|found| format!("{found} is not {what}")))
    }

    /// Parses a list in brackets, whose items, each of which begins with a word, `read` reads.
    fn parse_attr_list<T>(&mut self, what: &str, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(b'[', "[")?;
        let mut list = Vec::new();
        while !self.is(b']') {
            if !matches!(self.tok.tok, Tok::Word(_)) {
                return Err(self.expected(&format!("{what} or ]")));
            }
            list.push(read(self)?);
            if !self.comma() {
                break;
            }
        }
        self.expect(b']', ", or ]")?;
        Ok(list)
    }

    pub(super) fn parse_lone_attrs(mut self, schema: &[Field]) -> Result<Vec<Owned>> {
        self.lone = true;
        let at = self.tok;
        let attrs = self.parse_node_attrs("the op", schema)?;
        match self.tok.tok {
            Tok::End => self.complete_node_attrs("the op", schema, attrs, &at),
            _ => Err(self.expected("an attribute")),
        }
    }

    /// `ta=false tb=true`, to the colon or the end of the line.
    pub(super) fn parse_node_attrs(&mut self, op: &str, schema: &[Field]) -> Result<Vec<Option<Owned>>> {
        let mut found: Vec<Option<Owned>> = vec![None; schema.len()];
        let mut fresh = self.lone;
        while let Tok::Word(word) = self.tok.tok {
            if self.tok.first && !fresh || self.at_location() {
                break;
            }
            fresh = false;
            let t = self.tok;
            let Some(i) = schema.iter().position(|f| f.name == word) else {
                let near = nearest_name(word, schema.iter().map(|f| f.name));
                return Err(self.error(&t, format!("{op} has no attribute {}{near}", brief_text_string(word))));
            };
            self.advance();
            self.expect(b'=', &format!("= and the value of attribute {word}"))?;
            let value = self.parse_attr(op, &schema[i])?;
            if found[i].replace(value).is_some() {
                return Err(self.error(&t, format!("attribute {word} of {op} is given twice")));
            }
        }
        Ok(found)
    }
}

fn read_word(kind: Kind, word: &str) -> Option<Owned> {
    Some(match kind {
        Kind::Bool => Owned::Bool(word.parse().ok()?),
        Kind::F64 => Owned::F64(read_f64(word)?),
        Kind::DType => Owned::DType(DType::parse(word)?),
        Kind::Bytes => Owned::Bytes(read_bytes(word)?),
        Kind::Choice(names) => Owned::Choice(names.iter().position(|n| *n == word)? as u32),
        _ => return None,
    })
}

/// The attributes in `text` (`"ta=false tb=true"`), one for each of `fields`. Regions are the closed regions of `emit`,
/// by name.
pub fn parse_attrs(fields: &'static [Field], text: &str, emit: &mut Emit) -> Result<Vec<Owned>> {
    Parser::new(text, emit).parse_lone_attrs(fields)
}

/// The attribute in `text`, of the only field of `field`, which is one of the op `op`. An error has no location.
pub(in crate::nodes) fn parse_attr_text(
    op: &str,
    field: &'static [Field],
    text: &str,
    emit: &mut Emit,
) -> Result<Owned> {
    let name = field.first().map_or("", |f| f.name);
    let text = format!("{name}={text}");
    let mut parser = Parser::new(&text, emit);
    parser.lone = true;
    let read = parser.parse_node_attrs(op, field).and_then(|mut found| match (parser.tok.tok, found.pop().flatten()) {
        (Tok::End, Some(value)) => Ok(value),
        _ => Err(parser.expected("the end of the value")),
    });
    read.map_err(|e| Error::new(e.kind, e.message))
}
