//! Hyperbolic functions and their inverses, by `expm1` and `log1p`, so that nothing cancels near 0.
//!
//! All compute in `f64`. An `f32` is widened first, and the result is rounded to `f32` once.

use super::exp::{exp, expm1};
use super::log::{log, log1p};
use super::real_trait::Real;
use std::f64::consts::LN_2;

/// Beyond this e^−|x| is lost beside e^|x|.
const FAR: f64 = 22.0;
/// Beyond this √(x² ± 1) is |x|.
const WIDE: f64 = 1e9;

/// ½e^|x| without overflow before the result.
#[inline(always)]
fn half_exp(a: f64) -> f64 {
    let e = exp(0.5 * a);
    0.5 * e * e
}

/// ½(eˣ − e⁻ˣ).
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let t = expm1(a);
    let near = 0.5 * (t + t / (t + 1.0));
    (if a > FAR { half_exp(a) } else { near }).with_sign(x)
}

/// ½(eˣ + e⁻ˣ).
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let a = x.abs();
    let e = exp(a);
    if a > FAR { half_exp(a) } else { 0.5 * e + 0.5 / e }
}

/// log(x + √(x² + 1)).
#[inline(always)]
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let z = a * a;
    let near = log1p(a + z / (1.0 + (z + 1.0).sqrt()));
    (if a > WIDE { log(a) + LN_2 } else { near }).with_sign(x)
}

/// log(x + √(x² − 1)); NaN below 1.
#[inline(always)]
pub fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    let near = log1p(t + (t * (t + 2.0)).sqrt());
    let y = if x > WIDE { log(x) + LN_2 } else { near };
    if x < 1.0 { f64::NAN } else { y }
}

/// ½ log((1 + x) / (1 − x)); ±∞ at ±1, NaN beyond.
#[inline(always)]
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * log1p(2.0 * a / (1.0 - a))).with_sign(x)
}
