//! Inverse trigonometric functions, as arc tangents of well-conditioned quotients.
//!
//! All but [`atan`] compute in `f64`. An `f32` is widened first, and the result is rounded to `f32` once.

use super::real_trait::Real;
use std::f64::consts::PI;

/// π − [`PI`].
const PI_LOW: f64 = 1.224_646_799_147_353_2e-16;

/// The arc tangent.
#[inline(always)]
pub fn atan<T: Real>(x: T) -> T {
    let a = x.abs();
    let far = a > T::ONE;
    let inverse = T::ONE / a;
    let t = if far { inverse } else { a };
    let z = t * t;
    let (tz, q) = (t * z, T::atan_tail(z));
    let p = tz.mul_add(q, t);
    // π/2 − t as a sum, minus the rest, so that the rounding of p does not count.
    let d = T::PI_2.0 - t;
    let d = d + (-tz).mul_add(q, ((T::PI_2.0 - d) - t) + T::PI_2.1);
    let y = if far { d } else { p };
    y.with_sign(x)
}

/// atan(x / √((1 − x)(1 + x))); NaN outside [−1, 1].
#[inline(always)]
pub fn asin(x: f64) -> f64 {
    // For |x| > 1 the root is NaN. The factors have no cancellation: 1 − x is exact where it is small.
    atan(x / ((1.0 - x) * (1.0 + x)).sqrt())
}

/// 2 atan(√((1 − x) / (1 + x))); NaN outside [−1, 1].
#[inline(always)]
pub fn acos(x: f64) -> f64 {
    2.0 * atan(((1.0 - x) / (1.0 + x)).sqrt())
}

/// The angle of the point (x, y), with C's signs of zeros and infinities: y = ±0 gives ±0 for x ≥ +0, ±π for x ≤ −0.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (b, a) = (y.abs(), x.abs());
    // 0/0 and ∞/∞ have the angles of the axis and of the diagonal.
    let q = if a == b { 1.0 } else { b / a };
    let q = if b == 0.0 && a == 0.0 { 0.0 } else { q };
    let t = atan(q);
    let t = if x.is_sign_negative() { (PI - t) + PI_LOW } else { t };
    if x.is_nan() || y.is_nan() { f64::NAN } else { t.with_sign(y) }
}
