//! Register tiles of positions that lie anywhere in a strip, for sixteen vector registers: rows of four or eight
//! positions fill tiles of six only together. Each position has an offset of its own in the strip and in the sums.
//!
//! Invariant: as `register_tile`, `c[i][j] = fma(a[i][p], b[p][j], c[i][j])` for `p` ascending, from 0 or from C.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::super::conv_micro::{fma_arrays, load_array};
use super::lanes_plan::GROUP;
use crate::float::Float;
use crate::simd;

/// Positions of a tile.
pub(super) const POSITIONS: usize = 6;

/// Numbers of a strip that lie one behind another for each position, and their weights.
#[derive(Clone, Copy)]
pub(super) struct GatheredRun<'a, T> {
    /// The first number of position (0, 0) in the strip.
    pub at: usize,
    /// Numbers of each position.
    pub k: usize,
    /// For each panel of [`gathered_channels`] channels a row of weights for each number.
    pub weights: &'a [T],
}

/// The operands of a tile: position `i` reads numbers from `from[i]` on, and is row `to[i]` of the sums.
pub(super) struct GatheredTile<'a, T> {
    pub strip: &'a [T],
    pub from: [usize; POSITIONS],
    pub to: [usize; POSITIONS],
    /// Positions that there are.
    pub count: usize,
    /// What is summed, one run after another.
    pub runs: &'a [GatheredRun<'a, T>],
    /// The first channel.
    pub j: usize,
    /// Whether sums are there already.
    pub add: bool,
}

/// `M` positions by two vectors of `L` channels.
struct Tile<const M: usize, const L: usize>;

/// Sums stay in registers only where every index is a constant: hence the copy at the end.
#[inline(always)]
fn sum_tile<T: Float, const M: usize, const L: usize>(t: &GatheredTile<'_, T>, sums: &mut [[T; GROUP]]) {
    let mut acc = [[[T::ZERO; L]; 2]; M];
    if t.add {
        for m in 0..M {
            for v in 0..2 {
                acc[m][v] = load_array(&sums[t.to[m]][t.j + v * L..]);
            }
        }
    }
    for run in t.runs {
        let (k, mut rows): (usize, [&[T]; M]) = (run.k, [&[]; M]);
        for m in 0..M {
            rows[m] = &t.strip[run.at + t.from[m]..][..k];
        }
        // One length for all slices: the loop then has one test.
        for (p, w) in run.weights[t.j * k..].as_chunks::<L>().0.as_chunks::<2>().0[..k].iter().enumerate() {
            for m in 0..M {
                for v in 0..2 {
                    acc[m][v] = fma_arrays([rows[m][p]; L], w[v], acc[m][v]);
                }
            }
        }
    }
    for m in 0..M {
        sums[t.to[m]][t.j..][..2 * L].copy_from_slice(acc[m].as_flattened());
    }
}

simd! { narrow
    fn gathered_tile[T: Float, const M: usize, const L: usize](
        _t: Tile<M, L>, t: &GatheredTile<'_, T>, sums: &mut [[T; GROUP]],
    ) {
        sum_tile::<T, M, L>(t, sums);
    }
}

/// Channels of a tile.
pub(super) const fn gathered_channels<T>() -> usize {
    64 / size_of::<T>()
}

/// Sums the positions of a tile.
pub(super) fn sum_gathered<T: Float>(t: &GatheredTile<'_, T>, sums: &mut [[T; GROUP]]) {
    macro_rules! by_count {
        ($l:literal, $($m:literal)+) => {
            match t.count {
                $($m => gathered_tile(Tile::<$m, $l>, t, sums),)+
                count => unreachable!("no tile of {count} positions"),
            }
        };
    }
    match size_of::<T>() {
        4 => by_count!(8, 1 2 3 4 5 6),
        _ => by_count!(4, 1 2 3 4 5 6),
    }
}
