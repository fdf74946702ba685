//! The graphs of the cases: networks in training, and ops alone.

use super::{Case, Corpus};
use arenagrad::prelude::*;
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, seeded_draws};

type Act = fn(Var<'_>) -> Var<'_>;

fn relu(x: Var<'_>) -> Var<'_> {
    x.relu()
}
fn tanh(x: Var<'_>) -> Var<'_> {
    x.tanh()
}
fn gelu(x: Var<'_>) -> Var<'_> {
    x.gelu()
}
fn gelu_tanh(x: Var<'_>) -> Var<'_> {
    x.gelu_tanh()
}
fn silu(x: Var<'_>) -> Var<'_> {
    x.silu()
}
fn sigmoid(x: Var<'_>) -> Var<'_> {
    x.sigmoid()
}

/// A net of two linear layers with cross entropy, in training.
fn classifier(name: &str, [rows, inputs, hidden, classes]: [usize; 4], act: Act, o: impl Into<Optimiser>) -> Case {
    let g = Builder::new(name);
    let (x, labels) = (g.input("x", [rows, inputs], DType::F32), g.input("labels", [rows], DType::I32));
    let hidden = act(nn::linear(&g, "fc1", x, hidden));
    let logits = nn::linear(&g, "fc2", hidden, classes).named("logits");
    let graph = g.finish([logits.cross_entropy(labels).named("loss"), logits]).unwrap();
    case(name, train(&graph, "loss", o).unwrap(), 10, classes as u64)
}

fn case(name: &str, graph: GraphBuf, steps: usize, bound: u64) -> Case {
    Case { name: name.into(), graph, steps, bound }
}

/// A regression with a layer norm, in training.
fn regression(name: &str, act: Act, o: impl Into<Optimiser>) -> Case {
    let g = Builder::new(name);
    let (x, y) = (g.input("x", [24, 40], DType::F32), g.input("y", [24, 3], DType::F32));
    let hidden = nn::layer_norm(&g, "norm", act(nn::linear(&g, "fc1", x, 70)), 1e-5);
    let out = nn::linear(&g, "fc2", hidden, 3);
    let graph = g.finish([out.mse(y).named("loss")]).unwrap();
    case(name, train(&graph, "loss", o).unwrap(), 10, 0)
}

/// A step that clips gradients whose squares are no numbers of `f32`.
fn out_of_range(name: &str, factor: f64) -> Case {
    let g = Builder::new(name);
    let loss = (nn::linear(&g, "fc", g.input("x", [8, 5], DType::F32), 3) * factor).mean(..).named("loss");
    let step = train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(0.1).clip_norm(1.0).grad_norm(true));
    case(name, step.unwrap(), 3, 0)
}

/// Networks in training: losses, activations and optimisers.
pub fn networks() -> Vec<Case> {
    let sizes = [32, 64, 128, 10];
    vec![
        classifier("digits_sgd", sizes, relu, optim::Sgd::new(0.1)),
        classifier(
            "digits_momentum",
            sizes,
            relu,
            optim::Sgd::new(0.1).momentum(0.9).nesterov(true).weight_decay(0.01),
        ),
        classifier("digits_adam", sizes, relu, optim::Adam::new(0.01)),
        classifier("tanh_adamw", [16, 20, 36, 5], tanh, optim::AdamW::new(0.01)),
        classifier("gelu_clip", [8, 20, 36, 40], gelu, optim::Sgd::new(0.1).clip_value(0.01)),
        classifier("norm_clip", [8, 20, 36, 40], gelu, optim::Adam::new(0.01).clip_norm(0.05)),
        classifier("each_norm_clip", [8, 20, 36, 40], tanh, optim::Sgd::new(0.1).clip_norm(0.02).clip_each(true)),
        out_of_range("small_norm_clip", 1e-24),
        out_of_range("large_norm_clip", 1e25),
        classifier("one_row", [1, 64, 32, 10], silu, optim::Adam::new(0.01)),
        regression("norm_gelu", gelu, optim::Adam::new(0.01)),
        regression("norm_sigmoid", sigmoid, optim::Sgd::new(0.05).momentum(0.9)),
        regression("norm_gelu_tanh", gelu_tanh, optim::AdamW::new(0.01).weight_decay(0.1)),
        regression("norm_silu", silu, optim::Adam::new(0.003)),
    ]
}

/// The outputs of a graph that is not trained.
type Outputs = for<'g> fn(&'g Builder) -> Vec<Var<'g>>;

/// Ops of which networks above have none, forward only.
pub fn ops() -> Vec<Case> {
    let all: [(&str, Outputs); 6] = [
        ("reductions", reductions),
        ("functions", functions),
        ("rows", rows),
        ("windows", windows),
        ("convolutions", convolutions),
        ("products", products),
    ];
    let of = |(name, outputs): (&str, Outputs)| {
        let g = Builder::new(name);
        let named = outputs(&g).into_iter().enumerate().map(|(i, v)| v.named(&format!("y{i}")));
        let named: Vec<Var<'_>> = named.collect();
        case(name, g.finish(named).unwrap(), 2, 9)
    };
    all.map(of).into()
}

fn reductions(g: &Builder) -> Vec<Var<'_>> {
    let x = g.input("x", [3, 150, 5], DType::F32);
    let long = g.input("long", [40_000], DType::F32);
    let wide = g.input("wide", [1200, 70], DType::F32);
    vec![
        x.sum(1),
        x.mean(..),
        x.amax(2),
        x.amin(0),
        x.logsumexp(2),
        long.sum(..),
        long.square().mean(..),
        wide.sum(0),
        wide.amax(0),
        x.arg_max(1, DType::I32),
        long.arg_min(0, DType::I64),
    ]
}

fn functions(g: &Builder) -> Vec<Var<'_>> {
    let x = g.input("x", [500], DType::F32);
    let y = g.input("y", [500], DType::F32);
    let far = x * 30.0;
    vec![
        far.exp(),
        far.expm1(),
        (x * x).log(),
        x.abs().log1p(),
        far.tanh(),
        far.sigmoid(),
        far.erf(),
        far.gelu(),
        far.gelu_tanh(),
        far.silu(),
        far.softplus(),
        far.sin(),
        far.cos(),
        x.tan(),
        far.atan(),
        x.abs().pow(y * 9.0),
        x.sign(),
        far.floor(),
        far.ceil(),
        far.round(),
        x.maximum(y),
        x.minimum(y),
        x.elu(0.7),
        x.leaky_relu(0.1),
        (x * x).rsqrt(),
    ]
}

fn rows(g: &Builder) -> Vec<Var<'_>> {
    let x = g.input("x", [6, 90], DType::F32);
    let idx = g.input("idx", [4], DType::I64);
    let table = g.input("table", [9, 7], DType::F32);
    vec![
        x.softmax(1),
        x.log_softmax(1),
        table.gather(idx, 0),
        x.transpose(&[1, 0]),
        x.slice(&[0, 3], &[6, 50], &[2, 1]),
        x.flip(1),
        nn::rms_norm(g, "rms", x, 1e-6),
    ]
}

fn windows(g: &Builder) -> Vec<Var<'_>> {
    let x = g.input("x", [2, 3, 13, 12], DType::F32);
    let conv = nn::conv2d(g, "conv1", x, 20, 3, Conv2d::default().padding(1)).relu();
    let pooled = conv.max_pool2d(Pool2d::new(2));
    let depth = nn::conv2d(g, "conv2", pooled, 40, 1, Conv2d::default());
    vec![
        pooled,
        depth,
        depth.avg_pool2d(Pool2d::new(2)),
        conv.avg_pool2d(Pool2d::new(5)),
        x.avg_pool2d(Pool2d::new(3).stride(1).padding(1)),
        x.max_pool2d(Pool2d::new(3).stride(2).padding(1)),
    ]
}

fn convolutions(g: &Builder) -> Vec<Var<'_>> {
    let x = g.input("x", [16, 6, 7, 8], DType::F32);
    let conv = |name: &str, outputs: usize, kernel: usize, o: Conv2d| nn::conv2d(g, name, x, outputs, kernel, o);
    vec![
        conv("strided", 4, 3, Conv2d::default().padding(1).stride(2).groups(2)),
        conv("depthwise", 6, 3, Conv2d::default().padding(1).groups(6)).tanh(),
        conv("dilated", 5, 2, Conv2d::default().dilation(2)).gelu(),
        conv("pixels", 40, 1, Conv2d::default()).relu(),
    ]
}

fn products(g: &Builder) -> Vec<Var<'_>> {
    let a = g.input("a", [3, 7, 20], DType::F32);
    let b = g.input("b", [3, 20, 9], DType::F32);
    let v = g.input("v", [20], DType::F32);
    let t = g.input("t", [12, 300], DType::F32);
    let s = g.input("s", [5, 300], DType::F32);
    vec![a.matmul(b), a.matmul(v), t.matmul(s.transpose(&[1, 0])), t.transpose(&[1, 0]).matmul(t)]
}

/// Ops that drawn graphs may have.
const DRAWN: &str = "add=3,sub,mul=3,div,max,min,neg,abs,sign,exp,log1p,sqrt,tanh=2,sigmoid,relu=2,gelu,silu,softplus,\
    matmul=4,reduce_sum=3,reduce_mean,reduce_max,reshape,transpose=2,broadcast=2,slice,concat,pad,flip,softmax,\
    log_softmax,eq,lt,select,layer_norm,full";

/// Adds `count` graphs that are drawn at random.
pub fn add_drawn(corpus: &mut Corpus, count: usize) {
    let options = GraphOptions::default().nodes(16).regions(false).dtypes(&[DType::F32, DType::Bool]);
    let options = options.largest_value(4000).ops(DRAWN).unwrap();
    let drawn = (0..20 * count as u64).filter_map(|seed| {
        let graph = draw_graph(&options, &mut seeded_draws(seed)).ok()?;
        Some(case(&format!("drawn_{seed}"), graph, 2, 2))
    });
    let added = drawn.filter(|case| corpus.add_if_it_fits(case)).take(count).count();
    assert_eq!(added, count, "few drawn graphs fit");
}
