//! Softmax and log-softmax over the middle axis of a view `[outer, n, inner]`, their adjoints, and (in `cross_entropy`)
//! cross entropy with integer labels.
//!
//! Invariant: exponents are shifted by the maximum of their row, so a finite result never overflows on the way. A row
//! of −∞ gives NaN, as in torch.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`softmax_kernel`], [`log_softmax_kernel`] | x: `T[outer, n, inner]` | y: the same | [`Softmax`] |
//! | [`softmax_backward_kernel`], [`log_softmax_backward_kernel`] | y, g: `T[outer, n, inner]` | dx: the same | [`Softmax`] |
//! | [`cross_entropy_kernel`] | logits: `T[rows, classes]`, labels: `I[rows]` | loss, lse: `T[rows]` | [`CrossEntropy`] |
//! | [`cross_entropy_backward_kernel`] | logits, labels, lse, dloss: `T[rows]` | dlogits: `T[rows, classes]` | [`CrossEntropy`] |
//! | [`cross_entropy_gradient_kernel`] | logits, labels | loss, lse, dlogits | [`CrossEntropy`], dloss of every row |

mod cross_entropy;
mod rows;
mod short_rows;

pub use cross_entropy::{
    CrossEntropy, cross_entropy_backward_kernel, cross_entropy_backward_kernel_for, cross_entropy_gradient_kernel,
    cross_entropy_gradient_kernel_for, cross_entropy_kernel, cross_entropy_kernel_for,
};

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::pairwise::{self, TILE};
use crate::simd;
use crate::vmath::{exp, log_in_place_slice};
use rows::{log_softmax_rows, softmax_rows};
use short_rows::{FEW, SIDE, log_softmax_short_rows, softmax_short_rows};

/// Approximate number of elements in a unit.
const UNIT: usize = 512;

params! {
    /// Params of the softmax kernels: the view.
    pub struct Softmax {
        /// Product of the axes before the normalised one.
        pub outer: usize,
        /// Length of the normalised axis.
        pub n: usize,
        /// Product of the axes after it.
        pub inner: usize,
    }
}

impl Softmax {
    /// Elements of the output in a unit: whole outer rows.
    pub fn per_unit(&self) -> usize {
        let row = (self.n * self.inner).max(1);
        row * (UNIT / row).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.n * self.inner).div_ceil(self.per_unit())
    }

    /// Whether rows are transposed. A few take less time one by one, and a module for browsers would be too large.
    fn transposes_rows(&self) -> bool {
        !cfg!(target_arch = "wasm32") && self.inner == 1 && (1..FEW).contains(&self.n) && self.outer >= SIDE
    }
}

simd! {
    fn softmax_scale_by_excess[T: Float](y: &[T], g: &[T], d: T, dx: &mut [T]) {
        for ((o, y), g) in dx.iter_mut().zip(y).zip(g) {
            *o = *y * (*g - d);
        }
    }
}

simd! {
    fn softmax_scale_excess_over[T: Float](y: &[T], d: T, g: &mut [T]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = *y * (*g - d);
        }
    }
}

simd! {
    fn softmax_subtract_share[T: Float](y: &[T], g: &[T], s: T, dx: &mut [T]) {
        for ((o, y), g) in dx.iter_mut().zip(y).zip(g) {
            *o = *g - exp(*y) * s;
        }
    }
}

/// `out = f(x, y, a, b)` on a tile. Rows are `stride` apart; `a` and `b` have one value for each column.
#[inline(always)]
fn map_tile<T: Float>(
    x: &[T],
    y: &[T],
    stride: usize,
    (a, b): (&[T], &[T]),
    out: &mut [T],
    f: impl Fn(T, T, T, T) -> T,
) {
    for ((x, y), out) in x.chunks(stride).zip(y.chunks(stride)).zip(out.chunks_mut(stride)) {
        for ((((o, x), y), a), b) in out.iter_mut().zip(x).zip(y).zip(a).zip(b) {
            *o = f(*x, *y, *a, *b);
        }
    }
}

/// [`map_tile`] with `out` as the first argument.
#[inline(always)]
fn update_tile<T: Float>(out: &mut [T], stride: usize, a: &[T], f: impl Fn(T, T) -> T) {
    for out in out.chunks_mut(stride) {
        for (o, a) in out.iter_mut().zip(a) {
            *o = f(*o, *a);
        }
    }
}

simd! {
    fn softmax_exp_tile[T: Float](x: &[T], stride: usize, m: &[T], y: &mut [T]) {
        map_tile(x, x, stride, (m, m), y, |x, _, m, _| exp(x - m));
    }
}

simd! {
    fn softmax_divide_tile[T: Float](y: &mut [T], stride: usize, s: &[T]) {
        update_tile(y, stride, s, |y, s| y / s);
    }
}

simd! {
    fn softmax_subtract_both_tile[T: Float](x: &[T], stride: usize, m: &[T], l: &[T], y: &mut [T]) {
        map_tile(x, x, stride, (m, l), y, |x, _, m, l| (x - m) - l);
    }
}

simd! {
    fn softmax_multiply_tile[T: Float](y: &[T], g: &[T], stride: usize, w: &[T], out: &mut [T]) {
        map_tile(y, g, stride, (w, w), out, |y, g, _, _| y * g);
    }
}

simd! {
    fn softmax_scale_by_excess_tile[T: Float](y: &[T], g: &[T], stride: usize, d: &[T], dx: &mut [T]) {
        map_tile(y, g, stride, (d, d), dx, |y, g, d, _| y * (g - d));
    }
}

simd! {
    fn softmax_subtract_share_tile[T: Float](y: &[T], g: &[T], stride: usize, s: &[T], dx: &mut [T]) {
        map_tile(y, g, stride, (s, s), dx, |y, g, s, _| g - exp(y) * s);
    }
}

/// Calls `f(first column, columns)` for each tile of columns.
fn each_tile(inner: usize, mut f: impl FnMut(usize, usize)) {
    for at in (0..inner).step_by(TILE) {
        f(at, TILE.min(inner - at));
    }
}

/// Softmax of one outer row: `n` rows of `inner` elements.
fn probability_columns<T: Float>(x: &[T], n: usize, inner: usize, y: &mut [T]) {
    let mut column = [T::ZERO; TILE];
    each_tile(inner, |at, w| {
        let (column, x, y) = (&mut column[..w], &x[at..], &mut y[at..]);
        pairwise::fold_columns(pairwise::Max, x, n, inner, column);
        softmax_exp_tile(x, inner, column, y);
        pairwise::fold_columns(pairwise::Sum, y, n, inner, column);
        softmax_divide_tile(y, inner, column);
    });
}

/// Log-softmax of one outer row: `n` rows of `inner` elements.
fn log_probability_columns<T: Float>(x: &[T], n: usize, inner: usize, y: &mut [T]) {
    let (mut max, mut sum) = ([T::ZERO; TILE], [T::ZERO; TILE]);
    each_tile(inner, |at, w| {
        let (max, sum, x, y) = (&mut max[..w], &mut sum[..w], &x[at..], &mut y[at..]);
        pairwise::fold_columns(pairwise::Max, x, n, inner, max);
        softmax_exp_tile(x, inner, max, y);
        pairwise::fold_columns(pairwise::Sum, y, n, inner, sum);
        log_in_place_slice(sum);
        softmax_subtract_both_tile(x, inner, max, sum, y);
    });
}

/// `dx = y ⊙ (g − Σ y·g)` of one outer row.
fn probability_gradient_row<T: Float>(y: &[T], g: &[T], n: usize, inner: usize, dx: &mut [T]) {
    if inner == 1 {
        return softmax_scale_by_excess(y, g, pairwise::dot_slices(y, g), dx);
    }
    let mut column = [T::ZERO; TILE];
    each_tile(inner, |at, w| {
        let (column, y, g, dx) = (&mut column[..w], &y[at..], &g[at..], &mut dx[at..]);
        softmax_multiply_tile(y, g, inner, column, dx);
        pairwise::fold_columns(pairwise::Sum, dx, n, inner, column);
        softmax_scale_by_excess_tile(y, g, inner, column, dx);
    });
}

/// `dx = g − exp(y)·Σ g` of one outer row.
fn log_probability_gradient_row<T: Float>(y: &[T], g: &[T], n: usize, inner: usize, dx: &mut [T]) {
    if inner == 1 {
        return softmax_subtract_share(y, g, pairwise::reduce_row(pairwise::Sum, g), dx);
    }
    let mut column = [T::ZERO; TILE];
    each_tile(inner, |at, w| {
        let (column, y, g, dx) = (&mut column[..w], &y[at..], &g[at..], &mut dx[at..]);
        pairwise::fold_columns(pairwise::Sum, g, n, inner, column);
        softmax_subtract_share_tile(y, g, inner, column, dx);
    });
}

/// Calls `f(params, first element, outer row of the output)` for each outer row of this call.
fn each_outer_row<T: Float>(args: &mut Args<'_>, mut f: impl FnMut(&Softmax, usize, &mut [T])) {
    let p = Softmax::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let row = (p.n * p.inner).max(1);
    for (i, out) in args.write::<T>(0).chunks_exact_mut(row).enumerate() {
        f(&p, lo + i * row, out);
    }
}

/// Computes the softmax or log-softmax of a call. Along the last axis, `short` and `long` get the length of the rows,
/// and x unless the output holds it. Along another, `columns` gets each outer row.
fn run_along_axis<T: Float>(
    args: &mut Args<'_>,
    short: impl Fn(usize, Option<&[T]>, &mut [T]),
    long: impl Fn(usize, Option<&[T]>, &mut [T]),
    columns: impl Fn(&[T], usize, usize, &mut [T]),
) {
    let p = Softmax::from_words(args.params());
    if p.inner != 1 {
        let x = args.read::<T>(0);
        return each_outer_row(args, |p, at, y| columns(&x[at..at + y.len()], p.n, p.inner, y));
    }
    let (lo, y) = (args.units().start * p.per_unit(), args.write::<T>(0));
    let x = args.inplace(0).is_none().then(|| &args.read::<T>(0)[lo..lo + y.len()]);
    if p.transposes_rows() { short(p.n, x, y) } else { long(p.n.max(1), x, y) }
}

/// Softmax: exp(x) / Σ exp(x) along the axis.
///
/// Reads x: `T[outer, n, inner]`; writes y: the same, [`Softmax::per_unit`], in place if `inner` is 1, or not; params
/// [`Softmax`].
pub fn softmax_kernel<T: Float>(args: &mut Args<'_>) {
    run_along_axis::<T>(args, softmax_short_rows, softmax_rows, probability_columns);
}

by_dtype!(softmax_kernel_for = softmax_kernel::<floats>);

/// Log-softmax: x − log Σ exp(x) along the axis.
///
/// Reads x: `T[outer, n, inner]`; writes y: the same, [`Softmax::per_unit`], in place if `inner` is 1, or not; params
/// [`Softmax`].
pub fn log_softmax_kernel<T: Float>(args: &mut Args<'_>) {
    run_along_axis::<T>(args, log_softmax_short_rows, log_softmax_rows, log_probability_columns);
}

by_dtype!(log_softmax_kernel_for = log_softmax_kernel::<floats>);

/// The adjoint of [`softmax_kernel`]: y ⊙ (g − Σ y·g), where y is its result.
///
/// Reads y, g: `T[outer, n, inner]`; writes dx: the same, [`Softmax::per_unit`], in place of g if `inner` is 1, or not;
/// params [`Softmax`].
pub fn softmax_backward_kernel<T: Float>(args: &mut Args<'_>) {
    if args.inplace(1).is_some() {
        let y = args.read::<T>(0);
        return each_outer_row(args, |_, at, g: &mut [T]| {
            let y = &y[at..at + g.len()];
            let d = pairwise::dot_slices(y, g);
            softmax_scale_excess_over(y, d, g);
        });
    }
    let (y, g) = (args.read::<T>(0), args.read::<T>(1));
    each_outer_row(args, |p, at, dx| {
        probability_gradient_row(&y[at..at + dx.len()], &g[at..at + dx.len()], p.n, p.inner, dx);
    });
}

by_dtype!(softmax_backward_kernel_for = softmax_backward_kernel::<floats>);

/// The adjoint of [`log_softmax_kernel`]: g − exp(y)·Σ g, where y is its result.
///
/// Reads y, g: `T[outer, n, inner]`; writes dx: the same, [`Softmax::per_unit`]; params [`Softmax`].
pub fn log_softmax_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (y, g) = (args.read::<T>(0), args.read::<T>(1));
    each_outer_row(args, |p, at, dx| {
        log_probability_gradient_row(&y[at..at + dx.len()], &g[at..at + dx.len()], p.n, p.inner, dx);
    });
}

by_dtype!(log_softmax_backward_kernel_for = log_softmax_backward_kernel::<floats>);

#[cfg(test)]
mod tests;
