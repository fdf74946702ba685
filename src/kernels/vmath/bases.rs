//! Exponentials and logarithms of the bases 2 and 10. Powers of two and their logarithms are exact.
//!
//! All compute in `f64`. An `f32` is widened first, so its result has one rounding of its own.

use super::exp::exp;
use super::log::log;
use super::real::Real;
use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};

/// log₂ e − [`LOG2_E`].
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
/// log₁₀ e − [`LOG10_E`].
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
/// log₁₀ 2 − [`LOG10_2`].
const LOG10_2_LOW: f64 = -2.803_728_127_785_170_4e-18;

/// 2ˣ.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    // Comparisons are written so that NaN passes through. Beyond this range the result is 0 or ∞.
    let x = if x < -1080.0 { -1080.0 } else { x };
    let x = if x > 1025.0 { 1025.0 } else { x };
    let n = (x + f64::ROUND) - f64::ROUND;
    // 2ⁿ in two factors, so that the largest and the subnormal results are rounded once.
    let half = n.mul_add(0.5, f64::ROUND);
    let rest = (n - (half - f64::ROUND)) + f64::ROUND;
    exp((x - n) * f64::LN2_HI) * f64::pow2(half) * f64::pow2(rest)
}

/// log of the mantissa of x, and the exponent; [`log`] has the special cases.
#[inline(always)]
fn parts(x: f64) -> (f64, f64) {
    let (m, k, _) = f64::split(x);
    (log(m), k)
}

/// `y`, but what [`log`] gives at 0, at ∞, below 0 and for NaN.
#[inline(always)]
fn outside(x: f64, y: f64) -> f64 {
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { -f64::INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// The logarithm of base 2: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (l, k) = parts(x);
    outside(x, l.mul_add(LOG2_E, l.mul_add(LOG2_E_LOW, k)))
}

/// The logarithm of base 10: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    let (l, k) = parts(x);
    let low = k.mul_add(LOG10_2_LOW, l * LOG10_E_LOW);
    outside(x, k.mul_add(LOG10_2, l.mul_add(LOG10_E, low)))
}
