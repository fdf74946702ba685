//! Networks of integers: they compute what the networks with rounded numbers compute, in every code.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::quant::{FakeQuantize, Lsq, Qat};
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::nn;
use arenagrad::optim::{Sgd, train};
use arenagrad::session::{Elem, Program, Role, Session, export_int8};
use arenagrad::tools::arena::Node;

/// Images of a batch.
const BATCH: usize = 16;

/// A net with all that is exported: padding, strides, groups, pools, several readers of a value.
fn net(dtype: DType) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [BATCH, 2, 9, 9], dtype);
    let same = Conv2d::default().padding(1);
    let c = nn::conv2d(&g, "conv1", x, 4, 3, same).relu().max_pool2d(Pool2d::new(3));
    let c = nn::conv2d(&g, "conv2", c, 4, 2, Conv2d::default().padding(1).stride(2).groups(2));
    let h = c.relu().reshape([BATCH, 16]).named("conv");
    let a = nn::linear(&g, "fc1", h, 12).relu();
    let b = nn::linear_no_bias(&g, "fc2", h, 12);
    let product = (a * b).named("product");
    let y = nn::linear(&g, "fc3", product.reshape([BATCH / 4, 4, 12]), 5).named("y");
    let right = (y * 0.3).matmul(g.param("right.weight", [5, 3], dtype, Init::Uniform(1.0))).named("z");
    g.finish([(y.square().mean(..) + right.square().mean(..)).named("loss"), h, product, y, right]).unwrap()
}

fn options() -> Qat {
    Qat::int8().weights("*.weight")
}

/// Gives the params and states of `to` the values of those of `from`.
fn copy_all(from: &Program, to: &mut Program) {
    let names: Vec<String> = to.persistent().map(|(b, _)| b.name.clone()).collect();
    for name in names {
        let x = from.persistent().find(|(b, _)| b.name == name).unwrap().1;
        to.write_bytes(&name, x).unwrap();
    }
}

/// Writes numbers between −1.2 and 1.2 to the input.
fn fill<T: Elem>(p: &mut Program, of: impl Fn(f64) -> T) {
    for (i, x) in p.values_mut::<T>("x").unwrap().iter_mut().enumerate() {
        *x = of(((i * 7919) % 1201) as f64 / 500.0 - 1.2);
    }
}

/// How far the results of the net of integers are from those of the rounded net, by name.
fn distances<T: Elem>(dtype: DType, of: fn(f64) -> T, wide: fn(T) -> f64) -> Vec<(&'static str, f64)> {
    let mut step =
        Session::new().compile(&train(&net(dtype).qat(&options()).unwrap(), "loss", Sgd::new(0.02)).unwrap()).unwrap();
    step.init(4).unwrap();
    fill(&mut step, of);
    for _ in 0..20 {
        step.step().unwrap();
    }
    let rounded = net(dtype).qat(&options().training(false)).unwrap();
    let integers = export_int8(&rounded, &step).unwrap();
    let v = integers.view();
    let count = |op: &str| (0..v.nodes()).filter(|&n| v.def_of(Node(n as u32)).name == op).count();
    assert_eq!((count("q_conv2d"), count("q_matmul"), count("conv2d"), count("matmul")), (2, 4, 0, 0));
    assert_eq!(count("fake_quantize") + count("param") + count("state"), 0);
    let run = |g: &GraphBuf| {
        let mut p = Session::new().compile(g).unwrap();
        copy_all(&step, &mut p);
        fill(&mut p, of);
        p.step().unwrap();
        p
    };
    let (a, b) = (run(&rounded), run(&integers));
    let distance = |name: &'static str| {
        let (x, y) = (a.values::<T>(name).unwrap(), b.values::<T>(name).unwrap());
        assert!(x.iter().any(|&x| wide(x).abs() > 1e-3), "{name}");
        (name, x.iter().zip(y).map(|(&x, &y)| (wide(x) - wide(y)).abs()).fold(0.0, f64::max))
    };
    ["conv", "product", "y", "z", "loss"].map(distance).into()
}

/// A code that differs moves results by about a hundredth. So results that agree to nine digits come from equal codes.
#[test]
fn the_net_of_integers_has_every_code_of_the_rounded_net() {
    for (name, distance) in distances(DType::F64, |x| x, |x: f64| x) {
        assert!(distance < 1e-9, "{name}: {distance}");
    }
}

/// In `f32` the rounding of a sum may decide a code.
#[test]
fn in_f32_codes_differ_by_one_at_most() {
    for (name, distance) in distances(DType::F32, |x| x as f32, f64::from) {
        assert!(distance < 0.05, "{name}: {distance}");
    }
}

#[test]
fn zero_points_and_learned_scales_are_exported() {
    let g = Builder::new("affine");
    let x = g.input("x", [3, 4], DType::F64);
    let w = g.param("w", [4, 2], DType::F64, Init::Uniform(1.0));
    let v = g.param("v", [2, 2], DType::F64, Init::Uniform(1.0));
    let (s, z) = (g.param("s", [], DType::F64, Init::Constant(0.01)), g.full(117.0, [], DType::I32));
    let rounded =
        w.fake_quantize(g.full(0.01, [], DType::F64), g.full(-5.0, [], DType::I32), FakeQuantize::affine(-100, 90));
    let h = x.fake_quantize(g.full(0.011, [], DType::F64), z, FakeQuantize::affine(0, 255)).matmul(rounded);
    let y = h.lsq(s, Lsq::unsigned_bits(7)).matmul(v.lsq(s * 0.5, Lsq::bits(8)));
    let graph = g.finish([y.named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(7).unwrap();
    fill(&mut p, |x| x);
    p.step().unwrap();
    let integers = export_int8(&graph, &p).unwrap();
    let mut q = Session::new().compile(&integers).unwrap();
    fill(&mut q, |x| x);
    q.step().unwrap();
    assert!(p.values::<f64>("y").unwrap().iter().any(|y| *y != 0.0));
    for (a, b) in p.values::<f64>("y").unwrap().iter().zip(q.values::<f64>("y").unwrap()) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
}

#[test]
fn what_cannot_be_exported_is_an_error() {
    let p = {
        let mut p = Session::new().compile(&net(DType::F32)).unwrap();
        p.init(1).unwrap();
        p
    };
    let e = export_int8(&net(DType::F32), &p).unwrap_err().to_string();
    assert!(e.contains("no product of the graph has two rounded operands"), "{e}");
    let e = export_int8(&net(DType::F32).qat(&options()).unwrap(), &p).unwrap_err().to_string();
    assert!(e.contains("updates \"conv1.input.scale\""), "{e}");
    let eval = net(DType::F32).qat(&options().training(false)).unwrap();
    let e = export_int8(&eval, &p).unwrap_err().to_string();
    assert!(e.contains("no param or state \"conv1.input.scale\""), "{e}");
    let mut q = Session::new().compile(&eval).unwrap();
    q.init(1).unwrap();
    let e = export_int8(&eval, &q).unwrap_err().to_string();
    assert!(e.contains("a scale is not above 0"), "{e}");
}

#[test]
fn one_bad_scale_of_several_is_an_error() {
    for dtype in [DType::F32, DType::F64] {
        let g = Builder::new("scales");
        let (x, w) = (g.input("x", [3, 4], dtype), g.param("w", [4, 2], dtype, Init::Uniform(1.0)));
        let (each, one) = (g.param("each", [4], dtype, Init::Constant(0.01)), g.full(0.01, [], dtype));
        let columns = x.fake_quantize(each, None, FakeQuantize::bits(8).axis(1));
        let [x, w] = [x, w].map(|x| x.fake_quantize(one, None, FakeQuantize::bits(8)));
        let graph = g.finish([columns.named("columns"), x.matmul(w).named("y")]).unwrap();
        let mut p = Session::new().compile(&graph).unwrap();
        p.init(1).unwrap();
        export_int8(&graph, &p).unwrap();
        for bad in [0.0, -0.01, f64::INFINITY, f64::NAN] {
            let scales = [0.01, 0.01, bad, 0.01];
            let bytes = match dtype {
                DType::F32 => scales.map(|s| (s as f32).to_ne_bytes()).concat(),
                _ => scales.map(f64::to_ne_bytes).concat(),
            };
            p.write_bytes("each", &bytes).unwrap();
            let e = export_int8(&graph, &p).unwrap_err().to_string();
            assert!(e.contains("a scale is not above 0 and finite"), "{dtype}, {bad}: {e}");
        }
    }
}

/// Halfway between two codes, x/s and x·(1/s) may round to different ones.
#[test]
fn learned_scales_have_the_codes_of_a_division() {
    let (n, s) = (4001, 0.808f32);
    let g = Builder::new("ties");
    let (x, w) = (g.input("x", [n, 1], DType::F32), g.param("w", [1, n], DType::F32, Init::Ones));
    let (s_x, s_w) = (g.param("s_x", [], DType::F32, Init::Constant(s.into())), g.full(s.into(), [], DType::F32));
    let one = g.input("one", [1, 1], DType::F32);
    let (rounded, codes) = (x.lsq(s_x, Lsq::codes(-90, 110)), w.lsq(s_w, Lsq::bits(8)));
    let unit = |x| one_code(&g, x);
    let graph = g.finish([rounded.matmul(unit(one)).named("x.y"), unit(one).matmul(codes).named("w.y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    let ties: Vec<f32> = (0..n).map(|i| ((i % 161) as f32 - 79.5) * s).collect();
    let differs = |x: &&f32| (*x / s).round_ties_even() != (*x * (1.0 / s)).round_ties_even();
    assert!(ties.iter().filter(differs).count() > 100);
    p.values_mut::<f32>("w").unwrap().copy_from_slice(&ties);
    let integers = export_int8(&graph, &p).unwrap();
    let mut q = Session::new().compile(&integers).unwrap();
    for p in [&mut p, &mut q] {
        p.values_mut::<f32>("x").unwrap().copy_from_slice(&ties);
        p.values_mut::<f32>("one").unwrap()[0] = 1.0;
        p.step().unwrap();
    }
    for name in ["x.y", "w.y"] {
        let (a, b) = (p.values::<f32>(name).unwrap(), q.values::<f32>(name).unwrap());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3), "{name}");
    }
}

/// `x` rounded to whole numbers.
fn one_code<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    x.fake_quantize(g.full(1.0, [], DType::F32), None, FakeQuantize::bits(8))
}

#[test]
fn weights_that_were_never_set_are_not_exported() {
    let net = || {
        let g = Builder::new("unset");
        let (x, w) = (g.input("x", [2, 3], DType::F32), g.param("w", [3, 2], DType::F32, Init::Ones));
        let b = g.param("b", [2], DType::F32, Init::Ones);
        let kept = g.state("kept", [2], DType::F32, Init::Ones);
        g.finish([(one_code(&g, x).matmul(one_code(&g, w)) + b + kept).named("y")]).unwrap()
    };
    let mut p = Session::new().compile(&net()).unwrap();
    for name in ["w", "b", "kept"] {
        let e = export_int8(&net(), &p).unwrap_err().to_string();
        assert!(e.contains(&format!("{name:?} was neither initialised nor loaded")), "{e}");
        p.values_mut::<f32>(name).unwrap().fill(1.0);
    }
    export_int8(&net(), &p).unwrap();
}

/// How many products of the exported graph are of codes, after a check that it computes what `graph` does. The input is
/// `x`, and all is `f64`.
fn products_of_codes(graph: &GraphBuf) -> usize {
    let mut p = Session::new().compile(graph).unwrap();
    p.init(1).unwrap();
    let integers = export_int8(graph, &p).unwrap();
    let mut q = Session::new().compile(&integers).unwrap();
    for p in [&mut p, &mut q] {
        fill(p, |x| x);
        p.step().unwrap();
    }
    for b in p.bindings().iter().filter(|b| b.role == Role::Output) {
        let [a, b] = [&p, &q].map(|p| p.get(p.output::<f64>(&b.name).unwrap()).unwrap());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{a:?} {b:?}");
    }
    let v = integers.view();
    let names = (0..v.nodes()).map(|n| v.def_of(Node(n as u32)).name);
    names.filter(|name| ["q_matmul", "q_conv2d"].contains(name)).count()
}

/// `x` rounded to 8 bits with one scale.
fn coded<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    x.fake_quantize(g.full(0.011, [], DType::F64), None, FakeQuantize::bits(8))
}

/// The same, with a scale for each position of axis `axis`.
fn coded_by_axis<'g>(g: &'g Builder, x: Var<'g>, axis: i64) -> Var<'g> {
    let scales: Vec<f64> = (0..x.dims()[axis as usize]).map(|i| 0.01 + 0.001 * i as f64).collect();
    x.fake_quantize(g.constant_f64(&scales, [scales.len()]), None, FakeQuantize::bits(8).axis(axis))
}

/// A param of numbers below 1.
fn weight<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.param(name, dims, DType::F64, Init::Uniform(1.0))
}

#[test]
fn a_product_whose_zero_point_is_beyond_i8_stays_in_floats() {
    // Codes 1 to 200 fit with a shift of 128. Those of 2 to 257 and a zero point of 300 do not.
    for (lo, hi, zero, whole) in [
        (1, 200, 0, true),
        (2, 257, 0, false),
        (0, 255, 300, false),
        (0, 255, 255, true),
        (0, 255, -1, false),
        (-128, 127, 1, true),
        (-128, 127, 128, false),
    ] {
        let g = Builder::new("far");
        let x = g.input("x", [5, 4], DType::F64);
        let (s, z) = (g.full(0.011, [], DType::F64), g.full(f64::from(zero), [], DType::I32));
        let h = x.fake_quantize(s, z, FakeQuantize::affine(lo, hi));
        let w = coded(&g, weight(&g, "w", &[4, 2]));
        // Another product, so that there is one to export.
        let graph = g.finish([h.matmul(w).named("y"), coded(&g, x).matmul(w).named("near")]).unwrap();
        assert_eq!(products_of_codes(&graph), 1 + usize::from(whole), "{lo}..={hi} by {zero}");
    }
}

#[test]
fn codes_are_followed_through_moves_while_their_scales_keep_an_axis() {
    let g = Builder::new("moves");
    let x = coded(&g, g.input("x", [6, 4], DType::F64));
    let (rows, w) = (x.reshape([2, 3, 4]), coded_by_axis(&g, weight(&g, "w", &[2, 4]), 0));
    let turned = w.transpose(&[1, 0]);
    let y = rows.matmul(turned);
    let same = rows.transpose(&[0, 2, 1]).matmul_t(turned, true, false);
    let mixed = x.matmul(w.reshape([4, 2]));
    let graph = g.finish([y.named("y"), same.named("same"), mixed.named("mixed")]).unwrap();
    assert_eq!(products_of_codes(&graph), 2);
}

#[test]
fn products_with_scales_of_other_axes_or_of_several_matrices_stay_in_floats() {
    let g = Builder::new("axes");
    let x = g.input("x", [6, 4], DType::F64);
    let w = weight(&g, "w", &[4, 3]);
    for (x, w, name) in [
        (coded(&g, x), coded(&g, w), "coded"),
        (coded_by_axis(&g, x, 1), coded(&g, w), "columns of x"),
        (coded(&g, x), coded_by_axis(&g, w, 0), "rows of w"),
        (coded(&g, x).reshape([2, 3, 4]), coded(&g, weight(&g, "two", &[2, 4, 5])), "two matrices"),
    ] {
        g.output(name, x.matmul(w));
    }
    let (image, k) = (x.reshape([1, 2, 3, 4]), weight(&g, "k", &[3, 2, 2, 2]));
    for (x, k, name) in [
        (coded(&g, image), coded(&g, k), "coded image"),
        (coded_by_axis(&g, image, 1), coded(&g, k), "channels of the image"),
        (coded(&g, image), coded_by_axis(&g, k, 1), "channels of the kernel"),
    ] {
        g.output(name, x.conv2d(k, Conv2d::default()));
    }
    assert_eq!(products_of_codes(&g.finish([]).unwrap()), 2);
}

#[test]
fn sums_of_more_terms_than_32_bits_hold_stay_in_floats() {
    for (terms, products) in [(33_000, 3), (33_001, 1)] {
        let g = Builder::new("long");
        let x = g.input("x", [1, terms], DType::F64);
        let (long, near) = (coded(&g, x), coded(&g, x.narrow(1, 0, 4)));
        g.output("near", near.matmul(coded(&g, weight(&g, "near.weight", &[4, 1]))));
        g.output("product", long.matmul(coded(&g, weight(&g, "w", &[terms, 1]))));
        let k = coded(&g, weight(&g, "k", &[1, terms, 1, 1]));
        g.output("window", long.reshape([1, terms, 1, 1]).conv2d(k, Conv2d::default()));
        assert_eq!(products_of_codes(&g.finish([]).unwrap()), products, "{terms} terms");
    }
}

#[test]
fn several_zero_points_are_those_of_their_columns() {
    for (zeros, products) in [([0, 3, 0], 1), ([3, 3, 3], 2), ([0, 0, 0], 2)] {
        let g = Builder::new("zeros");
        let x = coded(&g, g.input("x", [5, 4], DType::F64));
        let scales = g.constant_f64(&[0.01, 0.012, 0.014], [3]);
        let zeros = g.constant_bytes(&zeros.map(i32::to_le_bytes).concat(), [3], DType::I32);
        let w = weight(&g, "w", &[4, 3]);
        let columns = w.fake_quantize(scales, zeros, FakeQuantize::affine(-100, 90).axis(1));
        let graph = g.finish([x.matmul(columns).named("y"), x.matmul(coded(&g, w)).named("near")]).unwrap();
        assert_eq!(products_of_codes(&graph), products);
    }
}

#[test]
fn learned_codes_of_8_bits_without_a_sign_are_shifted() {
    let g = Builder::new("unsigned");
    let (x, s) = (g.input("x", [5, 4], DType::F64), g.param("s", [], DType::F64, Init::Constant(0.004)));
    let w = weight(&g, "w", &[4, 2]).lsq(g.full(0.01, [], DType::F64), Lsq::bits(8));
    assert_eq!(products_of_codes(&g.finish([x.lsq(s, Lsq::unsigned_bits(8)).matmul(w).named("y")]).unwrap()), 1);
}

#[test]
fn a_weight_of_another_type_or_shape_is_not_exported() {
    let net = |dtype: DType, n: usize| {
        let g = Builder::new("types");
        let (x, w) = (g.input("x", [2, 3], dtype), g.param("w", [3, n], dtype, Init::Ones));
        let [x, w] = [x, w].map(|x| x.fake_quantize(g.full(0.5, [], dtype), None, FakeQuantize::bits(8)));
        g.finish([x.matmul(w).named("y")]).unwrap()
    };
    for (dtype, n, is) in [(DType::F64, 2, "f64[3,2]"), (DType::F32, 4, "f32[3,4]")] {
        let mut p = Session::new().compile(&net(dtype, n)).unwrap();
        p.init(0).unwrap();
        let e = export_int8(&net(DType::F32, 2), &p).unwrap_err().message;
        assert_eq!(e, format!("export_int8: \"w\" is {is} in the program, and f32[3,2] in the graph"));
    }
}
