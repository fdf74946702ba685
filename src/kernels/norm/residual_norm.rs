//! Residual sums and their norm in one sweep: s = x + res, or (x + bias) + res, then the layer norm or RMS norm of s.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`residual_layer_norm_kernel`] | x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]` | \[sum: `T[rows, n]`\], y: `T[rows, n]`, mean, rstd: `T[rows]` | [`ResidualNorm`] |
//! | [`residual_rms_norm_kernel`] | the same | \[sum\], y: `T[rows, n]`, rstd: `T[rows]` | [`ResidualNorm`] |
//!
//! Operands in brackets exist if [`ResidualNorm::bias`] and [`ResidualNorm::keep`] say so. The first write (the sum if
//! it is kept, else y) may be in place of x or of res: a row is written after that row of both was read.
//!
//! Invariant: the bits are those of the additions followed by
//! [`layer_norm_kernel`](super::layer_norm::layer_norm_kernel) or
//! [`rms_norm_kernel`](super::rms_norm::rms_norm_kernel). A sum that is not written is rounded, too.

use super::layer_norm::{LayerNorm, layer_norm_affine_row};
use super::moments::Moments;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::norm::rms_norm::rms_of_row;
use crate::params::params;
use crate::simd;

params! {
    /// Params of the kernels of this file.
    pub struct ResidualNorm {
        /// Number of rows.
        pub rows: usize,
        /// Elements of a row.
        pub n: usize,
        /// Added to the variance, or to the mean square.
        pub eps: f64,
        /// Whether the operand `bias` exists.
        pub bias: bool,
        /// Whether the sum is an output.
        pub keep: bool,
    }
}

impl ResidualNorm {
    /// The norm of the sum, which has the same units.
    pub fn norm(&self) -> LayerNorm {
        LayerNorm { rows: self.rows, n: self.n, eps: self.eps, affine: true }
    }
}

simd! {
    fn residual_norm_sum[T: Float](x: &[T], res: &[T], out: &mut [T]) {
        for ((o, x), r) in out.iter_mut().zip(x).zip(res) {
            *o = *x + *r;
        }
    }
}

simd! {
    fn residual_norm_sum_onto[T: Float](other: &[T], out: &mut [T]) {
        for (o, x) in out.iter_mut().zip(other) {
            *o += *x;
        }
    }
}

simd! {
    fn residual_norm_biased_sum[T: Float](x: &[T], bias: &[T], res: &[T], out: &mut [T]) {
        for (((o, x), b), r) in out.iter_mut().zip(x).zip(bias).zip(res) {
            *o = (*x + *b) + *r;
        }
    }
}

simd! {
    fn residual_norm_biased_sum_onto[T: Float](x: &[T], bias: &[T], out: &mut [T]) {
        for ((o, x), b) in out.iter_mut().zip(x).zip(bias) {
            *o += *x + *b;
        }
    }
}

simd! {
    fn residual_norm_affine_in_place[T: Float](m: Moments<T>, affine: (&[T], &[T]), y: &mut [T]) {
        for ((y, g), b) in y.iter_mut().zip(affine.0).zip(affine.1) {
            *y = m.centred(*y) * m.rstd * *g + *b;
        }
    }
}

/// The read operands of a call. `x` or `res` is `None` if the first write is in place of it.
struct ResidualOperands<'a, T> {
    x: Option<&'a [T]>,
    res: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    affine: (&'a [T], &'a [T]),
}

impl<'a, T: Float> ResidualOperands<'a, T> {
    fn of(p: &ResidualNorm, args: &Args<'a>) -> ResidualOperands<'a, T> {
        let addend = |i: usize| args.inplace(i).is_none().then(|| args.read::<T>(i));
        let rest = 2 + usize::from(p.bias);
        let bias = p.bias.then(|| args.read::<T>(2));
        ResidualOperands {
            x: addend(0),
            res: addend(1),
            bias,
            affine: (args.read::<T>(rest), args.read::<T>(rest + 1)),
        }
    }

    /// (x + bias) + res of the row at element `at`.
    fn sum(&self, at: usize, out: &mut [T]) {
        let n = out.len();
        let row = |v: Option<&'a [T]>| v.map(|v| &v[at..at + n]);
        match (row(self.x), row(self.res), self.bias) {
            (Some(x), Some(res), None) => residual_norm_sum(x, res, out),
            (Some(other), None, None) | (None, Some(other), None) => residual_norm_sum_onto(other, out),
            (Some(x), Some(res), Some(bias)) => residual_norm_biased_sum(x, bias, res, out),
            (Some(x), None, Some(bias)) => residual_norm_biased_sum_onto(x, bias, out),
            (None, Some(res), Some(bias)) => {
                residual_norm_sum_onto(bias, out);
                residual_norm_sum_onto(res, out);
            }
            // x and res are the same operand.
            (None, None, bias) => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o += bias.map_or(*o, |b| *o + b[i]);
                }
            }
        }
    }
}

/// For each row: the sum, its moments by `moments(row, index of the row in this call)`, and the norm.
fn sweep_rows<T: Float>(p: &ResidualNorm, args: &mut Args<'_>, mut moments: impl FnMut(&[T], usize) -> Moments<T>) {
    let ops = ResidualOperands::<T>::of(p, args);
    let lo = args.units().start * p.norm().rows_per_unit();
    let mut kept = p.keep.then(|| args.write::<T>(0));
    let y = args.write::<T>(usize::from(p.keep));
    for (i, y) in y.chunks_exact_mut(p.n.max(1)).enumerate() {
        let at = (lo + i) * p.n;
        match kept.as_mut().map(|s| &mut s[i * p.n..][..p.n]) {
            Some(sum) => {
                ops.sum(at, sum);
                layer_norm_affine_row(sum, moments(sum, i), ops.affine, y);
            }
            None => {
                ops.sum(at, y);
                residual_norm_affine_in_place(moments(y, i), ops.affine, y);
            }
        }
    }
}

/// y = γ·(s − mean)/√(variance + ε) + β with s = (x + bias) + res.
///
/// Reads x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]`; writes \[s: `T[rows, n]`\], y: `T[rows, n]`,
/// [`LayerNorm::per_unit`], and mean, rstd: `T[rows]`, [`LayerNorm::rows_per_unit`]; params [`ResidualNorm`].
pub fn residual_layer_norm_kernel<T: Float>(args: &mut Args<'_>) {
    let p = ResidualNorm::from_words(args.params());
    let first = 1 + usize::from(p.keep);
    let (means, rstds) = (args.write::<T>(first), args.write::<T>(first + 1));
    sweep_rows::<T>(&p, args, |row, i| {
        let m = Moments::of_row(row, T::from_f64(p.eps));
        (means[i], rstds[i]) = (m.mean, m.rstd);
        m
    });
}

by_dtype!(residual_layer_norm_kernel_for = residual_layer_norm_kernel::<floats>);

/// y = γ·s·r + β with s = (x + bias) + res and r = 1/√(mean(s²) + ε).
///
/// Reads x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]`; writes \[s: `T[rows, n]`\], y: `T[rows, n]`,
/// [`LayerNorm::per_unit`], and rstd: `T[rows]`, [`LayerNorm::rows_per_unit`]; params [`ResidualNorm`].
pub fn residual_rms_norm_kernel<T: Float>(args: &mut Args<'_>) {
    let p = ResidualNorm::from_words(args.params());
    let rstds = args.write::<T>(1 + usize::from(p.keep));
    sweep_rows::<T>(&p, args, |row, i| {
        rstds[i] = rms_of_row(row, T::from_f64(p.eps));
        Moments::around_zero(rstds[i])
    });
}

by_dtype!(residual_rms_norm_kernel_for = residual_rms_norm_kernel::<floats>);
