//! Start values: lists, constants, structure and moments of draws; text form, sharing between graphs, bad input.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::window::Conv;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn::{self, Linear, init};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text::{parse, print};

/// The start values of one param, as f64.
fn start(dims: &[usize], dtype: DType, of: impl Fn(&Builder) -> Init) -> Vec<f64> {
    let mut p = started(dims, dtype, of);
    match dtype {
        DType::F32 => p.values_mut::<f32>("w").unwrap().iter().map(|&x| f64::from(x)).collect(),
        DType::I32 => p.values_mut::<i32>("w").unwrap().iter().map(|&x| f64::from(x)).collect(),
        _ => p.values_mut::<f64>("w").unwrap().to_vec(),
    }
}

fn started(dims: &[usize], dtype: DType, of: impl Fn(&Builder) -> Init) -> Program {
    let g = Builder::new("g");
    let w = g.state("w", dims, dtype, of(&g));
    let graph = g.finish([w.named("y")]).unwrap();
    // The text form has all of it.
    let text = print(graph.view());
    assert_eq!(print(parse(&text).unwrap().view()), text);
    let mut p = Session::new().compile(&parse(&text).unwrap()).unwrap();
    p.init(7).unwrap();
    p
}

/// Whether random start values fit a type of whole numbers is asked before the first leaf is filled.
#[test]
fn start_values_that_fail_change_nothing() {
    let leaf = |name, init, dtype| format!("  %{name} = param init={init} scale=1.0 frozen=false : {dtype}[2]\n");
    let lines = leaf("a", "normal", "f32") + "  %x = input : f32[2]\n" + &leaf("b", "uniform", "u32");
    let graph = parse(&format!("graph @g {{\n{lines}  return w=%x, y=%a, z=%b\n}}\n")).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    let e = p.init(0).unwrap_err();
    assert!(e.message.contains("param \"b\": no random start values of u32"), "{e}");
    assert_eq!(p.values::<f32>("a").unwrap(), [0.0; 2]);
    p.values_mut::<u32>("b").unwrap().copy_from_slice(&[1, 2]);
    p.init_rest(0).unwrap();
    assert!(p.values::<f32>("a").unwrap().iter().all(|x| *x != 0.0));
}

#[test]
fn lists_and_constants_are_cast_to_the_dtype() {
    let list = [0.1, -2.5, 1e-3, 4.0];
    assert_eq!(start(&[2, 2], DType::F64, |g| g.start_values(&list)), list);
    assert_eq!(start(&[2, 2], DType::F32, |g| g.start_values(&list)), list.map(|x| f64::from(x as f32)));
    assert_eq!(start(&[3], DType::I32, |g| g.start_values(&[1.0, -7.0, 3.0])), [1.0, -7.0, 3.0]);
    assert_eq!(start(&[0, 3], DType::F64, |g| g.start_values(&[])), [0.0; 0]);
    assert_eq!(start(&[3], DType::F32, |_| Init::Constant(0.1)), [f64::from(0.1f32); 3]);
    assert_eq!(start(&[2], DType::I32, |_| init::constant(-4.0)), [-4.0; 2]);
    assert!(start(&[1], DType::F64, |g| g.start_values(&[f64::NAN]))[0].is_nan());
    // A layer takes them as any others.
    let g = Builder::new("g");
    let x = g.input("x", [1, 2], DType::F32);
    let options = Linear::default().weight_init(g.start_values(&[1.0, 2.0])).bias_init(Init::Constant(0.5));
    let y = nn::linear_with(&g, "fc", x, 1, options);
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[10.0, 100.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [210.5]);
}

/// Mean and standard deviation.
fn moments(x: &[f64]) -> [f64; 2] {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    [mean, (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()]
}

#[test]
fn draws_have_their_moments_and_bounds() {
    let n = [100_000];
    let near = |x: &[f64], want: [f64; 2]| {
        let got = moments(x);
        let far = 6.0 * want[1] / (x.len() as f64).sqrt();
        assert!((got[0] - want[0]).abs() < far && (got[1] - want[1]).abs() < far, "{got:?} {want:?}");
    };
    let x = start(&n, DType::F64, |_| init::uniform(-1.0, 3.0));
    near(&x, [1.0, 4.0 / 12f64.sqrt()]);
    assert!(x.iter().all(|v| (-1.0..=3.0).contains(v)));
    near(&start(&n, DType::F64, |_| init::normal(5.0, 0.25)), [5.0, 0.25]);
    // ±2σ: variance 1 − 4φ(2)/(2Φ(2) − 1).
    let cut = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let inner = 0.954_499_736_103_641_6;
    let x = start(&n, DType::F64, |_| init::trunc_normal(1.0, 0.5, 0.0, 2.0));
    near(&x, [1.0, 0.5 * (1.0 - 4.0 * cut(2.0) / inner).sqrt()]);
    assert!(x.iter().all(|v| (0.0..=2.0).contains(v)));
    // A tail alone: mean φ(3)/(1 − Φ(3)) of the standard normal.
    let x = start(&n, DType::F64, |_| init::trunc_normal(0.0, 1.0, 3.0, f64::INFINITY));
    let mean = cut(3.0) / 0.001_349_898_031_630_094_6;
    assert!((moments(&x)[0] - mean).abs() < 0.01 && x.iter().all(|v| v.is_finite() && *v >= 3.0), "{:?}", moments(&x));
    let x = start(&n, DType::F64, |_| init::trunc_normal(0.0, 1.0, f64::NEG_INFINITY, -3.0));
    assert!((moments(&x)[0] + mean).abs() < 0.01 && x.iter().all(|v| v.is_finite() && *v <= -3.0));
    // At the furthest bound that is allowed draws differ, and lie within 1/37 · ln(2⁵⁴) of it.
    for (low, high) in [(37.0, f64::INFINITY), (f64::NEG_INFINITY, -37.0)] {
        let x = start(&n, DType::F64, |_| init::trunc_normal(0.0, 1.0, low, high));
        assert!(x.iter().all(|v| (37.0..38.02).contains(&v.abs())), "{low} to {high}");
        near(&x.iter().map(|v| v.abs() - 37.0).collect::<Vec<_>>(), [1.0 / 37.0; 2]);
    }
    let all = start(&n, DType::F64, |_| init::trunc_normal(0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY));
    near(&all, [0.0, 1.0]);
    // They follow from the seed and the name alone.
    assert_eq!(all, start(&n, DType::F64, |_| init::trunc_normal(0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY)));
}

#[test]
fn orthogonal_matrices_are_orthogonal() {
    for dims in [vec![5, 5], vec![3, 7], vec![7, 3], vec![4, 3, 2, 2], vec![300, 280]] {
        let q = start(&dims, DType::F64, |_| init::orthogonal(1.5));
        let (rows, columns) = (dims[0], dims[1..].iter().product::<usize>());
        let at = |wide: bool, v: usize, k: usize| if wide { q[v * columns + k] } else { q[k * columns + v] };
        let wide = rows < columns;
        let (n, length) = if wide { (rows, columns) } else { (columns, rows) };
        for (a, b) in (0..n).flat_map(|a| (0..=a).map(move |b| (a, b))).step_by(if n > 100 { 97 } else { 1 }) {
            let dot: f64 = (0..length).map(|k| at(wide, a, k) * at(wide, b, k)).sum();
            let want = if a == b { 2.25 } else { 0.0 };
            assert!((dot - want).abs() < 1e-12, "{dims:?}: {a}·{b} = {dot}");
        }
    }
    assert_eq!(start(&[0, 3], DType::F32, |_| init::orthogonal(1.0)), [0.0; 0]);
    let one = start(&[1, 1], DType::F64, |_| init::orthogonal(2.0));
    assert!((one[0].abs() - 2.0).abs() < 1e-15);
}

#[test]
fn identities_are_identities() {
    assert_eq!(start(&[2, 3], DType::F32, |_| init::eye()), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(start(&[2, 2], DType::I32, |_| init::eye()), [1.0, 0.0, 0.0, 1.0]);
    // A convolution by a Dirac weight copies its channels: of [1, 4, 5, 5] in two groups, the first of each.
    let g = Builder::new("g");
    let x = g.input("x", [1, 4, 5, 5], DType::F64);
    let w = g.param("w", [2, 2, 3, 3], DType::F64, init::dirac(2));
    let y = x.conv2d(w, Conv::default().padding(1).groups(2));
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(0).unwrap();
    let numbers: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.25 - 9.0).collect();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&numbers);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [&numbers[..25], &numbers[50..75]].concat());
    let w = start(&[3, 2, 5], DType::F32, |_| init::dirac(1));
    let ones: Vec<usize> = (0..30).filter(|&i| w[i] == 1.0).collect();
    assert_eq!((ones, w.iter().sum::<f64>()), (vec![2, 17], 2.0));
}

#[test]
fn torchs_spreads() {
    let d = [8, 3, 5, 5];
    assert_eq!(init::kaiming_normal_fan_out(&d, 2f64.sqrt()), Init::Normal(2f64.sqrt() / 200f64.sqrt()));
    let Init::Uniform(a) = init::kaiming_uniform_fan_out(&d, 1.0) else { panic!("uniform") };
    assert!((a - (3.0f64 / 200.0).sqrt()).abs() < 1e-15);
    assert_eq!(init::leaky_relu_gain(0.0), 2f64.sqrt());
    assert!((init::leaky_relu_gain(5f64.sqrt()) - (1.0f64 / 3.0).sqrt()).abs() < 1e-15);
}

fn one(name: &str, of: impl Fn(&Builder) -> Init) -> GraphBuf {
    let g = Builder::new(name);
    let w = g.param("w", [2, 2], DType::F32, of(&g));
    g.finish([w.named(name)]).unwrap()
}

#[test]
fn graphs_of_one_program_must_agree_on_them() {
    let a = one("a", |g| g.start_values(&[1.0, 2.0, 3.0, 4.0]));
    let same = one("b", |g| g.start_values(&[1.0, 2.0, 3.0, 4.0]));
    assert!(Session::new().compile_all(&[("a", &a), ("b", &same)]).is_ok());
    let differs = |other: GraphBuf, words: &[&str]| {
        let e = Session::new().compile_all(&[("a", &a), ("b", &other)]).err().unwrap().to_string();
        assert!(words.iter().all(|w| e.contains(w)), "{e}");
    };
    differs(
        one("b", |g| g.start_values(&[1.0, 2.0, 3.0, 5.0])),
        &["starting with values [1.0, 2.0, 3.0, 4.0]", "starting with values [1.0, 2.0, 3.0, 5.0]"],
    );
    differs(one("b", |_| Init::Constant(1.0)), &["starting with constant [1.0]", "tests/ops/start_values.rs:"]);
    differs(one("b", |_| Init::Eye), &["starting with eye"]);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let refuses = |words: &[&str], dims: &[usize], dtype: DType, of: &dyn Fn(&Builder) -> Init| {
        for state in [false, true] {
            let g = Builder::new("bad");
            let (init, name) = (of(&g), "w");
            let w = if state { g.state(name, dims, dtype, init) } else { g.param(name, dims, dtype, init) };
            let e = g.finish([w]).unwrap_err().to_string();
            assert!(words.iter().all(|w| e.contains(w)) && e.contains("tests/ops/start_values.rs:"), "{words:?}: {e}");
        }
    };
    refuses(&["(): 3 start values for 4 elements"], &[2, 2], DType::F32, &|g| g.start_values(&[0.0; 3]));
    refuses(&["0.5 is no start value of i32"], &[1], DType::I32, &|g| g.start_values(&[0.5]));
    refuses(&["1e300 is no start value of f32"], &[1], DType::F32, &|_| Init::Constant(1e300));
    refuses(&["NaN is no start value of i64"], &[1], DType::I64, &|_| Init::Constant(f64::NAN));
    refuses(&["low 2.0 is above high 1.0"], &[1], DType::F32, &|_| init::uniform(2.0, 1.0));
    refuses(&["inf is no finite f32"], &[1], DType::F32, &|_| init::uniform(0.0, f64::INFINITY));
    refuses(&["low 1.0 is not below high 1.0"], &[1], DType::F32, &|_| init::trunc_normal(0.0, 1.0, 1.0, 1.0));
    let far = "1.0 to 2.0 is more than 37 deviations from the mean 0.0";
    refuses(&[far], &[1], DType::F32, &|_| init::trunc_normal(0.0, 0.02, 1.0, 2.0));
    let far = "-inf to -38.0 is more than 37 deviations from the mean 0.0";
    refuses(&[far], &[1], DType::F64, &|_| init::trunc_normal(0.0, 1.0, f64::NEG_INFINITY, -38.0));
    refuses(&["scale is -1"], &[1], DType::F32, &|_| init::normal(0.0, -1.0));
    refuses(&["no random start values of i32"], &[1], DType::I32, &|_| init::normal(0.0, 1.0));
    refuses(&["eye need rank 2, not [2]"], &[2], DType::F32, &|_| init::eye());
    refuses(&["dirac need rank 3 to 5, not [2,2]"], &[2, 2], DType::F32, &|_| init::dirac(1));
    refuses(&["0 groups do not divide 2 outputs"], &[2, 2, 2], DType::F32, &|_| init::dirac(0));
    refuses(&["orthogonal need rank 2 or more, not [2]"], &[2], DType::F32, &|_| init::orthogonal(1.0));
    let other = Builder::new("other");
    let list = other.start_values(&[1.0]);
    refuses(&["leaf \"w\": its start values are of another builder"], &[1], DType::F32, &|_| list);
    refuses(&["of another builder"], &[1], DType::F32, &|g| {
        g.start_values(&[2.0]);
        list
    });
}

#[test]
fn a_list_that_differs_in_one_number_is_of_another_builder() {
    let taken = |ours: &[f64], theirs: &[f64]| {
        let (g, other) = (Builder::new("g"), Builder::new("other"));
        g.start_values(ours);
        g.param("w", [ours.len()], DType::F64, other.start_values(theirs));
        g.error().is_none()
    };
    let mut long = [0.5; 100];
    assert!(!taken(&[0.0], &[2.0]) && !taken(&[0.0], &[-0.0]));
    long[0] = 1.5;
    assert!(!taken(&[0.5; 100], &long));
}
