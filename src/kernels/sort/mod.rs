//! Argsort of rows.
//!
//! Invariant: the sort is stable, NaN comes last, and nothing allocates. Used by the lowering of `arg_sort`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`arg_sort_kernel`] | x: `T[rows, n]` | positions: `i32[rows, n]` | [`Sort`] |

pub mod cum_arg_max;
pub mod top_k;

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::num::Num;
use crate::params::params;
use std::cmp::Ordering;

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
}

/// The order of positions `a` and `b`; `Less` comes first. Position breaks ties, so an unstable sort gives the stable
/// order.
pub(crate) fn compare_positions<T: Num>(x: &[T], descending: bool, a: i32, b: i32) -> Ordering {
    let (u, v) = (x[a as usize], x[b as usize]);
    let by_value = match (u.unordered(), v.unordered()) {
        (false, false) if descending => v.partial_cmp(&u),
        (false, false) => u.partial_cmp(&v),
        (u, v) => Some(u.cmp(&v)),
    };
    by_value.unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// For each row, the positions of its elements in sorted order.
///
/// Reads x: `T[rows, n]`; writes positions: `i32[rows, n]`, [`Sort::per_unit`]; params [`Sort`].
pub fn arg_sort_kernel<T: Num>(args: &mut Args<'_>) {
    let p = Sort::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<i32>(0));
    for (x, out) in x[lo..].chunks_exact(p.n.max(1)).zip(out.chunks_exact_mut(p.n.max(1))) {
        out.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
        out.sort_unstable_by(|&a, &b| compare_positions(x, p.descending, a, b));
    }
}

by_dtype!(arg_sort_kernel_for = arg_sort_kernel::<numbers>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn rows_sort_as_a_stable_sort_does() {
        let nan = f32::NAN;
        let cell = |i: usize| if i % 11 == 3 { nan } else { ((i * 7919) % 13) as f32 - 6.0 };
        for (rows, n) in [(0, 4), (1, 1), (3, 17), (70, 40), (2, 3000)] {
            for descending in [false, true] {
                let x: Vec<f32> = (0..rows * n).map(cell).collect();
                let p = Sort { rows, n, descending };
                let out = [Out::of::<i32>(rows * n, p.per_unit())];
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
