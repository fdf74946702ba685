//! The inverses of both error functions.
//!
//! They start from Giles' polynomials ("Approximating the erfinv function", GPU Computing Gems, 2010) or, far out, from
//! erfc y ≈ e^(−y²) / (y√π), and take two steps of Halley's method. All compute in `f64`.

use super::erf::erf;
use super::erfc;
use super::exp::exp;
use super::log::log;
use super::real_trait::{Real, poly};
use std::f64::consts::FRAC_2_SQRT_PI;

/// ½√π.
const HALF_ROOT_PI: f64 = 1.0 / FRAC_2_SQRT_PI;

/// Giles' polynomials for |y| / a, with w = −log((1 − a)(1 + a)) below 16.
#[inline(always)]
fn first_estimate(w: f64) -> f64 {
    let u = w - 2.5;
    let near = poly!(u; 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
        -3.5233877e-06, 3.43273939e-07, 2.81022636e-08f64);
    let u = w.sqrt() - 3.0;
    let far = poly!(u; 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
        0.00134934322, 0.000100950558, -0.000200214257f64);
    if w < 5.0 { near } else { far }
}

/// A step of Halley's method for erf y = a, which is erfc y = q. The smaller side counts.
#[inline(always)]
fn halley_step(y: f64, a: f64, q: f64) -> f64 {
    let near = (erf(y) - a) * exp(y * y) * HALF_ROOT_PI;
    let (lifted, scaled) = erfc::lifted_tail(y);
    let far = -(1.0 - q / f64::LIFT.1 / lifted) * scaled * HALF_ROOT_PI;
    let n = if a < 0.5 { near } else { far };
    y - n / n.mul_add(y, 1.0)
}

/// The y ≥ 0 with erf y = a and erfc y = q, where a + q = 1.
#[inline(always)]
fn solve_upper(a: f64, q: f64) -> f64 {
    let w = -log(q * (1.0 + a));
    let l = -log(q * (2.0 * HALF_ROOT_PI));
    let start = if w < 16.0 { a * first_estimate(w) } else { (l - 0.5 * log(l)).sqrt() };
    let y = halley_step(halley_step(start, a, q), a, q);
    let y = if q == 0.0 { f64::INFINITY } else { y };
    if q < 0.0 { f64::NAN } else { y }
}

/// The inverse of [`erf`]: ±∞ at ±1, NaN beyond.
#[inline(always)]
pub fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    // The slope at 0 is exact enough where squares vanish; a step would lose bits of a subnormal number.
    let y = if a < 1e-150 { a * HALF_ROOT_PI } else { solve_upper(a, 1.0 - a) };
    y.with_sign(x)
}

/// The inverse of [`erfc`](super::erfc::erfc): ∞ at 0, −∞ at 2, NaN beyond.
#[inline(always)]
pub fn erfcinv(q: f64) -> f64 {
    let p = 2.0 - q;
    if q > 1.0 { -solve_upper(q - 1.0, p) } else { solve_upper(1.0 - q, q) }
}
