//! The complementary error function, in `f64`.

use super::erf::{self, erf};
use super::real_trait::Real;
use std::f64::consts::SQRT_2;

/// Above this erfc is 0.
const HIGH: f64 = 27.5;
/// (erfc a · 2^[`Real::LIFT`], erfc a · e^(a²)) for a ≥ 0. The first is normal where erfc a is not.
#[inline(always)]
pub(super) fn lifted_tail(a: f64) -> (f64, f64) {
    let a = if a > HIGH { HIGH } else { a };
    let h = a * a;
    let (tail, e) = erf::normal_tail(a * SQRT_2, h, a.mul_add(a, -h));
    (2.0 * tail.head * tail.lifted, 2.0 * tail.head / e.head)
}

/// 1 − erf x, accurate in the upper tail.
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    let tail = lifted_tail(x.abs()).0 * f64::LIFT.1;
    if x > 0.5 { tail } else { 1.0 - erf(x) }
}
