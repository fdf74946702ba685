//! Plans of Fourier transforms of any length, for rows of `f32` and `f64`.
//!
//! The crates `rustfft` and `realfft` have the algorithms. Their code is generic, so the crate that names an element
//! type compiles it. This takes a third as long as compiling the kernels. This crate names the element types. So the
//! code is compiled only once, and at the same time as the kernels. This crate exports trait objects, and one call is
//! a whole transform.

pub use num_complex::Complex;
pub use realfft::{ComplexToReal, RealToComplex};
pub use rustfft::{Fft, FftDirection};

use realfft::RealFftPlanner;
use rustfft::{FftNum, FftPlanner};
use std::sync::Arc;

/// An element of rows that are transformed: `f32` or `f64`.
pub trait FftFloat: FftNum {
    /// The transform of complex rows of `n` elements, of any `n` from 1 on.
    fn plan_complex_fft(n: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;
    /// The transform of real rows of `n` elements to the first `n/2 + 1` complex ones.
    fn plan_real_fft(n: usize) -> Arc<dyn RealToComplex<Self>>;
    /// The transform of `n/2 + 1` complex elements to a real row of `n`.
    fn plan_inverse_real_fft(n: usize) -> Arc<dyn ComplexToReal<Self>>;
}

macro_rules! fft_floats {
    ($($t:ident)+) => {
        $(impl FftFloat for $t {
            fn plan_complex_fft(n: usize, direction: FftDirection) -> Arc<dyn Fft<$t>> {
                FftPlanner::new().plan_fft(n, direction)
            }

            fn plan_real_fft(n: usize) -> Arc<dyn RealToComplex<$t>> {
                RealFftPlanner::new().plan_fft_forward(n)
            }

            fn plan_inverse_real_fft(n: usize) -> Arc<dyn ComplexToReal<$t>> {
                RealFftPlanner::new().plan_fft_inverse(n)
            }
        })+
    };
}

fft_floats!(f32 f64);
