//! Normalisation of a sum: x + res, or (x + bias) + res, and its layer or root-mean-square norm in one sweep.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`residual_layer_norm`] | x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]` | \[sum: `T[rows, n]`\], y: `T[rows, n]`, mean, rstd: `T[rows]` | [`Residual`] |
//! | [`residual_rms_norm`] | the same | \[sum\], y: `T[rows, n]`, rstd: `T[rows]` | [`Residual`] |
//!
//! Operands in brackets are there if [`Residual::bias`] and [`Residual::keep`] say so. The first write (the sum if it
//! is kept, else y) may take the place of x or of res: a row of it is written after that row of both was read.
//!
//! Invariant: bit for bit the additions followed by [`layer_norm`](super::layer_norm) or
//! [`rms_norm`](super::rms::rms_norm): a sum without a reader is rounded all the same. For the lowering of the ops of
//! these names.

use super::{LayerNorm, normalise_affine, row_moments};
use crate::kernels::abi::Args;
use crate::kernels::norm::rms::row_rms;
use crate::kernels::num::Real;
use crate::kernels::params::params;
use crate::simd;

params! {
    /// Params of the kernels of sums.
    pub struct Residual {
        /// Number of rows.
        pub rows: usize,
        /// Elements in each.
        pub n: usize,
        /// Added to the variance, or to the mean square.
        pub eps: f64,
        /// Whether there is a bias.
        pub bias: bool,
        /// Whether the sum is written.
        pub keep: bool,
    }
}

impl Residual {
    /// The norm of the sum: its units are those of these kernels.
    pub fn norm(&self) -> LayerNorm {
        LayerNorm { rows: self.rows, n: self.n, eps: self.eps, affine: true }
    }
}

simd! {
    fn add[T: Real](x: &[T], res: &[T], out: &mut [T]) {
        for ((o, x), r) in out.iter_mut().zip(x).zip(res) {
            *o = *x + *r;
        }
    }
}

simd! {
    fn add_to[T: Real](other: &[T], out: &mut [T]) {
        for (o, x) in out.iter_mut().zip(other) {
            *o += *x;
        }
    }
}

simd! {
    fn add_biased[T: Real](x: &[T], bias: &[T], res: &[T], out: &mut [T]) {
        for (((o, x), b), r) in out.iter_mut().zip(x).zip(bias).zip(res) {
            *o = (*x + *b) + *r;
        }
    }
}

simd! {
    fn add_biased_to[T: Real](x: &[T], bias: &[T], out: &mut [T]) {
        for ((o, x), b) in out.iter_mut().zip(x).zip(bias) {
            *o += *x + *b;
        }
    }
}

simd! {
    fn affine_in_place[T: Real](mean: T, rstd: T, affine: (&[T], &[T]), y: &mut [T]) {
        for ((y, g), b) in y.iter_mut().zip(affine.0).zip(affine.1) {
            *y = (*y - mean) * rstd * *g + *b;
        }
    }
}

/// The operands of a call. An addend whose place the sum takes is `None`.
struct Operands<'a, T> {
    x: Option<&'a [T]>,
    res: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    affine: (&'a [T], &'a [T]),
}

impl<'a, T: Real> Operands<'a, T> {
    fn of(p: &Residual, args: &Args<'a>) -> Operands<'a, T> {
        let addend = |i: usize| args.inplace(i).is_none().then(|| args.read::<T>(i));
        let rest = 2 + usize::from(p.bias);
        let bias = p.bias.then(|| args.read::<T>(2));
        Operands { x: addend(0), res: addend(1), bias, affine: (args.read::<T>(rest), args.read::<T>(rest + 1)) }
    }

    /// (x + bias) + res of the row that begins at element `at`.
    fn sum(&self, at: usize, out: &mut [T]) {
        let n = out.len();
        let row = |v: Option<&'a [T]>| v.map(|v| &v[at..at + n]);
        match (row(self.x), row(self.res), self.bias) {
            (Some(x), Some(res), None) => add(x, res, out),
            (Some(other), None, None) | (None, Some(other), None) => add_to(other, out),
            (Some(x), Some(res), Some(bias)) => add_biased(x, bias, res, out),
            (Some(x), None, Some(bias)) => add_biased_to(x, bias, out),
            (None, Some(res), Some(bias)) => {
                add_to(bias, out);
                add_to(res, out);
            }
            // One operand is both addends.
            (None, None, bias) => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o += bias.map_or(*o, |b| *o + b[i]);
                }
            }
        }
    }
}

/// One sweep: each row's sum, its mean and 1/deviation by `moments` (which is told the row's place), and its norm.
fn sweep<T: Real>(p: &Residual, args: &mut Args<'_>, mut moments: impl FnMut(&[T], usize) -> (T, T)) {
    let ops = Operands::<T>::of(p, args);
    let lo = args.units().start * p.norm().rows_per_unit();
    let mut kept = p.keep.then(|| args.write::<T>(0));
    let y = args.write::<T>(usize::from(p.keep));
    for (i, y) in y.chunks_exact_mut(p.n.max(1)).enumerate() {
        let at = (lo + i) * p.n;
        match kept.as_mut().map(|s| &mut s[i * p.n..][..p.n]) {
            Some(sum) => {
                ops.sum(at, sum);
                let (mean, rstd) = moments(sum, i);
                normalise_affine(sum, mean, rstd, ops.affine, y);
            }
            None => {
                ops.sum(at, y);
                let (mean, rstd) = moments(y, i);
                affine_in_place(mean, rstd, ops.affine, y);
            }
        }
    }
}

/// y = γ·(s − mean)/√(variance + ε) + β with s = (x + bias) + res.
///
/// Reads x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]`; writes \[s: `T[rows, n]`\], y: `T[rows, n]`,
/// [`LayerNorm::per_unit`], and mean, rstd: `T[rows]`, [`LayerNorm::rows_per_unit`]; params [`Residual`].
pub fn residual_layer_norm<T: Real>(args: &mut Args<'_>) {
    let p = Residual::from_words(args.params());
    let first = 1 + usize::from(p.keep);
    let (means, rstds) = (args.write::<T>(first), args.write::<T>(first + 1));
    sweep::<T>(&p, args, |row, i| {
        (means[i], rstds[i]) = row_moments(row, T::from_f64(p.eps));
        (means[i], rstds[i])
    });
}

/// y = γ·s·r + β with s = (x + bias) + res and r = 1/√(mean(s²) + ε).
///
/// Reads x, res: `T[rows, n]`, \[bias: `T[n]`\], γ, β: `T[n]`; writes \[s: `T[rows, n]`\], y: `T[rows, n]`,
/// [`LayerNorm::per_unit`], and rstd: `T[rows]`, [`LayerNorm::rows_per_unit`]; params [`Residual`].
pub fn residual_rms_norm<T: Real>(args: &mut Args<'_>) {
    let p = Residual::from_words(args.params());
    let rstds = args.write::<T>(1 + usize::from(p.keep));
    sweep::<T>(&p, args, |row, i| {
        rstds[i] = row_rms(row, T::from_f64(p.eps));
        (T::ZERO, rstds[i])
    });
}
