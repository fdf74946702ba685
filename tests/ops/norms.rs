//! Normalising layers against torch, step by step, in f64: losses, gradients of the input, weights, running statistics.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, BatchNorm};
use arenagrad::op::Op;
use arenagrad::session::{Program, Role, Session};
use arenagrad::tools::ops::norm::NormAttrs;
use arenagrad::tools::ops::norm::group_norm::GroupNormAttrs;
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

/// The sum of y·w, of the means, and of twice the other statistics of a norm of channels, and its gradients, by plain
/// loops. `run` says which mean an element belongs to; the other statistic is the variance or else rstd.
struct Naive<'a> {
    x: &'a [f64],
    w: &'a [f64],
    gamma: &'a [f64],
    run: &'a dyn Fn(usize) -> usize,
    channel: &'a dyn Fn(usize) -> usize,
    variance: bool,
    eps: f64,
}

impl Naive<'_> {
    /// The sum whose gradients are asked for.
    fn sum(&self, x: &[f64], gamma: &[f64], beta: &[f64]) -> f64 {
        let runs = 1 + (0..x.len()).map(self.run).max().unwrap();
        let mut total = 0.0;
        for r in 0..runs {
            let own: Vec<usize> = (0..x.len()).filter(|&i| (self.run)(i) == r).collect();
            let mean = own.iter().map(|&i| x[i]).sum::<f64>() / own.len() as f64;
            let var = own.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / own.len() as f64;
            let rstd = 1.0 / (var + self.eps).sqrt();
            total += mean + 2.0 * if self.variance { var } else { rstd };
            for i in own {
                let c = (self.channel)(i);
                total += self.w[i] * ((x[i] - mean) * rstd * gamma[c] + beta[c]);
            }
        }
        total
    }

    /// Central differences of the sum: by x, by γ, by β.
    fn gradients(&self) -> [Vec<f64>; 3] {
        let zeros = vec![0.0; self.gamma.len()];
        let slope = |v: &[f64], f: &dyn Fn(&[f64]) -> f64| {
            let h = 1e-5;
            let at = |i: usize, by: f64| {
                let mut v = v.to_vec();
                v[i] += by;
                f(&v)
            };
            (0..v.len()).map(|i| (at(i, h) - at(i, -h)) / (2.0 * h)).collect::<Vec<_>>()
        };
        let by_x = slope(self.x, &|x| self.sum(x, self.gamma, &zeros));
        let by_gamma = slope(self.gamma, &|gamma| self.sum(self.x, gamma, &zeros));
        [by_x, by_gamma, slope(&zeros, &|beta| self.sum(self.x, self.gamma, beta))]
    }
}

/// Every result of the two norms has a cotangent: y, the means, and the other statistics.
#[test]
fn norms_of_channels_have_the_gradients_of_differences() {
    for ([n, c, l], groups) in [([3, 4, 5], 2), ([2, 3, 70], 1), ([5, 6, 1], 3), ([40, 1, 2], 1)] {
        for batch in [false, true] {
            let wave = |len: usize, by: f64| (0..len).map(|i| ((i * i) as f64 * by + by).sin()).collect::<Vec<_>>();
            let (x, w, gamma) = (wave(n * c * l, 0.37), wave(n * c * l, 0.61), wave(c, 1.3));
            let g = Builder::new("norm");
            let vx = g.input("x", [n, c, l], DType::F64);
            let (vw, a) = (g.input("w", [n, c, l], DType::F64), g.input("gamma", [c], DType::F64));
            let b = g.input("beta", [c], DType::F64);
            let (plain, grouped) = (NormAttrs { eps: 1e-3 }, GroupNormAttrs { groups: groups as i64, eps: 1e-3 });
            let (attrs, group) = (plain.list(), grouped.list());
            let op = if batch { Op::BATCH_NORM } else { Op::GROUP_NORM };
            let all = g.emit(op, &[vx, a, b], if batch { &attrs[..] } else { &group });
            let loss = (all[0] * vw).sum(..) + all[1].sum(..) + all[2].sum(..) * 2.0;
            let f = g.finish([loss.named("loss")]).unwrap();
            let step = grad(&f, "loss", &GradOptions::wrt(&["x", "gamma", "beta"])).unwrap();
            let name = if batch { "batch_norm_backward" } else { "group_norm_backward" };
            assert!(step.to_string().contains(name), "{step}");
            let mut p = Session::new().compile(&step).unwrap();
            for (name, v) in [("x", &x), ("w", &w), ("gamma", &gamma), ("beta", &vec![0.0; c])] {
                p.values_mut::<f64>(name).unwrap().copy_from_slice(v);
            }
            p.step().unwrap();
            let channel = |i: usize| i / l % c;
            let run = |i: usize| if batch { channel(i) } else { i / (c / groups * l) };
            let naive = Naive { x: &x, w: &w, gamma: &gamma, run: &run, channel: &channel, variance: batch, eps: 1e-3 };
            for (name, want) in ["x", "gamma", "beta"].iter().zip(naive.gradients()) {
                let got = p.values::<f64>(&format!("grad.{name}")).unwrap();
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() < 2e-6 * want.abs().max(1.0), "{op:?} {n} {c} {l} {name}: {got} {want}");
                }
            }
        }
    }
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
