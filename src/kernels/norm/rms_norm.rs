//! Root-mean-square normalisation over the last axis of `[rows, n]`, and its adjoint: layer normalisation with mean 0.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`rms_norm_kernel`] | x: `T[rows, n]`, γ, β: `T[n]` | y: `T[rows, n]`, rstd: `T[rows]` | [`LayerNorm`] |
//! | [`rms_norm_backward_kernel`] | dy, x: `T[rows, n]`, rstd: `T[rows]`, γ: `T[n]` | dx: `T[rows, n]`, dγ, dβ: `T[blocks, n]` | [`LayerNorm`] |
//!
//! Invariant: units and partial sums are those of [`layer_norm_kernel`](super::layer_norm::layer_norm_kernel) with γ
//! and β.

use super::layer_norm::{LayerNorm, layer_norm_affine_grad, layer_norm_affine_row, project_layer_norm_grad};
use super::moments::Moments;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::reduce::pairwise;

/// r = 1/√(mean(x²) + ε) of a row.
pub fn rms_of_row<T: Float>(x: &[T], eps: T) -> T {
    let square = pairwise::reduce_row(pairwise::SquaresFrom(T::ZERO), x) / T::from_f64(x.len() as f64);
    T::ONE / (square + eps).sqrt()
}

/// y = γ·x·r + β with r = 1/√(mean(x²) + ε) of each row.
///
/// Reads x: `T[rows, n]`, γ, β: `T[n]`; writes y: `T[rows, n]`, [`LayerNorm::per_unit`], and rstd: `T[rows]`,
/// [`LayerNorm::rows_per_unit`]; params [`LayerNorm`].
pub fn rms_norm_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LayerNorm::from_words(args.params());
    let lo = args.units().start * p.rows_per_unit();
    let (x, affine) = (args.read::<T>(0), (args.read::<T>(1), args.read::<T>(2)));
    let (y, rstds) = (args.write::<T>(0), args.write::<T>(1));
    let x = &x[lo * p.n..][..rstds.len() * p.n];
    for (i, rstd) in rstds.iter_mut().enumerate() {
        let (x, y) = (&x[i * p.n..][..p.n], &mut y[i * p.n..][..p.n]);
        *rstd = rms_of_row(x, T::from_f64(p.eps));
        layer_norm_affine_row(x, Moments::around_zero(*rstd), affine, y);
    }
}

by_dtype!(rms_norm_kernel_for = rms_norm_kernel::<floats>);

/// The adjoint of [`rms_norm_kernel`] in one sweep: dx = r(γdy − x·r²·mean(x⊙γdy)), and for each block of rows Σ dy·x·r
/// and Σ dy.
///
/// Reads dy, x: `T[rows, n]`, rstd: `T[rows]`, γ: `T[n]`; writes dx: `T[rows, n]`, [`LayerNorm::per_block`], partial
/// dγ, dβ: `T[blocks, n]`, `n` in a unit, in [`LayerNorm::blocks`] units; params [`LayerNorm`].
pub fn rms_norm_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LayerNorm::from_words(args.params());
    if p.n == 0 {
        return;
    }
    let (dy, x) = (args.read::<T>(0), args.read::<T>(1));
    let (rstd, gamma) = (args.read::<T>(2), args.read::<T>(3));
    let first = args.units().start * p.rows_per_block();
    let (dx, dgamma, dbeta) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    let sums = dgamma.chunks_exact_mut(p.n).zip(dbeta.chunks_exact_mut(p.n));
    let blocks = (first..).step_by(p.rows_per_block()).zip(dx.chunks_mut(p.per_block()));
    let n = T::from_f64(p.n as f64);
    for ((first, dx), (dgamma, dbeta)) in blocks.zip(sums) {
        dgamma.fill(T::ZERO);
        dbeta.fill(T::ZERO);
        for (r, dx) in (first..).zip(dx.chunks_exact_mut(p.n)) {
            let (dy, x, moments) = (&dy[r * p.n..][..p.n], &x[r * p.n..][..p.n], Moments::around_zero(rstd[r]));
            layer_norm_affine_grad(dy, x, moments, gamma, dx, (dgamma, dbeta));
            let dot = pairwise::dot_shifted(dx, x, T::ZERO) * rstd[r];
            project_layer_norm_grad(x, moments, (T::ZERO, dot / n), dx);
        }
    }
}

by_dtype!(rms_norm_backward_kernel_for = rms_norm_backward_kernel::<floats>);
