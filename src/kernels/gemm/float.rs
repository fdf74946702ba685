//! The element types of matrix products, and the choice of a kernel's code by the instruction set's token.
//!
//! Invariant: the only place of the folder where a [`Token`] becomes a type.

use super::operands::{Dots, Tile};
use super::shapes::{self, Shapes};
use super::transpose;
use crate::kernels::float::Float;
use crate::kernels::simd::{Simd, Token};
use crate::with_token;

/// Element types that matrix products are compiled for.
pub trait GemmFloat: Float {
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

macro_rules! gemm_float {
    ($($t:ident)+) => {$(
        impl GemmFloat for $t {
            fn shape(token: Token, rows: usize) -> (usize, usize) {
                with_token!(token, s => shapes::shape::<_, $t>(s, rows))
            }
            fn width(token: Token, rows: usize, cols: usize) -> usize {
                with_token!(token, s => shapes::width::<_, $t>(s, rows, cols))
            }
            #[inline]
            fn tile(token: Token, t: Tile<'_, $t>) {
                with_token!(token, s => s.tile(t));
            }
            #[inline]
            fn dots(token: Token, d: Dots<'_, $t>) {
                with_token!(token, s => s.dots(d));
            }
            fn transpose(
                token: Token,
                from: &[$t],
                step: usize,
                to: &mut [$t],
                to_step: usize,
                outer: usize,
                inner: usize,
            ) {
                with_token!(token, s => s.vectorize(transpose::Kernel { s, from, step, to, to_step, outer, inner }));
            }
        }
    )+};
}

gemm_float!(f32 f64);
