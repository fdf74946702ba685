//! Sweeps against wider arithmetic, tables computed with 300 bits, special values, and equality of the instruction
//! sets.

mod points;
mod wide;

use super::*;
use crate::simd::{self, Isa};
use wide::Wide;

/// |got − want| in ulp of an `f32`.
fn ulps_f32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let exponent = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23) as i32 - 150;
    (got as f64 - want).abs() / 2f64.powi(exponent)
}

/// The number of `f64` values between the two.
fn ulps_f64(got: f64, want: f64) -> u64 {
    let key = |x: f64| if x.is_sign_negative() { -((x.to_bits() << 1 >> 1) as i64) } else { x.to_bits() as i64 };
    if got.is_nan() && want.is_nan() { 0 } else { key(got).abs_diff(key(want)) }
}

/// |got − want| in ulp of `want`, but at least `least`.
fn ulps_wide(got: f64, want: Wide, least: f64) -> f64 {
    let place = f64::from_bits(want.0.abs().to_bits() >> 52 << 52) * f64::EPSILON;
    (Wide::from(got) - want).0.abs() / place.max(least)
}

/// Every `step`-th `f32` bit pattern.
fn all_f32(step: u32) -> Vec<f32> {
    (0..u32::MAX / step).map(|i| f32::from_bits(i * step)).collect()
}

/// 1 / (1 + e⁻ˣ) without overflow.
fn logistic(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

type Row32 = (&'static str, fn(&mut [f32], &[f32]), fn(f64) -> f64, f64);

#[test]
fn f32_sweep() {
    let rows: [Row32; 17] = [
        ("exp", exp_slice, f64::exp, 1.0),
        ("expm1", expm1_slice, f64::exp_m1, 1.5),
        ("log", log_slice, f64::ln, 1.0),
        ("log1p", log1p_slice, f64::ln_1p, 1.5),
        ("sqrt", sqrt_slice, f64::sqrt, 0.501),
        ("rsqrt", rsqrt_slice, |x| 1.0 / x.sqrt(), 1.5),
        ("sin", sin_slice, f64::sin, 0.6),
        ("cos", cos_slice, f64::cos, 0.6),
        ("tan", tan_slice, f64::tan, 1.5),
        ("atan", atan_slice, f64::atan, 1.6),
        ("tanh", tanh_slice, f64::tanh, 1.5),
        ("sigmoid", sigmoid_slice, logistic, 1.9),
        ("softplus", softplus_slice, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), 1.7),
        // In f64 these are compared with wider values below.
        ("erf", erf_slice, erf, 1.5),
        ("gelu", gelu_slice, gelu, 1.7),
        ("gelu_tanh", gelu_tanh_slice, gelu_tanh, 1.7),
        ("silu", silu_slice, silu, 1.7),
    ];
    let x = all_f32(40_009);
    // Points where the functions change form.
    let x: Vec<f32> = x.into_iter().chain((0..60_000).map(|i| (i as f32 - 40_000.0) / 3001.0)).collect();
    let mut y = vec![0f32; x.len()];
    for (name, f, reference, bound) in rows {
        f(&mut y, &x);
        for (x, y) in x.iter().zip(&y) {
            let want = if x.is_nan() { f64::NAN } else { reference(*x as f64) };
            let u = ulps_f32(*y, want);
            assert!(u <= bound, "{name}({x:e}) = {y:e}, not {want:e}: {u} ulp");
        }
    }
}

/// Points of every magnitude, dense around 1.
fn spread(low: f64, high: f64) -> Vec<f64> {
    let even = (0..4000).map(|i| low + (high - low) * (i as f64 + 0.37) / 4000.0);
    let small = (0..600).flat_map(|i| [1.1f64.powi(i - 500), -(1.1f64.powi(i - 500))]);
    even.chain(small).filter(|x| *x >= low && *x <= high).collect()
}

type Row64 = (&'static str, fn(&mut [f64], &[f64]), fn(Wide) -> Wide, f64, f64);

/// Scale for errors of results near the subnormal range: their ulp would be too fine for [`Wide`].
const LIFT: f64 = (1u128 << 120) as f64 * (1u128 << 80) as f64;

#[test]
fn f64_sweep() {
    let rows: [Row64; 26] = [
        ("exp", exp_slice, Wide::exp, -600.0, 709.7),
        ("exp", exp_slice, Wide::exp, -2.0, 2.0),
        ("expm1", expm1_slice, Wide::expm1, -40.0, 709.7),
        ("expm1", expm1_slice, Wide::expm1, -2.0, 2.0),
        ("log", log_slice, Wide::log, 1e-290, 1e9),
        ("log", log_slice, Wide::log, 0.4, 2.1),
        ("log1p", log1p_slice, Wide::log1p, -0.999, 9.0),
        ("rsqrt", rsqrt_slice, Wide::rsqrt, 0.1, 4.0),
        ("tanh", tanh_slice, Wide::tanh, -20.0, 20.0),
        ("tanh", tanh_slice, Wide::tanh, -1.0, 1.0),
        ("sin", sin_slice, |x| x.sin_cos().0, -1e5, 1e5),
        ("cos", cos_slice, |x| x.sin_cos().1, -1e5, 1e5),
        ("tan", tan_slice, |x| x.sin_cos().0 / x.sin_cos().1, -1e5, 1e5),
        ("tan", tan_slice, |x| x.sin_cos().0 / x.sin_cos().1, -1.0, 1.0),
        ("atan", atan_slice, Wide::atan, -50.0, 50.0),
        ("atan", atan_slice, Wide::atan, -1.2, 1.2),
        ("sigmoid", sigmoid_slice, Wide::sigmoid, -600.0, 40.0),
        ("sigmoid", sigmoid_slice, Wide::sigmoid, -5.0, 5.0),
        ("softplus", softplus_slice, Wide::softplus, -600.0, 40.0),
        ("softplus", softplus_slice, Wide::softplus, -3.0, 3.0),
        ("erf", erf_slice, Wide::erf, -6.0, 6.0),
        ("gelu", gelu_slice, |x| x.gelu(LIFT), -38.6, 10.0),
        ("gelu", gelu_slice, |x| x.gelu(LIFT), -5.0, 3.0),
        ("gelu_tanh", gelu_tanh_slice, |x| x.gelu_tanh(LIFT), -21.7, 10.0),
        ("silu", silu_slice, |x| x.silu(LIFT), -752.0, 50.0),
        ("silu", silu_slice, |x| x.silu(LIFT), -5.0, 3.0),
    ];
    for (name, f, reference, low, high) in rows {
        let by = if name.starts_with("gelu") || name == "silu" { LIFT } else { 1.0 };
        let x = spread(low, high);
        let mut y = vec![0f64; x.len()];
        f(&mut y, &x);
        for (x, y) in x.iter().zip(&y).filter(|(x, _)| x.abs() > 1e-290) {
            let want = reference(Wide::from(*x));
            let u = ulps_wide(*y * by, want, f64::from_bits(1) * by);
            assert!(u <= 2.0, "{name}({x:e}) = {y:e}, not {:e}: {u} ulp", want.0 / by);
        }
    }
    for x in (1..4000).map(|k| k as f64 * std::f64::consts::FRAC_PI_2) {
        let (s, c) = Wide::from(x).sin_cos();
        for (y, want) in [(sin(x), s), (cos(x), c), (tan(x), s / c)] {
            assert!(ulps_wide(y, want, 0.0) <= 2.0, "at {x:e}: {y:e}, not {:e}", want.0);
        }
    }
}

#[test]
fn wide_values_are_those_of_300_bits() {
    for &(x, want) in ERF {
        assert!(ulps_f64(Wide::from(x).erf().0, want) <= 1, "erf({x})");
        assert!(ulps_f64(erf(x), want) <= 2, "erf({x}) = {:e}, not {want:e}", erf(x));
        assert_eq!(erf(-x).to_bits(), (-erf(x)).to_bits());
    }
    for &(x, want) in GELU {
        assert!(ulps_f64(Wide::from(x).gelu(1.0).0, want) <= 1, "gelu({x})");
        assert!(ulps_f64(gelu(x), want) <= 2, "gelu({x}) = {:e}, not {want:e}", gelu(x));
    }
}

/// x, erf x.
const ERF: &[(f64, f64)] = &[
    (1e-300, 1.1283791670955126e-300),
    (1e-10, 1.1283791670955126e-10),
    (0.001, 0.0011283787909692365),
    (0.03125, 0.035250373867322826),
    (0.1, 0.1124629160182849),
    (0.25, 0.27632639016823696),
    (0.3, 0.3286267594591274),
    (0.5, 0.5204998778130465),
    (0.7, 0.6778011938374184),
    (0.84375, 0.7672256612323416),
    (0.99, 0.8385080695553698),
    (0.9999999, 0.842700751438961),
    (1.0, 0.8427007929497149),
    (1.0000001, 0.8427008344604605),
    (1.05, 0.8624361060900967),
    (1.2, 0.9103139782296353),
    (1.4, 0.9522851197626488),
    (1.75, 0.9866716712191824),
    (2.0, 0.9953222650189527),
    (2.3, 0.9988568234026434),
    (2.6, 0.9997639655834707),
    (3.0, 0.9999779095030014),
    (3.5, 0.9999992569016276),
    (4.0, 0.9999999845827421),
    (4.5, 0.9999999998033839),
    (5.0, 0.9999999999984626),
    (5.5, 0.9999999999999927),
    (5.9, 0.9999999999999999),
];

/// x, x·Φ(x).
const GELU: &[(f64, f64)] = &[
    (-36.0, -1.505744663687022e-282),
    (-25.0, -7.641741765956403e-137),
    (-13.5, -1.0555389862638154e-40),
    (-8.0, -4.976768459417427e-15),
    (-5.0, -1.4332578593959695e-06),
    (-3.0, -0.0040496940948902835),
    (-2.0, -0.04550026389635842),
    (-1.3, -0.12584062996129342),
    (-1.0, -0.15865525393145705),
    (-0.7, -0.1693745565561511),
    (-0.1, -0.0460172162722971),
    (-1e-08, -4.999999960105772e-09),
    (1e-08, 5.000000039894228e-09),
    (0.1, 0.053982783727702904),
    (0.5, 0.34573123063700656),
    (1.0, 0.8413447460685429),
    (2.0, 1.9544997361036416),
    (3.0, 2.99595030590511),
    (5.0, 4.999998566742141),
    (9.0, 9.0),
];

/// One list for both types: function, argument, result.
fn specials<T: Real + std::fmt::Display>() {
    let (zero, one, inf, nan) = (T::ZERO, T::ONE, T::INFINITY, T::NAN);
    let check = |name: &str, got: T, want: T| {
        let same = got == want && (T::ONE / got == T::ONE / want);
        assert!(same || (got.is_nan() && want.is_nan()), "{name} gives {got}, not {want}");
    };
    for (name, f) in [
        ("exp", exp as fn(T) -> T),
        ("expm1", expm1),
        ("log", log),
        ("log1p", log1p),
        ("sqrt", sqrt),
        ("rsqrt", rsqrt),
        ("recip", recip),
        ("sin", sin),
        ("cos", cos),
        ("tan", tan),
        ("atan", atan),
        ("tanh", tanh),
        ("sigmoid", sigmoid),
        ("erf", erf),
        ("gelu", gelu),
        ("gelu_tanh", gelu_tanh),
        ("silu", silu),
        ("softplus", softplus),
    ] {
        check(name, f(nan), nan);
    }
    for (name, f) in [
        ("expm1", expm1 as fn(T) -> T),
        ("log1p", log1p),
        ("sqrt", sqrt),
        ("sin", sin),
        ("tan", tan),
        ("atan", atan),
        ("tanh", tanh),
        ("erf", erf),
        ("gelu", gelu),
        ("gelu_tanh", gelu_tanh),
        ("silu", silu),
    ] {
        check(name, f(zero), zero);
        check(name, f(-zero), -zero);
    }
    let tiny = T::MIN_POSITIVE * T::HALF;
    for (name, f) in [("expm1", expm1 as fn(T) -> T), ("log1p", log1p), ("sin", sin), ("tanh", tanh), ("atan", atan)] {
        check(name, f(tiny), tiny);
        check(name, f(-tiny), -tiny);
    }
    check("exp(∞)", exp(inf), inf);
    check("exp(−∞)", exp(-inf), zero);
    check("exp(0)", exp(-zero), one);
    check("expm1(∞)", expm1(inf), inf);
    check("expm1(−∞)", expm1(-inf), -one);
    check("log(0)", log(-zero), -inf);
    check("log(−1)", log(-one), nan);
    check("log(−∞)", log(-inf), nan);
    check("log(∞)", log(inf), inf);
    check("log(1)", log(one), zero);
    check("log1p(−1)", log1p(-one), -inf);
    check("log1p(−2)", log1p(-one - one), nan);
    check("log1p(∞)", log1p(inf), inf);
    check("sqrt(−1)", sqrt(-one), nan);
    check("rsqrt(−0)", rsqrt(-zero), -inf);
    check("sin(∞)", sin(inf), nan);
    check("cos(−∞)", cos(-inf), nan);
    check("tan(∞)", tan(inf), nan);
    check("cos(0)", cos(-zero), one);
    check("tanh(∞)", tanh(inf), one);
    check("tanh(−∞)", tanh(-inf), -one);
    check("sigmoid(∞)", sigmoid(inf), one);
    check("sigmoid(−∞)", sigmoid(-inf), zero);
    check("erf(∞)", erf(inf), one);
    check("erf(−∞)", erf(-inf), -one);
    check("gelu(∞)", gelu(inf), inf);
    check("gelu(−∞)", gelu(-inf), nan);
    check("gelu_tanh(∞)", gelu_tanh(inf), inf);
    check("gelu_tanh(−∞)", gelu_tanh(-inf), nan);
    check("silu(∞)", silu(inf), inf);
    for (name, f) in [("gelu", gelu as fn(T) -> T), ("gelu_tanh", gelu_tanh), ("silu", silu)] {
        // At large magnitudes and at the smallest numbers: half of the smallest is a tie.
        let far = T::ONE / T::MIN_POSITIVE;
        check(name, f(far), far);
        check(name, f(-far), -zero);
        check(name, f(tiny), tiny * T::HALF);
        check(name, f(-tiny), -tiny * T::HALF);
        let least = tiny * (T::TWO / T::ROUND);
        check(name, f(-least), -zero);
    }
    check("silu(−∞)", silu(-inf), nan);
    check("softplus(∞)", softplus(inf), inf);
    check("softplus(−∞)", softplus(-inf), zero);
    check("elu(−∞)", elu(-inf, one + one), -(one + one));
    check("elu(NaN)", elu(nan, one), nan);
    check("elu(1)", elu(one, nan), one);
}

#[test]
fn special_values() {
    specials::<f32>();
    specials::<f64>();
    // At the limits of the range.
    assert_eq!(exp(88.722_83f32), 3.402_798_5e38);
    assert_eq!(exp(88.722_84f32), f32::INFINITY);
    assert_eq!(exp(-103.9f32), 1e-45);
    assert_eq!(exp(-103.98f32), 0.0);
    assert_eq!(exp(-745.13f64), 5e-324);
    assert_eq!(exp(709.78f64), 709.78f64.exp());
    assert_eq!(exp(709.79f64), f64::INFINITY);
    assert_eq!(log(5e-324f64), 5e-324f64.ln());
    assert_eq!(log(1e-45f32), 1e-45f32.ln());
}

#[test]
fn pow_is_c_pow() {
    let s = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30, 1e-40, -1e-40, 16_777_217.0];
    let s: Vec<f32> = s.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]).collect();
    for &x in &s {
        for &y in &s {
            let (got, want) = (pow(x, y), (x as f64).powf(y as f64));
            assert!(ulps_f32(got, want) <= 0.51, "pow({x}, {y}) = {got}, not {want}");
            assert!(got.is_nan() || got.is_sign_negative() == want.is_sign_negative(), "pow({x}, {y}) = {got}");
        }
    }
    for (i, x) in all_f32(400_009).into_iter().enumerate() {
        let y = (i % 1001) as f32 / 17.0 - 30.0;
        assert!(ulps_f32(pow(x, y), (x as f64).powf(y as f64)) <= 0.51, "pow({x:e}, {y:e})");
    }
}

fn equal<T: Real>(a: &[T], b: &[T]) -> bool {
    a.iter().zip(b).all(|(a, b)| bytemuck::bytes_of(a) == bytemuck::bytes_of(b) || (a.is_nan() && b.is_nan()))
}

/// Parts of a slice whose arguments are all simple are computed in fewer steps, with the bits of the scalar form.
fn simple_parts<T: Real>(x: &[T]) {
    type Form<T> = (fn(&mut [T], &[T]), fn(T) -> T);
    let forms: [Form<T>; 2] = [(exp_slice, exp), (log_slice, log)];
    for (slice, scalar) in forms {
        let mut got = vec![T::ZERO; x.len()];
        slice(&mut got, x);
        let want: Vec<T> = x.iter().map(|x| scalar(*x)).collect();
        assert!(equal(&got, &want));
    }
}

#[test]
fn simple_parts_of_slices_have_the_same_bits() {
    // In the order of their bits, so that all arguments of most parts are simple or none is.
    simple_parts(&all_f32(4001));
    simple_parts(&spread(-800.0, 800.0));
    let tiny: Vec<f64> = (0..3000u64).map(|i| f64::from_bits(i << 43)).collect();
    simple_parts(&tiny);
    let mut mixed: Vec<f32> = (0..1500).map(|i| (i as f32 + 0.5) / 17.0).collect();
    mixed[700] = f32::NAN;
    mixed[1400] = -1e-40;
    simple_parts(&mixed);
}

fn same_bits<T: Real>(x: &[T]) {
    let slices: [fn(&mut [T], &[T]); 36] = [
        exp_slice,
        expm1_slice,
        log_slice,
        log1p_slice,
        sqrt_slice,
        rsqrt_slice,
        recip_slice,
        sin_slice,
        cos_slice,
        tan_slice,
        atan_slice,
        tanh_slice,
        sigmoid_slice,
        erf_slice,
        gelu_slice,
        gelu_grad_slice,
        gelu_tanh_slice,
        gelu_tanh_grad_slice,
        silu_slice,
        silu_grad_slice,
        softplus_slice,
        asin_slice,
        acos_slice,
        sinh_slice,
        cosh_slice,
        asinh_slice,
        acosh_slice,
        atanh_slice,
        exp2_slice,
        log2_slice,
        log10_slice,
        erfc_slice,
        erfinv_slice,
        erfcinv_slice,
        lgamma_slice,
        digamma_slice,
    ];
    let (mut want, mut got) = (x.to_vec(), x.to_vec());
    for (k, f) in slices.into_iter().enumerate() {
        simd::limit(Isa::Portable);
        f(&mut want, x);
        for isa in [Isa::Avx2, Isa::Avx512] {
            simd::limit(isa);
            f(&mut got, x);
            assert!(equal(&got, &want), "function {k} on {isa:?}");
            // The position in the slice does not matter either.
            f(&mut got[..x.len() - 3], &x[3..]);
            assert!(equal(&got[..x.len() - 3], &want[3..]), "function {k} on {isa:?}, shifted");
        }
    }
    simd::limit(simd::detect_isa());
}

/// Derivatives have roots, so their errors are measured in ulp of 1.
#[test]
fn slopes() {
    let of_gelu_tanh = |x: f64| {
        let k = (8.0 / std::f64::consts::PI).sqrt();
        let s = logistic(k * (x + 0.044715 * x * x * x));
        s + x * s * logistic(-k * (x + 0.044715 * x * x * x)) * k * (1.0 + 0.134145 * x * x)
    };
    let of_gelu = |x: f64| {
        let cdf = if x < 0.0 { gelu(x) / x } else { 1.0 + gelu(-x) / x.max(1e-300) };
        if x == 0.0 { 0.5 } else { cdf + x * (-0.5 * x * x).exp() * 0.3989422804014327 }
    };
    let of_silu = |x: f64| logistic(x) * (1.0 + x * logistic(-x));
    type Form = (fn(f32) -> f32, fn(f64) -> f64, fn(f64) -> f64);
    let forms: [Form; 3] = [
        (gelu_tanh_grad, gelu_tanh_grad, of_gelu_tanh),
        (gelu_grad, gelu_grad, of_gelu),
        (silu_grad, silu_grad, of_silu),
    ];
    for (k, (single, double, want)) in forms.into_iter().enumerate() {
        for i in 0..240_000 {
            let x = (i as f32 - 120_000.0) / 20_011.0;
            let (y, want) = (single(x), want(f64::from(x)));
            assert!((f64::from(y) - want).abs() <= 4.0 * f64::from(f32::EPSILON), "{k} at {x}: {y}, not {want}");
            let y = double(f64::from(x));
            assert!((y - want).abs() <= 8.0 * f64::EPSILON, "{k} at {x}: {y}, not {want}");
        }
        for (x, want) in [(130.0, 1.0), (f32::INFINITY, 1.0), (f32::MAX, 1.0), (0.0, 0.5), (-0.0, 0.5)] {
            assert_eq!(single(x), want, "{k} at {x}");
        }
        for x in [-130f32, f32::MIN, -f32::INFINITY] {
            assert!(single(x).abs() < 1e-30, "{k} at {x}");
        }
        assert!(single(f32::NAN).is_nan());
    }
}

#[test]
fn instruction_sets_agree() {
    same_bits(&all_f32(400_009));
    let x: Vec<f64> = (0..10_000u64).map(|i| f64::from_bits(i * (u64::MAX / 10_000))).collect();
    same_bits(&x);
    same_bits(&spread(-30.0, 30.0));
}
