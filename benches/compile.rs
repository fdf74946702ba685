//! Compile times: building, rebuilding, simplifying and differentiating a graph, and a whole program from graph to
//! arena; a new size of a net; and the bytes of a node.

use arenagrad::graph::GradOptions;
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::Session;
use arenagrad::tools::passes::{self};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// A chain of about `nodes` pointwise ops and products, no two of them equal.
fn chain(nodes: usize) -> GraphBuf {
    let g = Builder::new("chain");
    let x = g.input("x", [16, 16], DType::F32);
    let w = g.param("w", [16, 16], DType::F32, arenagrad::graph::Init::Normal(0.1));
    let mut y = x;
    for i in 0..nodes / 5 {
        let h = if i % 8 == 0 { y.matmul(w) } else { y * x };
        y = (h.tanh() + y).sigmoid() - h;
    }
    let loss = y.sum(..).named("loss");
    g.finish([loss]).expect("a valid graph")
}

/// The training step of a GPT of four layers: batch 12, context 64, vocabulary 65.
fn gpt() -> GraphBuf {
    let g = Builder::new("gpt");
    let size = nn::Gpt::default()
        .vocabulary(65)
        .context(64)
        .layers(4)
        .heads(4)
        .width(128)
        .bias(true)
        .dropout(0.0)
        .gelu_tanh(true);
    let logits = nn::gpt(&g, g.input("x", [12, 64], DType::I32), DType::F32, size).reshape([12 * 64, 65]);
    let loss = logits.cross_entropy_with(g.input("y", [12 * 64], DType::I32), CrossEntropy::per_row()).mean(..);
    let graph = g.finish([loss.named("loss")]).expect("a valid graph");
    train(&graph, "loss", optim::AdamW::new(1e-3).clip_norm(1.0)).expect("a step")
}

/// Times the compilation of a step's graph. The first line lists the phases.
fn programs(c: &mut Criterion) {
    let step = gpt();
    let p = Session::new().compile(&step).expect("a program");
    println!("{} nodes, {} bytes of arena, {:?}", step.view().nodes(), p.plan().arena_bytes, p.plan().phases);
    c.bench_function("compile/program of a GPT's step", |b| b.iter(|| black_box(Session::new().compile(&step))));
}

/// Times the builder and single passes.
fn compile(c: &mut Criterion) {
    let graph = chain(10_000);
    let g = graph.view();
    let per_node = g.column_bytes() as f64 / g.nodes() as f64;
    println!("{} nodes, {per_node:.1} bytes a node in columns and pools", g.nodes());

    let mut group = c.benchmark_group("compile");
    group.throughput(Throughput::Elements(g.nodes() as u64));
    group.bench_function("build", |b| b.iter(|| black_box(chain(10_000))));
    group.bench_function("rebuild", |b| b.iter(|| black_box(passes::rebuild::rebuild_buf(g, &mut |_| None))));
    group.bench_function("simplify", |b| b.iter(|| black_box(passes::pipeline::run_pipeline(g, &["simplify"], false))));

    let options = GradOptions::wrt(&["w"]);
    let made = passes::grad(g, "loss", &options).expect("a gradient").view().nodes() - g.nodes();
    println!("the gradient adds {made} nodes");
    group.throughput(Throughput::Elements(made as u64));
    group.bench_function("grad", |b| b.iter(|| black_box(passes::grad(g, "loss", &options))));
    group.finish();
}

/// A new size of the training step of an MLP 784-128-10, from the recipe to a program; and a size whose plan is kept.
fn sizes(c: &mut Criterion) {
    let net = |kept: usize| {
        Session::new().plans_kept(kept).compile_sized("mlp", |g| {
            let batch = g.symbol("batch");
            let (x, y) = (g.input("x", [batch, 784], DType::F32), g.input("y", [batch], DType::I32));
            let h = nn::linear(g, "fc1", x, 128).relu();
            let loss = nn::linear(g, "fc2", h, 10).cross_entropy_with(y, CrossEntropy::per_row()).mean(..);
            train(&g.finish([loss.named("loss")])?, "loss", optim::Sgd::new(0.1))
        })
    };
    let mut group = c.benchmark_group("sizes");
    for (name, kept) in [("new", 1), ("kept", 64)] {
        let (mut net, mut batch) = (net(kept), 0);
        group.bench_function(name, |b| {
            b.iter(|| {
                batch = batch % 64 + 1;
                black_box(net.at(&[("batch", batch)]).is_ok())
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = compile, programs, sizes
}
criterion_main!(benches);
