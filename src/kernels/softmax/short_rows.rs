//! Rows of few elements. The start and the remainder of a loop along a short row take most of its time, so such rows
//! are transposed: one vector holds one element of many rows.
//!
//! Invariant: a row is summed in order, from its first element on. Used by the softmaxes and by cross entropy.

use crate::float::Float;
use crate::num::Num;
use crate::reduce::pairwise::{Max, PairwiseReducer, Sum};
use crate::simd;
use crate::vmath::{exp, log};

/// Rows of fewer elements are transposed.
pub const FEW: usize = 32;
/// Rows that are transposed together.
pub const SIDE: usize = 16;

/// Element `j` of row `r` as `[j][r]`.
type Columns<T> = [[T; SIDE]; FEW];

/// At most [`SIDE`] rows of `n` elements. For use inside `simd!` loops, as all that follows.
#[inline(always)]
pub fn columns_of<T: Float>(x: &[T], n: usize) -> Columns<T> {
    let mut columns = [[T::ZERO; SIDE]; FEW];
    for (r, row) in x.chunks_exact(n).enumerate() {
        for (to, x) in columns.iter_mut().zip(row) {
            to[r] = *x;
        }
    }
    columns
}

/// The rows of [`columns_of`].
#[inline(always)]
fn write_rows<T: Float>(columns: &[[T; SIDE]], y: &mut [T]) {
    for (r, row) in y.chunks_exact_mut(columns.len()).enumerate() {
        for (y, column) in row.iter_mut().zip(columns) {
            *y = column[r];
        }
    }
}

/// Joins the elements of each row, in order.
#[inline(always)]
pub fn join_columns<T: Num, F: PairwiseReducer<T>>(f: F, columns: &[[T; SIDE]]) -> [T; SIDE] {
    let mut joined = [f.start(); SIDE];
    for column in columns {
        for (a, x) in joined.iter_mut().zip(column) {
            *a = f.join(*a, *x);
        }
    }
    joined
}

/// `x = f(x, of)`, with one `of` for each row.
#[inline(always)]
pub fn map_columns<T: Float>(columns: &mut [[T; SIDE]], of: &[T; SIDE], f: impl Fn(T, T) -> T) {
    for column in columns {
        for (x, of) in column.iter_mut().zip(of) {
            *x = f(*x, *of);
        }
    }
}

simd! {
    /// Softmax of each row of `n` < [`FEW`] elements of `x`, or of what `y` holds.
    pub fn softmax_short_rows[T: Float](n: usize, x: Option<&[T]>, y: &mut [T]) {
        let mut at = 0;
        for y in y.chunks_mut(SIDE * n) {
            let mut all = columns_of(x.map_or(&*y, |x| &x[at..at + y.len()]), n);
            at += y.len();
            let columns = &mut all[..n];
            map_columns(columns, &join_columns(Max, columns), |x, m| exp(x - m));
            map_columns(columns, &join_columns(Sum, columns), |x, sum| x / sum);
            write_rows(columns, y);
        }
    }
}

simd! {
    /// Log-softmax of each row of `n` < [`FEW`] elements of `x`, or of what `y` holds.
    pub fn log_softmax_short_rows[T: Float](n: usize, x: Option<&[T]>, y: &mut [T]) {
        let mut at = 0;
        for y in y.chunks_mut(SIDE * n) {
            let mut all = columns_of(x.map_or(&*y, |x| &x[at..at + y.len()]), n);
            at += y.len();
            let (max, mut sum) = (join_columns(Max, &all[..n]), [T::EMPTY_SUM; SIDE]);
            for column in &all[..n] {
                for ((sum, x), m) in sum.iter_mut().zip(column).zip(&max) {
                    *sum += exp(*x - *m);
                }
            }
            for sum in &mut sum {
                *sum = log(*sum);
            }
            map_columns(&mut all[..n], &max, |x, m| x - m);
            map_columns(&mut all[..n], &sum, |x, l| x - l);
            write_rows(&all[..n], y);
        }
    }
}
