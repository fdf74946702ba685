//! The logarithm of the gamma function and its derivatives.
//!
//! Sources: Abramowitz and Stegun, "Handbook of mathematical functions", 6.1.41 and 6.3.18 (Stirling's series), 6.1.33
//! and 6.3.14 (series about 1 and 2), 6.1.17, 6.3.7 and 6.4.7 (reflection), 6.4.11 (polygamma). The coefficients come
//! from 60-digit arithmetic. All compute in `f64`.
//!
//! `lgamma` and `digamma` keep their relative accuracy at their positive roots. Left of 0 each has a root between any
//! two poles, and there the error is a few ulp of 1.

use super::log::{log, log1p};
use super::trig::{sin, tan};
use std::f64::consts::PI;

/// Coefficients of log Γ(2 + z) = Σ cₖ zᵏ, from k = 1: 1 − γ, then (−1)ᵏ(ζ(k) − 1)/k.
const ABOUT_2: [f64; 30] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.330476437424449e-10,
    -6.4229645638381e-11,
    3.1044247747322276e-11,
];

/// Coefficients of ψ(root + d) = Σ cₖ dᵏ, from k = 1.
const ABOUT_ROOT: [f64; 27] = [
    0.9676722454476212,
    -0.4427631689835921,
    0.258499760955651,
    -0.16394270544240652,
    0.10782405069126237,
    -0.07219956125645471,
    0.04880428816414311,
    -0.03316112647484736,
    0.022597648232218104,
    -0.01542476590494896,
    0.010538791616612175,
    -0.007204534386356869,
    0.004926781395729853,
    -0.003369801655439328,
    0.002305126326734928,
    -0.0015769367714301972,
    0.0010788252019162967,
    -0.0007380709389960052,
    0.000504953265834602,
    -0.0003454680251063077,
    0.00023635601564027053,
    -0.00016170622091974803,
    0.0001106337276874741,
    -7.569179582195066e-05,
    5.178575795222081e-05,
    -3.5430070947659604e-05,
    2.424006611860132e-05,
];

/// The positive root of ψ in two parts.
const ROOT: (f64, f64) = (1.4616321449683622, 9.549995429965697e-17);

/// B₂ₖ / (2k(2k − 1)), from k = 1.
const STIRLING: [f64; 9] = [
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
    0.17964437236883057,
];

/// B₂ₖ / 2k, from k = 1.
const BERNOULLI: [f64; 9] = [
    0.08333333333333333,
    -0.008333333333333333,
    0.003968253968253968,
    -0.004166666666666667,
    0.007575757575757576,
    -0.021092796092796094,
    0.08333333333333333,
    -0.4432598039215686,
    3.0539543302701198,
];

/// B₂ₖ / (2k)!, from k = 1.
const BERNOULLI_OVER_FACTORIAL: [f64; 13] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
    3.534707039629467e-21,
];

/// ½ log 2π − ½.
const HALF_LOG_TAU_LESS: f64 = 0.4189385332046727;

/// The largest order of [`polygamma`].
pub const MAX_ORDER: usize = 30;

/// c₀ + c₁z + c₂z² + ….
#[inline(always)]
fn evaluate_series(z: f64, c: &[f64]) -> f64 {
    c.iter().rev().fold(0.0, |sum: f64, c| sum.mul_add(z, *c))
}

/// log Γ(2 + z), |z| ≤ ½.
#[inline(always)]
fn log_about_2(z: f64) -> f64 {
    z * evaluate_series(z, &ABOUT_2)
}

/// log Γ(x) for x ≥ ½.
#[inline(always)]
fn log_positive(x: f64) -> f64 {
    if x < 1.5 {
        return log_about_2(x - 1.0) - log1p(x - 1.0);
    }
    if x < 10.0 {
        // Γ(x) = (x − 1)(x − 2) … Γ(t); the differences are exact.
        let (mut t, mut product) = (x, 1.0);
        while t >= 2.5 {
            t -= 1.0;
            product *= t;
        }
        return log_about_2(t - 2.0) + log(product);
    }
    let w = 1.0 / x;
    let rest = w * evaluate_series(w * w, &STIRLING) + HALF_LOG_TAU_LESS;
    (x - 0.5).mul_add(log(x) - 1.0, rest)
}

/// log |Γ(x)|: ∞ at 0, −1, −2 … and at ±∞.
#[inline(always)]
pub fn lgamma(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a == f64::INFINITY || a == 0.0 {
        return f64::INFINITY;
    }
    if a < 0.5 {
        return (log_about_2(x) - log1p(x)) - log(a);
    }
    if x > 0.0 {
        return log_positive(x);
    }
    // Γ(x)·Γ(−x) = −π / (x·sin πx). The sine is that of the distance to the next integer, which is exact.
    let s = sin(PI * (x - x.round_ties_even())).abs();
    if s == 0.0 { f64::INFINITY } else { log(PI / (a * s)) - log_positive(a) }
}

/// ψ(x) for x > 0.
#[inline(always)]
fn psi_of_positive(x: f64) -> f64 {
    if x > 1.2 && x < 1.75 {
        let d = (x - ROOT.0) - ROOT.1;
        return d * evaluate_series(d, &ABOUT_ROOT);
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / x;
        x += 1.0;
    }
    let w = 1.0 / x;
    (log(x) - (w * w).mul_add(evaluate_series(w * w, &BERNOULLI), 0.5 * w)) - sum
}

/// ψ(x), the derivative of [`lgamma`]: ∓∞ at ±0, NaN at −1, −2 … and at −∞.
#[inline(always)]
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return -1.0 / x;
    }
    if x > 0.0 || x.is_nan() {
        return if x < f64::INFINITY { psi_of_positive(x) } else { x };
    }
    if x > -0.5 {
        return psi_of_positive(1.0 + x) - 1.0 / x;
    }
    if x.floor() == x { f64::NAN } else { psi_of_positive(1.0 - x) - PI / tan(PI * (x - x.round_ties_even())) }
}

/// xⁿ.
#[inline(always)]
fn integer_power(x: f64, n: usize) -> f64 {
    (0..n).fold(1.0, |p, _| p * x)
}

/// |ψ⁽ⁿ⁾(x)| for x > 0, n > 0: n! Σ 1/(x + i)ⁿ⁺¹ up to a large x, then the asymptotic series.
#[inline(always)]
fn psi_derivative_of_positive(n: usize, x: f64) -> f64 {
    let before: f64 = (1..n).fold(1.0, |f, k| f * k as f64);
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 + n as f64 {
        sum += 1.0 / integer_power(x, n + 1);
        x += 1.0;
    }
    let order = n as f64;
    let (mut tail, mut rising, w) = (1.0 + order / (2.0 * x), 1.0, 1.0 / x);
    for (k, b) in BERNOULLI_OVER_FACTORIAL.iter().enumerate() {
        let at = order + 2.0 * k as f64;
        rising *= at * w * (at + 1.0) * w;
        tail += b * rising;
    }
    before * (order * sum + tail * integer_power(w, n))
}

/// πⁿ⁺¹ times the n-th derivative of the cotangent, at a cotangent of c. Pₖ₊₁ = −(1 + c²)·Pₖ' with P₀ = c.
#[inline(always)]
fn cotangent_derivative(n: usize, c: f64) -> f64 {
    let mut p = [0.0; MAX_ORDER + 2];
    p[1] = 1.0;
    for k in 0..n {
        let mut next = [0.0; MAX_ORDER + 2];
        for i in 1..=k + 1 {
            let slope = i as f64 * p[i];
            next[i - 1] -= slope;
            next[i + 1] -= slope;
        }
        p = next;
    }
    evaluate_series(c, &p[..n + 2]) * integer_power(PI, n + 1)
}

/// ψ⁽ⁿ⁾(x), the derivative of order `n` (1 to [`MAX_ORDER`]) of [`digamma`]. At 0, −1, −2 … it is ∞ for an odd order;
/// for an even one it is ∓∞ at ±0 and NaN at the others.
#[inline(always)]
pub fn polygamma(n: usize, x: f64) -> f64 {
    let n = n.clamp(1, MAX_ORDER);
    let odd = n % 2 == 1;
    if x > 0.0 {
        let y = psi_derivative_of_positive(n, x);
        return if odd { y } else { -y };
    }
    if x == 0.0 {
        return if odd { f64::INFINITY } else { -1.0 / x };
    }
    if x.floor() == x && x.is_finite() {
        return if odd { f64::INFINITY } else { f64::NAN };
    }
    // Also NaN for NaN and −∞.
    let y = psi_derivative_of_positive(n, if x < 0.0 { 1.0 - x } else { f64::NAN });
    let c = 1.0 / tan(PI * (x - x.round_ties_even()));
    -cotangent_derivative(n, c) - y
}
