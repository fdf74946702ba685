//! Fourier transforms as methods of [`Var`], with NumPy's names, norms and defaults. `axis` may be negative. `n`
//! elements of the axis are transformed: a longer axis is cut, and a shorter one is padded with zeros. The longest
//! transform has 2²⁴ elements.
//!
//! And methods built on them: frequencies, convolutions, power spectra, and complex numbers as a real tensor whose last
//! axis holds all real parts, then all imaginary parts.

use super::attrs::{FftAttrs, IrfftAttrs, RfftAttrs};
use super::norm::FftNorm;
use crate::error::Kind;
use crate::nodes::arguments::axes::Axes;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;

/// The last two axes.
const LAST_TWO: [i64; 2] = [-2, -1];

impl<'g> Var<'g> {
    /// `FFT` with this factor along the last axis.
    #[track_caller]
    pub(in crate::nodes) fn scaled_fft(self, inverse: bool, scale: f64) -> Var<'g> {
        self.g.emit1(Op::FFT, &[self], &FftAttrs { inverse, scale }.list())
    }

    /// The Fourier transform yₖ = Σₙ zₙ·e^(−2πikn/N) along `axis`, as `numpy.fft.fft`. Real numbers are cast to complex
    /// ones; [`Var::rfft`] is faster for them.
    ///
    /// ```
    /// use arenagrad::graph::signal::FftNorm;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("spectrum");
    /// let x = g.input("x", [4], DType::F32);
    /// let z = x.fft(None, -1, FftNorm::Backward);
    /// let graph = g.finish([z.named("z"), z.ifft(None, -1, FftNorm::Backward).real().named("back")])?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<[f32; 2]>("z")?, [[10.0, 0.0], [-2.0, 2.0], [-2.0, 0.0], [-2.0, -2.0]]);
    /// assert_eq!(p.values::<f32>("back")?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn fft(self, n: Option<usize>, axis: i64, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.complex_fft("fft", n, axis, norm, false))
    }

    /// The inverse of [`Var::fft`], as `numpy.fft.ifft`: the sign of the exponent is +.
    #[track_caller]
    pub fn ifft(self, n: Option<usize>, axis: i64, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.complex_fft("ifft", n, axis, norm, true))
    }

    /// The elements 0 … N/2 of [`Var::fft`] of real numbers, as `numpy.fft.rfft`. The others are their conjugates.
    #[track_caller]
    pub fn rfft(self, n: Option<usize>, axis: i64, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| {
            self.transformed("rfft", n, axis, |x, n| {
                x.g.emit1(Op::RFFT, &[x], &RfftAttrs { scale: norm.factor(false, n) }.list())
            })
        })
    }

    /// The inverse of [`Var::rfft`], `n` real numbers, as `numpy.fft.irfft`. Without `n` it is 2(m − 1), which is even,
    /// for m elements. The imaginary part of the first element, and for an even n of the last, is ignored.
    #[track_caller]
    pub fn irfft(self, n: Option<usize>, axis: i64, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| {
            let Some(at) = self.axis_at("irfft", axis) else { return self.none() };
            let n = n.unwrap_or(2 * self.dims()[at].saturating_sub(1));
            if n == 0 {
                return self.refuse("irfft", "n is 0; it must be 1 or more");
            }
            self.transformed("irfft", Some(n / 2 + 1), axis, |z, _| {
                let attrs = IrfftAttrs { n: size_attr_to_i64(n), scale: norm.factor(true, n) };
                z.g.emit1(Op::IRFFT, &[z], &attrs.list())
            })
        })
    }

    /// [`Var::fft`] along the last two axes.
    #[track_caller]
    pub fn fft2(self, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.fftn(LAST_TWO, norm))
    }

    /// [`Var::ifft`] along the last two axes.
    #[track_caller]
    pub fn ifft2(self, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.ifftn(LAST_TWO, norm))
    }

    /// [`Var::rfftn`] along the last two axes.
    #[track_caller]
    pub fn rfft2(self, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.rfftn(LAST_TWO, norm))
    }

    /// [`Var::irfftn`] along the last two axes. `n` is the length of the last one.
    #[track_caller]
    pub fn irfft2(self, n: Option<usize>, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.irfftn(n, LAST_TWO, norm))
    }

    /// [`Var::fft`] along each of `axes`, one after another.
    #[track_caller]
    pub fn fftn(self, axes: impl Axes, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.fft_axes("fftn", axes).iter().fold(self, |z, &a| z.fft(None, a, norm)))
    }

    /// [`Var::ifft`] along each of `axes`, one after another.
    #[track_caller]
    pub fn ifftn(self, axes: impl Axes, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| self.fft_axes("ifftn", axes).iter().fold(self, |z, &a| z.ifft(None, a, norm)))
    }

    /// [`Var::rfft`] along the last of `axes`, then [`Var::fft`] along the others.
    #[track_caller]
    pub fn rfftn(self, axes: impl Axes, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| {
            let axes = self.fft_axes("rfftn", axes);
            let Some((&last, rest)) = axes.split_last() else { return self.fft_without_axes("rfftn") };
            rest.iter().rev().fold(self.rfft(None, last, norm), |z, &a| z.fft(None, a, norm))
        })
    }

    /// The inverse of [`Var::rfftn`]. `n` is the length of the last of `axes`, as in [`Var::irfft`].
    #[track_caller]
    pub fn irfftn(self, n: Option<usize>, axes: impl Axes, norm: FftNorm) -> Var<'g> {
        self.g.with_caller(|| {
            let axes = self.fft_axes("irfftn", axes);
            let Some((&last, rest)) = axes.split_last() else { return self.fft_without_axes("irfftn") };
            rest.iter().fold(self, |z, &a| z.ifft(None, a, norm)).irfft(n, last, norm)
        })
    }

    /// The element of frequency 0 in the middle of each of `axes`, as `numpy.fft.fftshift`.
    #[track_caller]
    pub fn fftshift(self, axes: impl Axes) -> Var<'g> {
        self.g.with_caller(|| {
            self.fft_axes("fftshift", axes).iter().fold(self, |z, &a| z.roll(z.middle_of_fft_axis(a), a))
        })
    }

    /// The inverse of [`Var::fftshift`], which differs from it for odd lengths, as `numpy.fft.ifftshift`.
    #[track_caller]
    pub fn ifftshift(self, axes: impl Axes) -> Var<'g> {
        self.g.with_caller(|| {
            self.fft_axes("ifftshift", axes).iter().fold(self, |z, &a| z.roll(-z.middle_of_fft_axis(a), a))
        })
    }

    /// Half the length of `axis`, rounded down.
    fn middle_of_fft_axis(self, axis: i64) -> i64 {
        self.axis_len(axis).map_or(0, |n| size_attr_to_i64(n / 2))
    }

    /// `axes`, counted from the front. An error, and none, if one does not exist or is named twice.
    #[track_caller]
    fn fft_axes(self, what: &str, axes: impl Axes) -> Vec<i64> {
        self.axes_at(what, axes).map(|axes| size_attrs_to_i64(&axes)).unwrap_or_default()
    }

    /// An error of `what`, which was given no axis.
    #[track_caller]
    fn fft_without_axes(self, what: &str) -> Var<'g> {
        if self.is_some() { self.refuse(what, "there is no axis to transform along") } else { self }
    }

    #[track_caller]
    fn complex_fft(self, what: &str, n: Option<usize>, axis: i64, norm: FftNorm, inverse: bool) -> Var<'g> {
        let complex = if self.is_some() { self.dtype().complex() } else { None };
        let z = complex.map_or(self, |to| self.cast(to));
        z.transformed(what, n, axis, |z, n| z.scaled_fft(inverse, norm.factor(inverse, n)))
    }

    /// `f` of this and the length `n` of `axis`, which `f` sees as the last one. The axis is cut or padded to `n`.
    #[track_caller]
    fn transformed(
        self,
        what: &str,
        n: Option<usize>,
        axis: i64,
        f: impl FnOnce(Var<'g>, usize) -> Var<'g>,
    ) -> Var<'g> {
        let Some(at) = self.axis_at(what, axis) else { return self.none() };
        let (have, rank) = (self.dims()[at], self.rank());
        let n = n.unwrap_or(have);
        if n == 0 {
            return self.refuse(what, "a transform has 1 element or more");
        }
        let axis = size_attr_to_i64(at);
        let cut = if n < have { self.narrow(axis, 0, n) } else { self };
        let mut high = vec![0; rank];
        high[at] = n.saturating_sub(have);
        let sized = if n > have { cut.pad(&vec![0; rank], &high, 0.0) } else { cut };
        match at + 1 == rank {
            true => f(sized, n),
            false => f(sized.movedim(&[axis], &[-1]), n).movedim(&[-1], &[axis]),
        }
    }
}

/// Which part of a linear convolution is kept, as NumPy's and SciPy's `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvPart {
    /// All of it.
    Full,
    /// The middle, as long as the first operand.
    Same,
    /// The elements to which no border contributes.
    Valid,
}

impl Builder {
    /// The frequencies of [`Var::fft`] of `n` elements that are `d` apart, as `numpy.fft.fftfreq`: 0, 1 … ⌈n/2⌉ − 1,
    /// −⌊n/2⌋ … −1, over n·d.
    #[track_caller]
    pub fn fftfreq(&self, n: usize, d: f64, dtype: DType) -> Var<'_> {
        let all = (0..n).map(|k| if k < n.div_ceil(2) { k as f64 } else { k as f64 - n as f64 });
        self.frequencies("fftfreq", all, n, d, dtype)
    }

    /// The frequencies of [`Var::rfft`] of `n` elements that are `d` apart, as `numpy.fft.rfftfreq`: 0 … ⌊n/2⌋, over
    /// n·d.
    #[track_caller]
    pub fn rfftfreq(&self, n: usize, d: f64, dtype: DType) -> Var<'_> {
        self.frequencies("rfftfreq", (0..n / 2 + 1).map(|k| k as f64), n, d, dtype)
    }

    #[track_caller]
    fn frequencies(&self, what: &str, all: impl Iterator<Item = f64>, n: usize, d: f64, dtype: DType) -> Var<'_> {
        let span = n as f64 * d;
        if !dtype.is_float() || n > super::LONGEST_FFT || !(span.is_finite() && span != 0.0) {
            let text = format!(
                "{what}({n}, {d}, {dtype}): n from 1 to {}, a finite d other than 0, and f32 or f64 are needed",
                super::LONGEST_FFT
            );
            return self.fail(Kind::Shape, text);
        }
        let all: Vec<f64> = all.map(|k| k / span).collect();
        self.with_caller(|| self.constant_f64(&all, [all.len()]).cast(dtype))
    }
}

/// The least product of 2, 3 and 5 from `n` on: a length whose transform is fast.
fn fast_fft_length(n: usize) -> usize {
    let smooth = |mut m: usize| {
        for p in [2, 3, 5] {
            while m.is_multiple_of(p) {
                m /= p;
            }
        }
        m == 1
    };
    (n.max(1)..).find(|&m| smooth(m)).unwrap_or(n)
}

impl<'g> Var<'g> {
    /// The linear convolution yᵢ = Σⱼ xⱼ·kᵢ₋ⱼ along the last axis by Fourier transforms, as `scipy.signal.fftconvolve`;
    /// other axes broadcast. Of real or of complex numbers. It takes O(n log n) operations whatever the length of the
    /// kernel is; for a short one, a convolution layer is faster.
    #[track_caller]
    pub fn fft_conv(self, kernel: Var<'g>, part: ConvPart) -> Var<'g> {
        if !self.g.owns("fft_conv", &[kernel]) || !self.is_some() || !kernel.is_some() {
            return self.none();
        }
        let (a, b) = (self.dims(), kernel.dims());
        let (Some((&n, rest)), Some((&m, other))) = (a.split_last(), b.split_last()) else {
            return self.refuse("fft_conv", "a scalar has no axis to convolve along");
        };
        let dtype = self.dtype();
        if dtype != kernel.dtype() || !dtype.part().is_float() || n == 0 || m == 0 {
            let why =
                format!("the kernel is {}{b}; one type of floats is needed, and 1 element or more", kernel.dtype());
            return self.refuse("fft_conv", why);
        }
        if broadcast_dims(rest, other).is_none() {
            return self.refuse("fft_conv", format!("it does not broadcast with the kernel's {b}"));
        }
        self.g.with_caller(|| {
            let size = fast_fft_length(n + m - 1);
            let (there, norm) = (Some(size), FftNorm::Backward);
            let whole = match dtype.is_complex() {
                true => (self.fft(there, -1, norm) * kernel.fft(there, -1, norm)).ifft(None, -1, norm),
                false => (self.rfft(there, -1, norm) * kernel.rfft(there, -1, norm)).irfft(there, -1, norm),
            };
            match part {
                ConvPart::Full => whole.narrow(-1, 0, n + m - 1),
                ConvPart::Same => whole.narrow(-1, (m - 1) / 2, n),
                ConvPart::Valid => whole.narrow(-1, n.min(m) - 1, n.max(m) - n.min(m) + 1),
            }
        })
    }

    /// The power spectral density of real rows along the last axis, sampled at `rate`, as `scipy.signal.periodogram`
    /// with a plain window and without detrending: |rfft x|²/(rate·n), twice where an element stands for two. The sum
    /// times rate/n is the mean of x².
    #[track_caller]
    pub fn psd(self, rate: f64) -> Var<'g> {
        let d = self.dims();
        let Some((&n, rest)) = d.split_last().filter(|_| self.is_some()) else {
            return if self.is_some() { self.refuse("psd", "a scalar has no axis to transform along") } else { self };
        };
        if !rate.is_finite() || rate <= 0.0 {
            return self.refuse("psd", format!("the rate is {rate}; it must be finite and above 0"));
        }
        self.g.with_caller(|| {
            let power = self.rfft(None, -1, FftNorm::None).abs2() / (rate * n as f64);
            if !power.is_some() {
                return power;
            }
            let k = self.g.iota(0, [n / 2 + 1], DType::I64);
            let alone = k.equal(0.0).logical_or((k * 2.0).equal(n as f64));
            let weight = alone.select_as(1.0, 2.0, self.dtype());
            power * weight.broadcast([rest, &[n / 2 + 1]].concat())
        })
    }

    /// The complex numbers of a block: the last axis holds all real parts, then all imaginary parts.
    #[track_caller]
    pub fn block_to_complex(self) -> Var<'g> {
        let n = self.dims().last().copied().unwrap_or(1);
        if self.is_some() && (self.rank() == 0 || !n.is_multiple_of(2)) {
            return self.refuse("block_to_complex", "the last axis must hold as many real as imaginary parts");
        }
        self.g.with_caller(|| self.narrow(-1, 0, n / 2).complex(self.narrow(-1, n / 2, n / 2)))
    }

    /// The inverse of [`Var::block_to_complex`].
    #[track_caller]
    pub fn complex_to_block(self) -> Var<'g> {
        self.g.with_caller(|| {
            let (re, im) = (self.real(), self.imag());
            re.concat(&[im], size_attr_to_i64(self.rank()) - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::fast_fft_length;

    #[test]
    fn a_fast_length_is_the_next_product_of_two_three_and_five() {
        let pairs = [(0, 1), (1, 1), (2, 2), (3, 3), (5, 5), (6, 6), (7, 8), (9, 9), (11, 12), (13, 15), (17, 18)];
        let more = [(23, 24), (25, 25), (31, 32), (49, 50), (97, 100), (121, 125), (127, 128), (251, 256)];
        for (n, want) in pairs.into_iter().chain(more) {
            assert_eq!(fast_fft_length(n), want, "{n}");
        }
    }
}
