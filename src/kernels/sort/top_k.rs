//! The largest elements of rows, by partial selection: O(n + k log k) for each row.
//!
//! A row is read once. Elements that are not above the k-th largest so far are skipped many at a time; the others are
//! collected, and when there are enough of them, the k largest are kept.
//!
//! Invariant: the result is the start of the stable descending sort, NaN last, and nothing allocates. Used by the
//! lowering of `top_k`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`top_k_kernel`] | x: `T[rows, n]` | values: `T[rows, k]`, positions: `i32[rows, k]`, scratch | [`TopK`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::num::Num;
use crate::params::params;
use crate::simd;
use crate::sort::sort_key::SortKey;
use std::cmp::Ordering;

/// Approximate number of elements of x in a unit.
const UNIT: usize = 4096;
/// Elements that are compared together.
const BLOCK: usize = 16;

params! {
    /// Params of [`top_k_kernel`].
    pub struct TopK {
        /// Number of rows.
        pub rows: usize,
        /// Elements of a row; fits an `i32`.
        pub n: usize,
        /// Elements sought, from 1 to `n`.
        pub k: usize,
    }
}

impl TopK {
    /// Rows in each unit.
    fn unit_rows(&self) -> usize {
        (UNIT / self.n.max(1)).max(1)
    }

    /// Elements of each output in each unit: whole rows.
    pub fn per_unit(&self) -> usize {
        self.unit_rows() * self.k
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.unit_rows())
    }

    /// Elements of scratch of each thread, each twice as large as one of x: the largest so far, and as many, or at
    /// least two blocks, that may replace them.
    pub fn scratch(&self) -> usize {
        self.n.min(self.k + self.k.max(2 * BLOCK))
    }
}

/// The descending order of positions `a` and `b`; `Less` comes first. Position breaks ties, so an unstable sort gives
/// the stable order.
fn compare_positions<T: Num>(x: &[T], a: i32, b: i32) -> Ordering {
    let (u, v) = (x[a as usize], x[b as usize]);
    let by_value = match (u.unordered(), v.unordered()) {
        (false, false) => v.partial_cmp(&u),
        (u, v) => Some(u.cmp(&v)),
    };
    by_value.unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// Puts the positions of the `k` largest of the elements `x[order[..]]` first, in the order of the stable descending
/// sort. `k` is at most the number of positions.
pub fn select_largest<T: Num>(x: &[T], order: &mut [i32], k: usize) {
    // All positions differ, so the order is total, and an unstable selection gives the stable order.
    if let Some(last) = k.checked_sub(1).filter(|_| k < order.len()) {
        order.select_nth_unstable_by(last, |&a, &b| compare_positions(x, a, b));
    }
    order[..k].sort_unstable_by(|&a, &b| compare_positions(x, a, b));
}

simd! {
    /// The blocks at the start of `x` without an element above `least`; without a number, if `least` is NaN.
    fn count_top_k_blocks_below[T: Num](x: &[T], least: T) -> usize {
        let any = least.unordered();
        let blocks = x.as_chunks::<BLOCK>().0;
        for (i, block) in blocks.iter().enumerate() {
            let mut above = false;
            for x in block {
                above |= (*x > least) | (any & !x.unordered());
            }
            if above {
                return i;
            }
        }
        blocks.len()
    }
}

/// Puts the `k` largest of the row `x` first in `best`, which is [`TopK::scratch`] long, largest first.
fn select_row<T: SortKey>(x: &[T], k: usize, best: &mut [T::Packed]) {
    let (mut held, mut at) = (best.len(), best.len());
    for ((i, x), best) in x.iter().enumerate().zip(&mut *best) {
        *best = x.pack(true, i);
    }
    while at < x.len() {
        // Here the block after `at` may not fit.
        best[..held].select_nth_unstable(k - 1);
        held = k;
        let least = x[T::place(best[k - 1])];
        while at < x.len() && held + BLOCK <= best.len() {
            at += BLOCK * count_top_k_blocks_below(&x[at..], least);
            for (i, x) in x.iter().enumerate().skip(at).take(BLOCK) {
                best[held] = x.pack(true, i);
                // Of equal elements the first counts, so a later one must be greater.
                held += usize::from((*x > least) | (least.unordered() & !x.unordered()));
            }
            at = (at + BLOCK).min(x.len());
        }
    }
    if k < held {
        best[..held].select_nth_unstable(k - 1);
    }
    best[..k].sort_unstable();
}

/// The `k` largest elements of each row, largest first, and their positions.
///
/// Reads x: `T[rows, n]`; writes values: `T[rows, k]` and positions: `i32[rows, k]`, [`TopK::per_unit`], and scratch
/// (twice the size of `T`, `Split::PerThread`, [`TopK::scratch`]); params [`TopK`].
pub fn top_k_kernel<T: SortKey>(args: &mut Args<'_>) {
    let p = TopK::from_words(args.params());
    let first = args.units().start * p.unit_rows() * p.n;
    let x = args.read::<T>(0);
    let (values, positions, best) = (args.write::<T>(0), args.write::<i32>(1), args.write::<T::Packed>(2));
    let Some(x) = x.get(first..).filter(|_| p.k > 0) else { return };
    let outs = values.chunks_exact_mut(p.k).zip(positions.chunks_exact_mut(p.k));
    for (x, (values, positions)) in x.chunks_exact(p.n).zip(outs) {
        select_row(x, p.k, best);
        for ((value, position), best) in values.iter_mut().zip(positions).zip(&*best) {
            let place = T::place(*best);
            (*value, *position) = (x[place], place as i32);
        }
    }
}

by_dtype!(top_k_kernel_for = top_k_kernel::<numbers>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Split;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    /// NaN, ties, infinities and zeros of both signs.
    fn cell(i: usize) -> f32 {
        match i % 11 {
            3 => f32::NAN,
            5 => f32::NEG_INFINITY,
            7 => -0.0,
            8 => 0.0,
            _ => ((i * 7919) % 13) as f32 - 6.0,
        }
    }

    #[test]
    fn the_largest_are_the_start_of_the_stable_sort() {
        for (rows, n) in [(0, 4), (1, 1), (3, 17), (70, 40), (2, 3000), (1, 9001)] {
            for k in [1, 2, n / 2, n - 1, n].into_iter().filter(|&k| (1..=n).contains(&k)) {
                let x: Vec<f32> = (0..rows * n).map(cell).collect();
                let p = TopK { rows, n, k };
                assert_eq!(TopK::from_words(&p.to_words()), p);
                let scratch = Out(p.scratch(), 2 * size_of::<f32>(), Split::PerThread(p.scratch()));
                let writes = [Out::of::<f32>(rows * k, p.per_unit()), Out::of::<i32>(rows * k, p.per_unit()), scratch];
                let out = run_in_ranges(top_k_kernel::<f32>, &p.to_words(), &[In::of(&x)], &writes, p.units());
                let (values, positions): (Vec<u32>, Vec<i32>) = (written_elements(&out, 0), written_elements(&out, 1));
                for (r, row) in x.chunks(n).enumerate() {
                    let mut want: Vec<i32> = (0..n as i32).collect();
                    // The key of a NaN is above all; slice::sort_by is stable. Zeros of both signs are equal.
                    let key = |i: i32| if row[i as usize].is_nan() { f32::INFINITY } else { 0.0 - row[i as usize] };
                    want.sort_by(|&a, &b| {
                        let nan = |i: i32| row[i as usize].is_nan();
                        nan(a).cmp(&nan(b)).then(key(a).partial_cmp(&key(b)).unwrap())
                    });
                    assert_eq!(positions[r * k..][..k], want[..k], "{rows} rows of {n}, the largest {k}");
                    let bits = |at: &i32| row[*at as usize].to_bits();
                    assert_eq!(values[r * k..][..k], want[..k].iter().map(bits).collect::<Vec<_>>()[..]);
                }
            }
        }
    }
}
