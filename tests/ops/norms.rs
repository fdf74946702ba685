//! Normalising layers against torch, step by step, in f64: losses, gradients of the input, weights, running statistics.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, BatchNorm};
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
    let options = BatchNorm { momentum: 0.2, ..BatchNorm::default() };
    let p = follow("batch", |g, x| nn::batch_norm(g, "n", x, options));
    let bytes = fixture();
    let f = SafeTensors::deserialize(&bytes).unwrap();
    for n in ["running_mean", "running_var"] {
        near(p.values(&format!("n.{n}")).unwrap(), &numbers(&f, &format!("batch.end.{n}")), n);
    }
    assert_eq!(p.values::<i64>("n.num_batches_tracked").unwrap(), [3]);
    let g = Builder::new("eval");
    let x = g.input("x", X, DType::F64);
    let y = nn::batch_norm(&g, "n", x, BatchNorm { training: false, ..options });
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
}
