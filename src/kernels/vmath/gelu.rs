//! GELU, exact and by tanh, with derivatives.
//!
//! An activation and its derivative share the exponential. The forms that compute one of them have the bits of the form
//! that computes both.

use super::erf;
use super::real_trait::Real;
use super::sigmoid::{nan_at_minus_infinity, scale_by_logistic};

/// ([`gelu`], [`gelu_grad`]) of x.
#[inline(always)]
pub fn gelu_both<T: Real>(x: T) -> (T, T) {
    let a = x.abs();
    let a = if a > T::PHI_HIGH { T::PHI_HIGH } else { a };
    let s = a * a;
    let (tail, e) = erf::normal_tail(a, T::HALF * s, T::HALF * a.mul_add(a, -s));
    // x·Φ(−|x|).
    let c = a.with_sign(x);
    let p = c * tail.head;
    let p_rest = c.mul_add(tail.rest, c.mul_add(tail.head, -p));
    let two = tail.lifted * T::LIFT.1;
    let y = (p + p_rest) * tail.lifted * T::LIFT.1;
    let y = nan_at_minus_infinity(x, if x < T::ZERO { y.with_sign(x) } else { x - y });
    let less = tail.head * two;
    let below = if x < T::ZERO { less } else { T::ONE - less };
    (y, (c * T::INV_SQRT_2PI).mul_add(e.head * two, below))
}

/// x·Φ(x) = ½x(1 + erf(x/√2)), accurate in the lower tail, too; NaN at −∞, as the formula gives.
#[inline(always)]
pub fn gelu<T: Real>(x: T) -> T {
    gelu_both(x).0
}

/// The derivative of [`gelu`]: Φ(x) + xφ(x). It has a root, so its error is a few ulp of 1, not of the result.
#[inline(always)]
pub fn gelu_grad<T: Real>(x: T) -> T {
    gelu_both(x).1
}

/// ([`gelu_tanh`], [`gelu_tanh_grad`]) of x.
#[inline(always)]
pub fn gelu_tanh_both<T: Real>(x: T) -> (T, T) {
    // Beyond this the derivative is 0 or 1 to all digits.
    let high = T::GELU_TANH_HIGH;
    let by = if x < -high { -high } else { x };
    let c = if by > high { high } else { by };
    // 2u = x(k + m·x²) as a sum of two: its absolute error becomes a relative error of the result.
    let (k, m) = (T::GELU_LINEAR, T::GELU_CUBIC);
    let z = c * c;
    let z_rest = c.mul_add(c, -z);
    let p = m.0 * z;
    let p_rest = m.0.mul_add(z_rest, m.1.mul_add(z, m.0.mul_add(z, -p)));
    let g = k.0 + p;
    let b = g - k.0;
    let g_rest = (((k.0 - (g - b)) + (p - b)) + k.1) + p_rest;
    let u = c * g;
    let u_rest = c.mul_add(g_rest, c.mul_add(g, -u));
    let w = scale_by_logistic(by, u, u_rest);
    let steep = (m.0 + m.0 + m.0).mul_add(z, k.0);
    (nan_at_minus_infinity(x, w.product), (c * steep * w.sigma).mul_add(w.rest, w.sigma))
}

/// ½x(1 + tanh u) = x · sigmoid(2u) with u = √(2/π)(x + 0.044715x³); NaN at −∞, as the formula gives.
#[inline(always)]
pub fn gelu_tanh<T: Real>(x: T) -> T {
    gelu_tanh_both(x).0
}

/// The derivative of [`gelu_tanh`]: σ + xσ(1 − σ)(k + 3mx²) with σ = sigmoid(x(k + mx²)). It has a root, so its error
/// is a few ulp of 1, not of the result.
#[inline(always)]
pub fn gelu_tanh_grad<T: Real>(x: T) -> T {
    gelu_tanh_both(x).1
}
