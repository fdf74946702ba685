//! Layer normalisation over the last axis of `[rows, n]`, with or without γ and β, and its adjoint.
//!
//! Invariant: the variance is computed from the deviations from the mean (two sweeps), never as a difference of
//! squares.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`layer_norm_kernel`] | x: `T[rows, n]`, \[γ, β: `T[n]`\] | y: `T[rows, n]`, mean, rstd: `T[rows]` | [`LayerNorm`] |
//! | [`layer_norm_backward_kernel`] | dy, x: `T[rows, n]`, mean, rstd: `T[rows]`, \[γ: `T[n]`\] | dx: `T[rows, n]`, \[dγ, dβ: `T[blocks, n]`\] | [`LayerNorm`] |
//!
//! Operands in brackets exist if [`LayerNorm::affine`]. The partial dγ and dβ are scratch with one row for each block
//! of rows. Two [`reduce::sum`](crate::reduce::sum) with params [`LayerNorm::combine`] turn them into dγ and dβ.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::pairwise;
use crate::params::params;
use crate::reduce::Reduce;
use crate::simd;

/// Approximate number of elements in a unit of the forward kernel.
const UNIT: usize = 4096;

params! {
    /// Params of the layer norm kernels.
    pub struct LayerNorm {
        /// Number of rows.
        pub rows: usize,
        /// Elements of a row.
        pub n: usize,
        /// Added to the variance.
        pub eps: f64,
        /// Whether γ and β exist.
        pub affine: bool,
    }
}

impl LayerNorm {
    /// Rows in a unit of [`layer_norm_kernel`]: elements of mean and of rstd.
    pub fn rows_per_unit(&self) -> usize {
        (UNIT / self.n.max(1)).max(1)
    }

    /// Elements of y in a unit of [`layer_norm_kernel`].
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.n
    }

    /// Number of units of [`layer_norm_kernel`].
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.rows_per_unit())
    }

    /// Rows in a unit of [`layer_norm_backward_kernel`]: about 32 units, clamped so that partial sums neither cost much
    /// memory nor lose digits.
    pub fn rows_per_block(&self) -> usize {
        self.rows.div_ceil(32).clamp(8, 256)
    }

    /// Number of units of [`layer_norm_backward_kernel`]: rows of the partial dγ and dβ, `n` elements in a unit.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(self.rows_per_block())
    }

    /// Elements of dx in a unit of [`layer_norm_backward_kernel`].
    pub fn per_block(&self) -> usize {
        self.rows_per_block() * self.n
    }

    /// The reduction of the partial dγ to dγ, and of the partial dβ to dβ.
    pub fn combine(&self) -> Reduce {
        Reduce::new(1, self.blocks(), self.n)
    }
}

simd! {
    fn layer_norm_row[T: Float](x: &[T], mean: T, rstd: T, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = (*x - mean) * rstd;
        }
    }
}

simd! {
    pub(super) fn layer_norm_affine_row[T: Float](x: &[T], mean: T, rstd: T, affine: (&[T], &[T]), y: &mut [T]) {
        for (((y, x), g), b) in y.iter_mut().zip(x).zip(affine.0).zip(affine.1) {
            *y = (*x - mean) * rstd * *g + *b;
        }
    }
}

/// Mean and rstd = 1/√(variance + ε) of a row, with the biased variance.
pub fn layer_norm_moments<T: Float>(x: &[T], eps: T) -> (T, T) {
    let n = T::from_f64(x.len() as f64);
    let mean = pairwise::pairwise_row(pairwise::Sum, x) / n;
    let variance = pairwise::pairwise_row(pairwise::SquaresFrom(mean), x) / n;
    (mean, T::ONE / (variance + eps).sqrt())
}

/// y = γ·(x − mean)/√(variance + ε) + β, with the biased variance of each row.
///
/// Reads x: `T[rows, n]`, \[γ, β: `T[n]`\]; writes y: `T[rows, n]`, [`LayerNorm::per_unit`], and mean, rstd:
/// `T[rows]`, [`LayerNorm::rows_per_unit`]; params [`LayerNorm`].
pub fn layer_norm_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LayerNorm::from_words(args.params());
    let lo = args.units().start * p.rows_per_unit();
    let x = args.read::<T>(0);
    let affine = p.affine.then(|| (args.read::<T>(1), args.read::<T>(2)));
    let (y, means, rstds) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let x = &x[lo * p.n..][..means.len() * p.n];
    for (i, (mean, rstd)) in means.iter_mut().zip(rstds).enumerate() {
        let (x, y) = (&x[i * p.n..][..p.n], &mut y[i * p.n..][..p.n]);
        (*mean, *rstd) = layer_norm_moments(x, T::from_f64(p.eps));
        match affine {
            None => layer_norm_row(x, *mean, *rstd, y),
            Some(affine) => layer_norm_affine_row(x, *mean, *rstd, affine, y),
        }
    }
}

by_dtype!(layer_norm_kernel_for = layer_norm_kernel::<floats>);

simd! {
    /// `dx = dy·γ`; adds this row's terms to dγ and dβ.
    pub(super) fn layer_norm_affine_grad[T: Float](
        dy: &[T], x: &[T], moments: (T, T), gamma: &[T], dx: &mut [T], sums: (&mut [T], &mut [T])
    ) {
        let (mean, rstd) = moments;
        let parameters = gamma.iter().zip(sums.0).zip(sums.1);
        for (((dx, dy), x), ((g, dg), db)) in dx.iter_mut().zip(dy).zip(x).zip(parameters) {
            *dg += *dy * ((*x - mean) * rstd);
            *db += *dy;
            *dx = *dy * *g;
        }
    }
}

simd! {
    /// `dx = rstd·(dx − a − x̂·b)`.
    pub(super) fn project_layer_norm_grad[T: Float](x: &[T], moments: (T, T), means: (T, T), dx: &mut [T]) {
        let ((mean, rstd), (a, b)) = (moments, means);
        for (dx, x) in dx.iter_mut().zip(x) {
            *dx = rstd * (*dx - a - (*x - mean) * rstd * b);
        }
    }
}

/// Replaces dy·γ in `dx` by the gradient of one row.
pub(super) fn finish_layer_norm_grad<T: Float>(x: &[T], (mean, rstd): (T, T), dx: &mut [T]) {
    let n = T::from_f64(x.len() as f64);
    let sum = pairwise::pairwise_row(pairwise::Sum, dx);
    let dot = pairwise::pairwise_dot_from(dx, x, mean) * rstd;
    project_layer_norm_grad(x, (mean, rstd), (sum / n, dot / n), dx);
}

/// The adjoint of [`layer_norm_kernel`] in one sweep: dx = rstd·(dyγ − mean(dyγ) − x̂·mean(dyγ·x̂)), and for each block
/// of rows Σ dy·x̂ and Σ dy.
///
/// Reads dy, x: `T[rows, n]`, mean, rstd: `T[rows]`, \[γ: `T[n]`\]; writes dx: `T[rows, n]`, [`LayerNorm::per_block`],
/// \[partial dγ, dβ: `T[blocks, n]`, `n` in a unit\], in [`LayerNorm::blocks`] units; params [`LayerNorm`].
pub fn layer_norm_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LayerNorm::from_words(args.params());
    if p.n == 0 {
        return;
    }
    let (dy, x) = (args.read::<T>(0), args.read::<T>(1));
    let (mean, rstd) = (args.read::<T>(2), args.read::<T>(3));
    let first = args.units().start * p.rows_per_block();
    let dx = args.write::<T>(0);
    let row = |r: usize| (&dy[r * p.n..][..p.n], &x[r * p.n..][..p.n], (mean[r], rstd[r]));
    if !p.affine {
        for (r, dx) in (first..).zip(dx.chunks_exact_mut(p.n)) {
            let (dy, x, moments) = row(r);
            dx.copy_from_slice(dy);
            finish_layer_norm_grad(x, moments, dx);
        }
        return;
    }
    let gamma = args.read::<T>(4);
    let (dgamma, dbeta) = (args.write::<T>(1), args.write::<T>(2));
    let sums = dgamma.chunks_exact_mut(p.n).zip(dbeta.chunks_exact_mut(p.n));
    let blocks = (first..).step_by(p.rows_per_block()).zip(dx.chunks_mut(p.per_block()));
    for ((first, dx), (dgamma, dbeta)) in blocks.zip(sums) {
        dgamma.fill(T::ZERO);
        dbeta.fill(T::ZERO);
        for (r, dx) in (first..).zip(dx.chunks_exact_mut(p.n)) {
            let (dy, x, moments) = row(r);
            layer_norm_affine_grad(dy, x, moments, gamma, dx, (dgamma, dbeta));
            finish_layer_norm_grad(x, moments, dx);
        }
    }
}

by_dtype!(layer_norm_backward_kernel_for = layer_norm_backward_kernel::<floats>);

#[cfg(test)]
mod tests;
