//! The largest elements of rows, by partial selection: O(n + k log k) for each row.
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
use crate::sort;

/// Approximate number of elements of x in a unit.
const UNIT: usize = 4096;

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

    /// Elements of scratch of each thread: the positions of a row.
    pub fn scratch(&self) -> usize {
        self.n
    }
}

/// Puts the positions of the `k` largest of the elements `x[order[..]]` first, in the order of the stable descending
/// sort. `k` is at most the number of positions.
pub fn select_largest<T: Num>(x: &[T], order: &mut [i32], k: usize) {
    // All positions differ, so the order is total, and an unstable selection gives the stable order.
    if let Some(last) = k.checked_sub(1).filter(|_| k < order.len()) {
        order.select_nth_unstable_by(last, |&a, &b| sort::compare_positions(x, true, a, b));
    }
    order[..k].sort_unstable_by(|&a, &b| sort::compare_positions(x, true, a, b));
}

/// The `k` largest elements of each row, largest first, and their positions.
///
/// Reads x: `T[rows, n]`; writes values: `T[rows, k]` and positions: `i32[rows, k]`, [`TopK::per_unit`], and scratch
/// (`i32`, `Split::PerThread`, [`TopK::scratch`]); params [`TopK`].
pub fn top_k_kernel<T: Num>(args: &mut Args<'_>) {
    let p = TopK::from_words(args.params());
    let first = args.units().start * p.unit_rows() * p.n;
    let x = args.read::<T>(0);
    let (values, positions, order) = (args.write::<T>(0), args.write::<i32>(1), args.write::<i32>(2));
    let Some(x) = x.get(first..).filter(|_| p.k > 0) else { return };
    let outs = values.chunks_exact_mut(p.k).zip(positions.chunks_exact_mut(p.k));
    for (x, (values, positions)) in x.chunks_exact(p.n).zip(outs) {
        order.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
        select_largest(x, order, p.k);
        positions.copy_from_slice(&order[..p.k]);
        values.iter_mut().zip(positions).for_each(|(v, &mut at)| *v = x[at as usize]);
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
                let scratch = Out(p.scratch(), size_of::<i32>(), Split::PerThread(p.scratch()));
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
