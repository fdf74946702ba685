//! Register tiles of products of integers, for each instruction set.
//!
//! Invariant: the sums of a tile are exact modulo 2³².

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use crate::simd::{PairProducts, Simd, SimdOp, Token};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::simd::{Vnni, vnni};
use bytemuck::{Pod, Zeroable};

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
    /// The same, where a word has four terms: unsigned bytes of A and signed bytes of B.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    VnniQuads(Vnni),
}

/// What an instruction does with words of A and B.
trait WordProducts<S: Simd> {
    type Lanes: Pod;
    /// The same word in all lanes.
    fn broadcast(s: S, word: i32) -> Self::Lanes;
    /// The sums and the products of the terms of words.
    fn add(s: S, sums: Self::Lanes, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
}

/// Words are pairs of 16-bit integers.
struct Pairs;

impl<S: PairProducts> WordProducts<S> for Pairs {
    type Lanes = S::Lanes;

    #[inline(always)]
    fn broadcast(s: S, word: i32) -> S::Lanes {
        s.broadcast_pair(word)
    }
    #[inline(always)]
    fn add(s: S, sums: S::Lanes, a: S::Lanes, b: S::Lanes) -> S::Lanes {
        s.add_pair_products(sums, a, b)
    }
}

/// Words are four bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
struct Quads;

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl WordProducts<Vnni> for Quads {
    type Lanes = <Vnni as PairProducts>::Lanes;

    #[inline(always)]
    fn broadcast(s: Vnni, word: i32) -> Self::Lanes {
        s.broadcast_pair(word)
    }
    #[inline(always)]
    fn add(s: Vnni, sums: Self::Lanes, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
        s.add_quad_products(sums, a, b)
    }
}

/// The kernel of tiles of `MR` rows and `NV` vectors.
struct IntTileKernel<'k, 't, S, P, const MR: usize, const NV: usize>(S, P, &'k mut IntTile<'t>);

impl<S: Simd, P: WordProducts<S>, const MR: usize, const NV: usize> SimdOp for IntTileKernel<'_, '_, S, P, MR, NV> {
    type Out = ();

    #[inline(always)]
    fn call(self) {
        let IntTileKernel(s, _, t) = self;
        let (lanes, pairs) = (S::BYTES / 4, t.pairs);
        let width = NV * lanes;
        let b = &t.b[..pairs * width];
        let mut a = [&t.a[..0]; MR];
        for i in 0..MR {
            a[i] = &t.a[i * t.step..][..pairs];
        }
        let mut sums = [[P::Lanes::zeroed(); NV]; MR];
        for p in 0..pairs {
            let line = &b[p * width..][..width];
            let mut row = [P::Lanes::zeroed(); NV];
            for j in 0..NV {
                row[j] = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&line[j * lanes..][..lanes]));
            }
            for i in 0..MR {
                let x = P::broadcast(s, a[i][p]);
                for j in 0..NV {
                    sums[i][j] = P::add(s, sums[i][j], x, row[j]);
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
    ($s:ident, $words:ident, $t:ident, $vectors:literal, [$($rows:literal)+]) => {
        match $t.rows {
            $($rows => $s.vectorize(IntTileKernel::<_, _, $rows, $vectors>($s, $words, &mut $t)),)+
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

    /// The engine of this CPU that takes four terms in a word, if it has one.
    pub fn of_quads(self) -> Option<IntEngine> {
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Vnni(s) => Some(IntEngine::VnniQuads(s)),
            _ => None,
        }
    }

    /// Most rows of a tile, and its columns.
    pub fn size(self) -> (usize, usize) {
        fn of<S: Simd>(_: S, rows: usize, vectors: usize) -> (usize, usize) {
            (rows, vectors * S::BYTES / 4)
        }
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Vnni(s) | IntEngine::VnniQuads(s) => of(s, 6, 4),
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
            IntEngine::Vnni(s) => by_rows!(s, Pairs, t, 4, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::VnniQuads(s) => by_rows!(s, Quads, t, 4, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V4(s)) => by_rows!(s, Pairs, t, 4, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            IntEngine::Token(Token::V3(s)) => by_rows!(s, Pairs, t, 2, [1 2 3 4 5 6]),
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            IntEngine::Token(Token::Neon(s)) => by_rows!(s, Pairs, t, 4, [1 2 3 4]),
            IntEngine::Token(Token::Portable(s)) => by_rows!(s, Pairs, t, 2, [1 2 3 4]),
        }
    }
}
