//! Positions of running extremes.
//!
//! Invariant: of equal elements, and of NaN, the last counts. Used by the lowering of `cum_arg_max`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`cum_arg_max_kernel`] | x: `T[outer, n, inner]` | positions: `i32[outer, n, inner]` | [`CumArgMax`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::num::Num;
use crate::params::params;

/// Approximate number of elements in a unit.
const UNIT: usize = 1024;

params! {
    /// Params of [`cum_arg_max_kernel`].
    pub struct CumArgMax {
        /// Product of the axes before the scanned one.
        pub outer: usize,
        /// Length of the scanned axis; fits an `i32`.
        pub n: usize,
        /// Product of the axes after it.
        pub inner: usize,
        /// Track the minimum instead of the maximum.
        pub smallest: bool,
    }
}

impl CumArgMax {
    /// Elements of the output in each unit: whole outer rows.
    pub fn per_unit(&self) -> usize {
        let row = (self.n * self.inner).max(1);
        row * (UNIT / row).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.n * self.inner).div_ceil(self.per_unit())
    }
}

/// Positions along the middle axis of the largest element so far. Of equal elements, and of NaN, the last counts.
///
/// Reads x: `T[outer, n, inner]`; writes positions: `i32[outer, n, inner]`, [`CumArgMax::per_unit`]; params
/// [`CumArgMax`].
pub fn cum_arg_max_kernel<T: Num>(args: &mut Args<'_>) {
    let p = CumArgMax::from_words(args.params());
    let (lo, row) = (args.units().start * p.per_unit(), p.n * p.inner);
    let (x, out) = (args.read::<T>(0), args.write::<i32>(0));
    for (x, out) in x[lo..].chunks_exact(row.max(1)).zip(out.chunks_exact_mut(row.max(1))) {
        let (first, rest) = out.split_at_mut(p.inner);
        first.fill(0);
        let mut last: &mut [i32] = first;
        for (i, now) in (1..).zip(rest.chunks_exact_mut(p.inner)) {
            for (c, (now, last)) in now.iter_mut().zip(&*last).enumerate() {
                let (new, old) = (x[i as usize * p.inner + c], x[*last as usize * p.inner + c]);
                let beats = if p.smallest { new <= old } else { new >= old };
                *now = if new.unordered() || (beats && !old.unordered()) { i } else { *last };
            }
            last = now;
        }
    }
}

by_dtype!(cum_arg_max_kernel_for = cum_arg_max_kernel::<numbers>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn the_largest_so_far_is_the_last_of_equals_and_of_nan() {
        let cell = |i: usize| if i % 29 == 23 { f64::NAN } else { ((i * 7919) % 13) as f64 - 6.0 };
        for [outer, n, inner] in [[0, 3, 1], [1, 1, 1], [3, 17, 1], [2, 40, 5], [700, 3, 2], [1, 9, 3000]] {
            for smallest in [false, true] {
                let p = CumArgMax { outer, n, inner, smallest };
                let x: Vec<f64> = (0..outer * n * inner).map(cell).collect();
                let out = [Out::of::<i32>(x.len(), p.per_unit())];
                let got: Vec<i32> = written_elements(
                    &run_in_ranges(cum_arg_max_kernel::<f64>, &p.to_words(), &[In::of(&x)], &out, p.units()),
                    0,
                );
                for (e, got) in got.iter().enumerate() {
                    let (o, i, c) = (e / (n * inner), e / inner % n, e % inner);
                    let at = |j: usize| x[(o * n + j) * inner + c];
                    let key = |j: usize| if smallest { -at(j) } else { at(j) };
                    let nan = (0..=i).rev().find(|&j| at(j).is_nan());
                    let top = (0..=i).map(key).fold(f64::NEG_INFINITY, f64::max);
                    let want = nan.or_else(|| (0..=i).rev().find(|&j| key(j) == top)).unwrap();
                    assert_eq!(*got as usize, want, "{p:?} {e}");
                }
            }
        }
    }
}
