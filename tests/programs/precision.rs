//! The precision of products, from sessions: what trains, what a pattern claims, and what stays as it was.

#![allow(clippy::unwrap_used)]

use arenagrad::Precision::{self, Bf16, Bf16x2, Bf16x3, F32};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Init};
use arenagrad::optim::{self, LR, train};
use arenagrad::session::{Elem, Program, Session};

// Two params of one shape side by side.
const SIZES: [usize; 5] = [100, 192, 192, 192, 10];
const BATCH: usize = 128;

/// A step of an MLP with Adam.
fn mlp(dtype: DType) -> GraphBuf {
    let g = Builder::new("mlp");
    let mut x = g.input("x", [BATCH, SIZES[0]], dtype);
    let y = g.input("y", [BATCH], DType::I32);
    for (i, s) in SIZES.windows(2).enumerate() {
        let w = g.param(&format!("w{i}"), [s[0], s[1]], dtype, Init::Normal(0.1));
        let b = g.param(&format!("b{i}"), [s[1]], dtype, Init::Zeros);
        x = x.matmul(w) + b;
        x = if i + 2 < SIZES.len() { x.relu() } else { x };
    }
    let graph = g.finish([x.cross_entropy_with(y, CrossEntropy::per_row()).mean(..).named("loss")]).unwrap();
    train(&graph, "loss", optim::Adam::new(3e-3)).unwrap()
}

/// Losses of some steps on one batch, and the bytes of all params and states after them.
fn steps<T: Elem + Copy>(
    mut p: Program,
    number: impl Fn(f64) -> T,
    of: impl Fn(T) -> f64,
    rate: &[T],
) -> (Vec<f64>, Vec<u8>) {
    p.init(3).unwrap();
    p.values_mut::<T>(LR).unwrap().copy_from_slice(rate);
    let x = p.values_mut::<T>("x").unwrap();
    x.iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x = number(f64::from((i as u32).wrapping_mul(2_654_435_761) >> 8) / 8_388_608.0 - 1.0));
    let y = p.values_mut::<i32>("y").unwrap();
    y.iter_mut().enumerate().for_each(|(i, y)| *y = (i * 7 % 10) as i32);
    let losses = (0..30).map(|_| {
        p.step().unwrap();
        of(p.values::<T>("loss").unwrap()[0])
    });
    let losses = losses.collect();
    (losses, p.persistent().flat_map(|(_, bytes)| bytes.to_vec()).collect())
}

fn run(s: &Session) -> (Vec<f64>, Vec<u8>) {
    steps::<f32>(s.compile(&mlp(DType::F32)).unwrap(), |x| x as f32, f64::from, &[3e-3])
}

#[test]
fn a_network_trains_with_the_same_bits_on_any_number_of_threads() {
    let (exact, whole) = run(&Session::new());
    for (precision, near) in [(Bf16, 0.05), (Bf16x2, 1e-3), (Bf16x3, 1e-4)] {
        let session = Session::new().precision(precision);
        let (losses, weights) = run(&session);
        assert!(losses[29] < 0.5 * losses[0], "{precision:?}: {losses:?}");
        assert_eq!(weights == whole, precision.here() == F32, "{precision:?} and the weights of f32");
        // Before Adam, which divides by what is near zero, has made much of little.
        let off = losses.iter().zip(&exact).take(3).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < near, "{precision:?} is off by {off}");
        for threads in [2, 3, 7] {
            let many = session.clone().threads(threads);
            // Fewer than it may, where the model has more gain nothing.
            let used = many.compile(&mlp(DType::F32)).unwrap().threads();
            assert!((threads.div_ceil(2).max(2)..=threads).contains(&used), "{used} of {threads} threads");
            assert!(run(&many) == (losses.clone(), weights.clone()), "{precision:?} on {threads} threads");
        }
        assert!(run(&session.clone().poison(true)) == (losses.clone(), weights.clone()), "{precision:?}, poisoned");
        let least = session.budgets(&mlp(DType::F32)).unwrap().last().unwrap().arena_bytes;
        assert!(run(&session.memory_budget(least)) == (losses, weights), "{precision:?} in {least} bytes");
    }
}

#[test]
fn programs_in_f64_are_left_alone() {
    let run = |s: Session| steps::<f64>(s.compile(&mlp(DType::F64)).unwrap(), |x| x, |x| x, &[3e-3]);
    assert!(run(Session::new()) == run(Session::new().precision(Bf16)));
    let plan = Session::new().precision(Bf16).plan(&mlp(DType::F64)).unwrap();
    assert_eq!(plan.products, [0; 4]);
}

#[test]
fn a_pattern_claims_a_params_products_and_those_of_its_gradient() {
    let graph = mlp(DType::F32);
    let products = |s: Session| s.plan(&graph).unwrap().products;
    // Forward, gradient of x, gradient of w; the first layer's x is an input.
    assert_eq!(products(Session::new()), [11, 0, 0, 0]);
    assert_eq!(products(Session::new().precision(Bf16)), [0, 0, 0, 11]);
    assert_eq!(products(Session::new().precision_of("w1", Bf16)), [8, 0, 0, 3]);
    assert_eq!(products(Session::new().precision_of("w0", Bf16)), [9, 0, 0, 2]);
    // A bias's gradient comes from the epilogue of a product that makes something else.
    assert_eq!(products(Session::new().precision_of("b0", Bf16)), [10, 0, 0, 1]);
    assert_eq!(products(Session::new().precision_of("*0", Bf16)), [9, 0, 0, 2]);
    // Reports say what is computed, where that is not what was asked for.
    let report = if Bf16x3.here() == F32 { "bf16x3 (as f32)" } else { "bf16x3" };
    assert_eq!((Bf16x3.report(), Bf16.report(), F32.report()), (report.into(), "bf16".into(), "f32".into()));
    let split = if Bf16x3.here() == F32 { [11, 0, 0, 0] } else { [3, 8, 0, 0] };
    assert_eq!(products(Session::new().precision(Bf16).precision_of("w3", F32).precision_of("w*", Bf16x3)), split);
    assert!(run(&Session::new().precision_of("w*", Bf16)) == run(&Session::new().precision(Bf16)));
    let e = Session::new().precision_of("v*", Bf16).compile(&graph).err().unwrap().to_string();
    assert!(e.contains("\"v*\" matches no param; there are w0, b0"), "{e}");
}

/// Vectors are updated by one step, whose operands are the gradients of both.
#[test]
fn a_pattern_claims_the_products_of_one_param_of_a_common_step() {
    let g = Builder::new("vectors");
    let x = g.input("x", [4096, 32], DType::F32);
    let loss = ["a", "b"].map(|name| {
        let w = g.param(name, [1024], DType::F32, Init::Normal(0.1));
        x.matmul(w.reshape([32, 32])).tanh().mean(..)
    });
    let graph = g.finish([(loss[0] + loss[1]).named("loss")]).unwrap();
    let graph = train(&graph, "loss", optim::Sgd::new(0.1)).unwrap();
    let products = |s: Session| s.plan(&graph).unwrap().products;
    assert_eq!(products(Session::new()), [4, 0, 0, 0]);
    assert_eq!(products(Session::new().precision_of("a", Bf16)), [2, 0, 0, 2]);
    assert_eq!(products(Session::new().precision_of("b", Bf16)), [2, 0, 0, 2]);
}

#[test]
fn general_products_and_those_in_loops_follow() {
    let g = Builder::new("general");
    let (x, w) = (g.input("x", [3, 128, 140], DType::F32), g.param("w", [3, 140, 90], DType::F32, Init::Normal(1.0)));
    let once = x.dot_general(w, [&[0], &[0]], [&[2], &[1]]);
    let v = g.input("v", [130, 140], DType::F32);
    let u = g.param("u", [140, 96], DType::F32, Init::Normal(1.0));
    let looped = g.scan(&[], &[x], |_, x| (Vec::new(), vec![x[0].matmul(u)]));
    let outputs = [once.named("once"), v.matmul_t(v, false, true).named("square"), looped.1[0].named("looped")];
    let graph = g.finish(outputs).unwrap();
    let out = |p: Precision| {
        let mut p = Session::new().precision(p).compile(&graph).unwrap();
        p.init(1).unwrap();
        for name in ["x", "v"] {
            p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
        }
        p.step().unwrap();
        ["once", "square", "looped"].map(|name| p.values::<f32>(name).unwrap().to_vec())
    };
    let exact = out(F32);
    for (precision, near) in [(Bf16, 0.3), (Bf16x2, 1e-3), (Bf16x3, 1e-4)] {
        for (got, want) in out(precision).iter().zip(&exact) {
            let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < near && (off > 0.0) == (precision.here() != F32), "{precision:?} is off by {off}");
        }
    }
}
