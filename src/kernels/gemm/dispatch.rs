//! The innermost loops of the instruction set that a [`Token`] names.
//!
//! Invariant: of the files of `gemm`, only this one chooses code by the value of a [`Token`].

use super::gemm_float::GemmFloat;
use super::operands::{Dots, RegisterTileOperands};
use super::tile_shapes::{self, TileShapes};
use super::transpose;
use crate::simd::{Simd, Token};
use crate::with_token;

macro_rules! gemm_float {
    ($($t:ident)+) => {$(
        impl GemmFloat for $t {
            fn shape(token: Token, rows: usize) -> (usize, usize) {
                with_token!(token, s => tile_shapes::tile_shape::<_, $t>(s, rows))
            }
            fn width(token: Token, rows: usize, cols: usize) -> usize {
                with_token!(token, s => tile_shapes::tile_shape_width::<_, $t>(s, rows, cols))
            }
            #[inline]
            fn tile(token: Token, t: RegisterTileOperands<'_, $t>) {
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
                with_token!(token, s => s.vectorize(transpose::TransposeKernel { s, from, step, to, to_step, outer, inner }));
            }
        }
    )+};
}

gemm_float!(f32 f64);
