//! The element types of matrix products, and the choice of a kernel's code by the instruction set's token.
//!
//! Invariant: the only place of the folder where a [`Token`] becomes a type.

use super::operands::{Dots, Tile};
use crate::kernels::num::Real;
use crate::kernels::simd::Token;

/// Element types that matrix products are compiled for.
pub trait GemmFloat: Real {
    /// The largest tile of an instruction set for a block of `rows` rows: height, and width in columns.
    #[doc(hidden)]
    fn shape(token: Token, rows: usize) -> (usize, usize);
    /// The widest tile of `rows` rows that covers at most `cols` columns.
    #[doc(hidden)]
    fn width(token: Token, rows: usize, cols: usize) -> usize;
    /// Computes one tile; its size must be one that `shape` and `width` gave.
    #[doc(hidden)]
    fn tile(token: Token, t: Tile<'_, Self>);
    /// Computes dot products.
    #[doc(hidden)]
    fn dots(token: Token, d: Dots<'_, Self>);
    /// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
    #[doc(hidden)]
    fn transpose(token: Token, from: &[Self], step: usize, to: &mut [Self], to_step: usize, outer: usize, inner: usize);
}
