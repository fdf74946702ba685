//! Cross entropy with integer labels, its adjoint, and both in one call.
//!
//! Rows of fewer than [`FEW`] classes are transposed, and their gradients are one loop over many rows. Invariant: both
//! forms give the same bits.

use super::UNIT;
use super::short_rows::{FEW, SIDE, columns_of, join_columns, map_columns};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::index::Index;
use crate::params::params;
use crate::reduce::pairwise::{self, Max, Sum};
use crate::simd;
use crate::vmath::{exp, log_in_place_slice};

/// Elements whose gradients one loop computes.
const SPAN: usize = 512;

params! {
    /// Params of the cross entropy kernels.
    pub struct CrossEntropy {
        /// Number of rows.
        pub rows: usize,
        /// Number of classes.
        pub classes: usize,
        /// Rows with this label have no loss.
        pub ignore_index: i64,
        /// Label smoothing ε: the target is `(1 − ε)·one-hot + ε / classes`.
        pub smoothing: f64,
    }
}

impl CrossEntropy {
    /// Rows in a unit: elements of `loss` and of `lse`.
    pub fn per_unit(&self) -> usize {
        (UNIT / self.classes.max(1)).max(1)
    }

    /// Elements of `dlogits` in a unit.
    pub fn per_unit_logits(&self) -> usize {
        self.per_unit() * self.classes
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.per_unit())
    }

    /// The class of each row from `lo` on, `None` for an ignored row. `Err`: the first row whose label is neither a
    /// class nor `ignore_index`.
    fn labels<'a, I: Index>(
        &self,
        labels: &'a [I],
        lo: usize,
        rows: usize,
    ) -> Result<impl Iterator<Item = Option<usize>> + use<'a, I>, usize> {
        let (classes, ignore) = (self.classes, self.ignore_index);
        let labels = &labels[lo..lo + rows];
        match labels.iter().position(|l| l.index_to_i64() != ignore && l.within(classes).is_none()) {
            Some(bad) => Err(lo + bad),
            None => Ok(labels.iter().map(move |l| l.within(classes).filter(|_| l.index_to_i64() != ignore))),
        }
    }
}

/// Loss and log-sum-exp of a row with maximum `m` and l = log Σ exp(x − m).
fn row_loss<T: Float>(x: &[T], m: T, l: T, label: Option<usize>, smoothing: f64) -> (T, T) {
    let lse = if m.abs() < T::INFINITY { m + l } else { m };
    let Some(label) = label else { return (T::ZERO, lse) };
    // Relative to the maximum, not to the rounded log-sum-exp: so the loss of large logits keeps its digits.
    let nll = l - (x[label] - m);
    if smoothing == 0.0 {
        return (nll, lse);
    }
    let mean = pairwise::reduce_row(Sum, x) / T::from_f64(x.len() as f64);
    (T::from_f64(1.0 - smoothing) * nll + T::from_f64(smoothing) * (l - (mean - m)), lse)
}

simd! {
    /// The maximum m of each row of `n` < [`FEW`] elements, and Σ exp(x − m).
    fn cross_entropy_short_rows[T: Float](x: &[T], n: usize, max: &mut [T], sum: &mut [T]) {
        for ((x, max), sum) in x.chunks(SIDE * n).zip(max.chunks_mut(SIDE)).zip(sum.chunks_mut(SIDE)) {
            let mut columns = columns_of(x, n);
            let m = join_columns(Max, &columns[..n]);
            map_columns(&mut columns[..n], &m, |x, m| exp(x - m));
            max.copy_from_slice(&m[..max.len()]);
            sum.copy_from_slice(&join_columns(Sum, &columns[..n])[..sum.len()]);
        }
    }
}

/// Losses and log-sum-exps of the first `loss.len()` rows of `x`.
fn write_losses<T: Float>(
    p: &CrossEntropy,
    x: &[T],
    targets: impl Iterator<Item = Option<usize>>,
    loss: &mut [T],
    lse: &mut [T],
) {
    let n = p.classes;
    // Maxima and sums first, stored in the results, so that one loop computes all logarithms.
    if n < FEW {
        cross_entropy_short_rows(&x[..loss.len() * n], n, lse, loss);
    } else {
        for ((l, m), row) in loss.iter_mut().zip(lse.iter_mut()).zip(x.chunks_exact(n)) {
            *m = pairwise::reduce_row(Max, row);
            *l = pairwise::reduce_row(pairwise::ExpFrom(*m), row);
        }
    }
    log_in_place_slice(loss);
    for (((loss, lse), row), label) in loss.iter_mut().zip(lse).zip(x.chunks_exact(n)).zip(targets) {
        (*loss, *lse) = row_loss(row, *lse, *loss, label, p.smoothing);
    }
}

/// −Σ target·log softmax(logits) of each row, as in torch's `cross_entropy(reduction="none", ignore_index,
/// label_smoothing)`: `(1 − ε)·nll + ε·mean(−log p)`, 0 for an ignored row. A label that is neither a class nor the
/// ignored one is a fault at its row.
///
/// Reads logits: `T[rows, classes]`, labels: `I[rows]`; writes loss, lse: `T[rows]`, [`CrossEntropy::per_unit`] each;
/// params [`CrossEntropy`].
pub fn cross_entropy_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let p = CrossEntropy::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, labels) = (args.read::<T>(0), args.read::<I>(1));
    let (loss, lse) = (args.write::<T>(0), args.write::<T>(1));
    match p.labels(labels, lo, loss.len()) {
        Ok(targets) => write_losses(&p, &x[lo * p.classes..], targets, loss, lse),
        Err(row) => args.fault_index(row, labels[row].index_to_i64(), p.classes),
    }
}

by_dtype!(cross_entropy_kernel_for = cross_entropy_kernel::<floats, index>);

simd! {
    /// `dx = d·(exp(x − lse) − uniform)`.
    fn cross_entropy_row_grad[T: Float](x: &[T], lse: T, uniform: T, d: T, dx: &mut [T]) {
        for (o, x) in dx.iter_mut().zip(x) {
            *o = d * (exp(*x - lse) - uniform);
        }
    }
}

simd! {
    /// [`cross_entropy_row_grad`] in place: `dx` holds `x`.
    fn cross_entropy_row_grad_over[T: Float](lse: T, uniform: T, d: T, dx: &mut [T]) {
        for x in dx {
            *x = d * (exp(*x - lse) - uniform);
        }
    }
}

simd! {
    /// [`cross_entropy_row_grad_over`] for several rows of `n` elements, at most [`SPAN`] elements in all.
    fn cross_entropy_short_grads_over[T: Float](n: usize, lse: &[T], d: &[T], uniform: T, dx: &mut [T]) {
        // One lse and one d for each element, so that one loop runs over all rows.
        let mut spread = [[T::ZERO; SPAN]; 2];
        let [a, b] = &mut spread;
        for ((a, b), (l, d)) in a.chunks_exact_mut(n).zip(b.chunks_exact_mut(n)).zip(lse.iter().zip(d)) {
            a.fill(*l);
            b.fill(*d);
        }
        for ((x, l), d) in dx.iter_mut().zip(a).zip(b) {
            *x = *d * (exp(*x - *l) - uniform);
        }
    }
}

/// Gradients of the losses: one for each row, or one for all.
#[derive(Clone, Copy)]
enum CrossEntropyKernelWeights<'a, T> {
    Each(&'a [T]),
    All(T),
}

impl<T: Float> CrossEntropyKernelWeights<'_, T> {
    #[inline]
    fn of_row(&self, row: usize) -> T {
        match self {
            CrossEntropyKernelWeights::Each(d) => d[row],
            CrossEntropyKernelWeights::All(d) => *d,
        }
    }
}

/// Writes the gradients of rows `lo..` to `out`. `out` holds the logits if `x` is `None`.
fn write_gradients<T: Float>(
    p: &CrossEntropy,
    x: Option<&[T]>,
    lo: usize,
    (lse, weights): (&[T], CrossEntropyKernelWeights<'_, T>),
    targets: impl Iterator<Item = Option<usize>>,
    out: &mut [T],
) {
    let n = p.classes;
    let uniform = T::from_f64(p.smoothing / n as f64);
    if n < FEW {
        if let Some(x) = x {
            out.copy_from_slice(&x[lo * n..][..out.len()]);
        }
        let rows = SPAN / n;
        let mut d = [T::ZERO; SPAN];
        for (k, out) in out.chunks_mut(rows * n).enumerate() {
            let count = out.len() / n;
            for (i, d) in d[..count].iter_mut().enumerate() {
                *d = weights.of_row(lo + k * rows + i);
            }
            cross_entropy_short_grads_over(n, &lse[k * rows..][..count], &d[..count], uniform, out);
        }
    } else {
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            let (l, d) = (lse[i], weights.of_row(lo + i));
            match x {
                Some(x) => cross_entropy_row_grad(&x[(lo + i) * n..][..n], l, uniform, d, out),
                None => cross_entropy_row_grad_over(l, uniform, d, out),
            }
        }
    }
    let hit = T::from_f64(1.0 - p.smoothing);
    for (i, (out, label)) in out.chunks_exact_mut(n).zip(targets).enumerate() {
        match label {
            Some(label) => out[label] -= weights.of_row(lo + i) * hit,
            None => out.fill(T::ZERO),
        }
    }
}

/// The adjoint of [`cross_entropy_kernel`] in the logits: dloss·(softmax − target), zeros for an ignored row.
///
/// Reads logits: `T[rows, classes]`, which dlogits may overwrite, labels: `I[rows]`, lse: `T[rows]`, dloss: `T[rows]`;
/// writes dlogits: `T[rows, classes]`, [`CrossEntropy::per_unit_logits`]; params [`CrossEntropy`].
pub fn cross_entropy_backward_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let p = CrossEntropy::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let x = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (lse, dloss) = (args.read::<T>(2), args.read::<T>(3));
    let out = args.write::<T>(0);
    let labels = args.read::<I>(1);
    match p.labels(labels, lo, out.len() / p.classes.max(1)) {
        Ok(targets) => write_gradients(&p, x, lo, (&lse[lo..], CrossEntropyKernelWeights::Each(dloss)), targets, out),
        Err(row) => args.fault_index(row, labels[row].index_to_i64(), p.classes),
    }
}

by_dtype!(cross_entropy_backward_kernel_for = cross_entropy_backward_kernel::<floats, index>);

/// [`cross_entropy_kernel`] and [`cross_entropy_backward_kernel`] in one call, with one dloss for all rows. The bits
/// are those of the two calls.
///
/// Reads logits: `T[rows, classes]`, labels: `I[rows]`; writes loss, lse: `T[rows]`, [`CrossEntropy::per_unit`] each,
/// dlogits: `T[rows, classes]`, [`CrossEntropy::per_unit_logits`], in place of logits or not; params [`CrossEntropy`],
/// then the bits of dloss, an `f64`.
pub fn cross_entropy_gradient_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let p = CrossEntropy::from_words(args.params());
    let weight = T::from_f64(f64::from_bits(args.params().last().copied().unwrap_or(0)));
    let lo = args.units().start * p.per_unit();
    let x = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let labels = args.read::<I>(1);
    let (loss, lse, out) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let targets = || p.labels(labels, lo, loss.len());
    let (first, second) = match (targets(), targets()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(row), _) | (_, Err(row)) => return args.fault_index(row, labels[row].index_to_i64(), p.classes),
    };
    match x {
        Some(x) => write_losses(&p, &x[lo * p.classes..], first, loss, lse),
        None => write_losses(&p, out, first, loss, lse),
    }
    write_gradients(&p, x, lo, (lse, CrossEntropyKernelWeights::All(weight)), second, out);
}

by_dtype!(cross_entropy_gradient_kernel_for = cross_entropy_gradient_kernel::<floats, index>);
