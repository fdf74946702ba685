//! Normalising layers against torch, step by step, in f64: losses, gradients of the input, weights, running statistics.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, BatchNorm};
use arenagrad::op::Op;
use arenagrad::session::{Program, Role, Session};
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// A difference that is NaN is no agreement.
fn nan_is_far(d: f64) -> f64 {
    if d.is_nan() { f64::INFINITY } else { d }
}

const LR: f64 = 0.05;
const X: [usize; 3] = [4, 6, 5];

fn fixture() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/norms.safetensors")).unwrap()
}

fn numbers(f: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let t = f.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(t.dtype(), Dtype::F64, "{name}");
    t.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()
}

fn near(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let far =
        ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).map(nan_is_far).fold(0.0, f64::max);
    assert!(far < 1e-12, "{what}: {far:e}");
}

/// A program with the loss, the gradients of x and of all params, and updates of params by hand.
fn program(layer: impl for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>) -> Program {
    let g = Builder::new("norm");
    let (x, target) = (g.input("x", X, DType::F64), g.input("target", X, DType::F64));
    let loss = layer(&g, x).mse(target);
    let f = g.finish([loss.named("loss")]).unwrap();
    let names: Vec<String> =
        f.view().leaves().filter(|l| l.name.starts_with("n.")).map(|l| l.name.to_string()).collect();
    let states = ["n.running_mean", "n.running_var", "n.num_batches_tracked"];
    let params = names.iter().map(String::as_str).filter(|n| !states.contains(n));
    let wrt: Vec<&str> = std::iter::once("x").chain(params).collect();
    let step = grad(&f, "loss", &GradOptions::wrt(&wrt)).unwrap();
    Session::new().compile(&step).unwrap()
}

fn follow(name: &str, layer: impl for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>) -> Program {
    let bytes = fixture();
    let f = SafeTensors::deserialize(&bytes).unwrap();
    let mut p = program(layer);
    p.init(0).unwrap();
    let params: Vec<String> = p.bindings().iter().filter(|b| b.role == Role::Param).map(|b| b.name.clone()).collect();
    let short = |n: &str| n.trim_start_matches("n.").to_string();
    for n in &params {
        p.values_mut::<f64>(n).unwrap().copy_from_slice(&numbers(&f, &format!("{name}.start.{}", short(n))));
    }
    p.values_mut::<f64>("target").unwrap().copy_from_slice(&numbers(&f, "target"));
    let (x, losses, dx) =
        (numbers(&f, "x"), numbers(&f, &format!("{name}.losses")), numbers(&f, &format!("{name}.dx")));
    let size = X.iter().product::<usize>();
    for (step, loss) in losses.iter().enumerate() {
        let now = step * size..(step + 1) * size;
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&x[now.clone()]);
        p.step().unwrap();
        near(p.values("loss").unwrap(), &[*loss], &format!("{name}: loss {step}"));
        near(p.values("grad.x").unwrap(), &dx[now], &format!("{name}: dx {step}"));
        for n in &params {
            let g = p.values::<f64>(&format!("grad.{n}")).unwrap().to_vec();
            p.values_mut::<f64>(n).unwrap().iter_mut().zip(g).for_each(|(w, g)| *w -= LR * g);
        }
    }
    for n in &params {
        near(p.values(n).unwrap(), &numbers(&f, &format!("{name}.end.{}", short(n))), &format!("{name}: {n}"));
    }
    p
}

#[test]
fn layer_norm_is_torchs() {
    follow("layer", |g, x| nn::layer_norm(g, "n", x, 1e-5));
}

#[test]
fn rms_norm_is_torchs() {
    follow("rms", |g, x| nn::rms_norm(g, "n", x, 1e-6));
}

#[test]
fn group_norm_is_torchs() {
    follow("group", |g, x| nn::group_norm(g, "n", x, 3, 1e-5));
}

#[test]
fn instance_norm_is_torchs() {
    follow("instance", |g, x| nn::instance_norm(g, x, 1e-5));
}

#[test]
fn batch_norm_is_torchs_in_training_and_after() {
    let options = BatchNorm::default().momentum(0.2);
    let p = follow("batch", |g, x| nn::batch_norm(g, "n", x, options));
    let bytes = fixture();
    let f = SafeTensors::deserialize(&bytes).unwrap();
    for n in ["running_mean", "running_var"] {
        near(p.values(&format!("n.{n}")).unwrap(), &numbers(&f, &format!("batch.end.{n}")), n);
    }
    assert_eq!(p.values::<i64>("n.num_batches_tracked").unwrap(), [3]);
    let g = Builder::new("eval");
    let x = g.input("x", X, DType::F64);
    let y = nn::batch_norm(&g, "n", x, options.training(false));
    let mut eval = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    for n in ["weight", "bias"] {
        eval.values_mut::<f64>(&format!("n.{n}")).unwrap().copy_from_slice(&numbers(&f, &format!("batch.end.{n}")));
    }
    for n in ["running_mean", "running_var"] {
        eval.values_mut::<f64>(&format!("n.{n}")).unwrap().copy_from_slice(&numbers(&f, &format!("batch.end.{n}")));
    }
    let size = X.iter().product::<usize>();
    eval.values_mut::<f64>("x").unwrap().copy_from_slice(&numbers(&f, "x")[..size]);
    eval.step().unwrap();
    near(eval.values("y").unwrap(), &numbers(&f, "batch.eval"), "eval");
}

#[test]
fn layers_refuse_what_does_not_fit() {
    let error = |f: fn(&Builder)| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let e = error(|g| _ = nn::group_norm(g, "n", g.input("x", [2, 6, 4], DType::F32), 4, 1e-5));
    assert!(e.contains("group_norm") && e.contains('6') && e.contains("4 groups"), "{e}");
    let e = error(|g| _ = nn::batch_norm(g, "n", g.input("x", [1, 6], DType::F32), BatchNorm::default()));
    assert!(e.contains("batch_norm") && e.contains("one value"), "{e}");
    let e = error(|g| _ = nn::layer_norm2d(g, "n", g.input("x", [1, 6], DType::F32), 1e-5));
    assert!(e.contains("layer_norm2d") && e.contains("rank 4"), "{e}");
    let e = error(|g| _ = nn::rms_norm(g, "n", g.input("x", [2, 6], DType::F32), -1.0));
    assert!(e.contains("rms_norm") && e.contains("-1"), "{e}");
    // A scalar has no width, and a vector has no channels.
    let e = error(|g| _ = nn::layer_norm(g, "n", g.input("x", [], DType::F32), 1e-5));
    assert!(e.contains("layer_norm: gamma [0] and beta [0] are not the last axes of []"), "{e}");
    let e = error(|g| _ = nn::group_norm(g, "n", g.input("x", [6], DType::F32), 2, 1e-5));
    assert!(e.contains("group_norm(f32[6], f32[0], f32[0]): "), "{e}");
}

#[test]
fn a_layer_norm_without_a_bias_adds_nothing() {
    let g = Builder::new("bare");
    let x = g.input("x", [2, 3], DType::F64);
    let (y, z) = (nn::layer_norm_no_bias(&g, "a", x, 1e-5), nn::layer_norm(&g, "b", x, 1e-5));
    let mut p = Session::new().compile(&g.finish([y.named("y"), z.named("z")]).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.5, -2.0, 3.0, 1.0, 1.5, -4.0]);
    p.step().unwrap();
    near(p.values("y").unwrap(), p.values("z").unwrap(), "without a bias");
}

#[test]
fn images_are_normalised_over_the_channels_of_each_pixel() {
    let g = Builder::new("pixels");
    let y = nn::layer_norm2d(&g, "n", g.input("x", [2, 3, 4, 5], DType::F64), 1e-5);
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    let x: Vec<f64> = (0..120).map(|i| f64::from(i * 37 % 101) / 20.0).collect();
    let (w, b) = ([0.5, 2.0, -1.0], [0.25, 0.0, 3.0]);
    for (name, data) in [("x", &x[..]), ("n.weight", &w[..]), ("n.bias", &b[..])] {
        p.values_mut::<f64>(name).unwrap().copy_from_slice(data);
    }
    p.step().unwrap();
    let of = |i: usize| {
        let channels = [0, 1, 2].map(|c| x[i / 60 * 60 + c * 20 + i % 20]);
        let mean = channels.iter().sum::<f64>() / 3.0;
        let variance = channels.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0;
        let c = i / 20 % 3;
        (channels[c] - mean) / (variance + 1e-5).sqrt() * w[c] + b[c]
    };
    near(p.values("y").unwrap(), &(0..120).map(of).collect::<Vec<_>>(), "pixels");
}

#[test]
fn two_values_of_one_channel_have_a_variance() {
    let g = Builder::new("two");
    nn::batch_norm(&g, "n", g.input("x", [2, 1], DType::F64), BatchNorm::default()).tap("y");
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, 4.0]);
    p.step().unwrap();
    // Their mean is 2.5, and their unbiased variance 4.5; a tenth of each counts.
    near(p.values("n.running_mean").unwrap(), &[0.25], "mean");
    near(p.values("n.running_var").unwrap(), &[0.9 + 0.45], "variance");
}

#[test]
fn backward_ops_refuse_what_does_not_fit() {
    const F: DType = DType::F32;
    type Bad = (Op, [&'static [usize]; 5], [&'static str; 2]);
    let bad: &[Bad] = &[
        (Op::GROUP_NORM_BACKWARD, [&[2, 6, 3], &[2, 6, 4], &[6], &[2, 3], &[2, 3]], ["group_norm_backward", "[2,6,3]"]),
        (Op::GROUP_NORM_BACKWARD, [&[6], &[6], &[6], &[2, 3], &[2, 3]], ["group_norm_backward", "channel axis"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[5], &[2, 3], &[2, 3]], ["group_norm_backward", "gamma"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[2, 4], &[2, 4]], ["group_norm_backward", "4 groups"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[2, 0], &[2, 0]], ["group_norm_backward", "0 groups"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[2], &[2]], ["group_norm_backward", "mean"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[3, 2], &[2, 2]], ["group_norm_backward", "mean"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[2, 3], &[2, 2]], ["group_norm_backward", "rstd"]),
        (Op::GROUP_NORM_BACKWARD, [&[2, 6, 0], &[2, 6, 0], &[6], &[2, 3], &[2, 3]], ["group_norm_backward", "empty"]),
        (Op::BATCH_NORM_BACKWARD, [&[2, 6, 3], &[2, 6, 4], &[6], &[6], &[6]], ["batch_norm_backward", "[2,6,3]"]),
        (Op::BATCH_NORM_BACKWARD, [&[6], &[6], &[6], &[6], &[6]], ["batch_norm_backward", "channel axis"]),
        (Op::BATCH_NORM_BACKWARD, [&[2, 6], &[2, 6], &[2], &[6], &[6]], ["batch_norm_backward", "gamma"]),
        (Op::BATCH_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[2], &[6]], ["batch_norm_backward", "mean"]),
        (Op::BATCH_NORM_BACKWARD, [&[2, 6], &[2, 6], &[6], &[6], &[2, 6]], ["batch_norm_backward", "rstd"]),
    ];
    let error = |op: Op, args: [(&[usize], DType); 5]| {
        let g = Builder::new("bad");
        let names = ["dy", "x", "gamma", "mean", "rstd"];
        let args = std::array::from_fn::<_, 5, _>(|i| g.input(names[i], args[i].0, args[i].1));
        g.emit(op, &args, &[]);
        g.finish([]).unwrap_err().to_string()
    };
    for (op, dims, words) in bad {
        let e = error(*op, dims.map(|d| (d, F)));
        assert!(words.iter().all(|w| e.contains(w)), "{words:?}: {e}");
    }
    for op in [Op::GROUP_NORM_BACKWARD, Op::BATCH_NORM_BACKWARD] {
        let stat: &[usize] = if op == Op::GROUP_NORM_BACKWARD { &[2, 3] } else { &[6] };
        let args = [&[2, 6][..], &[2, 6], &[6], stat, stat];
        let mixed = error(op, std::array::from_fn(|i| (args[i], if i == 4 { DType::F64 } else { F })));
        assert!(mixed.contains("norm_backward") && mixed.contains("f64"), "{mixed}");
        let integers = error(op, args.map(|d| (d, DType::I32)));
        assert!(integers.contains("norm_backward") && integers.contains("i32"), "{integers}");
    }
}

/// The norm of a sum takes the bytes of an addend that nothing reads later, whichever of the two it is.
#[test]
fn the_norm_of_a_sum_is_written_over_an_addend() {
    for first in [true, false] {
        let g = Builder::new("sum");
        let (a, b) = (g.input("a", [8, 64], DType::F32), g.input("b", [8, 64], DType::F32));
        let h = a.softmax(-1).named("h");
        let y = nn::layer_norm(&g, "n", if first { h + b } else { b + h }, 1e-5).named("y");
        let plan = Session::new().threads(1).plan(&g.finish([y.softmax(-1).named("z")]).unwrap()).unwrap();
        let of = |name: &str| plan.buffers.iter().find(|b| b.name == name).unwrap();
        assert_eq!((of("y").op, of("y").offset), ("residual_layer_norm", of("h").offset), "first: {first}");
    }
}

#[test]
fn norms_of_trailing_axes_refuse_by_name() {
    type Norm = for<'g> fn(Var<'g>, Var<'g>, Var<'g>) -> Var<'g>;
    let norms: [(&str, Norm); 2] =
        [("layer_norm", |x, a, b| x.layer_norm(a, b, 1e-5)), ("rms_norm", |x, a, b| x.rms_norm(a, b, 1e-5))];
    for (name, norm) in norms {
        for (gamma, beta, shapes) in [
            (&[2][..], &[2][..], "gamma [2] and beta [2] are not the last axes of [2,4]"),
            (&[4], &[2], "gamma [4] and beta [2] are not the last axes of [2,4]"),
            (&[4], &[1, 4], "gamma [4] and beta [1,4] are not the last axes of [2,4]"),
            (&[], &[], "gamma [] and beta [] are not the last axes of [2,4]"),
        ] {
            let g = Builder::new("bad");
            let [x, a, b] = [("x", &[2, 4][..]), ("a", gamma), ("b", beta)].map(|(n, d)| g.input(n, d, DType::F64));
            assert!(!norm(x, a, b).is_some());
            let e = g.finish([]).unwrap_err().to_string();
            assert!(e.contains(&format!("{name}: {shapes}")) && e.contains(file!()), "{e}");
        }
    }
}

/// The mean of 1, 3, 5, 7 is 4, and their variance 5.
#[test]
fn a_norm_of_two_axes_is_one_of_all_their_elements() {
    let g = Builder::new("two axes");
    let x = g.input("x", [2, 2, 2], DType::F64);
    let y = x.layer_norm(g.full(1.0, [2, 2], DType::F64), g.full(0.0, [2, 2], DType::F64), 0.0);
    let mut p = Session::new().threads(1).compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, 3.0, 5.0, 7.0, 2.0, 6.0, 10.0, 14.0]);
    p.step().unwrap();
    let unit = [-3.0, -1.0, 1.0, 3.0].map(|d| d / 5f64.sqrt());
    near(p.values("y").unwrap(), &[unit, unit].concat(), "y");
}

#[test]
fn responses_have_no_neighbours_without_channels_and_room() {
    for (dims, dtype) in [(&[2, 3][..], DType::F32), (&[2, 3, 4], DType::I32), (&[], DType::F32)] {
        let g = Builder::new("bad");
        assert!(!g.input("x", dims, dtype).local_response_norm(2, 1.0, 1.0, 1.0).is_some());
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains("local_response_norm(") && e.contains("floats [N, C, …] of rank 3 or more"), "{e}");
    }
}
