//! Contiguous rows of any length.
//!
//! Each step of a row, as its maximum or its sum, waits for the step before. So a few rows take a step together.

use crate::float::Float;
use crate::num::Num;
use crate::reduce::pairwise::{self, BLOCK, ExpFrom, Max, PairwiseReducer, Sum};
use crate::simd;
use crate::vmath::{exp, log};

/// Whether the module is for browsers, which would be too large with loops for several rows and for short ones.
const SMALL: bool = cfg!(target_arch = "wasm32");

/// Rows that take a step together at most.
const TOGETHER: usize = if SMALL { 1 } else { 4 };

/// Elements of several rows that take a step together at most: they stay in the first cache.
const MOST_ELEMENTS: usize = 2048;

/// One value for each row.
type Each<T> = [T; TOGETHER];

/// Elements of the rows of `n` that take a step together.
fn together(n: usize) -> usize {
    n * TOGETHER.min(MOST_ELEMENTS / n).max(1)
}

/// Reduces row `r` of `n` elements by `f(r)`. For use inside `simd!` loops, as all that follows.
#[inline(always)]
fn reduce_each<T: Num, F: PairwiseReducer<T>>(x: &[T], n: usize, f: impl Fn(usize) -> F) -> Each<T> {
    let mut each = [f(0).start(); TOGETHER];
    for (r, (o, row)) in each.iter_mut().zip(x.chunks_exact(n)).enumerate() {
        *o = if n <= BLOCK && !SMALL { pairwise::reduce_block(f(r), row) } else { pairwise::reduce_row(f(r), row) };
    }
    each
}

/// Maps row `r` of `n` elements, of `x` or of what `y` holds, by `f(r)`.
#[inline(always)]
fn map_each<T: Float, F: Fn(T) -> T>(x: Option<&[T]>, y: &mut [T], n: usize, f: impl Fn(usize) -> F) {
    match x {
        Some(x) => {
            for (r, (x, y)) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)).enumerate() {
                let f = f(r);
                for (x, y) in x.iter().zip(y) {
                    *y = f(*x);
                }
            }
        }
        None => {
            for (r, y) in y.chunks_exact_mut(n).enumerate() {
                let f = f(r);
                for y in y {
                    *y = f(*y);
                }
            }
        }
    }
}

simd! {
    /// Softmax of each row of `n` elements of `x`, or of what `y` holds.
    pub fn softmax_rows[T: Float](n: usize, x: Option<&[T]>, y: &mut [T]) {
        let mut at = 0;
        for y in y.chunks_mut(together(n)) {
            let x = x.map(|x| &x[at..at + y.len()]);
            at += y.len();
            let max = reduce_each(x.unwrap_or(y), n, |_| Max);
            map_each(x, y, n, |r| { let m = max[r]; move |x| exp(x - m) });
            let sum = reduce_each(y, n, |_| Sum);
            map_each(None, y, n, |r| { let s = sum[r]; move |y| y / s });
        }
    }
}

simd! {
    /// Log-softmax of each row of `n` elements of `x`, or of what `y` holds.
    pub fn log_softmax_rows[T: Float](n: usize, x: Option<&[T]>, y: &mut [T]) {
        let mut at = 0;
        for y in y.chunks_mut(together(n)) {
            let x = x.map(|x| &x[at..at + y.len()]);
            at += y.len();
            let max = reduce_each(x.unwrap_or(y), n, |_| Max);
            let mut sum = reduce_each(x.unwrap_or(y), n, |r| ExpFrom(max[r]));
            for sum in &mut sum {
                *sum = log(*sum);
            }
            map_each(x, y, n, |r| { let (m, l) = (max[r], sum[r]); move |x| (x - m) - l });
        }
    }
}
