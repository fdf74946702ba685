//! Softmax and log-softmax over the middle axis of a view `[outer, n, inner]`, their adjoints, and cross entropy with
//! integer labels.
//!
//! Invariant: exponents are shifted by the maximum of their row, so nothing overflows that has a finite result. A row
//! of −∞ gives NaN, as in torch. For the lowering of the ops of these names.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`softmax`], [`log_softmax`] | x: `T[outer, n, inner]` | y: the same | [`Softmax`] |
//! | [`softmax_backward`], [`log_softmax_backward`] | y, g: `T[outer, n, inner]` | dx: the same | [`Softmax`] |
//! | [`cross_entropy`] | logits: `T[rows, classes]`, labels: `I[rows]` | loss, lse: `T[rows]` | [`CrossEntropy`] |
//! | [`cross_entropy_backward`] | logits, labels, lse, dloss: `T[rows]` | dlogits: `T[rows, classes]` | [`CrossEntropy`] |

use crate::kernels::abi::Args;
use crate::kernels::num::{Index, Real};
use crate::kernels::params::params;
use crate::kernels::tree::{self, TILE};
use crate::kernels::vmath::{exp, log_over};
use crate::simd;

/// Elements in one unit, about.
const UNIT: usize = 4096;

params! {
    /// Params of the softmax kernels: the view.
    pub struct Softmax {
        /// Product of the axes before the one that sums to 1.
        pub outer: usize,
        /// Length of that axis.
        pub n: usize,
        /// Product of the axes after it.
        pub inner: usize,
    }
}

impl Softmax {
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

simd! {
    fn exp_row[T: Real](x: &[T], m: T, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = exp(*x - m);
        }
    }
}

simd! {
    fn exp_over[T: Real](m: T, y: &mut [T]) {
        for y in y {
            *y = exp(*y - m);
        }
    }
}

simd! {
    fn divide[T: Real](y: &mut [T], s: T) {
        for y in y {
            *y = *y / s;
        }
    }
}

simd! {
    fn subtract_both[T: Real](x: &[T], m: T, l: T, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = (*x - m) - l;
        }
    }
}

simd! {
    fn scale_by_excess[T: Real](y: &[T], g: &[T], d: T, dx: &mut [T]) {
        for ((o, y), g) in dx.iter_mut().zip(y).zip(g) {
            *o = *y * (*g - d);
        }
    }
}

simd! {
    fn scale_excess_over[T: Real](y: &[T], d: T, g: &mut [T]) {
        for (g, y) in g.iter_mut().zip(y) {
            *g = *y * (*g - d);
        }
    }
}

simd! {
    fn subtract_share[T: Real](y: &[T], g: &[T], s: T, dx: &mut [T]) {
        for ((o, y), g) in dx.iter_mut().zip(y).zip(g) {
            *o = *g - exp(*y) * s;
        }
    }
}

/// `out = f(x, y, a, b)` on a tile: rows `stride` apart, with `a` and `b` one value per column.
#[inline(always)]
fn tile_map<T: Real>(
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

/// The same, where `out` is also the first argument.
#[inline(always)]
fn tile_update<T: Real>(out: &mut [T], stride: usize, a: &[T], f: impl Fn(T, T) -> T) {
    for out in out.chunks_mut(stride) {
        for (o, a) in out.iter_mut().zip(a) {
            *o = f(*o, *a);
        }
    }
}

simd! {
    fn exp_tile[T: Real](x: &[T], stride: usize, m: &[T], y: &mut [T]) {
        tile_map(x, x, stride, (m, m), y, |x, _, m, _| exp(x - m));
    }
}

simd! {
    fn divide_tile[T: Real](y: &mut [T], stride: usize, s: &[T]) {
        tile_update(y, stride, s, |y, s| y / s);
    }
}

simd! {
    fn subtract_both_tile[T: Real](x: &[T], stride: usize, m: &[T], l: &[T], y: &mut [T]) {
        tile_map(x, x, stride, (m, l), y, |x, _, m, l| (x - m) - l);
    }
}

simd! {
    fn multiply_tile[T: Real](y: &[T], g: &[T], stride: usize, w: &[T], out: &mut [T]) {
        tile_map(y, g, stride, (w, w), out, |y, g, _, _| y * g);
    }
}

simd! {
    fn scale_by_excess_tile[T: Real](y: &[T], g: &[T], stride: usize, d: &[T], dx: &mut [T]) {
        tile_map(y, g, stride, (d, d), dx, |y, g, d, _| y * (g - d));
    }
}

simd! {
    fn subtract_share_tile[T: Real](y: &[T], g: &[T], stride: usize, s: &[T], dx: &mut [T]) {
        tile_map(y, g, stride, (s, s), dx, |y, g, s, _| g - exp(y) * s);
    }
}

/// Calls `f(first column, columns)` for each tile of columns.
fn tiles(inner: usize, mut f: impl FnMut(usize, usize)) {
    for at in (0..inner).step_by(TILE) {
        f(at, TILE.min(inner - at));
    }
}

/// Softmax of one outer row: `n` rows of `inner` elements.
pub fn softmax_row<T: Real>(x: &[T], n: usize, inner: usize, y: &mut [T]) {
    if inner == 1 {
        exp_row(x, tree::row(tree::Max, x), y);
        let s = tree::row(tree::Sum, y);
        return divide(y, s);
    }
    let mut column = [T::ZERO; TILE];
    tiles(inner, |at, w| {
        let (column, x, y) = (&mut column[..w], &x[at..], &mut y[at..]);
        tree::columns(tree::Max, x, n, inner, column);
        exp_tile(x, inner, column, y);
        tree::columns(tree::Sum, y, n, inner, column);
        divide_tile(y, inner, column);
    });
}

/// Softmax of one row of `inner` 1, in its own place: the bits of [`softmax_row`].
fn softmax_over<T: Real>(y: &mut [T]) {
    exp_over(tree::row(tree::Max, y), y);
    let s = tree::row(tree::Sum, y);
    divide(y, s);
}

/// Log-softmax of one outer row: `n` rows of `inner` elements.
pub fn log_softmax_row<T: Real>(x: &[T], n: usize, inner: usize, y: &mut [T]) {
    if inner == 1 {
        let m = tree::row(tree::Max, x);
        let mut l = [tree::row(tree::ExpFrom(m), x)];
        log_over(&mut l);
        return subtract_both(x, m, l[0], y);
    }
    let (mut max, mut sum) = ([T::ZERO; TILE], [T::ZERO; TILE]);
    tiles(inner, |at, w| {
        let (max, sum, x, y) = (&mut max[..w], &mut sum[..w], &x[at..], &mut y[at..]);
        tree::columns(tree::Max, x, n, inner, max);
        exp_tile(x, inner, max, y);
        tree::columns(tree::Sum, y, n, inner, sum);
        log_over(sum);
        subtract_both_tile(x, inner, max, sum, y);
    });
}

/// `dx = y ⊙ (g − Σ y·g)` of one outer row.
pub fn softmax_backward_row<T: Real>(y: &[T], g: &[T], n: usize, inner: usize, dx: &mut [T]) {
    if inner == 1 {
        return scale_by_excess(y, g, tree::dot(y, g), dx);
    }
    let mut column = [T::ZERO; TILE];
    tiles(inner, |at, w| {
        let (column, y, g, dx) = (&mut column[..w], &y[at..], &g[at..], &mut dx[at..]);
        multiply_tile(y, g, inner, column, dx);
        tree::columns(tree::Sum, dx, n, inner, column);
        scale_by_excess_tile(y, g, inner, column, dx);
    });
}

/// `dx = g − exp(y)·Σ g` of one outer row.
pub fn log_softmax_backward_row<T: Real>(y: &[T], g: &[T], n: usize, inner: usize, dx: &mut [T]) {
    if inner == 1 {
        return subtract_share(y, g, tree::row(tree::Sum, g), dx);
    }
    let mut column = [T::ZERO; TILE];
    tiles(inner, |at, w| {
        let (column, y, g, dx) = (&mut column[..w], &y[at..], &g[at..], &mut dx[at..]);
        tree::columns(tree::Sum, g, n, inner, column);
        subtract_share_tile(y, g, inner, column, dx);
    });
}

/// Calls `f(first element, outer row of the output)` for each outer row of this call.
fn outer_rows<T: Real>(args: &mut Args<'_>, mut f: impl FnMut(&Softmax, usize, &mut [T])) {
    let p = Softmax::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let row = (p.n * p.inner).max(1);
    for (i, out) in args.write::<T>(0).chunks_exact_mut(row).enumerate() {
        f(&p, lo + i * row, out);
    }
}

/// exp(x) / Σ exp(x) along the axis.
///
/// Reads x: `T[outer, n, inner]`, which y may overwrite if `inner` is 1; writes y: the same, [`Softmax::per_unit`];
/// params [`Softmax`].
pub fn softmax<T: Real>(args: &mut Args<'_>) {
    if args.inplace(0).is_some() {
        return outer_rows(args, |_, _, y: &mut [T]| softmax_over(y));
    }
    let x = args.read::<T>(0);
    outer_rows(args, |p, at, y| softmax_row(&x[at..at + y.len()], p.n, p.inner, y));
}

/// x − log Σ exp(x) along the axis.
///
/// Reads x: `T[outer, n, inner]`; writes y: the same, [`Softmax::per_unit`]; params [`Softmax`].
pub fn log_softmax<T: Real>(args: &mut Args<'_>) {
    let x = args.read::<T>(0);
    outer_rows(args, |p, at, y| log_softmax_row(&x[at..at + y.len()], p.n, p.inner, y));
}

/// The adjoint of [`softmax`]: y ⊙ (g − Σ y·g), where y is its result.
///
/// Reads y, g: `T[outer, n, inner]`, of which dx may overwrite g if `inner` is 1; writes dx: the same,
/// [`Softmax::per_unit`]; params [`Softmax`].
pub fn softmax_backward<T: Real>(args: &mut Args<'_>) {
    if args.inplace(1).is_some() {
        let y = args.read::<T>(0);
        return outer_rows(args, |_, at, g: &mut [T]| {
            let y = &y[at..at + g.len()];
            let d = tree::dot(y, g);
            scale_excess_over(y, d, g);
        });
    }
    let (y, g) = (args.read::<T>(0), args.read::<T>(1));
    outer_rows(args, |p, at, dx| {
        softmax_backward_row(&y[at..at + dx.len()], &g[at..at + dx.len()], p.n, p.inner, dx);
    });
}

/// The adjoint of [`log_softmax`]: g − exp(y)·Σ g, where y is its result.
///
/// Reads y, g: `T[outer, n, inner]`; writes dx: the same, [`Softmax::per_unit`]; params [`Softmax`].
pub fn log_softmax_backward<T: Real>(args: &mut Args<'_>) {
    let (y, g) = (args.read::<T>(0), args.read::<T>(1));
    outer_rows(args, |p, at, dx| {
        log_softmax_backward_row(&y[at..at + dx.len()], &g[at..at + dx.len()], p.n, p.inner, dx);
    });
}

params! {
    /// Params of the cross entropy kernels.
    pub struct CrossEntropy {
        /// Number of rows.
        pub rows: usize,
        /// Number of classes.
        pub classes: usize,
        /// Rows with this label count for nothing.
        pub ignore_index: i64,
        /// Label smoothing ε: the target is `(1 − ε)·one-hot + ε / classes`.
        pub smoothing: f64,
    }
}

impl CrossEntropy {
    /// Rows in each unit: the elements of `loss` and `lse` in it.
    pub fn per_unit(&self) -> usize {
        (UNIT / self.classes.max(1)).max(1)
    }

    /// Elements of `dlogits` in each unit.
    pub fn per_unit_logits(&self) -> usize {
        self.per_unit() * self.classes
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.per_unit())
    }

    /// The class of each row from `lo` on, `None` where the row is ignored; or the first row whose label is neither a
    /// class nor ignored.
    fn labels<'a, I: Index>(
        &self,
        labels: &'a [I],
        lo: usize,
        rows: usize,
    ) -> Result<impl Iterator<Item = Option<usize>> + use<'a, I>, usize> {
        let (classes, ignore) = (self.classes, self.ignore_index);
        let labels = &labels[lo..lo + rows];
        match labels.iter().position(|l| l.to_i64() != ignore && l.within(classes).is_none()) {
            Some(bad) => Err(lo + bad),
            None => Ok(labels.iter().map(move |l| l.within(classes).filter(|_| l.to_i64() != ignore))),
        }
    }
}

/// Loss and log-sum-exp of one row with maximum `m` and l = log Σ exp(x − m).
fn cross_entropy_row<T: Real>(x: &[T], m: T, l: T, label: Option<usize>, smoothing: f64) -> (T, T) {
    let lse = if m.abs() < T::INFINITY { m + l } else { m };
    let Some(label) = label else { return (T::ZERO, lse) };
    // Relative to the maximum, not to the rounded log-sum-exp: large logits keep the digits of their loss.
    let nll = l - (x[label] - m);
    if smoothing == 0.0 {
        return (nll, lse);
    }
    let mean = tree::row(tree::Sum, x) / T::from_f64(x.len() as f64);
    (T::from_f64(1.0 - smoothing) * nll + T::from_f64(smoothing) * (l - (mean - m)), lse)
}

/// −Σ target·log softmax(logits) of each row, as torch's `cross_entropy(reduction="none", ignore_index,
/// label_smoothing)`: `(1 − ε)·nll + ε·mean(−log p)`, 0 for an ignored row. A label that is neither a class nor the
/// ignored one is a fault at its row.
///
/// Reads logits: `T[rows, classes]`, labels: `I[rows]`; writes loss, lse: `T[rows]`, [`CrossEntropy::per_unit`] each;
/// params [`CrossEntropy`].
pub fn cross_entropy<T: Real, I: Index>(args: &mut Args<'_>) {
    let p = CrossEntropy::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, labels) = (args.read::<T>(0), args.read::<I>(1));
    let (loss, lse) = (args.write::<T>(0), args.write::<T>(1));
    let targets = match p.labels(labels, lo, loss.len()) {
        Ok(targets) => targets,
        Err(row) => return args.fault_index(row, labels[row].to_i64(), p.classes),
    };
    // Maxima and sums first, in the places of the results: the logarithms are then one loop.
    let row = |i: usize| &x[(lo + i) * p.classes..][..p.classes];
    for (i, (l, m)) in loss.iter_mut().zip(lse.iter_mut()).enumerate() {
        *m = tree::row(tree::Max, row(i));
        *l = tree::row(tree::ExpFrom(*m), row(i));
    }
    log_over(loss);
    for (i, ((loss, lse), label)) in loss.iter_mut().zip(lse).zip(targets).enumerate() {
        (*loss, *lse) = cross_entropy_row(row(i), *lse, *loss, label, p.smoothing);
    }
}

simd! {
    /// `dx = d·(exp(x − lse) − uniform)`.
    fn cross_entropy_grad[T: Real](x: &[T], lse: T, uniform: T, d: T, dx: &mut [T]) {
        for (o, x) in dx.iter_mut().zip(x) {
            *o = d * (exp(*x - lse) - uniform);
        }
    }
}

simd! {
    /// The same, where `dx` holds `x`.
    fn cross_entropy_grad_over[T: Real](lse: T, uniform: T, d: T, dx: &mut [T]) {
        for x in dx {
            *x = d * (exp(*x - lse) - uniform);
        }
    }
}

/// The adjoint of [`cross_entropy`] in the logits: dloss·(softmax − target), zeros for an ignored row.
///
/// Reads logits: `T[rows, classes]`, which dlogits may overwrite, labels: `I[rows]`, lse: `T[rows]`, dloss: `T[rows]`;
/// writes dlogits: `T[rows, classes]`, [`CrossEntropy::per_unit_logits`]; params [`CrossEntropy`].
pub fn cross_entropy_backward<T: Real, I: Index>(args: &mut Args<'_>) {
    let p = CrossEntropy::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let x = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (lse, dloss) = (args.read::<T>(2), args.read::<T>(3));
    let out = args.write::<T>(0);
    let labels = args.read::<I>(1);
    let targets = match p.labels(labels, lo, out.len() / p.classes.max(1)) {
        Ok(targets) => targets,
        Err(row) => return args.fault_index(row, labels[row].to_i64(), p.classes),
    };
    let uniform = T::from_f64(p.smoothing / p.classes as f64);
    for ((row, out), label) in (lo..).zip(out.chunks_exact_mut(p.classes.max(1))).zip(targets) {
        let Some(label) = label else {
            out.fill(T::ZERO);
            continue;
        };
        let d = dloss[row];
        match x {
            Some(x) => cross_entropy_grad(&x[row * p.classes..][..p.classes], lse[row], uniform, d, out),
            None => cross_entropy_grad_over(lse[row], uniform, d, out),
        }
        out[label] -= d * T::from_f64(1.0 - p.smoothing);
    }
}

#[cfg(test)]
mod tests;
