//! Elementary functions for `f32` and `f64`: branch-free scalar forms, and slice forms made of them.
//!
//! Invariant: the bits of a result depend on the argument alone. Every function is a fixed sequence of correctly
//! rounded operations, so neither the instruction set nor the slice length nor the position of an element matters. (The
//! sign and payload of a NaN are unspecified, as in Rust.) The scalar forms are `inline(always)`, for use inside
//! `simd!` loops of other kernels.
//!
//! Every function stays within 2 ulp, except where its doc says so. The table gives the largest error found in ulp: for
//! f32 at every 61st bit pattern against f64 (subnormal results included), for f64 at 60 000 or more points of each
//! range against numbers of twice the precision (subnormal results included for gelu, gelu_tanh and silu).
//!
//! | function | f32 | f64 | | function | f32 | f64 |
//! |---|---|---|---|---|---|---|
//! | exp | 0.97 | 0.94 | | sin | 0.57 | 0.78 |
//! | expm1 | 1.41 | 1.79 | | cos | 0.57 | 0.80 |
//! | log | 0.84 | 0.81 | | tan | 1.40 | 1.05 |
//! | log1p | 1.35 | 1.37 | | atan | 1.43 | 1.56 |
//! | tanh | 1.31 | 1.29 | | erf | 1.32 | 1.31 |
//! | sigmoid | 1.82 | 1.86 | | gelu | 1.43 | 1.19 |
//! | softplus | 1.63 | 1.59 | | gelu_tanh | 1.50 | 1.40 |
//! | sqrt, recip | 0.50 | 0.50 | | silu | 1.49 | 1.44 |
//! | rsqrt | 1.49 | 1.50 | | pow | 0.51 | std's |
//!
//! (`sin`, `cos` and `tan` of an f64 beyond 2^19 are std's. `elu` is its factor times `expm1`, rounded once more.)
//!
//! The functions of [`arc`] except `atan`, of `erfc`, [`erfinv`](mod@erfinv), [`gamma`], [`hyperbolic`],
//! [`hypot`](mod@hypot) and [`remainder`](mod@remainder), and those of the bases 2 and 10, compute in `f64` for both
//! types. For `f32` their error is about ½ ulp; for `f64` it is a few ulp, and below 1e-13 relative. Without FMA
//! instructions (CPUs before AVX2) `mul_add` is a library call, exact but slow.

/// Methods of [`Real`] that a CPU computes, correctly rounded or exact.
macro_rules! rounded_methods {
    ($t:ident) => {
        #[inline(always)]
        fn mul_add(self, a: $t, b: $t) -> $t {
            $t::mul_add(self, a, b)
        }
        #[inline(always)]
        fn sqrt(self) -> $t {
            $t::sqrt(self)
        }
        #[inline(always)]
        fn abs(self) -> $t {
            $t::abs(self)
        }
        #[inline(always)]
        fn is_nan(self) -> bool {
            $t::is_nan(self)
        }
        #[inline(always)]
        fn with_sign(self, s: $t) -> $t {
            self.copysign(s)
        }
        #[inline(always)]
        fn next_towards(self, y: $t) -> $t {
            let next = if y > self { self.next_up() } else { self.next_down() };
            let y = if y.is_nan() || self.is_nan() { $t::NAN } else { y };
            if self == y || y.is_nan() { y } else { next }
        }
        #[inline(always)]
        fn floor(self) -> $t {
            $t::floor(self)
        }
        #[inline(always)]
        fn ceil(self) -> $t {
            $t::ceil(self)
        }
        #[inline(always)]
        fn round_even(self) -> $t {
            self.round_ties_even()
        }
    };
}

mod arc;
mod elu;
mod erf;
mod erfc;
mod erfinv;
mod exp;
mod gamma;
mod gelu;
mod hyperbolic;
mod hypot;
mod log;
mod pow;
mod real_impls;
mod real_trait;
mod remainder;
mod sigmoid;
mod slices;
mod softplus;
mod tanh;
#[cfg(test)]
mod tests;
mod trig;

pub use arc::{acos, asin, atan, atan2};
pub use elu::elu;
pub use erf::erf;
pub use erfc::erfc;
pub use erfinv::{erfcinv, erfinv};
pub use exp::{exp, exp_below, exp_middle, exp2, exp2_middle, expm1};
pub use gamma::{MAX_ORDER, digamma, lgamma, polygamma};
pub use gelu::{gelu, gelu_both, gelu_grad, gelu_tanh, gelu_tanh_both, gelu_tanh_grad};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use hypot::hypot;
pub use log::{ln_of_normal, log, log1p, log2, log10};
pub use pow::pow;
pub use real_trait::Real;
pub use remainder::{floor_divide, fmod, remainder};
pub use sigmoid::{sigmoid, silu, silu_both, silu_grad};
pub use slices::*;
pub use softplus::softplus;
pub use tanh::tanh;
pub use trig::{cos, sin, tan};

/// √x, correctly rounded.
#[inline(always)]
pub fn sqrt<T: Real>(x: T) -> T {
    x.sqrt()
}

/// 1/√x in two roundings.
#[inline(always)]
pub fn rsqrt<T: Real>(x: T) -> T {
    T::ONE / x.sqrt()
}

/// 1/x, correctly rounded.
#[inline(always)]
pub fn recip<T: Real>(x: T) -> T {
    T::ONE / x
}
