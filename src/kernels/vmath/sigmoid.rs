//! The logistic function and SiLU.
//!
//! An activation and its derivative share the exponential. The forms that compute one of them have the bits of the form
//! that computes both. A small sigmoid is computed as a number times a power of two. SiLU multiplies by x before it
//! multiplies by this power of two, so a subnormal result is rounded only once.

use super::exp::{exp_below, unclamped_with_rest};
use super::real_trait::Real;

/// The result of [`scale_by_logistic`].
pub(super) struct Weighted<T> {
    /// `by` · σ(x + low).
    pub product: T,
    /// σ(x) and 1 − σ(x), each to a few ulp.
    pub sigma: T,
    pub rest: T,
}

/// `by` / (1 + e^−(x + low)) for |low| below an ulp of x, and |x| up to about [`Real::LOGISTIC_HIGH`]; and σ(x).
#[inline(always)]
pub(super) fn scale_by_logistic<T: Real>(by: T, x: T, low: T) -> Weighted<T> {
    let below = x < T::ZERO;
    let e = unclamped_with_rest(-x.abs(), if below { -low } else { low });
    // 1 + e as an exact sum.
    let two = e.lifted * T::LIFT.1;
    let full = e.head * two;
    let d = T::ONE + full;
    let d_rest = e.rest.mul_add(two, (T::ONE - d) + full);
    let w = T::ONE / d;
    let (top, top_rest) = if below { (e.head, e.rest) } else { (T::ONE, T::ZERO) };
    let (first, second) = if below { (e.lifted, T::LIFT.1) } else { (T::ONE, T::ONE) };
    let q = top * w;
    let missing = (-q).mul_add(d_rest, (-q).mul_add(d, top) + top_rest);
    let product = by * missing.mul_add(w, q) * first * second;
    let less = full * w;
    let (sigma, rest) = if below { (less, w) } else { (w, less) };
    Weighted { product, sigma, rest }
}

/// `y`, but NaN where x is −∞.
#[inline(always)]
pub(super) fn nan_at_minus_infinity<T: Real>(x: T, y: T) -> T {
    if x == -T::INFINITY { T::NAN } else { y }
}

/// 1 / (1 + e⁻ˣ), accurate in both tails.
#[inline(always)]
pub fn sigmoid<T: Real>(x: T) -> T {
    let e = exp_below(-x.abs());
    let top = if x < T::ZERO { e } else { T::ONE };
    let d = T::ONE + e;
    let w = T::ONE / d;
    // The relative error of w from rounding d and from the division.
    let lack = (-w).mul_add((T::ONE - d) + e, (-w).mul_add(d, T::ONE));
    let y = top * w;
    y.mul_add(lack, y)
}

/// ([`silu`], [`silu_grad`]) of x.
#[inline(always)]
pub fn silu_both<T: Real>(x: T) -> (T, T) {
    let high = T::LOGISTIC_HIGH;
    let by = if x < -high { -high } else { x };
    let c = if by > high { high } else { by };
    let w = scale_by_logistic(by, c, T::ZERO);
    (nan_at_minus_infinity(x, w.product), (c * w.sigma).mul_add(w.rest, w.sigma))
}

/// x · sigmoid(x); NaN at −∞, as the formula gives.
#[inline(always)]
pub fn silu<T: Real>(x: T) -> T {
    silu_both(x).0
}

/// The derivative of [`silu`]: σ + xσ(1 − σ). It has a root, so its error is a few ulp of 1, not of the result.
#[inline(always)]
pub fn silu_grad<T: Real>(x: T) -> T {
    silu_both(x).1
}
