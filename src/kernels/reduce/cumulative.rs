//! Cumulative sums and products along the middle axis of a view `[outer, n, inner]`.
//!
//! Invariant: floats accumulate in `f64`, integers wrap. Used by the lowering of `cumsum` and `cumprod`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`cumulative_sum_kernel`], [`cumulative_prod_kernel`] | x: `T[outer, n, inner]` | the same | [`Cumulative`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::num::Num;
use crate::params::params;
use crate::reduce::pairwise::{PairwiseReducer, Prod, Sum};
use crate::simd;

/// Columns that are scanned side by side.
const TILE: usize = 64;
/// Approximate number of elements in a unit.
const UNIT: usize = 4096;

params! {
    /// Params of the scans: the view, and the direction.
    pub struct Cumulative {
        /// Product of the axes before the scanned one.
        pub outer: usize,
        /// Length of the scanned axis.
        pub n: usize,
        /// Product of the axes after it.
        pub inner: usize,
        /// Exclusive scan: element i does not include `x[i]`.
        pub exclusive: bool,
        /// Scan from the end.
        pub reverse: bool,
    }
}

impl Cumulative {
    /// Elements of the output in a unit: whole outer rows.
    pub fn per_unit(&self) -> usize {
        let row = (self.n * self.inner).max(1);
        row * (UNIT / row).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.n * self.inner).div_ceil(self.per_unit())
    }
}

/// One element: writes the result and updates the accumulator.
#[inline(always)]
fn scan_element<T: Num, F: PairwiseReducer<T::Wide>>(f: F, exclusive: bool, acc: &mut T::Wide, x: T, o: &mut T) {
    let next = f.join(*acc, x.widen());
    *o = T::narrow(if exclusive { *acc } else { next });
    *acc = next;
}

fn scan_line<'a, T: Num, F: PairwiseReducer<T::Wide>>(
    f: F,
    exclusive: bool,
    pairs: impl Iterator<Item = (&'a T, &'a mut T)>,
) {
    let mut acc = f.start();
    for (x, o) in pairs {
        scan_element(f, exclusive, &mut acc, *x, o);
    }
}

simd! {
    fn cumulative_tile_row[T: Num, F: PairwiseReducer<T::Wide>](f: F, exclusive: bool, acc: &mut [T::Wide], x: &[T], out: &mut [T]) {
        for ((acc, x), o) in acc.iter_mut().zip(x).zip(out) {
            scan_element(f, exclusive, acc, *x, o);
        }
    }
}

/// Scans one outer row: `n` rows of `inner` elements.
pub fn scan_row<T: Num, F: PairwiseReducer<T::Wide>>(f: F, p: &Cumulative, x: &[T], out: &mut [T]) {
    if p.inner == 1 {
        let pairs = x.iter().zip(out);
        return if p.reverse { scan_line(f, p.exclusive, pairs.rev()) } else { scan_line(f, p.exclusive, pairs) };
    }
    for at in (0..p.inner).step_by(TILE) {
        let w = TILE.min(p.inner - at);
        let mut acc = [f.start(); TILE];
        let acc = &mut acc[..w];
        let mut rows = x.chunks_exact(p.inner).zip(out.chunks_exact_mut(p.inner));
        while let Some((x, out)) = if p.reverse { rows.next_back() } else { rows.next() } {
            cumulative_tile_row(f, p.exclusive, acc, &x[at..at + w], &mut out[at..at + w]);
        }
    }
}

fn run_scan<T: Num, F: PairwiseReducer<T::Wide>>(args: &mut Args<'_>, f: F) {
    let p = Cumulative::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<T>(0));
    let row = (p.n * p.inner).max(1);
    for (i, out) in out.chunks_exact_mut(row).enumerate() {
        scan_row(f, &p, &x[lo + i * row..][..row], out);
    }
}

/// `out[i] = Σ x[j]` for j ≤ i, for j < i if exclusive; from the other end if reversed.
///
/// Reads x: `T[outer, n, inner]`; writes the same, [`Cumulative::per_unit`]; params [`Cumulative`].
pub fn cumulative_sum_kernel<T: Num>(args: &mut Args<'_>) {
    run_scan::<T, _>(args, Sum);
}

by_dtype!(cumsum_kernel_for = cumulative_sum_kernel::<numbers>);

/// `out[i] = Π x[j]` for j ≤ i, for j < i if exclusive; from the other end if reversed.
///
/// Reads x: `T[outer, n, inner]`; writes the same, [`Cumulative::per_unit`]; params [`Cumulative`].
pub fn cumulative_prod_kernel<T: Num>(args: &mut Args<'_>) {
    run_scan::<T, _>(args, Prod);
}

by_dtype!(cumprod_kernel_for = cumulative_prod_kernel::<numbers>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kernel;
    use crate::harness::{In, Out, close, noise, run_in_ranges, written_elements};

    fn call<T: Num>(k: Kernel, p: &Cumulative, x: &[T]) -> Vec<T> {
        assert_eq!(Cumulative::from_words(&p.to_words()), *p);
        written_elements(
            &run_in_ranges(k, &p.to_words(), &[In::of(x)], &[Out::of::<T>(x.len(), p.per_unit())], p.units()),
            0,
        )
    }

    fn naive(p: &Cumulative, x: &[f64], start: f64, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let at = |e: usize, j: usize| (e / p.inner / p.n * p.n + j) * p.inner + e % p.inner;
        let counts = |i: usize, j: usize| if p.reverse { j > i } else { j < i };
        (0..x.len())
            .map(|e| {
                let i = e / p.inner % p.n;
                let js = (0..p.n).filter(|j| counts(i, *j) || (*j == i && !p.exclusive));
                js.map(|j| x[at(e, j)]).fold(start, &f)
            })
            .collect()
    }

    #[test]
    fn agree_with_the_naive_loops() {
        for [outer, n, inner] in [[0, 3, 1], [2, 0, 1], [3, 1, 1], [5, 40, 1], [3, 7, 5], [2, 33, 70], [500, 9, 2]] {
            for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
                let p = Cumulative { outer, n, inner, exclusive, reverse };
                let x: Vec<f64> = noise(outer * n * inner, 3).iter().map(|x| x + 1.5).collect();
                let x32: Vec<f32> = x.iter().map(|x| *x as f32).collect();
                let sums = naive(&p, &x, 0.0, |a, b| a + b);
                close(&call(cumulative_sum_kernel::<f64>, &p, &x), &sums, 1e-13);
                close(&call(cumulative_sum_kernel::<f32>, &p, &x32), &sums, 1e-6);
                close(&call(cumulative_prod_kernel::<f64>, &p, &x), &naive(&p, &x, 1.0, |a, b| a * b), 1e-12);
                let ints: Vec<i64> = x.iter().map(|x| (x * 100.0) as i64 - 150).collect();
                let wide: Vec<f64> = ints.iter().map(|x| *x as f64).collect();
                let got: Vec<f64> = call(cumulative_sum_kernel::<i64>, &p, &ints).iter().map(|x| *x as f64).collect();
                close(&got, &naive(&p, &wide, 0.0, |a, b| a + b), 0.0);
            }
        }
    }

    #[test]
    fn the_edges_of_values() {
        let p = Cumulative { outer: 1, n: 3, inner: 1, exclusive: false, reverse: false };
        assert_eq!(call(cumulative_sum_kernel::<i32>, &p, &[i32::MAX, 1, 1]), [i32::MAX, i32::MIN, i32::MIN + 1]);
        assert_eq!(call(cumulative_prod_kernel::<i32>, &p, &[2, 0, 3]), [2, 0, 0]);
        close(&call(cumulative_sum_kernel::<f32>, &p, &[1.0, f32::NAN, 1.0]), &[1.0, f32::NAN, f32::NAN], 0.0);
        close(&call(cumulative_sum_kernel::<f32>, &p, &[1e8f32, 1.0, -1e8]), &[1e8, 1e8, 1.0], 0.0);
    }

    #[test]
    fn prefixes_and_suffixes_make_the_gradient_of_a_product() {
        let p = Cumulative { outer: 1, n: 3, inner: 1, exclusive: true, reverse: false };
        let before = call(cumulative_prod_kernel::<f32>, &p, &[2.0, 0.0, 3.0]);
        let after = call(cumulative_prod_kernel::<f32>, &Cumulative { reverse: true, ..p }, &[2.0, 0.0, 3.0]);
        let grad: Vec<f32> = before.iter().zip(&after).map(|(a, b)| a * b).collect();
        assert_eq!(grad, [0.0, 6.0, 0.0]);
    }
}
