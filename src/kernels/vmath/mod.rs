//! Vector math for `f32` and `f64`: scalar forms without branches, and slice forms made of them.
//!
//! Invariant: the bits of a result depend on the argument alone. Every function is a fixed sequence of correctly
//! rounded operations, so the instruction set, the slice's length and an element's place in it do not matter.
//! (The sign and payload of a NaN are left open, as Rust leaves them.)
//! The scalar forms are `inline(always)` for use inside the `simd!` loops of other kernels. Any kernel may call them.
//!
//! Errors are in units of the last place: f32 over every 61st bit pattern against f64, f64 at 20 000 points a range
//! against 160-bit values. Without fused instructions (a CPU older than AVX2)
//! `mul_add` is a library call, exact but slow.

mod erf;
mod exp;
mod log;
mod pow;
mod real;
mod slices;
#[cfg(test)]
mod tests;
mod trig;

pub use erf::{erf, gelu};
pub use exp::{elu, exp, expm1, gelu_tanh, sigmoid, silu, softplus, tanh};
pub use log::{log, log1p};
pub use pow::pow;
pub use real::Real;
pub use slices::*;
pub use trig::{atan, cos, sin, tan};

/// √x, correctly rounded.
#[inline(always)]
pub fn sqrt<T: Real>(x: T) -> T {
    x.sqrt()
}

/// 1/√x in two roundings. Largest error seen: f32 1.49 ulp, f64 below 1.5 ulp.
#[inline(always)]
pub fn rsqrt<T: Real>(x: T) -> T {
    T::ONE / x.sqrt()
}

/// 1/x, correctly rounded.
#[inline(always)]
pub fn recip<T: Real>(x: T) -> T {
    T::ONE / x
}
