//! Register tiles of products of integers, for each instruction set.
//!
//! Invariant: the sums of a tile are exact modulo 2³².

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use crate::simd::{PairProducts, Simd, SimdOp, Token};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::simd::{Vnni, vnni};
use bytemuck::Zeroable;

/// Most rows of a tile.
pub const TILE_ROWS: usize = 6;
/// Most columns of a tile.
pub const TILE_COLS: usize = 64;

/// The operands of a tile.
pub struct IntTile<'t> {
    /// Rows of pairs.
    pub a: &'t [i32],
    /// Pairs between rows of A.
    pub step: usize,
    /// Number of rows, from 1 to that of [`IntEngine::size`].
    pub rows: usize,
    /// Pairs of a sum.
    pub pairs: usize,
    /// A panel of B.
    pub b: &'t [i32],
    /// The sums, row by row, each as wide as the panel.
    pub sums: &'t mut [i32; TILE_ROWS * TILE_COLS],
}

/// The instructions that compute tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntEngine {
    /// Those of the instruction set.
    Token(Token),
    /// AVX-512 VNNI.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Vnni(Vnni),
}

/// The kernel of tiles of `MR` rows and `NV` vectors.
struct IntTileKernel<'k, 't, S, const MR: usize, const NV: usize>(S, &'k mut IntTile<'t>);

impl<S: PairProducts, const MR: usize, const NV: usize> SimdOp for IntTileKernel<'_, '_, S, MR, NV> {
    type Out = ();

    #[inline(always)]
    fn call(self) {
        let IntTileKernel(s, t) = self;
        let (lanes, pairs) = (S::BYTES / 4, t.pairs);
        let width = NV * lanes;
        let b = &t.b[..pairs * width];
        let mut a = [&t.a[..0]; MR];
        for i in 0..MR {
            a[i] = &t.a[i * t.step..][..pairs];
        }
        let mut sums = [[S::Lanes::zeroed(); NV]; MR];
        for p in 0..pairs {
            let line = &b[p * width..][..width];
            let mut row = [S::Lanes::zeroed(); NV];
            for j in 0..NV {
                row[j] = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&line[j * lanes..][..lanes]));
            }
            for i in 0..MR {
                let x = s.broadcast_pair(a[i][p]);
                for j in 0..NV {
                    sums[i][j] = s.add_pair_products(sums[i][j], x, row[j]);
                }
            }
        }
        for i in 0..MR {
            for j in 0..NV {
                t.sums[i * width + j * lanes..][..lanes].copy_from_slice(bytemuck::cast_slice(&[sums[i][j]]));
            }
        }
    }
}

/// The kernel of a tile by its number of rows.
macro_rules! by_rows {
    ($s:ident, $t:ident, $vectors:literal, [$($rows:literal)+]) => {
        match $t.rows {
            $($rows => $s.vectorize(IntTileKernel::<_, $rows, $vectors>($s, &mut $t)),)+
            rows => unreachable!("no tile of {rows} rows"),
        }
    };
}

impl IntEngine {
    /// The best one of this CPU, if `ARENAGRAD_ISA` names no lesser one.
    #[inline]
    pub fn current() -> IntEngine {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(vnni) = vnni() {
            return IntEngine::Vnni(vnni);
        }
        IntEngine::Token(Token::current())
    }

    /// Most rows of a tile, and its columns.
    pub fn size(self) -> (usize, usize) {
        fn of<S: Simd>(_: S, rows: usize, vectors: usize) -> (usize, usize) {
            (rows, vectors * S::BYTES / 4)
        }
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Vnni(s) => of(s, 6, 4),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V4(s)) => of(s, 6, 4),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V3(s)) => of(s, 6, 2),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            IntEngine::Token(Token::Neon(s)) => of(s, 4, 4),
            IntEngine::Token(Token::Portable(s)) => of(s, 4, 2),
        }
    }

    /// Computes a tile.
    pub fn tile(self, mut t: IntTile<'_>) {
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Vnni(s) => by_rows!(s, t, 4, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V4(s)) => by_rows!(s, t, 4, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V3(s)) => by_rows!(s, t, 2, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            IntEngine::Token(Token::Neon(s)) => by_rows!(s, t, 4, [1 2 3 4]),
            IntEngine::Token(Token::Portable(s)) => by_rows!(s, t, 2, [1 2 3 4]),
        }
    }
}
