//! Reductions over the middle axis of a view `[outer, n, inner]`: sum, mean, max, min, product, sum of squares, arg
//! max, arg min, log-sum-exp.
//!
//! Invariant: the shape fixes the order of every sum, by [`pairwise`] and [`Plan`]. Used by the lowering of the reduce
//! ops, and by kernels that combine partial results.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`sum`] … [`sum_squares`], [`reduce_logsumexp_kernel`] | x: `T[outer, n, inner]` | `T[outer, inner]` | [`Reduce`] |
//! | [`sum_partial`] … [`sum_squares_partial`] | x: `T[outer, n, inner]` | `T[outer, chunks, inner]` | [`PartialReduce`] |
//! | [`reduce_arg_max_kernel`], [`reduce_arg_min_kernel`] | x: `T[outer, n, inner]` | `I[outer, inner]` | [`Reduce`] |
//!
//! [`plan_steps`] decides whether a reduction is one instruction or two: `…_partial` into scratch of
//! [`PartialReduce::out_len`] elements, then the reduction itself (for a sum of squares: [`sum`]) over the scratch.

pub mod cumulative;
pub mod pairwise;
pub mod root_sum_squares;
pub mod squared_error;
pub mod terms;

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;
use crate::simd::Unmasked;
use crate::vmath;
use crate::{index::Index, num::Num};
use pairwise::PairwiseReducer;

/// Approximate number of elements that a unit reads.
const UNIT: usize = 4096;
/// Approximate number of elements of a chunk of a two-step reduction, if rows are narrow.
const CHUNK: usize = 4096;

params! {
    /// Params of the reductions: the view, and the divisor of means.
    pub struct Reduce {
        /// Product of the axes before the reduced ones.
        pub outer: usize,
        /// Product of the reduced axes.
        pub n: usize,
        /// Product of the axes after them.
        pub inner: usize,
        /// The divisor of [`reduce_mean_kernel`]: the number of elements of each sum before any partial reduction.
        pub divisor: usize,
    }
}

impl Reduce {
    /// The reduction of `[outer, n, inner]` in one instruction.
    pub fn new(outer: usize, n: usize, inner: usize) -> Reduce {
        Reduce { outer, n, inner, divisor: n }
    }

    /// Elements of the output.
    pub fn out_len(&self) -> usize {
        self.outer * self.inner
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        match self.inner {
            0..=pairwise::NARROW => self.inner.max(1) * (UNIT / (self.n * self.inner).max(1)).max(1),
            inner => inner.min(pairwise::TILE),
        }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.out_len().div_ceil(self.per_unit())
    }
}

params! {
    /// Params of the partial reductions: the view, and the rows of a chunk.
    pub struct PartialReduce {
        /// Product of the axes before the reduced ones.
        pub outer: usize,
        /// Product of the reduced axes.
        pub n: usize,
        /// Product of the axes after them.
        pub inner: usize,
        /// Rows of the reduced axis in a chunk; the last chunk may be shorter.
        pub chunk: usize,
    }
}

impl PartialReduce {
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.n.div_ceil(self.chunk)
    }

    /// Elements of the output `[outer, chunks, inner]`.
    pub fn out_len(&self) -> usize {
        self.units() * self.inner
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        self.inner
    }

    /// Number of units: one per chunk.
    pub fn units(&self) -> usize {
        self.outer * self.chunks()
    }
}

/// A reduction as one instruction or two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The first of two instructions; it writes the scratch that the last one reads.
    pub partial: Option<PartialReduce>,
    /// The last instruction.
    pub last: Reduce,
}

/// Plans the reduction of `[outer, n, inner]`: two steps if the output alone gives too few units for the work.
pub fn plan_steps(outer: usize, n: usize, inner: usize) -> Plan {
    let one = Reduce::new(outer, n, inner);
    let rows = match inner {
        0..=pairwise::NARROW => CHUNK.div_ceil(inner.max(1)).next_multiple_of(pairwise::ACCUMULATIONS),
        // Chunks are blocks of the column order, so the bits are those of one instruction.
        _ if n < pairwise::ROWS.pow(3) => pairwise::ROWS,
        _ => pairwise::ROWS * pairwise::ROWS,
    };
    if one.units() >= 32 || outer * n * inner < 8 * CHUNK || n < 2 * rows {
        return Plan { partial: None, last: one };
    }
    let partial = PartialReduce { outer, n, inner, chunk: rows };
    Plan { partial: Some(partial), last: Reduce { n: partial.chunks(), ..one } }
}

/// Calls `f(outer row, first column, piece)` for each part of `out` within one outer row and one tile. `out` starts at
/// element `lo` of an output `[outer, inner]`.
fn each_piece<T>(inner: usize, lo: usize, out: &mut [T], mut f: impl FnMut(usize, usize, &mut [T])) {
    let (mut at, mut rest) = (lo, out);
    while !rest.is_empty() {
        let (row, column) = (at / inner, at % inner);
        let w = rest.len().min(inner - column).min(pairwise::TILE);
        let (piece, after) = rest.split_at_mut(w);
        f(row, column, piece);
        rest = after;
        at += w;
    }
}

/// Reduces a view `[outer, n, inner]` into elements `lo..` of the output `[outer, inner]`.
#[inline(never)]
fn fill_output<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], n: usize, inner: usize, lo: usize, out: &mut [T]) {
    match inner {
        0 => {}
        1 => pairwise::reduce_rows(f, &x[lo * n..(lo + out.len()) * n], n, out),
        2..=pairwise::NARROW => {
            let first = lo / inner;
            for (i, out) in out.chunks_exact_mut(inner).enumerate() {
                pairwise::reduce_narrow_rows(f, &x[(first + i) * n * inner..][..n * inner], out);
            }
        }
        _ => each_piece(inner, lo, out, |row, column, out| {
            let x = &x[row * n * inner..][..n * inner];
            pairwise::fold_columns(f, x.get(column..).unwrap_or_default(), n, inner, out);
        }),
    }
}

/// Reduces rows of `inner` elements column by column, in the same order as one instruction.
pub fn fold_columns<T: Num, F: PairwiseReducer<T>>(f: F, x: &[T], inner: usize, out: &mut [T]) {
    fill_output(f, x, x.len() / inner.max(1), inner, 0, out);
}

fn run_finished<T: Num, F: PairwiseReducer<T>>(args: &mut Args<'_>, f: F, finish: impl Fn(T, &Reduce) -> T) {
    let p = Reduce::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let out = args.write::<T>(0);
    fill_output(f, args.read::<T>(0), p.n, p.inner, lo, out);
    for o in out {
        *o = finish(*o, &p);
    }
}

fn run_partial<T: Num, F: PairwiseReducer<T>>(args: &mut Args<'_>, f: F) {
    let p = PartialReduce::from_words(args.params());
    let (x, out) = (args.read::<T>(0), args.write::<T>(0));
    for (u, out) in args.units().zip(out.chunks_exact_mut(p.inner)) {
        let (row, from) = (u / p.chunks(), u % p.chunks() * p.chunk);
        let rows = p.chunk.min(p.n - from);
        let x = &x[(row * p.n + from) * p.inner..][..rows * p.inner];
        fill_output(f, x, rows, p.inner, 0, out);
    }
}

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident, $partial:ident, $bound:ident, $fold:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// Reads x: `T[outer, n, inner]`; writes `T[outer, inner]`, [`Reduce::per_unit`]; params [`Reduce`].
        pub fn $name<T: $bound>(args: &mut Args<'_>) {
            run_finished::<T, _>(args, $fold, |x, _| x);
        }

        /// The first step of a split reduction: one result per chunk.
        ///
        /// Reads x: `T[outer, n, inner]`; writes `T[outer, chunks, inner]`, [`PartialReduce::per_unit`]; params
        /// [`PartialReduce`].
        pub fn $partial<T: $bound>(args: &mut Args<'_>) {
            run_partial::<T, _>(args, $fold);
        }
    )*};
}

entries! {
    /// Σ x; 0 where `n` is 0. Integers wrap.
    sum, sum_partial, Num, pairwise::Sum;
    /// Π x; 1 where `n` is 0. Integers wrap.
    prod, prod_partial, Num, pairwise::Prod;
    /// The greatest x; NaN if any is NaN.
    max, max_partial, Num, pairwise::Max;
    /// The least x; NaN if any is NaN.
    min, min_partial, Num, pairwise::Min;
    /// Σ x². In two steps: [`sum_squares_partial`], then [`sum`].
    sum_squares, sum_squares_partial, Float, pairwise::Squares;
}

by_dtype!(sum_for = sum::<F32 f32, F64 f64, I32 i32, I64 i64>);
by_dtype!(sum_partial_for = sum_partial::<F32 f32, F64 f64, I32 i32, I64 i64>);
by_dtype!(prod_for = prod::<F32 f32, F64 f64, I32 i32, I64 i64>);
by_dtype!(prod_partial_for = prod_partial::<F32 f32, F64 f64, I32 i32, I64 i64>);
by_dtype!(max_for = max::<ordered>);
by_dtype!(max_partial_for = max_partial::<ordered>);
by_dtype!(min_for = min::<ordered>);
by_dtype!(min_partial_for = min_partial::<ordered>);
by_dtype!(sum_squares_for = sum_squares::<F32 f32, F64 f64>);
by_dtype!(sum_squares_partial_for = sum_squares_partial::<F32 f32, F64 f64>);

/// Σ x / divisor; NaN where the divisor is 0. In two steps: [`sum_partial`], then this.
///
/// Reads x: `T[outer, n, inner]`; writes `T[outer, inner]`, [`Reduce::per_unit`]; params [`Reduce`].
pub fn reduce_mean_kernel<T: Float>(args: &mut Args<'_>) {
    run_finished::<T, _>(args, pairwise::Sum, |x, p| x / T::from_f64(p.divisor as f64));
}

by_dtype!(reduce_mean_kernel_for = reduce_mean_kernel::<F32 f32, F64 f64>);

/// Σ x² / divisor; NaN where the divisor is 0. In two steps: [`sum_squares_partial`], then [`reduce_mean_kernel`].
///
/// Reads x: `T[outer, n, inner]`; writes `T[outer, inner]`, [`Reduce::per_unit`]; params [`Reduce`].
pub fn reduce_mean_squares_kernel<T: Float>(args: &mut Args<'_>) {
    run_finished::<T, _>(args, pairwise::Squares, |x, p| x / T::from_f64(p.divisor as f64));
}

by_dtype!(reduce_mean_squares_kernel_for = reduce_mean_squares_kernel::<floats>);

/// log Σ eˣ, shifted by the maximum. −∞ for a row that is empty or all −∞; +∞ for a row with +∞; NaN for a row with
/// NaN.
///
/// Reads x: `T[outer, n, inner]`; writes `T[outer, inner]`, [`Reduce::per_unit`]; params [`Reduce`].
pub fn reduce_logsumexp_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Reduce::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<T>(0));
    if p.inner == 1 {
        for (i, out) in out.chunks_mut(pairwise::TILE).enumerate() {
            logsumexp_rows(&x[(lo + i * pairwise::TILE) * p.n..], p.n, out);
        }
        return;
    }
    each_piece(p.inner, lo, out, |row, column, out| {
        let x = &x[row * p.n * p.inner..][..p.n * p.inner];
        let x = x.get(column..).unwrap_or_default();
        let mut max = [T::ZERO; pairwise::TILE];
        let max = &mut max[..out.len()];
        pairwise::fold_columns(pairwise::Max, x, p.n, p.inner, max);
        reduce_exp_columns(x, p.inner, max, out);
        reduce_shifted_logs(max, out);
    });
}

by_dtype!(reduce_logsumexp_kernel_for = reduce_logsumexp_kernel::<floats>);

simd! {
    /// `s` = m + log s; m itself if it is infinite or NaN.
    fn reduce_shifted_logs[T: Float](m: &[T], s: &mut [T]) {
        for (s, m) in s.iter_mut().zip(m) {
            let y = *m + vmath::log(*s);
            *s = if m.abs() < T::INFINITY { y } else { *m };
        }
    }
}

/// log Σ eˣ of at most [`pairwise::TILE`] contiguous rows of `n` elements.
fn logsumexp_rows<T: Float>(x: &[T], n: usize, out: &mut [T]) {
    let mut max = [T::ZERO; pairwise::TILE];
    let max = &mut max[..out.len()];
    pairwise::reduce_rows(pairwise::Max, x, n, max);
    for (i, (o, m)) in out.iter_mut().zip(&*max).enumerate() {
        *o = pairwise::reduce_row(pairwise::ExpFrom(*m), &x[i * n..][..n]);
    }
    reduce_shifted_logs(max, out);
}

simd! {
    fn reduce_exp_columns[T: Float](x: &[T], stride: usize, max: &[T], out: &mut [T]) {
        out.fill(T::ZERO);
        let mut part = [T::ZERO; pairwise::TILE];
        let part = &mut part[..out.len()];
        for rows in x.chunks(stride * pairwise::ACCUMULATIONS) {
            part.fill(T::ZERO);
            for x in rows.chunks(stride).filter(|x| x.len() >= max.len()) {
                for ((s, x), m) in part.iter_mut().zip(x).zip(max) {
                    *s += vmath::exp(*x - *m);
                }
            }
            for (o, s) in out.iter_mut().zip(part.iter()) {
                *o += *s;
            }
        }
    }
}

/// The comparison of an arg reduction.
trait Best<T>: PairwiseReducer<T> {}

impl<T: Num> Best<T> for pairwise::Max {}
impl<T: Num> Best<T> for pairwise::Min {}

simd! {
    fn reduce_any_is[T: Num](x: &[T], best: T) -> bool {
        x.iter().fold(false, |any, v| any | (*v == best) | v.unordered())
    }
}

/// First position in `x` of `best` or of a NaN; 0 if there is neither.
fn first_position<T: Num>(x: &[T], best: T) -> usize {
    // The search tests whole chunks: without an early exit the loop vectorises.
    let chunk = x.chunks(256).position(|c| reduce_any_is(c, best)).unwrap_or(0) * 256;
    let found = x.iter().skip(chunk).position(|v| *v == best || v.unordered());
    chunk + found.unwrap_or(0)
}

simd! {
    fn reduce_arg_columns[T: Num, I: Index, F: PairwiseReducer<T>](f: F, x: &[T], stride: usize, best: &mut [T], out: &mut [I]) {
        let (w, whole) = (out.len(), Unmasked::new());
        for (r, x) in x.chunks(stride).filter(|x| x.len() >= w).enumerate() {
            let row = I::index_of_place(r);
            for ((b, o), x) in best.iter_mut().zip(out.iter_mut()).zip(x) {
                // The join keeps the first of two equal elements, and NaN once there is one. NaN differs from itself.
                let next = f.join(*b, *x);
                let keep = (next == *b) | b.unordered();
                *o = whole.of(if keep { *o } else { row });
                *b = next;
            }
        }
    }
}

fn run_positions<T: Num, I: Index, F: Best<T>>(args: &mut Args<'_>, f: F) {
    let p = Reduce::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<I>(0));
    out.fill(I::index_of_place(0));
    if p.n == 0 {
        return;
    }
    if p.inner == 1 {
        for (i, o) in out.iter_mut().enumerate() {
            let x = &x[(lo + i) * p.n..][..p.n];
            *o = I::index_of_place(first_position(x, pairwise::reduce_row(f, x)));
        }
        return;
    }
    each_piece(p.inner, lo, out, |row, column, out| {
        let x = &x[row * p.n * p.inner..][..p.n * p.inner][column..];
        let mut best = [f.start(); pairwise::TILE];
        let best = &mut best[..out.len()];
        best.copy_from_slice(&x[..out.len()]);
        reduce_arg_columns(f, x, p.inner, best, out);
    });
}

/// Position of the greatest x: the first of equal elements, the first NaN if any; 0 if `n` is 0.
///
/// Reads x: `T[outer, n, inner]`; writes `I[outer, inner]` (`i32` or `i64`), [`Reduce::per_unit`]; params [`Reduce`].
pub fn reduce_arg_max_kernel<T: Num, I: Index>(args: &mut Args<'_>) {
    run_positions::<T, I, _>(args, pairwise::Max);
}

by_dtype!(reduce_arg_max_kernel_for = reduce_arg_max_kernel::<numbers, index>);

/// Position of the least x: the first of equal elements, the first NaN if any; 0 if `n` is 0.
///
/// Reads x: `T[outer, n, inner]`; writes `I[outer, inner]` (`i32` or `i64`), [`Reduce::per_unit`]; params [`Reduce`].
pub fn reduce_arg_min_kernel<T: Num, I: Index>(args: &mut Args<'_>) {
    run_positions::<T, I, _>(args, pairwise::Min);
}

by_dtype!(reduce_arg_min_kernel_for = reduce_arg_min_kernel::<numbers, index>);

#[cfg(test)]
mod tests;
