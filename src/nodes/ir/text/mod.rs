//! The text form: [`print()`] and [`parse()`], both driven by the ops' attribute schemas alone.
//!
//! ```text
//! region @body(%c: f32[4], %x: f32[4]) {
//!   %y = add %c, %x : f32[4]
//!   yield %y
//! }
//! graph @mlp {
//!   %x = input : f32[32,784]
//!   %w = param init=uniform scale=0.0357 frozen=false : f32[10,784]
//!   %2 = matmul %x, %w ta=false tb=true : f32[32,10]
//!   update %w <- %7                       ; to the end of the line
//!   return loss=%12, out1=%13
//! }
//! ```
//!
//! * A value is `%name` where its debug name is unique in its region (a leaf always keeps its name), else
//!   `%number`; a name that others have too follows the number where the value is defined: `%5"h" = relu %4`.
//!   Regions are `@name` or `@number` by the same rule. Names other than `[A-Za-z_][A-Za-z0-9_.]*` are quoted.
//! * Leaves leave out `name`: it is the value's. Ops that have both a `dtype` and a `shape` leave these out: the type
//!   after the colon says them. All other attributes are written, in any order.
//! * Types are assertions, recomputed by shape inference, and may be left out where they say nothing else.
//! * A statement is one line; a line may break after a comma.
//! * After its types, a node or an argument may say where it was asked for: `%y = tanh %x : f32[4] loc("net.rs":12)`.
//!   Plans and errors then name that line. Places are printed only if asked for ([`print_with`]).
//!
//! Invariant: `parse(print(g)) == g`, for any graph that [`Emit`] made. A text is hostile: sizes are bounded, nothing
//! recurses, nothing panics, and errors have a line and a column. Any module above may call this one.

mod fields;
mod items;
mod lex;
mod parse;
mod print;
mod renamed;
mod statement;
#[cfg(test)]
mod tests;

use super::attrs::{Field, Owned};
use super::dtype::{DType, Ty};
use super::emit::Emit;
use super::graph::GraphBuf;
use super::opdef::OpDef;
use crate::error::{Error, Kind, Result};

pub use parse::MAX_ERRORS;
pub(in crate::nodes) use print::Printer;
pub use print::{PrintOptions, print, print_with};

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 64 << 20;

/// The graph that `text` describes, or the first error.
pub fn parse(text: &str) -> Result<GraphBuf> {
    parse_with(text, &[])
}

/// As [`parse`], with custom ops beside the built-in ones.
pub fn parse_with(text: &str, extra_ops: &[&'static OpDef]) -> Result<GraphBuf> {
    let unknown = || Error::new(Kind::Syntax, "the text cannot be read");
    parse_all(text, extra_ops).map_err(|e| e.into_iter().next().unwrap_or_else(unknown))
}

/// As [`parse_with`], with every error, at most [`MAX_ERRORS`] of them, in the order of the text. A statement that
/// cannot be read defines its values all the same, so that one mistake is one error.
pub fn parse_all(text: &str, extra_ops: &[&'static OpDef]) -> Result<GraphBuf, Vec<Error>> {
    if text.len() > MAX_TEXT {
        return Err(vec![Error::new(Kind::Syntax, format!("the text is larger than {} MiB", MAX_TEXT >> 20))]);
    }
    let mut emit = Emit::new("");
    for def in extra_ops {
        emit.register(def);
    }
    if let Some(e) = emit.take_error() {
        return Err(vec![e]);
    }
    parse::Parser::new(text, &mut emit).file()?;
    GraphBuf::make(|bump| emit.finish(bump)).map_err(|e| vec![e])
}

/// The attributes in `text` (`"ta=false tb=true"`), one for each of `fields`. Regions are those closed in `emit`, by
/// name.
pub fn parse_attrs(fields: &'static [Field], text: &str, emit: &mut Emit) -> Result<Vec<Owned>> {
    parse::Parser::new(text, emit).lone_attrs(fields)
}

/// The type in `text`: `f32[3,4]`.
pub fn parse_type(text: &str, emit: &mut Emit) -> Result<Ty> {
    parse::Parser::new(text, emit).lone_type()
}

/// The types in `text`, blanks between them, with the element type `f` standing for `float`: `"f[3,4] i32[]"`.
pub fn parse_types(text: &str, float: DType, emit: &mut Emit) -> Result<Vec<Ty>> {
    let one = |word: &str| match word.strip_prefix("f[") {
        Some(rest) => parse_type(&format!("{float}[{rest}"), emit),
        None => parse_type(word, emit),
    };
    text.split_whitespace().map(one).collect()
}
