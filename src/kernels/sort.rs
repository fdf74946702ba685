//! Argsort of rows, and positions of running extremes.
//!
//! Invariant: the sort is stable, NaN comes last, and nothing allocates. Used by the lowering of `arg_sort` and
//! `cum_arg_max`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`arg_sort`] | x: `T[rows, n]` | positions: `i32[rows, n]` | [`Sort`] |
//! | [`cum_arg_max`] | x: `T[outer, n, inner]` | positions: `i32[outer, n, inner]` | [`Running`] |

use crate::kernels::abi::Args;
use crate::kernels::num::Scalar;
use crate::kernels::params::params;
use std::cmp::Ordering;

/// Approximate number of elements in a unit.
const UNIT: usize = 1024;

params! {
    /// Params of [`arg_sort`].
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
fn order<T: Scalar>(x: &[T], descending: bool, a: i32, b: i32) -> Ordering {
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
pub fn arg_sort<T: Scalar>(args: &mut Args<'_>) {
    let p = Sort::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<i32>(0));
    for (x, out) in x[lo..].chunks_exact(p.n.max(1)).zip(out.chunks_exact_mut(p.n.max(1))) {
        out.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
        out.sort_unstable_by(|&a, &b| order(x, p.descending, a, b));
    }
}

params! {
    /// Params of [`cum_arg_max`].
    pub struct Running {
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

impl Running {
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
/// Reads x: `T[outer, n, inner]`; writes positions: `i32[outer, n, inner]`, [`Running::per_unit`]; params [`Running`].
pub fn cum_arg_max<T: Scalar>(args: &mut Args<'_>) {
    let p = Running::from_words(args.params());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::harness::{In, Out, get, run};

    #[test]
    fn rows_sort_as_a_stable_sort_does() {
        let nan = f32::NAN;
        let cell = |i: usize| if i % 11 == 3 { nan } else { ((i * 7919) % 13) as f32 - 6.0 };
        for (rows, n) in [(0, 4), (1, 1), (3, 17), (70, 40), (2, 3000)] {
            for descending in [false, true] {
                let x: Vec<f32> = (0..rows * n).map(cell).collect();
                let p = Sort { rows, n, descending };
                let out = [Out::of::<i32>(rows * n, p.per_unit())];
                let got: Vec<i32> = get(&run(arg_sort::<f32>, &p.to_words(), &[In::of(&x)], &out, p.units()), 0);
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

    #[test]
    fn the_largest_so_far_is_the_last_of_equals_and_of_nan() {
        let cell = |i: usize| if i % 29 == 23 { f64::NAN } else { ((i * 7919) % 13) as f64 - 6.0 };
        for [outer, n, inner] in [[0, 3, 1], [1, 1, 1], [3, 17, 1], [2, 40, 5], [700, 3, 2], [1, 9, 3000]] {
            for smallest in [false, true] {
                let p = Running { outer, n, inner, smallest };
                let x: Vec<f64> = (0..outer * n * inner).map(cell).collect();
                let out = [Out::of::<i32>(x.len(), p.per_unit())];
                let got: Vec<i32> = get(&run(cum_arg_max::<f64>, &p.to_words(), &[In::of(&x)], &out, p.units()), 0);
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
