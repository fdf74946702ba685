//! The logistic function and the activations made of it.
//!
//! The power of two of a small result is kept apart until a factor before it is in: one rounding, in the subnormal
//! range too.

use super::exp::{exp_below, power};
use super::real::Real;

/// `by` / (1 + e^−(x + low)) for a `low` below the last place of x, and |x| up to [`Real::LOGISTIC_HIGH`] or a little
/// more.
#[inline(always)]
fn weighted<T: Real>(by: T, x: T, low: T) -> T {
    let below = x < T::ZERO;
    let e = power(-x.abs(), if below { -low } else { low });
    // 1 + e as a sum.
    let two = e.lifted * T::LIFT.1;
    let full = e.head * two;
    let d = T::ONE + full;
    let d_rest = e.rest.mul_add(two, (T::ONE - d) + full);
    let w = T::ONE / d;
    let (top, top_rest) = if below { (e.head, e.rest) } else { (T::ONE, T::ZERO) };
    let (first, second) = if below { (e.lifted, T::LIFT.1) } else { (T::ONE, T::ONE) };
    let q = top * w;
    let missing = (-q).mul_add(d_rest, (-q).mul_add(d, top) + top_rest);
    by * missing.mul_add(w, q) * first * second
}

/// `y`, but NaN where x is −∞.
#[inline(always)]
pub(super) fn nan_below<T: Real>(x: T, y: T) -> T {
    if x == -T::INFINITY { T::NAN } else { y }
}

/// 1 / (1 + e⁻ˣ), accurate in both tails.
#[inline(always)]
pub fn sigmoid<T: Real>(x: T) -> T {
    let e = exp_below(-x.abs());
    let top = if x < T::ZERO { e } else { T::ONE };
    let d = T::ONE + e;
    let w = T::ONE / d;
    // What rounding d and dividing took away, relative to w.
    let lack = (-w).mul_add((T::ONE - d) + e, (-w).mul_add(d, T::ONE));
    let y = top * w;
    y.mul_add(lack, y)
}

/// x · sigmoid(x); NaN at −∞, as the formula gives.
#[inline(always)]
pub fn silu<T: Real>(x: T) -> T {
    let high = T::LOGISTIC_HIGH;
    let by = if x < -high { -high } else { x };
    let c = if by > high { high } else { by };
    nan_below(x, weighted(by, c, T::ZERO))
}

/// ½x(1 + tanh u) = x · sigmoid(2u) with u = √(2/π)(x + 0.044715x³); NaN at −∞, as the formula gives.
#[inline(always)]
pub fn gelu_tanh<T: Real>(x: T) -> T {
    let high = T::GELU_TANH_HIGH;
    let by = if x < -high { -high } else { x };
    let c = if by > high { high } else { by };
    // 2u = x(k + m·x²) as a sum: its error counts |2u| times.
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
    nan_below(x, weighted(by, u, u_rest))
}

/// The derivative of [`gelu_tanh`]: σ + xσ(1 − σ)(k + 3mx²) with σ = sigmoid(x(k + mx²)). Off by a few last places of 1,
/// not of itself: it has a root.
#[inline(always)]
pub fn gelu_tanh_slope<T: Real>(x: T) -> T {
    // Beyond, it is 0 or 1 to all places.
    let high = T::GELU_TANH_HIGH;
    let x = if x < -high { -high } else { x };
    let x = if x > high { high } else { x };
    let (k, m) = (T::GELU_LINEAR.0, T::GELU_CUBIC.0);
    let xx = x * x;
    let u = x * m.mul_add(xx, k);
    let du = (m + m + m).mul_add(xx, k);
    let e = exp_below(-u.abs());
    let w = T::ONE / (T::ONE + e);
    let below = x < T::ZERO;
    let (sigma, rest) = if below { (e * w, w) } else { (w, e * w) };
    (x * du * sigma).mul_add(rest, sigma)
}
