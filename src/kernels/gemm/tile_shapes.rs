//! The sizes of register tiles for which each instruction set has kernels, and their kernels.
//!
//! Invariants: one table, in `tuning`, both names the sizes and makes a kernel for each. A taller tile is never wider;
//! scratch for B relies on it.

use super::operands::{Dots, RegisterTileOperands};
use super::register_tile::RegisterTileKernel;
use super::tuning::{DotsShape, LINE, Tuning, tile_tables};
use super::{dots, register_tile};
#[cfg(all(target_arch = "aarch64", not(miri)))]
use crate::simd::Neon;
use crate::simd::{Isa, Portable, Simd, Vectors};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::simd::{V3, V4};

/// The kernels of an instruction set for elements of one type.
pub trait TileShapes<T: Copy>: Vectors<T> {
    /// Most rows of a tile.
    const HEIGHT: usize;
    /// The widths of tiles of `rows` rows, in vectors, least first.
    fn widths(rows: usize) -> &'static [usize];
    /// Computes a tile of one of those sizes. Its last vector may be partial.
    fn tile(self, t: RegisterTileOperands<'_, T>);
    /// Computes dot products.
    fn dots(self, d: Dots<'_, T>);
}

/// The kernels of one instruction set: a tile of each size of its table, and dot products.
macro_rules! kernels {
    ($token:ident, $isa:ident, $tiles:tt) => {
        kernels!(@ $token $isa f32 dots_f32 $tiles);
        kernels!(@ $token $isa f64 dots_f64 $tiles);
    };
    (@ $token:ident $isa:ident $t:ident $dots:ident [$($rows:literal: $($vectors:literal)+),+]) => {
        impl TileShapes<$t> for $token {
            const HEIGHT: usize = Tuning::of(Isa::$isa).tile_rows;

            fn widths(rows: usize) -> &'static [usize] {
                match rows.max(1) {
                    $($rows => &[$($vectors),+],)+
                    rows => unreachable!("no tile of {rows} rows"),
                }
            }

            fn tile(self, mut t: RegisterTileOperands<'_, $t>) {
                let (lanes, rows, cols) = (<Self as Vectors<$t>>::LANES, t.c.rows(), t.c.cols());
                let (vectors, part) = (cols.div_ceil(lanes), cols % lanes != 0);
                if part && let Some(step) = t.step.take() {
                    return register_tile::apply_partial_step(t, step, |t| self.tile(t));
                }
                // Half of the kernels' code is for partial vectors. Of `f64`, only a lone one has kernels.
                const LONE: bool = size_of::<$t>() > 4;
                if LONE && part && vectors > 1 {
                    let widest = <Self as TileShapes<$t>>::widths(rows).iter().rev().find(|w| **w < vectors);
                    return register_tile::split_columns(t, widest.map_or(1, |w| *w) * lanes, |t| self.tile(t));
                }
                match (rows, vectors, part) {
                    $($(($rows, $vectors, false) => {
                            self.vectorize(RegisterTileKernel::<_, _, $rows, $vectors, false>(self, &mut t));
                        }
                        ($rows, $vectors, true) if !LONE || $vectors == 1 => {
                            self.vectorize(RegisterTileKernel::<_, _, $rows, $vectors, true>(self, &mut t));
                        })+)+
                    (rows, vectors, _) => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                }
            }

            fn dots(self, d: Dots<'_, $t>) {
                const DOTS: DotsShape = Tuning::of(Isa::$isa).$dots;
                const LINE_VECTORS: usize = LINE / <$token as Simd>::BYTES;
                const SUMS: usize = dots::SUM_BYTES / size_of::<$t>();
                self.vectorize(dots::DotsKernel::<
                    _, _, LINE_VECTORS, SUMS, { DOTS.rows }, { DOTS.by }, { DOTS.by_alone }
                >(self, d));
            }
        }
    };
}

tile_tables!(kernels);

/// The largest tile for a block of `rows` rows: its rows and its columns.
pub fn tile_shape<S: TileShapes<T>, T: Copy>(_: S, rows: usize) -> (usize, usize) {
    let tallest = if rows <= S::HEIGHT { rows } else { rows.div_ceil(rows.div_ceil(S::HEIGHT)) };
    (S::HEIGHT, S::widths(tallest).last().map_or(1, |w| *w) * S::LANES)
}

/// The widest tile of `rows` rows that covers at most `cols` columns.
pub fn tile_shape_width<S: TileShapes<T>, T: Copy>(_: S, rows: usize, cols: usize) -> usize {
    let want = cols.div_ceil(S::LANES);
    let vectors = S::widths(rows).iter().rev().copied().find(|w| *w <= want).unwrap_or(1);
    (vectors * S::LANES).min(cols)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Token;
    use crate::with_token;

    fn narrower<S: TileShapes<T>, T: Copy>(_: S) {
        let widest = |rows| S::widths(rows).last().copied();
        assert!((2..=S::HEIGHT).all(|rows| widest(rows) <= widest(rows - 1)));
        assert!((1..=S::HEIGHT).all(|rows| S::widths(rows).is_sorted() && S::widths(rows)[0] == 1));
    }

    #[test]
    fn higher_tiles_are_not_wider() {
        for isa in [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::Avx512] {
            with_token!(Token::at_most(isa), s => {
                narrower::<_, f32>(s);
                narrower::<_, f64>(s);
            });
        }
    }
}
