//! Elementwise ops, and the regions that fusion builds from them.

pub mod act_with_grad;
pub mod arith;
pub mod attrs;
pub mod bits;
pub mod compare;
pub mod lower;
pub mod map;
pub mod math;
pub mod pairs;
mod peephole;
mod slot;
pub mod special;
pub mod var;
mod var_activations;

use crate::nodes::ir::attrs::Attrs;

/// The immediates of a tile step that has none.
pub(crate) fn no_immediates(_: &Attrs<'_>) -> [f64; 2] {
    [0.0; 2]
}
