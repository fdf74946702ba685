//! Four networks against torch: the same weights and batches, 20 steps, in f32 and f64.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::drawn::{Fixture, apart, fill, number, numbers, output, summary, unit, write};
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, LeafKind, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, BatchNorm, Gpt};
use arenagrad::optim::{self, LR, Optimiser, train};
use arenagrad::session::{Program, Session};

const STEPS: usize = 20;

/// A network to its loss, its optimiser, and the bounds of its labels and tokens.
struct Network {
    name: &'static str,
    loss: for<'g> fn(&'g Builder, DType) -> Var<'g>,
    optimiser: fn() -> Optimiser,
    below: usize,
}

fn classes<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    logits.cross_entropy_with(g.input("y", [logits.dims()[0]], DType::I32), CrossEntropy::per_row()).mean(..)
}

fn gpt(g: &Builder, dtype: DType) -> Var<'_> {
    let tokens = g.input("x", [4, 16], DType::I32);
    let o =
        Gpt::default().vocabulary(29).context(16).layers(2).heads(4).width(32).bias(true).dropout(0.0).gelu_tanh(false);
    classes(g, nn::gpt(g, tokens, dtype, o).reshape([64, 29]))
}

fn lenet(g: &Builder, dtype: DType) -> Var<'_> {
    let x = g.input("x", [8, 1, 28, 28], dtype);
    let padded = Conv2d::default().pad([2; 4]);
    let h = nn::conv2d(g, "conv1", x, 6, [5, 5], padded).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::conv2d(g, "conv2", h, 16, [5, 5], Conv2d::default()).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::linear(g, "fc1", h.reshape([8, 400]), 120).relu();
    let h = nn::linear(g, "fc2", h, 84).relu();
    classes(g, nn::linear(g, "fc3", h, 10))
}

fn gru(g: &Builder, dtype: DType) -> Var<'_> {
    let x = g.input("x", [12, 8, 6], dtype);
    let (_, last) = nn::gru(g, "gru", x, g.full(0.0, [8, 24], dtype));
    classes(g, nn::linear(g, "head", last, 5))
}

fn residual<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, stride: usize) -> Var<'g> {
    let norm = |part: &str, x| nn::batch_norm(g, &format!("{name}.{part}"), x, BatchNorm::default());
    let conv = |part: &str, x, kernel: usize, stride: usize| {
        let o = Conv2d::default().stride([stride; 2]).pad([kernel / 2; 4]);
        nn::conv2d(g, &format!("{name}.{part}"), x, outputs, [kernel; 2], o.bias(false))
    };
    let y = norm("bn1", conv("conv1", x, 3, stride)).relu();
    let y = norm("bn2", conv("conv2", y, 3, 1));
    let skip = if stride > 1 { norm("downsample.1", conv("downsample.0", x, 1, stride)) } else { x };
    (y + skip).relu()
}

fn resnet(g: &Builder, dtype: DType) -> Var<'_> {
    let x = g.input("x", [8, 3, 16, 16], dtype);
    let same = Conv2d::default().pad([1; 4]);
    let h = nn::conv2d(g, "conv1", x, 8, [3, 3], same.bias(false));
    let h = nn::batch_norm(g, "bn1", h, BatchNorm::default()).relu();
    let h = residual(g, "layer1.0", h, 8, 1);
    let h = residual(g, "layer2.0", h, 16, 2);
    classes(g, nn::linear(g, "fc", h.mean([2, 3]), 10))
}

const NETWORKS: [Network; 4] = [
    Network {
        name: "gpt",
        loss: gpt,
        optimiser: || {
            let opt = optim::AdamW::new(3e-3).betas((0.9, 0.95)).weight_decay(0.1);
            opt.decay_from_rank(2).clip_norm(1.0).into()
        },
        below: 29,
    },
    Network { name: "lenet", loss: lenet, optimiser: || optim::Sgd::new(0.01).momentum(0.9).into(), below: 10 },
    Network { name: "gru", loss: gru, optimiser: || optim::Adam::new(1e-2).into(), below: 5 },
    Network {
        name: "resnet",
        loss: resnet,
        optimiser: || optim::Sgd::new(0.02).momentum(0.9).nesterov(true).weight_decay(5e-4).into(),
        below: 10,
    },
];

/// Writes the batch of step `i`.
fn batch(p: &mut Program, n: &Network, i: usize) {
    for name in ["x", "y"] {
        let stream = format!("{}.{name}{i}", n.name);
        let b = p.bindings().iter().find(|b| b.name == name).unwrap().clone();
        let len = b.dims.iter().product();
        if b.dtype == DType::I32 {
            let to = p.values_mut::<i32>(name).unwrap();
            to.iter_mut().enumerate().for_each(|(k, t)| *t = (unit(&stream, k) * n.below as f64) as i32);
        } else {
            let data: Vec<f32> = (0..len).map(|k| number(&stream, k)).collect();
            write(p, name, &data, b.dtype);
        }
    }
}

fn compare(n: &Network, dtype: DType, tolerance: f64) {
    let fixture = Fixture::open("networks");
    let kind = if dtype == DType::F32 { "f32" } else { "f64" };
    let theirs = |key: &str| fixture.get(&format!("{}.{kind}.{key}", n.name));
    let g = Builder::new(n.name);
    let graph: GraphBuf = g.finish([(n.loss)(&g, dtype).named("loss")]).unwrap();
    let params: Vec<String> =
        graph.view().leaves().filter(|l| l.kind == LeafKind::Param).map(|l| l.name.to_string()).collect();

    let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::default()).unwrap()).unwrap();
    fill(&mut p, dtype);
    batch(&mut p, n, 0);
    p.step().unwrap();
    let mut worst_grad = 0f64;
    for name in &params {
        let ours = output(&p, &format!("grad.{name}"), dtype);
        let far = apart(&summary(name, &ours), &theirs(&format!("grad.{name}")));
        assert!(far <= tolerance, "{} {kind}: the gradient of {name} is off by {far:e}", n.name);
        worst_grad = worst_grad.max(far);
    }

    let optimiser = (n.optimiser)();
    let mut p = Session::new().compile(&train(&graph, "loss", &optimiser).unwrap()).unwrap();
    fill(&mut p, dtype);
    write(&mut p, LR, &[optimiser.lr as f32], dtype);
    if dtype == DType::F64 {
        p.values_mut::<f64>(LR).unwrap()[0] = optimiser.lr;
    }
    let mut worst_loss = 0f64;
    for (i, want) in theirs("losses").iter().enumerate().take(STEPS) {
        batch(&mut p, n, i);
        p.step().unwrap();
        let loss = output(&p, "loss", dtype)[0];
        let far = (loss - want).abs() / want.abs();
        assert!(far <= tolerance, "{} {kind}: the loss of step {i} is {loss}, torch's {want}", n.name);
        worst_loss = worst_loss.max(far);
    }
    // Params, and running statistics.
    let kept: Vec<(String, Vec<f64>)> = p
        .persistent()
        .filter(|(b, _)| b.dtype == dtype && !b.name.starts_with("opt."))
        .map(|(b, bytes)| (b.name.clone(), numbers(bytes, dtype)))
        .collect();
    let mut worst_last = 0f64;
    for (name, ours) in &kept {
        let far = apart(&summary(name, ours), &theirs(&format!("last.{name}")));
        // In f32, Adam turns the rounding of a gradient that is zero (of the bias of keys) into whole steps.
        let noisy = dtype == DType::F32 && name.ends_with("c_attn.bias");
        assert!(
            far <= if noisy { 0.05 } else { 10.0 * tolerance },
            "{} {kind}: {name} ends {far:e} away from torch's",
            n.name
        );
        worst_last = worst_last.max(far);
    }
    println!("{} {kind}: gradients {worst_grad:.1e}, losses {worst_loss:.1e}, last values {worst_last:.1e}", n.name);
}

#[test]
fn networks_train_as_torchs_do_in_f64() {
    NETWORKS.iter().for_each(|n| compare(n, DType::F64, 1e-9));
}

#[test]
fn networks_train_as_torchs_do_in_f32() {
    NETWORKS.iter().for_each(|n| compare(n, DType::F32, 1e-4));
}
