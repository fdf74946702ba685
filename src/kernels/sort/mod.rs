//! Argsort of rows.
//!
//! Invariant: the sort is stable, NaN comes last, and nothing allocates. Used by the lowering of `arg_sort`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`arg_sort_kernel`] | x: `T[rows, n]` | positions: `i32[rows, n]`, scratch | [`Sort`] |

pub mod cum_arg_max;
mod sort_key;
pub mod top_k;

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::params::params;
use sort_key::SortKey;

/// Approximate number of elements in a unit.
const UNIT: usize = 1024;

params! {
    /// Params of [`arg_sort_kernel`].
    pub struct Sort {
        /// Number of rows.
        pub rows: usize,
        /// Elements of a row; fits an `i32`.
        pub n: usize,
        /// Largest first.
        pub descending: bool,
    }
}

impl Sort {
    /// Elements of the output in each unit: whole rows.
    pub fn per_unit(&self) -> usize {
        let row = self.n.max(1);
        row * (UNIT / row).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.rows * self.n).div_ceil(self.per_unit())
    }

    /// Elements of scratch of each thread, each twice as large as one of x: a row with its positions, twice.
    pub fn scratch(&self) -> usize {
        2 * self.n
    }
}

/// For each row, the positions of its elements in sorted order.
///
/// Reads x: `T[rows, n]`; writes positions: `i32[rows, n]`, [`Sort::per_unit`], and scratch (twice the size of `T`,
/// `Split::PerThread`, [`Sort::scratch`]); params [`Sort`].
pub fn arg_sort_kernel<T: SortKey>(args: &mut Args<'_>) {
    let p = Sort::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<i32>(0));
    let (keys, spare) = args.write::<T::Packed>(1).split_at_mut(p.n);
    for (x, out) in x[lo..].chunks_exact(p.n.max(1)).zip(out.chunks_exact_mut(p.n.max(1))) {
        for ((i, x), key) in x.iter().enumerate().zip(&mut *keys) {
            *key = x.pack(p.descending, i);
        }
        for (o, key) in out.iter_mut().zip(sort_key::sort_packed::<T>(keys, spare)) {
            *o = T::place(*key) as i32;
        }
    }
}

by_dtype!(arg_sort_kernel_for = arg_sort_kernel::<F32 f32, F64 f64, I32 i32, I64 i64>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Split;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn rows_sort_as_a_stable_sort_does() {
        let nan = f32::NAN;
        let cell = |i: usize| if i % 11 == 3 { nan } else { ((i * 7919) % 13) as f32 - 6.0 };
        for (rows, n) in [(0, 4), (1, 1), (3, 17), (70, 40), (5, 191), (5, 192), (2, 3000)] {
            for descending in [false, true] {
                let x: Vec<f32> = (0..rows * n).map(cell).collect();
                let p = Sort { rows, n, descending };
                let scratch = Out(p.scratch(), 2 * size_of::<f32>(), Split::PerThread(p.scratch()));
                let out = [Out::of::<i32>(rows * n, p.per_unit()), scratch];
                let got: Vec<i32> = written_elements(
                    &run_in_ranges(arg_sort_kernel::<f32>, &p.to_words(), &[In::of(&x)], &out, p.units()),
                    0,
                );
                for (row, got) in x.chunks(n).zip(got.chunks(n)) {
                    let mut want: Vec<i32> = (0..n as i32).collect();
                    // The key of a NaN is above all; slice::sort_by is stable.
                    let key = |i: i32| match row[i as usize] {
                        v if v.is_nan() => f32::INFINITY,
                        v if descending => -v,
                        v => v,
                    };
                    want.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
                    assert_eq!(got, want, "{rows} rows of {n}, descending: {descending}");
                }
            }
        }
    }
}
