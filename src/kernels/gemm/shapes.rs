//! The tables of register tiles and dot products: which sizes each instruction set has kernels for.
//!
//! Invariants: one table both names the sizes and compiles a kernel for each; the more rows a tile has, the narrower is
//! the widest one, which scratch for B is measured by. Only `float` calls this.

use super::operands::{Dots, Tile};
use super::{dots, tile};
#[cfg(all(target_arch = "aarch64", not(miri)))]
use crate::kernels::simd::Neon;
use crate::kernels::simd::{Portable, Simd, Vectors};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::kernels::simd::{V3, V4};

/// The kernels of an instruction set for elements of one type.
pub trait Shapes<T: Copy>: Vectors<T> {
    /// The greatest height of a tile.
    const HEIGHT: usize;
    /// Widths, in vectors, that tiles of `rows` rows come in, least first.
    fn widths(rows: usize) -> &'static [usize];
    /// Computes a tile of one of those sizes; the last vector may be cut.
    fn tile(self, t: Tile<'_, T>);
    /// Computes dot products.
    fn dots(self, d: Dots<'_, T>);
}

/// The tables of one instruction set. Tiles: widths in vectors for each number of rows. Dot products: the vectors of a
/// cache line, the products that 32 bytes hold, rows of the first matrix at once, rows of the second beside them, and
/// beside a lone row.
macro_rules! shapes {
    ($cfg:tt $token:ident: height $height:literal, tiles $tiles:tt, $($t:ident dots $dots:tt),+) => {
        $(shapes!(@ $cfg $token $height $t $tiles $dots);)+
    };
    (@ [$(#[$cfg:meta])*] $token:ident $height:literal $t:ident [$($rows:literal: $($vectors:literal)+),+]
     [$line:literal, $j:literal, $deep:literal, $by:literal, $alone:literal]) => {
        $(#[$cfg])*
        impl Shapes<$t> for $token {
            const HEIGHT: usize = $height;

            fn widths(rows: usize) -> &'static [usize] {
                match rows.max(1) {
                    $($rows => &[$($vectors),+],)+
                    rows => unreachable!("no tile of {rows} rows"),
                }
            }

            #[inline]
            fn tile(self, mut t: Tile<'_, $t>) {
                let (lanes, rows, cols) = (<Self as Vectors<$t>>::LANES, t.c.rows(), t.c.cols());
                let (vectors, part) = (cols.div_ceil(lanes), cols % lanes != 0);
                match (rows, vectors, part) {
                    $($(($rows, $vectors, false) => {
                            self.vectorize(tile::Kernel::<_, _, $rows, $vectors, false>(self, &mut t));
                        }
                        ($rows, $vectors, true) => {
                            self.vectorize(tile::Kernel::<_, _, $rows, $vectors, true>(self, &mut t));
                        })+)+
                    (rows, vectors, _) => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                }
            }

            #[inline]
            fn dots(self, d: Dots<'_, $t>) {
                self.vectorize(dots::Kernel::<_, _, $line, $j, $deep, $by, $alone>(self, d));
            }
        }
    };
}

// Accumulators, one row of B and one element of A must fit the registers. Nearly square tiles load least for each
// multiply-add, and loads are what runs short first.
shapes! {
    [#[cfg(all(target_arch = "x86_64", not(miri)))]]
    V4: height 6, tiles [1: 1 2 3 4 8, 2: 1 2 3 4 8, 3: 1 2 3 4 8, 4: 1 2 3 4, 5: 1 2 3 4, 6: 1 2 3 4],
    f32 dots [1, 8, 3, 8, 8], f64 dots [1, 4, 4, 4, 4]
}
// Not 3 × 4 nor 4 × 3: their sums, a row of B and an element of A need all registers, and LLVM moves them about.
shapes! {
    [#[cfg(all(target_arch = "x86_64", not(miri)))]]
    V3: height 6, tiles [1: 1 2 3 4 8, 2: 1 2 3 4, 3: 1 2 3, 4: 1 2, 5: 1 2, 6: 1 2],
    f32 dots [2, 8, 3, 2, 4], f64 dots [2, 4, 3, 2, 4]
}
// As many registers as AVX-512 has. Checked for its bits under an emulator; its speed has not been measured.
shapes! {
    [#[cfg(all(target_arch = "aarch64", not(miri)))]]
    Neon: height 6, tiles [1: 1 2 3 4 8, 2: 1 2 3 4 8, 3: 1 2 3 4 8, 4: 1 2 3 4, 5: 1 2 3 4, 6: 1 2 3 4],
    f32 dots [4, 8, 2, 2, 4], f64 dots [4, 4, 2, 2, 4]
}
// Four rows of two vectors leave half of sixteen registers to operands.
shapes! {
    [] Portable: height 4, tiles [1: 1 2, 2: 1 2, 3: 1 2, 4: 1 2],
    f32 dots [4, 8, 1, 1, 1], f64 dots [4, 4, 1, 1, 1]
}

/// The largest tile for a block of `rows` rows: height, and width in columns.
pub fn shape<S: Shapes<T>, T: Copy>(_: S, rows: usize) -> (usize, usize) {
    let tallest = if rows <= S::HEIGHT { rows } else { rows.div_ceil(rows.div_ceil(S::HEIGHT)) };
    (S::HEIGHT, S::widths(tallest).last().map_or(1, |w| *w) * S::LANES)
}

/// The widest tile of `rows` rows that covers at most `cols` columns.
pub fn width<S: Shapes<T>, T: Copy>(_: S, rows: usize, cols: usize) -> usize {
    let want = cols.div_ceil(S::LANES);
    let vectors = S::widths(rows).iter().rev().copied().find(|w| *w <= want).unwrap_or(1);
    (vectors * S::LANES).min(cols)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::simd::Token;
    use crate::with_token;

    fn narrower<S: Shapes<T>, T: Copy>(_: S) {
        let widest = |rows| S::widths(rows).last().copied();
        assert!((2..=S::HEIGHT).all(|rows| widest(rows) <= widest(rows - 1)));
        assert!((1..=S::HEIGHT).all(|rows| S::widths(rows).is_sorted() && S::widths(rows)[0] == 1));
    }

    #[test]
    fn higher_tiles_are_not_wider() {
        use crate::kernels::simd::Isa;
        for isa in [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::Avx512] {
            with_token!(Token::at_most(isa), s => {
                narrower::<_, f32>(s);
                narrower::<_, f64>(s);
            });
        }
    }
}
