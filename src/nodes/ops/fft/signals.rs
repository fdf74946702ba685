//! Methods built on Fourier transforms: frequencies, convolutions, power spectra, and complex numbers as a real tensor
//! whose last axis holds all real parts, then all imaginary parts.

use super::norm::FftNorm;
use crate::error::Kind;
use crate::nodes::build::broadcast::broadcast_dims;
use crate::nodes::build::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;

/// Which part of a linear convolution is kept, as NumPy's and SciPy's `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
