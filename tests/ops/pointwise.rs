//! Pointwise ops at zeros, infinities, kinks and NaN; activations against their formulas; integers against i128.

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::{Builder, DType, GradOptions, Init, Missing, Var, grad};
use arenagrad::session::Session;
use arenagrad::tools::passes;

const F64: DType = DType::F64;
const INF: f64 = f64::INFINITY;

fn tensor(data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: vec![data.len()], data: data.to_vec() }
}

/// Values of `f` of one operand, and its derivatives.
fn unary(x: &[f64], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> (Vec<f64>, Vec<f64>) {
    let g = Builder::new("f");
    let v = g.param("x", [x.len()], F64, Init::Zeros);
    let y = f(v);
    g.output("y", y);
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    let back = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let outs = run(&back, &[tensor(x)], PLAIN);
    let values = outs.iter().find(|t| t.dims == [x.len()]).unwrap().data.clone();
    (values, outs.last().unwrap().data.clone())
}

/// Values of `f` of two operands, and both derivatives.
fn binary(a: &[f64], b: &[f64], f: impl for<'g> Fn(Var<'g>, Var<'g>) -> Var<'g>) -> [Vec<f64>; 3] {
    let g = Builder::new("f");
    let (x, y) = (g.input("a", [a.len()], F64), g.input("b", [b.len()], F64));
    g.output("y", f(x, y));
    let graph = g.finish([]).unwrap();
    let value = run(&graph, &[tensor(a), tensor(b)], PLAIN).remove(0).data;
    let back = passes::vjp(graph.view(), &["y"], &["a", "b"], Missing::Zero).unwrap();
    let mut outs = run(&back, &[tensor(a), tensor(b), tensor(&vec![1.0; a.len()])], PLAIN);
    let db = outs.pop().unwrap().data;
    [value, outs.pop().unwrap().data, db]
}

/// Equal, or both NaN, or within 1e-13.
fn near(got: &[f64], want: &[f64], what: &str) {
    let one = |g: f64, w: f64| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-13 * w.abs().max(1.0);
    assert!(got.len() == want.len() && got.iter().zip(want).all(|(g, w)| one(*g, *w)), "{what}: {got:?}, not {want:?}");
}

#[test]
fn subnormal_numbers_are_flushed_and_no_others() {
    let (least, tiny) = (f64::MIN_POSITIVE, f64::from_bits(1));
    let (y, dy) = unary(&[tiny, -least / 2.0, least, -least, 0.0, 3.0, INF, f64::NAN], |x| x.flush_subnormals());
    assert_eq!(y[..7], [0.0, 0.0, least, -least, 0.0, 3.0, INF]);
    assert!(y[7].is_nan() && dy == [1.0; 8], "{y:?} {dy:?}");
    // Zero is flushed, too, but has the derivatives of x.
    let g = Builder::new("square");
    let x = g.param("x", [2], F64, Init::Zeros).flush_subnormals();
    let graph = g.finish([(x * x).sum(..).named("loss")]).unwrap();
    let second = arenagrad::graph::hvp(&graph, "loss", &["x"]).unwrap();
    let outs = run(&second, &[tensor(&[0.0, 0.0]), tensor(&[1.0, 3.0])], PLAIN);
    assert!(outs.iter().any(|t| t.data == [2.0, 6.0]), "{outs:?}");
}

#[test]
fn conventions_at_the_origin_and_at_infinity() {
    let [y, da, db] = binary(&[0.0, 3.0, -3.0, 1e200], &[0.0, 4.0, -4.0, 1e200], |a, b| a.atan2(b));
    near(&y, &[0.0, 0.75f64.atan(), 0.75f64.atan() - std::f64::consts::PI, std::f64::consts::FRAC_PI_4], "atan2");
    near(&da, &[0.0, 0.16, -0.16, 5e-201], "∂atan2/∂a");
    near(&db, &[0.0, -0.12, 0.12, -5e-201], "∂atan2/∂b");
    let [y, da, db] = binary(&[0.0, 3.0, -3.0], &[0.0, 4.0, 4.0], |a, b| a.hypot(b));
    near(&y, &[0.0, 5.0, 5.0], "hypot");
    near(&[da, db].concat(), &[0.0, 0.6, -0.6, 0.0, 0.8, 0.8], "the derivatives of hypot");
    let [y, da, db] = binary(&[-INF, -INF, 0.0, INF, 1000.0], &[-INF, 2.0, 0.0, INF, 1000.0], |a, b| a.logaddexp(b));
    near(&y, &[-INF, 2.0, 2f64.ln(), INF, 1000.0 + 2f64.ln()], "logaddexp");
    near(&da, &[0.0, 0.0, 0.5, 0.5, 0.5], "∂logaddexp/∂a");
    near(&db, &[0.0, 1.0, 0.5, 0.5, 0.5], "∂logaddexp/∂b");
    let [y, da, db] = binary(&[0.0, 0.0, 2.0, 0.0, 0.0], &[0.0, -1.0, 3.0, f64::NAN, 5.0], |a, b| a.xlogy(b));
    near(&y, &[0.0, 0.0, 2.0 * 3f64.ln(), f64::NAN, 0.0], "xlogy");
    near(&[da[0], da[1], da[2], da[4]], &[0.0, 0.0, 3f64.ln(), 5f64.ln()], "∂xlogy/∂a");
    near(&[db[0], db[1], db[2], db[4]], &[0.0, 0.0, 2.0 / 3.0, 0.0], "∂xlogy/∂b");
}

#[test]
fn divisions_and_their_derivatives() {
    let (a, b) = ([7.5, -7.5, 7.5, -7.5, 6.0], [2.0, 2.0, -2.0, -2.0, 2.0]);
    let [y, da, db] = binary(&a, &b, |a, b| a.remainder(b));
    near(&y, &[1.5, 0.5, -0.5, -1.5, 0.0], "remainder");
    near(&[da, db].concat(), &[1.0, 1.0, 1.0, 1.0, 1.0, -3.0, 4.0, 4.0, -3.0, -3.0], "the derivatives of remainder");
    let [y, da, db] = binary(&a, &b, |a, b| a.fmod(b));
    near(&y, &[1.5, -1.5, 1.5, -1.5, 0.0], "fmod");
    near(&[da, db].concat(), &[1.0, 1.0, 1.0, 1.0, 1.0, -3.0, 3.0, 3.0, -3.0, -3.0], "the derivatives of fmod");
    let [y, da, db] = binary(&a, &b, |a, b| a.floor_divide(b));
    near(&y, &[3.0, -4.0, -4.0, 3.0, 3.0], "floor_divide");
    near(&[da, db].concat(), &[0.0; 10], "the derivatives of floor_divide");
}

#[test]
fn nan_loses_in_fmax_and_fmin() {
    let (a, b) = ([f64::NAN, 1.0, 2.0, f64::NAN, 3.0], [5.0, f64::NAN, 2.0, f64::NAN, -INF]);
    let [y, da, db] = binary(&a, &b, |a, b| a.fmax(b));
    near(&y, &[5.0, 1.0, 2.0, f64::NAN, 3.0], "fmax");
    near(&da[..3], &[0.0, 1.0, 0.5], "∂fmax/∂a");
    near(&db[..3], &[1.0, 0.0, 0.5], "∂fmax/∂b");
    near(&binary(&a, &b, |a, b| a.fmin(b))[0], &[5.0, 1.0, 2.0, f64::NAN, -INF], "fmin");
    let [y, da, db] = binary(&[3.0, -3.0, 0.0, 2.0], &[-0.0, 1.0, -1.0, -INF], |a, b| a.copysign(b));
    near(&y, &[-3.0, 3.0, 0.0, -2.0], "copysign");
    assert!(y[2].is_sign_negative());
    near(&[da, db].concat(), &[-1.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0], "the derivatives of copysign");
}

#[test]
fn tests_of_numbers() {
    let x = [0.0, -1.0, INF, -INF, f64::NAN, 5e-324, f64::MAX];
    let as_float = |f: fn(Var<'_>) -> Var<'_>| {
        let g = Builder::new("f");
        let v = g.input("x", [x.len()], F64);
        g.output("y", f(v).cast(F64));
        run(&g.finish([]).unwrap(), &[tensor(&x)], PLAIN).remove(0).data
    };
    assert_eq!(as_float(|v| v.isnan()), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(as_float(|v| v.isinf()), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(as_float(|v| v.isfinite()), [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    near(&as_float(|v| v.nan_to_num(7.0, None, None)), &[0.0, -1.0, f64::MAX, f64::MIN, 7.0, 5e-324, f64::MAX], "");
    near(&as_float(|v| v.nan_to_num(0.0, Some(2.0), Some(-2.0))), &[0.0, -1.0, 2.0, -2.0, 0.0, 5e-324, f64::MAX], "");
}

/// Values by the formulas, derivatives by differences away from kinks and torch's at kinks.
#[test]
fn activations_are_torchs() {
    type Formula = (&'static str, for<'g> fn(Var<'g>) -> Var<'g>, fn(f64) -> f64, &'static [(f64, f64)]);
    let rows: &[Formula] = &[
        ("square", |v| v.square(), |x| x * x, &[(0.0, 0.0)]),
        ("sinc", |v| v.sinc(), |x| (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x), &[(0.0, 0.0)]),
        ("logsigmoid", |v| v.logsigmoid(), |x| -((-x).exp().ln_1p()), &[(0.0, 0.5), (-800.0, 1.0), (800.0, 0.0)]),
        ("mish", |v| v.mish(), |x| x * x.exp().ln_1p().tanh(), &[(0.0, 0.6)]),
        ("hardsigmoid", |v| v.hardsigmoid(), |x| ((x + 3.0) / 6.0).clamp(0.0, 1.0), &[(3.0, 0.0), (-3.0, 0.0)]),
        ("hardswish", |v| v.hardswish(), |x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0), &[(3.0, 1.0), (-3.0, 0.0)]),
        ("hardtanh", |v| v.hardtanh(), |x| x.clamp(-1.0, 1.0), &[(1.0, 0.0), (-1.0, 0.0)]),
        ("relu6", |v| v.relu6(), |x| x.clamp(0.0, 6.0), &[(0.0, 0.0), (6.0, 0.0)]),
        (
            "selu",
            |v| v.selu(),
            |x| 1.0507009873554805 * if x > 0.0 { x } else { 1.6732632423543772 * x.exp_m1() },
            &[(0.0, 1.0507009873554805 * 1.6732632423543772), (900.0, 1.0507009873554805)],
        ),
        ("celu", |v| v.celu(0.7), |x| x.max(0.0) + (0.7 * (x / 0.7).exp_m1()).min(0.0), &[(0.0, 1.0), (900.0, 1.0)]),
        ("celu", |v| v.celu(-4.0), |x| x.max(0.0) + (-4.0 * (x / -4.0).exp_m1()).min(0.0), &[(0.0, 1.0), (900.0, 1.0)]),
        ("softshrink", |v| v.softshrink(0.5), |x| x - x.clamp(-0.5, 0.5), &[(0.5, 0.0), (-0.5, 0.0)]),
        ("hardshrink", |v| v.hardshrink(0.5), |x| if x.abs() <= 0.5 { 0.0 } else { x }, &[(0.5, 0.0), (-0.5, 0.0)]),
        ("tanhshrink", |v| v.tanhshrink(), |x| x - x.tanh(), &[(0.0, 0.0)]),
        ("softsign", |v| v.softsign(), |x| x / (1.0 + x.abs()), &[(0.0, 1.0)]),
        ("prelu", |v| v.prelu(v.full_like(0.2)), |x| if x > 0.0 { x } else { 0.2 * x }, &[(0.0, 0.2)]),
        ("threshold", |v| v.threshold(0.3, -5.0), |x| if x > 0.3 { x } else { -5.0 }, &[(0.3, 0.0)]),
    ];
    let x: Vec<f64> = (0..40).map(|i| f64::from(i) * 0.23 - 4.517).collect();
    for (name, f, formula, kinks) in rows {
        let (y, dy) = unary(&x, f);
        near(&y, &x.iter().map(|x| formula(*x)).collect::<Vec<_>>(), name);
        for (x, dy) in x.iter().zip(dy) {
            let want = (formula(x + 1e-6) - formula(x - 1e-6)) / 2e-6;
            assert!((dy - want).abs() < 1e-7, "{name}'({x}) = {dy}, not {want}");
        }
        let at: Vec<f64> = kinks.iter().map(|k| k.0).collect();
        near(&unary(&at, f).1, &kinks.iter().map(|k| k.1).collect::<Vec<_>>(), &format!("{name}' at kinks"));
    }
    let (y, dy) = unary(&[0.25, 0.5, 1e-300], |v| v.logit());
    near(&y, &[-(3f64.ln()), 0.0, 1e-300f64.ln()], "logit");
    near(&dy[..2], &[16.0 / 3.0, 4.0], "logit'");
    assert!(unary(&[f64::NAN; 1], |v| v.softshrink(0.5)).0[0].is_nan());
    assert!(unary(&[f64::NAN; 1], |v| v.threshold(0.0, 1.0)).0[0].is_nan());
}

#[test]
fn lerp_and_masked_fill() {
    let [y, da, db] = binary(&[1.0, 1e16, 2.0], &[3.0, 1.0, 4.0], |a, b| a.lerp(b, 0.25));
    near(&y, &[1.5, 0.75e16 + 0.25, 2.5], "lerp");
    near(&[da, db].concat(), &[0.75, 0.75, 0.75, 0.25, 0.25, 0.25], "the derivatives of lerp");
    assert_eq!(binary(&[0.1, 1e16], &[0.7, 1.0], |a, b| a.lerp(b, 1.0))[0], [0.7, 1.0]);
    assert_eq!(binary(&[0.1, 1e16], &[0.7, 1.0], |a, b| a.lerp(b, 0.0))[0], [0.1, 1e16]);
    let (y, dy) = unary(&[1.0, -INF, 3.0], |v| v.masked_fill(v.less(2.0), 7.0));
    near(&[y, dy].concat(), &[7.0, 7.0, 3.0, 0.0, 0.0, 1.0], "masked_fill");
}

#[test]
fn wrong_use_is_an_error_with_op_and_operands() {
    let why = |f: &dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>, dtype: DType| {
        let g = Builder::new("bad");
        let x = g.input("x", [2], dtype);
        g.finish([f(&g, x)]).err().unwrap().to_string()
    };
    let all: [(&str, String); 9] = [
        ("asin(i32[2])", why(&|_, x| x.asin(), DType::I32)),
        ("f32 or f64 is needed", why(&|_, x| x.isnan(), DType::I32)),
        ("bitwise_and(f64[2], f64[2])", why(&|_, x| x.bitwise_and(x), F64)),
        ("bitwise_left_shift(bool[2], bool[2])", why(&|_, x| x.bitwise_left_shift(x), DType::Bool)),
        ("order is 31; it must be in 1..=30", why(&|_, x| x.polygamma(31), F64)),
        ("lambda must be finite and not negative; it is -1", why(&|_, x| x.softshrink(-1.0), F64)),
        ("alpha must be finite and not 0; it is 0", why(&|_, x| x.celu(0.0), F64)),
        ("remainder(bool[2], bool[2])", why(&|_, x| x.remainder(x), DType::Bool)),
        ("2.5 is no element of i32", why(&|_, x| x.floor_divide(2.5), DType::I32)),
    ];
    for (part, message) in &all {
        assert!(message.contains(part), "{message}, without {part}");
    }
    let g = Builder::new("f");
    let x = g.input("x", [2], F64);
    g.output("y", x.nextafter(0.0));
    let e = passes::vjp(g.finish([]).unwrap().view(), &["y"], &["x"], Missing::Zero).err().unwrap().to_string();
    assert!(e.contains("nextafter") && e.contains("stop_gradient"), "{e}");
}

/// Powers of integers by squaring, which wrap; an exponent below 0 ends the step before anything changes.
#[test]
fn integers_are_raised_to_powers() {
    let g = Builder::new("powers");
    let (a, b) = (g.input("a", [5], DType::I64), g.input("b", [5], DType::I64));
    let n = g.state("n", [], DType::I32, Init::Ones);
    g.update(n, (n + 2.0).pow(3.0));
    let small = a.cast(DType::U8);
    let y = [a.pow(b).named("y"), a.pow(2.0).named("square"), small.pow(small).named("small"), b.pow(0.0).named("one")];
    let graph = g.finish(y).unwrap();
    for optimise in [true, false] {
        let mut p = Session::new().optimise(optimise).compile(&graph).unwrap();
        p.init(0).unwrap();
        p.values_mut::<i64>("a").unwrap().copy_from_slice(&[-3, 0, 7, 2, i64::MAX]);
        p.values_mut::<i64>("b").unwrap().copy_from_slice(&[39, 0, 22, 63, 2]);
        p.step().unwrap();
        let wide = [(-3i64).pow(39), 1, 7i64.wrapping_pow(22), i64::MIN, 1];
        assert_eq!(p.values::<i64>("y").unwrap(), wide);
        assert_eq!(p.values::<i64>("square").unwrap(), [9, 0, 49, 4, 1]);
        // The casts saturate: 0, 0, 7, 2, 255.
        assert_eq!(p.values::<u8>("small").unwrap(), [1, 1, 7u8.wrapping_pow(7), 4, 255]);
        assert_eq!((p.values::<i64>("one").unwrap(), p.values::<i32>("n").unwrap()), (&[1i64; 5][..], &[27][..]));
        p.values_mut::<i64>("b").unwrap()[3] = -1;
        let e = p.step().unwrap_err();
        assert!(e.message.contains("element 3 of the exponent is below 0") && e.message.contains("pow"), "{e}");
        assert_eq!(p.values::<i32>("n").unwrap(), [27]);
    }
    // An exponent that is a number fails, too, and a fraction is none.
    let g = Builder::new("below");
    let x = g.input("x", [2], DType::I32);
    let mut p = Session::new().compile(&g.finish([x.pow(-1.0)]).unwrap()).unwrap();
    p.values_mut::<i32>("x").unwrap().fill(1);
    assert!(p.step().unwrap_err().message.contains("element 0 of the exponent is below 0"));
    let g = Builder::new("root");
    let e = g.finish([g.input("x", [2], DType::I32).pow(0.5)]).unwrap_err().to_string();
    assert!(e.contains("0.5 is no element of i32"), "{e}");
}

#[test]
fn integers_divide_shift_and_mask() {
    let g = Builder::new("ints");
    let (a, b) = (g.input("a", [6], DType::I32), g.input("b", [6], DType::I32));
    let flags = g.input("c", [6], DType::Bool);
    g.output("remainder", a.remainder(b));
    g.output("fmod", a.fmod(b));
    g.output("floor", a.floor_divide(b));
    g.output("and", a.bitwise_and(b));
    g.output("or", a.bitwise_or(b));
    g.output("xor", a.bitwise_xor(b));
    g.output("not", a.bitwise_not());
    g.output("left", a.bitwise_left_shift(3.0));
    g.output("right", a.bitwise_right_shift(40.0));
    g.output("flags", flags.bitwise_xor(a.less(b)));
    g.output("opposite", flags.bitwise_not());
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    let (x, y) = ([7, -7, 7, -7, i32::MIN, 0], [3, 3, -3, -3, -1, 5]);
    let (a, b, c) = (p.input::<i32>("a").unwrap(), p.input::<i32>("b").unwrap(), p.input::<u8>("c").unwrap());
    p.write(a, &x).unwrap();
    p.write(b, &y).unwrap();
    p.write(c, &[1, 0, 1, 0, 1, 0]).unwrap();
    p.step().unwrap();
    let each = |f: fn(i32, i32) -> i32| (0..6).map(|i| f(x[i], y[i])).collect::<Vec<_>>();
    assert_eq!(p.values::<i32>("remainder").unwrap(), [1, 2, -2, -1, 0, 0]);
    assert_eq!(p.values::<i32>("fmod").unwrap(), each(|a, b| a.wrapping_rem(b)));
    assert_eq!(p.values::<i32>("floor").unwrap(), [2, -3, -3, 2, i32::MIN, 0]);
    assert_eq!(p.values::<i32>("and").unwrap(), each(|a, b| a & b));
    assert_eq!(p.values::<i32>("or").unwrap(), each(|a, b| a | b));
    assert_eq!(p.values::<i32>("xor").unwrap(), each(|a, b| a ^ b));
    assert_eq!(p.values::<i32>("not").unwrap(), each(|a, _| !a));
    assert_eq!(p.values::<i32>("left").unwrap(), each(|a, _| a.wrapping_shl(3)));
    assert_eq!(p.values::<i32>("right").unwrap(), each(|a, _| if a < 0 { -1 } else { 0 }));
    assert_eq!(p.values::<u8>("flags").unwrap(), [1, 1, 1, 1, 0, 1]);
    assert_eq!(p.values::<u8>("opposite").unwrap(), [0, 1, 0, 1, 0, 1]);
    p.write(b, &[1, 1, 0, 1, 0, 1]).unwrap();
    let e = p.step().unwrap_err().to_string();
    assert!(e.contains("element 2") || e.contains("[2]"), "{e}");
}

#[test]
fn integer_products_and_reductions() {
    let g = Builder::new("ints");
    let (a, b) = (g.input("a", [2, 3, 4], DType::I8), g.input("b", [4, 5], DType::I8));
    g.output("product", a.matmul(b));
    g.output("general", a.dot_general(b, [&[], &[]], [&[2], &[0]]));
    g.output("wide", a.cast(DType::I64).matmul_t(b.transpose(&[1, 0]).cast(DType::I64), false, true));
    g.output("max", a.amax(1));
    g.output("min", a.amin([0, 2]));
    g.output("sum", a.sum_as(.., DType::I64));
    g.output("any", a.less(0.0).amax(..));
    g.output("count", a.less(0.0).sum_as(2, DType::I32));
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    let x: Vec<i8> = (0..24).map(|i| (i * 37 % 256 - 128) as i8).collect();
    let y: Vec<i8> = (0..20).map(|i| (i * 91 % 256 - 128) as i8).collect();
    let (a, b) = (p.input::<i8>("a").unwrap(), p.input::<i8>("b").unwrap());
    p.write(a, &x).unwrap();
    p.write(b, &y).unwrap();
    p.step().unwrap();
    let at = |row: usize, j: usize| (0..4).map(|k| i64::from(x[row * 4 + k]) * i64::from(y[k * 5 + j])).sum::<i64>();
    let want: Vec<i64> = (0..30).map(|i| at(i / 5, i % 5)).collect();
    for name in ["product", "general"] {
        let got: Vec<i64> = p.values::<i32>(name).unwrap().iter().map(|x| i64::from(*x)).collect();
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(p.values::<i64>("wide").unwrap(), want);
    let max: Vec<i8> = (0..8).map(|i| (0..3).map(|r| x[i / 4 * 12 + r * 4 + i % 4]).max().unwrap()).collect();
    assert_eq!(p.values::<i8>("max").unwrap(), max);
    let rows: Vec<i8> = (0..3).map(|r| (0..8).map(|i| x[i / 4 * 12 + r * 4 + i % 4]).min().unwrap()).collect();
    assert_eq!(p.values::<i8>("min").unwrap(), rows);
    assert_eq!(p.values::<i64>("sum").unwrap(), [x.iter().map(|x| i64::from(*x)).sum::<i64>()]);
    assert_eq!(p.values::<u8>("any").unwrap(), [1]);
    let count: Vec<i32> = x.chunks(4).map(|r| r.iter().filter(|x| **x < 0).count() as i32).collect();
    assert_eq!(p.values::<i32>("count").unwrap(), count);
    let g = Builder::new("bad");
    let (a, b) = (g.input("a", [2, 3], DType::I8), g.input("b", [4, 2], DType::I8));
    let e = g.finish([a.matmul(b)]).err().unwrap().to_string();
    assert!(e.contains("int_matmul(i8[2,3], i8[4,2])") && e.contains("inner dimensions 3 and 4 differ"), "{e}");
    let g = Builder::new("bad");
    let a = g.input("a", [2, 3], DType::I8);
    let e = g.finish([a.sum(..)]).err().unwrap().to_string();
    assert!(e.contains("reduce_sum(i8[2,3])") && e.contains("sum_as"), "{e}");
}
