//! Networks of integers: they compute what the networks with rounded numbers compute, in every code.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, Conv2d, DType, FakeQuantize, GraphBuf, Init, Lsq, Pool2d, Qat};
use arenagrad::nn;
use arenagrad::optim::{Sgd, train};
use arenagrad::session::{Elem, Program, Session, export_int8};
use arenagrad::tools::arena::Node;

/// Images of a batch.
const BATCH: usize = 16;

/// A net with all that is exported: padding, strides, groups, pools, several readers of a value.
fn net(dtype: DType) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [BATCH, 2, 9, 9], dtype);
    let same = Conv2d::default().padding(1);
    let c = nn::conv2d(&g, "conv1", x, 4, 3, same).relu().max_pool2d(Pool2d::new(3));
    let c = nn::conv2d_with(&g, "conv2", c, 4, 2, Conv2d::default().padding(1).stride(2).groups(2).into());
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
