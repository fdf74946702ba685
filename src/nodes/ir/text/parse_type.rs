//! Types in a text.

use super::lexer::Tok;
use super::parse_attr::describe_attr_kind;
use super::parser::Parser;
use super::strings::brief_text_string;
use crate::arena::Shape;
use crate::arena::dims::{Dims, MAX_RANK};
use crate::error::Result;
use crate::nodes::ir::attrs::{Field, Kind};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::emit::Emit;

/// Positions of the fields `dtype` and `shape`, if there are both. The type of the first result gives them.
pub(super) fn parsed_type_fields(fields: &[Field]) -> Option<(usize, usize)> {
    let find = |name, kind| fields.iter().position(|f| f.name == name && f.kind == kind);
    Some((find("dtype", Kind::DType)?, find("shape", Kind::Shape)?))
}

impl Parser<'_, '_> {
    pub(super) fn parse_type_shape(&mut self) -> Result<Shape> {
        let start = self.tok;
        let dims: Vec<usize> = self.parse_attr_ints("a size")?;
        if Dims::new(&dims).is_none() {
            return Err(self.error(&start, format!("rank {} is above the largest rank, {MAX_RANK}", dims.len())));
        }
        self.e.shapes.intern(&dims).map_err(|m| self.error(&start, m))
    }

    /// Parses `f32[2,3]`.
    pub(super) fn parse_type(&mut self) -> Result<Ty> {
        let start = self.tok;
        let Tok::Word(word) = start.tok else { return Err(self.expected("a type like f32[2,3]")) };
        let dtype = DType::parse(word).ok_or_else(|| {
            let known = describe_attr_kind(&Kind::DType);
            self.error(&start, format!("{} is not {known}", brief_text_string(word)))
        })?;
        self.advance();
        if !self.is(b'[') {
            return Err(self.error(&start, format!("a type has dimensions: {word}[2,3], or {word}[] for a scalar")));
        }
        Ok(Ty { dtype, shape: self.parse_type_shape()? })
    }

    pub(super) fn parse_lone_type(mut self) -> Result<Ty> {
        let ty = self.parse_type()?;
        if self.tok.tok == Tok::End { Ok(ty) } else { Err(self.expected("the end of the type")) }
    }
}

/// The type in `text`: `f32[3,4]`.
pub fn parse_type(text: &str, emit: &mut Emit) -> Result<Ty> {
    Parser::new(text, emit).parse_lone_type()
}

/// The types in `text`, separated by blanks: `"f[3,4] i32[]"`. The dtype `f` is `float`, and `c` the complex one of it.
pub fn parse_types(text: &str, float: DType, emit: &mut Emit) -> Result<Vec<Ty>> {
    let complex = float.complex().unwrap_or(float);
    let one = |word: &str| match word.split_once('[') {
        Some(("f", rest)) => parse_type(&format!("{float}[{rest}"), emit),
        Some(("c", rest)) => parse_type(&format!("{complex}[{rest}"), emit),
        _ => parse_type(word, emit),
    };
    text.split_whitespace().map(one).collect()
}
