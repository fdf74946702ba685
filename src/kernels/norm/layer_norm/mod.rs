//! Layer normalisation over the last axis of `[rows, n]`, with or without γ and β, and its adjoint.
//!
//! Invariant: the variance is computed from the deviations from the mean (two sweeps), and all that reads x − mean has
//! the rounding of the mean taken off ([`Moments`]).
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`layer_norm_kernel`] | x: `T[rows, n]`, \[γ, β: `T[n]`\] | y: `T[rows, n]`, mean, rstd: `T[rows]` | [`LayerNorm`] |
//! | [`layer_norm_backward_kernel`] | dy, x: `T[rows, n]`, mean, rstd: `T[rows]`, \[γ: `T[n]`\] | dx: `T[rows, n]`, \[dγ, dβ: `T[blocks, n]`\] | [`LayerNorm`] |
//!
//! Operands in brackets exist if [`LayerNorm::affine`]. The partial dγ and dβ are scratch with one row for each block
//! of rows. Two [`reduce::sum`](crate::reduce::sum) with params [`LayerNorm::combine`] turn them into dγ and dβ.

use super::channel_grad::{LANES, sum_channel_terms};
use super::moments::Moments;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::Reduce;
use crate::reduce::pairwise::{self, BLOCK, Sum};
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
    fn layer_norm_row[T: Float](x: &[T], m: Moments<T>, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = m.centred(*x) * m.rstd;
        }
    }
}

simd! {
    pub(super) fn layer_norm_affine_row[T: Float](x: &[T], m: Moments<T>, affine: (&[T], &[T]), y: &mut [T]) {
        for (((y, x), g), b) in y.iter_mut().zip(x).zip(affine.0).zip(affine.1) {
            *y = m.centred(*x) * m.rstd * *g + *b;
        }
    }
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
        let m = Moments::of_row(x, T::from_f64(p.eps));
        (*mean, *rstd) = (m.mean, m.rstd);
        match affine {
            None => layer_norm_row(x, m, y),
            Some(affine) => layer_norm_affine_row(x, m, affine, y),
        }
    }
}

by_dtype!(layer_norm_kernel_for = layer_norm_kernel::<floats>);

simd! {
    /// `dx = dy·γ`; adds this row's terms to dγ and dβ.
    pub(super) fn layer_norm_affine_grad[T: Float](
        dy: &[T], x: &[T], m: Moments<T>, gamma: &[T], dx: &mut [T], sums: (&mut [T], &mut [T])
    ) {
        let parameters = gamma.iter().zip(sums.0).zip(sums.1);
        for (((dx, dy), x), ((g, dg), db)) in dx.iter_mut().zip(dy).zip(x).zip(parameters) {
            *dg += *dy * (m.centred(*x) * m.rstd);
            *db += *dy;
            *dx = *dy * *g;
        }
    }
}

simd! {
    /// `dx = rstd·(dx − a − x̂·b)`.
    pub(super) fn project_layer_norm_grad[T: Float](x: &[T], m: Moments<T>, means: (T, T), dx: &mut [T]) {
        let (a, b) = means;
        for (dx, x) in dx.iter_mut().zip(x) {
            *dx = m.rstd * (*dx - a - m.centred(*x) * m.rstd * b);
        }
    }
}

simd! {
    /// Σ γ·dy, Σ γ·dy·(x − mean) and Σ (x − mean), each with the lanes of [`sum_channel_terms`].
    fn layer_norm_grad_sums_block[T: Float](dy: &[T], x: &[T], gamma: &[T], mean: T) -> [T; 3] {
        let [mut sums, mut dots, mut rests] = [[T::ZERO; LANES]; 3];
        let ((dys, dy_rest), (xs, x_rest)) = (dy.as_chunks::<LANES>(), x.as_chunks::<LANES>());
        let (gammas, gamma_rest) = gamma.as_chunks::<LANES>();
        for ((dy, x), gamma) in dys.iter().zip(xs).zip(gammas) {
            let lanes = sums.iter_mut().zip(&mut dots).zip(&mut rests);
            for (((sum, dot), rest), ((dy, x), gamma)) in lanes.zip(dy.iter().zip(x).zip(gamma)) {
                let (g, d) = (*dy * *gamma, *x - mean);
                *sum += g;
                *dot += g * d;
                *rest += d;
            }
        }
        let lanes = sums.iter_mut().zip(&mut dots).zip(&mut rests);
        for (((sum, dot), rest), ((dy, x), gamma)) in lanes.zip(dy_rest.iter().zip(x_rest).zip(gamma_rest)) {
            let (g, d) = (*dy * *gamma, *x - mean);
            *sum += g;
            *dot += g * d;
            *rest += d;
        }
        [sums, dots, rests].map(|lanes| pairwise::join_lanes(Sum, pairwise::keep_lanes_apart(lanes)))
    }
}

/// The sums of [`layer_norm_grad_sums_block`] over a row of any length.
fn sum_row_terms<T: Float>(dy: &[T], x: &[T], gamma: &[T], mean: T) -> [T; 3] {
    if x.len() <= BLOCK {
        return layer_norm_grad_sums_block(dy, x, gamma, mean);
    }
    let at = pairwise::split_point(x.len(), BLOCK);
    let left = sum_row_terms(&dy[..at], &x[..at], &gamma[..at], mean);
    let right = sum_row_terms(&dy[at..], &x[at..], &gamma[at..], mean);
    std::array::from_fn(|i| left[i] + right[i])
}

simd! {
    /// Writes `dx = rstd·(γ·dy − a − x̂·b)`; adds this row's terms to dγ and dβ.
    fn write_layer_norm_grad[T: Float](
        dy: &[T], x: &[T], m: Moments<T>, gamma: &[T], means: (T, T), dx: &mut [T], sums: (&mut [T], &mut [T])
    ) {
        let (a, b) = means;
        let parameters = gamma.iter().zip(sums.0).zip(sums.1);
        for (((dx, dy), x), ((g, dg), db)) in dx.iter_mut().zip(dy).zip(x).zip(parameters) {
            let hat = m.centred(*x) * m.rstd;
            *dg += *dy * hat;
            *db += *dy;
            *dx = m.rstd * (*dy * *g - a - hat * b);
        }
    }
}

/// The gradient of one row by x; adds its terms to dγ and dβ.
pub(super) fn add_row_grad<T: Float>(
    dy: &[T],
    x: &[T],
    (mean, rstd): (T, T),
    gamma: &[T],
    dx: &mut [T],
    sums: (&mut [T], &mut [T]),
) {
    let n = T::from_f64(x.len() as f64);
    let [sum, dot, rest] = sum_row_terms(dy, x, gamma, mean);
    let m = Moments { mean, rest: rest / n, rstd };
    write_layer_norm_grad(dy, x, m, gamma, (sum / n, (dot - m.rest * sum) * rstd / n), dx, sums);
}

/// Replaces dy in `dx` by the gradient of one row without γ.
fn finish_row_grad<T: Float>(x: &[T], (mean, rstd): (T, T), dx: &mut [T]) {
    let m = Moments::known(mean, rstd, x);
    let n = T::from_f64(x.len() as f64);
    let sums = sum_channel_terms(dx, x, m);
    project_layer_norm_grad(x, m, (sums.dy / n, sums.dot * m.rstd / n), dx);
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
            finish_row_grad(x, moments, dx);
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
            add_row_grad(dy, x, moments, gamma, dx, (dgamma, dbeta));
        }
    }
}

by_dtype!(layer_norm_backward_kernel_for = layer_norm_backward_kernel::<floats>);

#[cfg(test)]
mod tests;
