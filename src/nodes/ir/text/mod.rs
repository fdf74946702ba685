//! The text form: [`print()`] and [`parse()`]. Both follow the attribute schemas of the op definitions.
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
//! * A value is `%name` if its debug name is unique in its region (a leaf always keeps its name), else `%number`. A
//!   name that is not unique follows the number in the definition: `%5"h" = relu %4`. Regions are `@name` or `@number`
//!   by the same rule. Names other than `[A-Za-z_][A-Za-z0-9_.]*` are quoted.
//! * The attribute `name` of a leaf is omitted: it is the value's name. Ops with both a `dtype` and a `shape` omit
//!   these: the type after the colon gives them. All other attributes are written, in any order.
//! * A dimension, and an integer attribute, may depend on symbols: `f32[batch,784]`, `shape=[2*batch+1,3]`. It is a sum
//!   of products of integers and symbols. [`parse_with_sizes`] gives symbols their sizes. Printed text has numbers
//!   only.
//! * Types are assertions, which shape inference checks. They may be omitted unless they replace attributes.
//! * A statement is one line. A line may break after a comma.
//! * A node or an argument may have a source location after its types: `%y = tanh %x : f32[4] loc("net.rs":12)`. Plans
//!   and errors then name that line. Locations are printed on request only ([`print_with`]).
//!
//! Invariant: `parse(print(g)) == g` for any graph that [`Emit`] made. The parser trusts no text: sizes are bounded,
//! nothing recurses, nothing panics, and errors have a line and a column.

mod lexer;
mod parse_attr;
mod parse_node;
mod parse_region;
mod parse_size;
mod parse_type;
mod parser;
mod print;
mod renamed;
mod strings;
#[cfg(test)]
mod tests;

use super::asked_sizes::AskedSizes;
use super::emit::Emit;
use super::graph::GraphBuf;
use super::opdef::OpDef;
use super::sizes::Sizes;
use crate::error::{Error, Kind, Result};

pub use parse_attr::parse_attrs;
pub(in crate::nodes) use parse_attr::{describe_attr_kind, parse_attr_text};
pub use parse_type::{parse_type, parse_types};
pub use parser::MAX_ERRORS;
pub(in crate::nodes) use print::Printer;
pub use print::{PrintOptions, print, print_with};
pub(in crate::nodes) use renamed::instead_of;

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 64 << 20;

/// The graph of `text`, or the first error.
pub fn parse(text: &str) -> Result<GraphBuf> {
    parse_with(text, &[])
}

/// As [`parse`], with custom ops beside the built-in ones.
pub fn parse_with(text: &str, extra_ops: &[&'static OpDef]) -> Result<GraphBuf> {
    let unknown = || Error::new(Kind::Syntax, "the text cannot be read");
    parse_all(text, extra_ops).map_err(|e| e.into_iter().next().unwrap_or_else(unknown))
}

/// As [`parse_with`], for a text with symbols: each is a number of `sizes`. The graph, and so its printed text, has
/// numbers only.
///
/// ```
/// use arenagrad::graph::Sizes;
/// use arenagrad::tools::ir::text;
/// # fn main() -> arenagrad::Result<()> {
/// let net = "graph @g {\n  %x = input : f32[batch,6]\n  %y = reshape %x shape=[2*batch,3]\n  return y=%y\n}\n";
/// let graph = text::parse_with_sizes(net, &[], &Sizes::new(&[("batch", 7)])?)?;
/// assert!(text::print(graph.view()).contains("reshape %x shape=[14,3] : f32[14,3]"));
/// assert!(text::parse(net).is_err()); // batch has no size
/// # Ok(())
/// # }
/// ```
///
/// Errors: those of [`parse_with`]; a symbol without a size; a size whose symbol is not in the text; an expression that
/// overflows 64 bits; a dimension below 0.
pub fn parse_with_sizes(text: &str, extra_ops: &[&'static OpDef], sizes: &Sizes) -> Result<GraphBuf> {
    let unknown = || Error::new(Kind::Syntax, "the text cannot be read");
    parse_all_with_sizes(text, extra_ops, sizes).map_err(|e| e.into_iter().next().unwrap_or_else(unknown))
}

/// As [`parse_with`], with all errors in the order of the text, at most [`MAX_ERRORS`]. A bad statement still defines
/// its values, so that one mistake is one error.
pub fn parse_all(text: &str, extra_ops: &[&'static OpDef]) -> Result<GraphBuf, Vec<Error>> {
    parse_all_with_sizes(text, extra_ops, &Sizes::default())
}

/// As [`parse_all`], for a text with symbols: see [`parse_with_sizes`].
pub fn parse_all_with_sizes(text: &str, extra_ops: &[&'static OpDef], sizes: &Sizes) -> Result<GraphBuf, Vec<Error>> {
    // Editors on Windows begin files with it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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
    let mut parser = parser::Parser::new(text, &mut emit);
    parser.sizes = AskedSizes::new(sizes.clone());
    parser.parse_file()?;
    GraphBuf::make(|bump| emit.finish(bump)).map_err(|e| vec![e])
}
