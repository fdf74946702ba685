//! Functions that compute in `f64` at hard points, against 60-digit values (`points.txt`, written by `points.py`), and
//! at zeros, infinities, NaN and poles.

use super::super::*;

const INF: f64 = f64::INFINITY;

type Unary = fn(&mut [f64], &[f64]);
type Narrow = fn(&mut [f32], &[f32]);
type Binary = fn(&mut [f64], &[f64], &[f64]);

const UNARY: [(&str, Unary, Narrow); 15] = [
    ("asin", asin_slice, asin_slice),
    ("acos", acos_slice, acos_slice),
    ("sinh", sinh_slice, sinh_slice),
    ("cosh", cosh_slice, cosh_slice),
    ("asinh", asinh_slice, asinh_slice),
    ("acosh", acosh_slice, acosh_slice),
    ("atanh", atanh_slice, atanh_slice),
    ("exp2", exp2_slice, exp2_slice),
    ("log2", log2_slice, log2_slice),
    ("log10", log10_slice, log10_slice),
    ("erfc", erfc_slice, erfc_slice),
    ("erfinv", erfinv_slice, erfinv_slice),
    ("erfcinv", erfcinv_slice, erfcinv_slice),
    ("lgamma", lgamma_slice, lgamma_slice),
    ("digamma", digamma_slice, digamma_slice),
];

const BINARY: [(&str, Binary); 5] = [
    ("atan2", atan2_slice),
    ("hypot", hypot_slice),
    ("fmod", fmod_slice),
    ("remainder", remainder_slice),
    ("floor_divide", floor_divide_slice),
];

/// The lines of the file: the function, its arguments and its value.
fn points() -> impl Iterator<Item = (&'static str, Vec<f64>)> {
    include_str!("points.txt").lines().map(|line| {
        let (name, numbers) = line.split_once(' ').unwrap();
        (name, numbers.split(' ').map(|x| x.parse().unwrap()).collect())
    })
}

/// The value of a function of the file.
fn value(name: &str, x: &[f64]) -> f64 {
    let mut y = [0.0];
    if let Some((_, f)) = BINARY.iter().find(|f| f.0 == name) {
        f(&mut y, &x[..1], &x[1..2]);
    } else if let Some(order) = name.strip_prefix("polygamma") {
        polygamma_slice(&mut y, &x[..1], order.parse().unwrap());
    } else {
        UNARY.iter().find(|f| f.0 == name).unwrap().1(&mut y, &x[..1]);
    }
    y[0]
}

#[test]
fn hard_points_have_thirteen_digits() {
    let (mut count, mut worst) = (0, Vec::new());
    for (name, x) in points() {
        let (got, want) = (value(name, &x), *x.last().unwrap());
        // Between the poles left of 0 there are roots, where only the error against 1 is bounded.
        let roots = ["lgamma", "digamma"].contains(&name) && x[0] < 0.0;
        let least = if roots { 1.0 } else { f64::MIN_POSITIVE };
        let tolerance = if name.starts_with("poly") && x[0] < 0.0 { 3e-12 } else { 1e-13 };
        let off = (got - want).abs() / want.abs().max(least);
        if !(got == want || off <= tolerance) {
            worst.push(format!("{name}({x:?}) = {got:e}: off by {off:e}"));
        }
        count += 1;
    }
    assert!(worst.is_empty(), "{worst:#?}");
    assert!(count > 500, "{count} points");
}

/// The nearest `f32`, or one of its neighbours: what rounding a value of `f64` precision gives.
#[test]
fn narrow_numbers_are_within_an_ulp() {
    for (name, wide, narrow) in UNARY {
        let x: Vec<f32> = super::all_f32(300_007).into_iter().chain((-4000..4000).map(|i| i as f32 / 401.3)).collect();
        let mut y = vec![0f32; x.len()];
        narrow(&mut y, &x);
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mut z = vec![0f64; x.len()];
        wide(&mut z, &x);
        for ((x, y), z) in x.iter().zip(&y).zip(&z) {
            let same = f64::from(*y) == f64::from(*z as f32) || (y.is_nan() && z.is_nan());
            assert!(same, "{name}({x}) = {y}, not {z}");
        }
    }
}

fn is(got: f64, want: f64, what: &str) {
    assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{what}: {got}, not {want}");
}

/// Of subnormal numbers, too. Values of 40-digit arithmetic.
#[test]
fn the_inverse_of_erfc_is_accurate_down_to_the_least_number() {
    for (x, want) in [(f64::from_bits(1), 27.213_293_210_812_95), (f64::MIN_POSITIVE, 26.543_258_454_250_975)] {
        let got = value("erfcinv", &[x]);
        assert!((got - want).abs() <= 1e-13 * want, "erfcinv({x:e}) is {got}, not {want}");
    }
}

#[test]
fn zeros_infinities_and_poles() {
    let nan = f64::NAN;
    let table: [(&str, [f64; 5]); 15] = [
        // At 0, −0, ∞, −∞ and 2.
        ("asin", [0.0, -0.0, nan, nan, nan]),
        ("acos", [std::f64::consts::FRAC_PI_2, std::f64::consts::FRAC_PI_2, nan, nan, nan]),
        ("sinh", [0.0, -0.0, INF, -INF, value("sinh", &[2.0])]),
        ("cosh", [1.0, 1.0, INF, INF, value("cosh", &[2.0])]),
        ("asinh", [0.0, -0.0, INF, -INF, value("asinh", &[2.0])]),
        ("acosh", [nan, nan, INF, nan, value("acosh", &[2.0])]),
        ("atanh", [0.0, -0.0, nan, nan, nan]),
        ("exp2", [1.0, 1.0, INF, 0.0, 4.0]),
        ("log2", [-INF, -INF, INF, nan, 1.0]),
        ("log10", [-INF, -INF, INF, nan, value("log10", &[2.0])]),
        ("erfc", [1.0, 1.0, 0.0, 2.0, value("erfc", &[2.0])]),
        ("erfinv", [0.0, -0.0, nan, nan, nan]),
        ("erfcinv", [INF, INF, nan, nan, -INF]),
        ("lgamma", [INF, INF, INF, INF, 0.0]),
        ("digamma", [-INF, INF, INF, nan, value("digamma", &[2.0])]),
    ];
    for (name, want) in table {
        for (x, want) in [0.0, -0.0, INF, -INF, 2.0].into_iter().zip(want) {
            is(value(name, &[x]), want, &format!("{name}({x})"));
        }
        is(value(name, &[nan]), nan, name);
    }
    for (name, x, want) in [("erfinv", 1.0, INF), ("erfinv", -1.0, -INF), ("atanh", 1.0, INF), ("atanh", -1.0, -INF)] {
        is(value(name, &[x]), want, name);
    }
    for x in [-1.0, -2.0, -7.0, -1e17] {
        is(lgamma(x), INF, "lgamma at a pole");
        is(digamma(x), nan, "digamma at a pole");
        is(polygamma(1, x), INF, "polygamma of odd order at a pole");
        is(polygamma(2, x), nan, "polygamma of even order at a pole");
    }
    is(polygamma(2, -0.0), INF, "polygamma(2, −0)");
    is(polygamma(4, f64::NAN), nan, "polygamma(4, NaN)");
    is(lgamma(1.0), 0.0, "lgamma(1)");
    for k in -1074..1024 {
        let x = if k < -1022 { f64::from_bits(1 << (k + 1074)) } else { f64::from_bits(((k + 1023) as u64) << 52) };
        assert_eq!((exp2(f64::from(k)), log2(x)), (x, f64::from(k)));
    }
    for k in -149..128 {
        let x = if k < -126 { f32::from_bits(1 << (k + 149)) } else { f32::from_bits(((k + 127) as u32) << 23) };
        assert_eq!(exp2(k as f32), x);
    }
}

#[test]
fn pairs_at_zeros_and_infinities() {
    let (nan, pi) = (f64::NAN, std::f64::consts::PI);
    let s = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-308, 1e308, INF, -INF, nan];
    for &a in &s {
        for &b in &s {
            let near = |x: f64, y: f64| x.to_bits() == y.to_bits() || (x - y).abs() <= 4e-16 * y.abs() && x * y > 0.0;
            let same = |x: f64, y: f64| near(x, y) || x.is_nan() && y.is_nan();
            assert!(same(atan2(a, b), f64::atan2(a, b)), "atan2({a}, {b}) = {}", atan2(a, b));
            assert!(same(hypot(a, b), f64::hypot(a, b)), "hypot({a}, {b}) = {}", hypot(a, b));
        }
    }
    is(atan2(0.0, -0.0), pi, "atan2(0, −0)");
    for (a, b, fmods, remainders, quotients) in [
        (-0.0, 3.0, -0.0, 0.0, -0.0),
        (6.0, -3.0, 0.0, -0.0, -2.0),
        (-1.0, INF, -1.0, INF, -1.0),
        (1.0, INF, 1.0, 1.0, 0.0),
        (INF, 2.0, nan, nan, nan),
        (1.0, 0.0, nan, nan, INF),
        (-1.0, 0.0, nan, nan, -INF),
        (0.0, 0.0, nan, nan, nan),
        (nan, 1.0, nan, nan, nan),
        (-1e-20, 1.0, -1e-20, 1.0, -1.0),
        (7.5, -2.0, 1.5, -0.5, -4.0),
    ] {
        let what = format!("({a}, {b})");
        is(fmod(a, b), fmods, &format!("fmod{what}"));
        is(remainder(a, b), remainders, &format!("remainder{what}"));
        is(floor_divide(a, b), quotients, &format!("floor_divide{what}"));
    }
    for (x, y, want) in [(1.0, 2.0, 1.0 + f64::EPSILON), (0.0, -1.0, -5e-324), (-0.0, 0.0, 0.0), (INF, 0.0, f64::MAX)] {
        is(Real::next_towards(x, y), want, "next");
    }
    assert_eq!((1f32.next_towards(INF as f32), 1f32.next_towards(0.0)), (1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0));
    assert!(1f32.next_towards(f32::NAN).is_nan() && f32::NAN.next_towards(1.0).is_nan());
}

#[test]
fn powers_of_two_in_few_steps_have_the_same_bits() {
    for i in -10_000..=10_000 {
        let part = f64::from(i) / 1e4;
        let (x, y) = (part * f64::EXP_MIDDLE, part as f32 * f32::EXP_MIDDLE);
        assert_eq!(exp2_middle(x).to_bits(), exp2(x).to_bits(), "{x}");
        assert_eq!(exp2_middle(y).to_bits(), exp2(y).to_bits(), "{y}");
        // Half an ulp of the last operation, and what the polynomial and the sum before it add.
        let want = f64::from(y).exp2();
        assert!((f64::from(exp2(y)) - want).abs() <= 0.75 * f64::from(f32::EPSILON) * want, "{y}");
    }
}
