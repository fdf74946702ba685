//! The element types of matrix products: `f32` and `f64`.
//!
//! `dispatch` implements the trait. The trait has a file of its own so that imports have no cycle: the innermost loops
//! import the trait, and `dispatch` imports the innermost loops.

use super::operands::{Dots, RegisterTileOperands};
use crate::float::Float;
use crate::simd::Token;

/// Element types that matrix products are compiled for.
pub trait GemmFloat: Float {
    /// The largest tile for a block of `rows` rows: its rows and its columns.
    #[doc(hidden)]
    fn shape(token: Token, rows: usize) -> (usize, usize);
    /// The widest tile of `rows` rows that covers at most `cols` columns.
    #[doc(hidden)]
    fn width(token: Token, rows: usize, cols: usize) -> usize;
    /// Computes one tile. Its size must be one that `shape` and `width` gave.
    #[doc(hidden)]
    fn tile(token: Token, t: RegisterTileOperands<'_, Self>);
    /// Computes the dot products of rows of two matrices.
    #[doc(hidden)]
    fn dots(token: Token, d: Dots<'_, Self>);
    /// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
    #[doc(hidden)]
    fn transpose(token: Token, from: &[Self], step: usize, to: &mut [Self], to_step: usize, outer: usize, inner: usize);
}
