//! Special functions by slow, plain formulas: error functions inverted by bisection and Newton's method, the gamma
//! family by recurrence and Stirling's series, activations by their definitions.
//!
//! Sources: Abramowitz and Stegun, "Handbook of mathematical functions", 6.3.5 and 6.3.18 (digamma), 6.4.6 and 6.4.11
//! (polygamma), 7.1.

use super::rounding::LongSum;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Bernoulli numbers B₂, B₄ …
const BERNOULLI: [f64; 10] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
];
/// From here on, asymptotic series are exact in `f64`, for orders up to 30.
const FAR: f64 = 40.0;
/// Most steps of a recurrence.
const STEPS: f64 = 1e5;

/// Whether the gamma function has a pole at `x`.
fn is_oracle_special_pole(x: f64) -> bool {
    x <= 0.0 && x == x.floor()
}

/// ψ(x); infinite at ±0 and where 1/x overflows, NaN at the other poles, and where the recurrence would be too long.
pub(super) fn oracle_special_digamma(x: f64) -> f64 {
    match x {
        _ if (1.0 / x).is_infinite() => -1.0 / x,
        _ if is_oracle_special_pole(x) || x < -STEPS => f64::NAN,
        _ if x == f64::INFINITY => x,
        _ => {
            // Up to 10⁵ terms, whose sum may nearly cancel the logarithm.
            let (mut z, mut sum) = (x, LongSum::default());
            while z < FAR {
                sum.add(1.0 / z);
                z += 1.0;
            }
            let tail = BERNOULLI.iter().zip(1..).map(|(b, k)| b / (2.0 * f64::from(k)) * z.powi(-2 * k)).sum::<f64>();
            libm::log(z) - sum.rounded - sum.lost - 0.5 / z - tail
        }
    }
}

/// ψ⁽ⁿ⁾(x) for n ≥ 1; NaN at the poles, and where the recurrence would be too long.
pub(super) fn oracle_special_polygamma(order: i32, x: f64) -> f64 {
    if is_oracle_special_pole(x) || x.is_nan() || x < -STEPS {
        return f64::NAN;
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    // (−1)ⁿ⁺¹·n!·ζ(n + 1, x), the zeta function by its first terms and an Euler–Maclaurin sum.
    let s = order + 1;
    let (mut z, mut sum) = (x, 0.0);
    while z < FAR {
        sum += z.powi(-s);
        z += 1.0;
    }
    sum += z.powi(-order) / f64::from(order) + 0.5 * z.powi(-s);
    let (mut rising, mut factorial) = (1.0, 1.0);
    for (b, k) in BERNOULLI.iter().zip(1i32..) {
        // s(s + 1)…(s + 2k − 2) / (2k)!
        let (first, last) = (s + 2 * k - 3, s + 2 * k - 2);
        rising *= if k == 1 { f64::from(s) } else { f64::from(first) * f64::from(last) };
        factorial *= f64::from((2 * k - 1) * 2 * k);
        sum += b * rising / factorial * z.powi(-(s + 2 * k - 1));
    }
    let all: f64 = (1..=order).map(f64::from).product();
    if order % 2 == 0 { -all * sum } else { all * sum }
}

/// The y in [`low`, `high`] where the rising function `f` is 0: by bisection, then Newton's method with slope `df`.
fn oracle_special_root(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64, df: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    let mut y = 0.5 * (low + high);
    for _ in 0..3 {
        let step = f(y) / df(y);
        y -= if step.is_finite() { step } else { 0.0 };
    }
    y
}

fn oracle_special_erf_slope(y: f64) -> f64 {
    FRAC_2_SQRT_PI * libm::exp(-y * y)
}

/// The y with erf y = x.
pub(super) fn oracle_special_erfinv(x: f64) -> f64 {
    match x.abs() {
        a if a > 1.0 || a.is_nan() => f64::NAN,
        1.0 => x * f64::INFINITY,
        // erf y = 2y/√π as far as `f64` tells.
        a if a < 1e-9 => x / FRAC_2_SQRT_PI,
        // Near 1 the distance to 1 tells more, which erfc keeps.
        a if a > 0.5 => {
            oracle_special_root(0.0, 30.0, |y| (1.0 - a) - libm::erfc(y), oracle_special_erf_slope).copysign(x)
        }
        a => oracle_special_root(0.0, 1.0, |y| libm::erf(y) - a, oracle_special_erf_slope).copysign(x),
    }
}

/// The y with 1 − erf y = x.
pub(super) fn oracle_special_erfcinv(x: f64) -> f64 {
    match x {
        0.0 => f64::INFINITY,
        2.0 => f64::NEG_INFINITY,
        _ if !(0.0..=2.0).contains(&x) => f64::NAN,
        _ if x > 0.5 => oracle_special_erfinv(1.0 - x),
        // By logarithms: the slope of erfc vanishes with it, and is about 2y·erfc(y) in the tail.
        _ => oracle_special_root(
            0.0,
            30.0,
            |y| libm::log(x) - oracle_special_log_erfc(y),
            |y| if y > 10.0 { 2.0 * y } else { oracle_special_erf_slope(y) / libm::erfc(y) },
        ),
    }
}

/// ln erfc y, in the tail by the asymptotic series 7.1.23, as erfc itself underflows.
fn oracle_special_log_erfc(y: f64) -> f64 {
    if y < 10.0 {
        return libm::log(libm::erfc(y));
    }
    let (mut term, mut sum) = (1.0, 0.0);
    for m in 1..12 {
        sum += term;
        term *= -(2.0 * f64::from(m) - 1.0) / (2.0 * y * y);
    }
    -y * y - libm::log(y / (0.5 * FRAC_2_SQRT_PI)) + libm::log(sum)
}

/// 1/(1 + e⁻ˣ).
pub(super) fn oracle_special_sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + libm::exp(-x)) } else { libm::exp(x) / (1.0 + libm::exp(x)) }
}

/// ln(1 + eˣ).
pub(super) fn oracle_special_softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) + libm::log1p(libm::exp(-x.abs())) }
}

/// Φ(x). The tail multiplies what rounding of x/√2 loses, so that is added to the first order.
fn oracle_special_normal_share(x: f64) -> f64 {
    let t = -x * FRAC_1_SQRT_2;
    // 1/√2 less its nearest f64.
    let lost = libm::fma(-x, FRAC_1_SQRT_2, -t) + x * 4.833646656726457e-17;
    let share = 0.5 * (libm::erfc(t) - FRAC_2_SQRT_PI * libm::exp(-t * t) * lost);
    if share.is_nan() { 0.5 * libm::erfc(t) } else { share }
}

/// x·Φ(x).
pub(super) fn oracle_special_gelu(x: f64) -> f64 {
    x * oracle_special_normal_share(x)
}

/// The limits of the derivatives of activations at ±∞, where their formulas are ∞·0.
fn oracle_special_unless_infinite(x: f64, slope: impl Fn(f64) -> f64) -> f64 {
    if x.is_infinite() { f64::from(x > 0.0) } else { slope(x) }
}

/// Φ(x) + x·φ(x).
pub(super) fn oracle_special_gelu_grad(x: f64) -> f64 {
    oracle_special_unless_infinite(x, oracle_special_gelu_slope)
}

fn oracle_special_gelu_slope(x: f64) -> f64 {
    oracle_special_normal_share(x) + x * libm::exp(-0.5 * x * x) * 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2
}

/// v = √(8/π)(x + 0.044715x³), rounded, and what rounding loses: the tail of σ(v) multiplies it.
fn oracle_special_gelu_argument(x: f64) -> (f64, f64) {
    // Each constant, less its nearest f64.
    const CUBE_LOST: f64 = 2.1960211427085595e-18;
    const FACTOR_LOST: f64 = -9.96930880911092e-17;
    let square = x * x;
    let cube = square * x;
    let cube_lost = libm::fma(square, x, -cube) + libm::fma(x, x, -square) * x;
    let part = CUBE * cube;
    let part_lost = libm::fma(CUBE, cube, -part) + CUBE * cube_lost + CUBE_LOST * cube;
    let mut sum = LongSum::default();
    [x, part].into_iter().for_each(|term| sum.add(term));
    let v = FACTOR * sum.rounded;
    let lost = libm::fma(FACTOR, sum.rounded, -v) + FACTOR * (sum.lost + part_lost) + FACTOR_LOST * sum.rounded;
    (v, if lost.is_finite() { lost } else { 0.0 })
}

/// The factors of [`oracle_special_gelu_argument`]: √(8/π), and that of x³.
const FACTOR: f64 = FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
const CUBE: f64 = 0.044715;

/// σ(v), with what rounding of v loses to the first order, and 1 − σ(v).
fn oracle_special_gelu_shares(x: f64) -> [f64; 2] {
    let (v, lost) = oracle_special_gelu_argument(x);
    let [share, other] = [v, -v].map(oracle_special_sigmoid);
    [share + lost * share * other, other - lost * share * other]
}

/// x·σ(v), with the v of [`oracle_special_gelu_argument`].
pub(super) fn oracle_special_gelu_tanh(x: f64) -> f64 {
    x * oracle_special_gelu_shares(x)[0]
}

/// The derivative of [`oracle_special_gelu_tanh`].
pub(super) fn oracle_special_gelu_tanh_grad(x: f64) -> f64 {
    oracle_special_unless_infinite(x, oracle_special_gelu_tanh_slope)
}

fn oracle_special_gelu_tanh_slope(x: f64) -> f64 {
    let [share, other] = oracle_special_gelu_shares(x);
    share + x * share * other * FACTOR * (1.0 + 3.0 * CUBE * x * x)
}

/// x·σ(x).
pub(super) fn oracle_special_silu(x: f64) -> f64 {
    x * oracle_special_sigmoid(x)
}

/// σ(1 + x(1 − σ)).
pub(super) fn oracle_special_silu_grad(x: f64) -> f64 {
    oracle_special_unless_infinite(x, |x| oracle_special_sigmoid(x) * (1.0 + x * oracle_special_sigmoid(-x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-14 * b.abs().max(1e-3), "{a:e} is not {b:e}");
    }

    #[test]
    fn the_gamma_family_has_known_values() {
        let gamma = 0.577_215_664_901_532_9;
        close(oracle_special_digamma(1.0), -gamma);
        close(oracle_special_digamma(0.5), -gamma - 2.0 * std::f64::consts::LN_2);
        close(oracle_special_digamma(-0.5), 2.0 - gamma - 2.0 * std::f64::consts::LN_2);
        assert_eq!(oracle_special_digamma(f64::from_bits(1)), f64::NEG_INFINITY);
        assert_eq!(oracle_special_digamma(-f64::from_bits(1)), f64::INFINITY);
        // After 30,000 terms, of 6.72.
        assert!((oracle_special_digamma(-30_000.771_05) - 6.721_772_484_619_106).abs() < 4e-15);
        let pi = std::f64::consts::PI;
        close(oracle_special_polygamma(1, 1.0), pi * pi / 6.0);
        close(oracle_special_polygamma(1, 0.5), pi * pi / 2.0);
        close(oracle_special_polygamma(2, 1.0), -2.0 * 1.202_056_903_159_594_3);
        close(oracle_special_polygamma(3, 1.0), pi.powi(4) / 15.0);
    }

    #[test]
    fn inverses_of_the_error_functions_go_back() {
        for x in [-0.999, -0.5, -1e-3, 1e-12, 0.3, 0.7, 0.999_999] {
            close(libm::erf(oracle_special_erfinv(x)), x);
        }
        for x in [1e-300, 1e-10, 0.2, 0.5, 1.0 - 1e-3, 1.7] {
            close(libm::erfc(oracle_special_erfcinv(x)) / x, 1.0);
        }
        // A number of 40-digit arithmetic.
        close(oracle_special_erfcinv(f64::from_bits(1)) / 27.213_293_210_812_95, 1.0);
        assert_eq!((oracle_special_erfinv(-1.0), oracle_special_erfcinv(0.0)), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn the_tail_of_gelu_by_tanh_is_exact() {
        // Numbers of 60-digit arithmetic.
        for (x, want) in [
            (-18.0, -1.129_276_228_821_319_3e-192),
            (-12.5, -8.101_996_464_473_621e-69),
            (-3.25, -1.568_627_144_747_468_8e-3),
        ] {
            let y = oracle_special_gelu_tanh(x);
            assert!((y / want - 1.0).abs() <= 4.0 * f64::EPSILON, "{x}: {y:e} is not {want:e}");
        }
    }

    #[test]
    fn derivatives_of_activations_are_slopes() {
        let pairs: [(fn(f64) -> f64, fn(f64) -> f64); 3] = [
            (oracle_special_gelu, oracle_special_gelu_grad),
            (oracle_special_gelu_tanh, oracle_special_gelu_tanh_grad),
            (oracle_special_silu, oracle_special_silu_grad),
        ];
        for (f, df) in pairs {
            for x in [-2.0, -0.3, 0.7, 1.9] {
                let slope = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
                assert!((df(x) - slope).abs() < 1e-9);
            }
        }
    }
}
