//! Complex numbers: values against formulas in f64, derivatives against differences of both parts, refusals, files.

use arenagrad::prelude::*;
use arenagrad::tools::arena::Node;
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::pipeline;

type C = [f64; 2];

fn times(a: C, b: C) -> C {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn over(a: C, b: C) -> C {
    let n = b[0] * b[0] + b[1] * b[1];
    let [re, im] = times(a, [b[0], -b[1]]);
    [re / n, im / n]
}

fn exp(z: C) -> C {
    [z[0].exp() * z[1].cos(), z[0].exp() * z[1].sin()]
}

fn log(z: C) -> C {
    [z[0].hypot(z[1]).ln(), z[1].atan2(z[0])]
}

fn plus(a: C, b: C, k: f64) -> C {
    [a[0] + k * b[0], a[1] + k * b[1]]
}

/// (eᶻ + k·e⁻ᶻ)/2: the hyperbolic cosine for k = 1, the sine for k = −1.
fn half(z: C, k: f64) -> C {
    let y = plus(exp(z), exp([-z[0], -z[1]]), k);
    [y[0] / 2.0, y[1] / 2.0]
}

fn turned(z: C) -> C {
    [-z[1], z[0]]
}

fn sinh(z: C) -> C {
    half(z, -1.0)
}

fn cosh(z: C) -> C {
    half(z, 1.0)
}

fn sin(z: C) -> C {
    let y = sinh(turned(z));
    [y[1], -y[0]]
}

fn cos(z: C) -> C {
    cosh(turned(z))
}

fn sqrt(z: C) -> C {
    let y = log(z);
    exp([y[0] / 2.0, y[1] / 2.0])
}

/// Points of all quadrants and of both axes, away from cuts and poles.
const POINTS: [C; 10] = [
    [0.5, 0.25],
    [-1.25, 0.5],
    [-0.75, -1.0],
    [1.5, -0.375],
    [2.0, 0.0],
    [0.0, 0.75],
    [0.0, -1.25],
    [0.3, 0.3],
    [-0.3, 0.3],
    [1e-3, -2e-3],
];

const OTHERS: [C; 10] = [
    [0.75, -0.5],
    [0.5, 1.5],
    [-1.0, 0.25],
    [0.3, 0.3],
    [0.0, 1.0],
    [-2.0, 0.0],
    [1.0, -1.0],
    [0.2, -0.7],
    [-0.4, 0.9],
    [1.0, 2.0],
];

type Function = for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>;

/// A function of two complex tensors, and its formula.
const FUNCTIONS: &[(&str, Function, fn(C, C) -> C)] = &[
    ("add", |a, b| a + b, |a, b| plus(a, b, 1.0)),
    ("sub", |a, b| a - b, |a, b| plus(a, b, -1.0)),
    ("mul", |a, b| a * b, times),
    ("mul by a number", |a, _| a * 3.0, |a, _| [3.0 * a[0], 3.0 * a[1]]),
    ("add a number", |a, _| 3.0 + a, |a, _| [3.0 + a[0], a[1]]),
    ("div", |a, b| a / b, over),
    ("div by a number", |a, _| a / 4.0, |a, _| [a[0] / 4.0, a[1] / 4.0]),
    ("a number by", |a, _| 2.0 / a, |a, _| over([2.0, 0.0], a)),
    ("neg", |a, _| -a, |a, _| [-a[0], -a[1]]),
    ("recip", |a, _| a.recip(), |a, _| over([1.0, 0.0], a)),
    ("square", |a, _| a.square(), |a, _| times(a, a)),
    ("exp", |a, _| a.exp(), |a, _| exp(a)),
    ("log", |a, _| a.log(), |a, _| log(a)),
    ("sqrt", |a, _| a.sqrt(), |a, _| sqrt(a)),
    ("rsqrt", |a, _| a.rsqrt(), |a, _| over([1.0, 0.0], sqrt(a))),
    ("sin", |a, _| a.sin(), |a, _| sin(a)),
    ("cos", |a, _| a.cos(), |a, _| cos(a)),
    ("tan", |a, _| a.tan(), |a, _| over(sin(a), cos(a))),
    ("sinh", |a, _| a.sinh(), |a, _| sinh(a)),
    ("cosh", |a, _| a.cosh(), |a, _| cosh(a)),
    ("tanh", |a, _| a.tanh(), |a, _| over(sinh(a), cosh(a))),
    ("pow", |a, b| a.pow(b), |a, b| exp(times(b, log(a)))),
    ("pow 3", |a, _| a.pow(3.0), |a, _| times(a, times(a, a))),
    ("pow -2", |a, _| a.pow(-2.0), |a, _| over([1.0, 0.0], times(a, a))),
    ("pow 0.5", |a, _| a.pow(0.5), |a, _| sqrt(a)),
    ("conj", |a, _| a.conj(), |a, _| [a[0], -a[1]]),
    ("abs", |a, b| a.abs().complex(b.abs2()), |a, b| [a[0].hypot(a[1]), b[0] * b[0] + b[1] * b[1]]),
    ("angle", |a, b| a.angle().complex(b.real()), |a, b| [a[1].atan2(a[0]), b[0]]),
    ("polar", |a, b| a.real().polar(b.imag()), |a, b| [a[0] * b[1].cos(), a[0] * b[1].sin()]),
    ("select", |a, b| a.real().less(b.real()).select(a, b), |a, b| if a[0] < b[0] { a } else { b }),
];

/// A program of `f` with the gradient of Σ Re y + 2·Σ Im y with respect to both operands, and the product of the
/// Hessian of the same sum of squares with a direction.
fn gradients(f: Function, dtype: DType) -> GraphBuf {
    let g = Builder::new("g");
    let (a, b) = (g.input("a", [10], dtype), g.input("b", [10], dtype));
    let y = f(a, b).tap("y");
    // Both operands take part, whatever f is.
    let loss = (y.real() + y.imag() * 2.0).sum(..) + (a.real() * 0.0 + b.real() * 0.0).sum(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    grad(&graph, "loss", &GradOptions::wrt(&["a", "b"])).unwrap()
}

fn close(what: &str, got: C, want: C, tolerance: f64) {
    let size = want[0].hypot(want[1]).max(1.0);
    let off = (got[0] - want[0]).hypot(got[1] - want[1]) / size;
    assert!(off <= tolerance, "{what}: {got:?} against {want:?}");
}

#[test]
fn functions_have_the_values_of_their_formulas() {
    for (name, f, formula) in FUNCTIONS {
        let graph = gradients(*f, DType::C128);
        let mut p = Session::new().compile(&graph).unwrap();
        p.values_mut::<C>("a").unwrap().copy_from_slice(&POINTS);
        p.values_mut::<C>("b").unwrap().copy_from_slice(&OTHERS);
        p.step().unwrap();
        for (i, got) in p.values::<C>("y").unwrap().iter().enumerate() {
            close(&format!("{name} of {:?}", POINTS[i]), *got, formula(POINTS[i], OTHERS[i]), 1e-13);
        }
        let small = gradients(*f, DType::C64);
        let mut p = Session::new().compile(&small).unwrap();
        let narrow = |z: &C| z.map(|x| x as f32);
        p.values_mut::<[f32; 2]>("a").unwrap().copy_from_slice(&POINTS.map(|z| narrow(&z)));
        p.values_mut::<[f32; 2]>("b").unwrap().copy_from_slice(&OTHERS.map(|z| narrow(&z)));
        p.step().unwrap();
        for (i, got) in p.values::<[f32; 2]>("y").unwrap().iter().enumerate() {
            close(&format!("{name} in c64"), got.map(f64::from), formula(POINTS[i], OTHERS[i]), 3e-6);
        }
    }
}

/// The value of a function of a scalar in `dtype`.
fn value(dtype: DType, z: C, f: for<'g> fn(Var<'g>) -> Var<'g>) -> C {
    let g = Builder::new("g");
    let z_in = g.input("z", [1], dtype);
    let mut p = Session::new().compile(&g.finish([f(z_in).named("y")]).unwrap()).unwrap();
    match dtype {
        DType::C64 => p.values_mut::<[f32; 2]>("z").unwrap()[0] = z.map(|x| x as f32),
        _ => p.values_mut::<C>("z").unwrap()[0] = z,
    }
    p.step().unwrap();
    match dtype {
        DType::C64 => p.values::<[f32; 2]>("y").unwrap()[0].map(f64::from),
        _ => p.values::<C>("y").unwrap()[0],
    }
}

#[test]
fn cuts_and_large_numbers() {
    let c64 = |z, f| value(DType::C64, z, f);
    assert_eq!(c64([-1.0, 0.0], |z| z.sqrt()), [0.0, 1.0]);
    assert_eq!(c64([-1.0, -0.0], |z| z.sqrt()), [0.0, -1.0]);
    assert_eq!(c64([0.0, 0.0], |z| z.sqrt()), [0.0, 0.0]);
    assert_eq!(c64([1e30, 1e30], |z| z / z), [1.0, 0.0]);
    assert_eq!(c64([3e38, 1e38], |z| z / z), [1.0, 0.0]);
    assert_eq!(c64([1e-38, 3e-38], |z| z / z), [1.0, 0.0]);
    let near = |got: C, want: C| close("large", [got[0] / want[0], got[1]], [1.0, want[1]], 1e-6);
    near(c64([2e38, 1.5e38], |z| z.abs().complex(z.abs() * 0.0)), [2.5e38, 0.0]);
    near(c64([2e38, -1.5e38], |z| z.sqrt().real().complex(z.real() * 0.0)), [(2.25e38f64).sqrt(), 0.0]);
    near(c64([80.0, 1.0], |z| z.tanh()), [1.0, 0.0]);
    near(c64([-500.0, 1.0], |z| z.tanh()), [-1.0, 0.0]);
    let c128 = |z, f| value(DType::C128, z, f);
    close("log above", c128([-1.0, 0.0], |z| z.log()), [0.0, std::f64::consts::PI], 1e-15);
    close("log below", c128([-1.0, -0.0], |z| z.log()), [0.0, -std::f64::consts::PI], 1e-15);
    // An integer power up to 16 is a product, without a rounded logarithm.
    assert_eq!(c128([1.0, 2.0], |z| z.pow(2.0)), [-3.0, 4.0]);
    assert_eq!(c128([1.0, 1.0], |z| z.pow(16.0)), [256.0, 0.0]);
    assert_eq!(c128([1.0, -1.0], |z| z.pow(-2.0)), [0.0, 0.5]);
    assert_eq!(c128([0.0, 0.0], |z| z.pow(2.5)), [0.0, 0.0]);
    assert_eq!(c128([0.0, 0.0], |z| z.pow(z)), [1.0, 0.0]);
    assert!(c128([0.0, 0.0], |z| z.pow(-0.5))[0].is_nan());
}

/// The gradient of `loss` with respect to the input `z` of these values, and the loss.
fn slopes(z: &[C], loss: for<'g> fn(Var<'g>) -> Var<'g>) -> (Vec<C>, f64) {
    let g = Builder::new("g");
    let x = g.input("z", [z.len()], DType::C128);
    let graph = g.finish([loss(x).named("loss")]).unwrap();
    let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["z"])).unwrap()).unwrap();
    p.values_mut::<C>("z").unwrap().copy_from_slice(z);
    p.step().unwrap();
    (p.values::<C>("grad.z").unwrap().to_vec(), p.values::<f64>("loss").unwrap()[0])
}

#[test]
fn cotangents_are_pairs_of_reals() {
    // L = |z|² gives 2z, L = Re z² gives conj(2z).
    assert_eq!(slopes(&POINTS, |z| z.abs2().sum(..)).0, POINTS.map(|[a, b]| [2.0 * a, 2.0 * b]));
    assert_eq!(slopes(&POINTS, |z| z.square().real().sum(..)).0, POINTS.map(|[a, b]| [2.0 * a, -2.0 * b]));
    // |z| and the angle have the derivative 0 at 0.
    assert_eq!(slopes(&[[0.0, 0.0]], |z| (z.abs() + z.angle() + z.sqrt().real()).sum(..)).0, [[0.0, 0.0]]);
}

#[test]
fn a_real_graph_through_complex_numbers_has_its_real_gradient() {
    let losses: [for<'g> fn(Var<'g>) -> Var<'g>; 2] =
        [|x| x.complex(x * x).abs2().sum(..), |x| (x * x + x * x * x * x).sum(..)];
    let slopes = losses.map(|loss| {
        let g = Builder::new("g");
        let x = g.input("x", [4], DType::F64);
        let graph = g.finish([loss(x).named("loss")]).unwrap();
        let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap()).unwrap();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.5, -1.0, 2.0, 0.0]);
        p.step().unwrap();
        p.values::<f64>("grad.x").unwrap().to_vec()
    });
    assert_eq!(slopes[0], [1.5, -6.0, 36.0, 0.0]);
    slopes[0].iter().zip(&slopes[1]).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
}

#[test]
fn simplification_cancels_joins_and_parts() {
    let nodes = |f: for<'g> fn(Var<'g>) -> Var<'g>| {
        let g = Builder::new("g");
        let z = g.input("z", [4], DType::C64);
        let graph = pipeline::run_whole_pipeline(&g.finish([f(z).named("y")]).unwrap()).unwrap();
        let v = graph.view();
        let count = |op: &str| (0..v.nodes()).filter(|&n| v.def_of(Node(n as u32)).name == op).count();
        ["complex", "real", "imag"].map(count)
    };
    assert_eq!(nodes(|z| z.conj().conj()), [0, 0, 0]);
    assert_eq!(nodes(|z| z.real().complex(z.imag())), [0, 0, 0]);
    // One join at the end, one part of each kind at the start.
    assert_eq!(nodes(|z| (z * z).exp() / (z + 1.0)), [1, 1, 1]);
    assert_eq!(nodes(|z| (z * z).reshape([2, 2]).t().broadcast([3, 2, 2]).real()), [0, 1, 1]);
}

/// The outputs `y` of a program with the complex inputs `a` and `b`.
fn outcome(dims: [&[usize]; 2], f: Function, data: [&[C]; 2]) -> Vec<C> {
    let g = Builder::new("g");
    let (a, b) = (g.input("a", dims[0], DType::C128), g.input("b", dims[1], DType::C128));
    let mut p = Session::new().compile(&g.finish([f(a, b).named("y")]).unwrap()).unwrap();
    p.values_mut::<C>("a").unwrap().copy_from_slice(data[0]);
    p.values_mut::<C>("b").unwrap().copy_from_slice(data[1]);
    p.step().unwrap();
    p.values::<C>("y").unwrap().to_vec()
}

fn sum(all: impl Iterator<Item = C>) -> C {
    all.fold([0.0, 0.0], |s, z| plus(s, z, 1.0))
}

#[test]
fn sums_and_products_of_tensors() {
    let (a, b) = (&POINTS[..6], &OTHERS[..6]);
    let product = |x: C, y: &C| times(x, *y);
    let each: [(&str, [&[usize]; 2], Function, Vec<C>); 9] = [
        ("sum", [&[6], &[6]], |a, _| a.sum(..), vec![sum(a.iter().copied())]),
        (
            "mean",
            [&[2, 3], &[6]],
            |a, _| a.mean([0]),
            (0..3).map(|i| over(plus(a[i], a[i + 3], 1.0), [2.0, 0.0])).collect(),
        ),
        ("prod", [&[6], &[6]], |a, _| a.prod(..), vec![a.iter().fold([1.0, 0.0], product)]),
        ("prod of an axis", [&[3, 2], &[6]], |a, _| a.prod([0]), {
            (0..2).map(|i| times(times(a[i], a[i + 2]), a[i + 4])).collect()
        }),
        ("prod of nothing", [&[6], &[6]], |a, _| a.narrow(0, 2, 0).prod(..), vec![[1.0, 0.0]]),
        ("cumsum", [&[6], &[6]], |a, _| a.cumsum(0, false, false), {
            (0..6).map(|i| sum(a[..=i].iter().copied())).collect()
        }),
        ("matmul", [&[2, 3], &[3, 2]], |a, b| a.matmul(b), {
            let at = |i: usize, j: usize| sum((0..3).map(|k| times(a[3 * i + k], b[2 * k + j])));
            (0..4).map(|e| at(e / 2, e % 2)).collect()
        }),
        ("dot_general", [&[6], &[6]], |a, b| a.dot_general(b, [&[], &[]], [&[0], &[0]]), {
            vec![sum((0..6).map(|k| times(a[k], b[k])))]
        }),
        ("scatter_add", [&[6], &[6]], |a, _| a.scatter_add(a.builder().iota(0, [6], DType::I64) / 2.0, 0, 4), {
            (0..4).map(|i| if i < 3 { plus(a[2 * i], a[2 * i + 1], 1.0) } else { [0.0, 0.0] }).collect()
        }),
    ];
    for (name, dims, f, want) in each {
        let got = outcome(dims, f, [a, b]);
        assert_eq!(got.len(), want.len(), "{name}");
        got.iter().zip(&want).for_each(|(g, w)| close(name, *g, *w, 1e-14));
    }
}

#[test]
fn moves_take_complex_numbers() {
    let (a, b) = (&POINTS[..6], &OTHERS[..6]);
    let y = |f: Function| outcome([&[2, 3], &[2, 3]], f, [a, b]);
    assert_eq!(y(|a, _| a.t()), [a[0], a[3], a[1], a[4], a[2], a[5]]);
    assert_eq!(y(|a, b| a.concat(&[b], 0)), [a, b].concat());
    assert_eq!(y(|a, _| a.flip(1)), [a[2], a[1], a[0], a[5], a[4], a[3]]);
    assert_eq!(y(|a, _| a.narrow(1, 1, 2)), [a[1], a[2], a[4], a[5]]);
    let edge = [-2.0, 0.0];
    assert_eq!(y(|a, _| a.pad(&[0, 1], &[0, 0], -2.0)), [edge, a[0], a[1], a[2], edge, a[3], a[4], a[5]]);
    assert_eq!(y(|a, _| a.full_like(1.5)), [[1.5, 0.0]; 6]);
    assert_eq!(y(|a, _| a.gather(a.builder().iota(0, [2], DType::I32), 1)), [a[0], a[1], a[3], a[4]]);
    assert_eq!(y(|a, _| a.cast(DType::C64).cast(DType::C128).real().cast(DType::C128)).len(), 6);
    assert_eq!(y(|a, b| a.equal(b).select(a, b)), [b[0], b[1], b[2], b[3], b[4], b[5]]);
    assert_eq!(y(|a, _| a.view_as_real().view_as_complex()), a);
}

#[test]
fn ops_without_complex_form_refuse() {
    let refused = |f: Function| {
        let g = Builder::new("g");
        let (a, b) = (g.input("a", [2, 2], DType::C64), g.input("b", [2, 2], DType::C64));
        g.finish([f(a, b)]).unwrap_err().to_string()
    };
    let real = "operand 0 is c64, and the op is for real numbers: take real(z) and imag(z)";
    let cases: [(&str, Function); 11] = [
        ("lt(c64[2,2], c64[2,2])", |a, b| a.less(b)),
        ("max(c64[2,2], c64[2,2])", |a, b| a.maximum(b)),
        ("floor(c64[2,2])", |a, _| a.floor()),
        ("softmax(c64[2,2])", |a, _| a.softmax(-1)),
        ("reduce_max(c64[2,2])", |a, _| a.amax(..)),
        ("arg_max(c64[2,2])", |a, _| a.arg_max(0, DType::I32)),
        ("relu(c64[2,2])", |a, _| a.relu()),
        ("atan2(c64[2,2], c64[2,2])", |a, b| a.atan2(b)),
        ("cumprod(c64[2,2])", |a, _| a.cumprod(0, false, false)),
        ("clamp(c64[2,2])", |a, _| a.clamp(0.0, 1.0)),
        ("complex(c64[2,2], c64[2,2])", |a, b| a.complex(b)),
    ];
    for (name, f) in cases {
        let e = refused(f);
        assert!(e.starts_with(name) && e.contains(real) && e.contains("complex.rs:"), "{name}: {e}");
    }
    let sorted = refused(|a, _| a.sort(-1, false).0);
    assert!(sorted.contains("arg_sort(c64[2,2]): no order of c64") || sorted.contains(real), "{sorted}");
    let e = refused(|a, _| a.cast(DType::F32));
    assert!(e.contains("no cast from c64 to f32"), "{e}");
    let e = refused(|a, b| a + b.real().cast(DType::F64));
    assert!(e.contains("add(") && e.contains("operand types differ; cast one of them"), "{e}");
    let e = refused(|a, _| a.real().imag());
    assert!(e.contains("imag(f32[2,2]): operand 0 is f32; c64 or c128 is needed"), "{e}");
    let g = Builder::new("g");
    let z = g.param("z", [3], DType::C64, Init::Ones);
    let graph = g.finish([z.sum(..).named("loss")]).unwrap();
    for e in [
        grad(&graph, "loss", &GradOptions::default()).unwrap_err().to_string(),
        train(&graph, "loss", optim::Sgd::new(0.1)).unwrap_err().to_string(),
    ] {
        assert!(e.contains("is c64[]") && e.contains("a loss is real: take its real part, or |z|²"), "{e}");
    }
    let e = text::parse("graph @g {\n  %a = input : c64[2]\n  %y = add %a, %a : c64[2]\n  return %y\n}\n").unwrap_err();
    assert!(e.to_string().contains(real), "{e}");
}

#[test]
fn loops_run_on_complex_carries() {
    // h ← h·w + xᵢ in a loop, and written out.
    let slopes = [true, false].map(|looped| {
        let g = Builder::new("g");
        let (x, w) = (g.input("x", [4, 2], DType::C128), g.input("w", [2], DType::C128));
        let start = g.full(0.5, [2], DType::C128);
        let last = match looped {
            true => g.scan(&[start], &[x], |h, x| (vec![h[0] * w + x[0]], vec![])).0[0],
            false => (0..4).fold(start, |h, i| h * w + x.narrow(0, i, 1).reshape([2])),
        };
        let graph = g.finish([last.abs2().sum(..).named("loss")]).unwrap();
        let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["x", "w"])).unwrap()).unwrap();
        p.values_mut::<C>("x").unwrap().copy_from_slice(&POINTS[..8]);
        p.values_mut::<C>("w").unwrap().copy_from_slice(&OTHERS[..2]);
        p.step().unwrap();
        [p.values::<C>("grad.x").unwrap(), p.values::<C>("grad.w").unwrap()].concat()
    });
    assert!(slopes[0].iter().all(|z| z[0] != 0.0 || z[1] != 0.0));
    slopes[0].iter().zip(&slopes[1]).for_each(|(a, b)| close("slope", *a, *b, 1e-13));
}
