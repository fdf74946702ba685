//! How fast graphs are written, rebuilt and differentiated, and how many bytes a node takes.

use arenagrad::nodes::{Builder, DType, GraphBuf};
use arenagrad::passes::{self, GradOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// A chain of point-wise and product ops with some 10,000 nodes, none of them equal.
fn chain(nodes: usize) -> GraphBuf {
    let g = Builder::new("chain");
    let x = g.input("x", [16, 16], DType::F32);
    let w = g.param("w", [16, 16], DType::F32, arenagrad::nodes::Init::Normal(0.1));
    let mut y = x;
    for i in 0..nodes / 5 {
        let h = if i % 8 == 0 { y.matmul(w) } else { y * x };
        y = (h.tanh() + y).sigmoid() - h;
    }
    let loss = y.sum(..).named("loss");
    g.finish([loss]).expect("a valid graph")
}

fn compile(c: &mut Criterion) {
    let graph = chain(10_000);
    let g = graph.view();
    let per_node = g.column_bytes() as f64 / g.nodes() as f64;
    println!("{} nodes, {per_node:.1} bytes a node in columns and pools", g.nodes());

    let mut group = c.benchmark_group("compile");
    group.throughput(Throughput::Elements(g.nodes() as u64));
    group.bench_function("build", |b| b.iter(|| black_box(chain(10_000))));
    group.bench_function("rebuild", |b| b.iter(|| black_box(passes::rebuild::rebuild_buf(g, &mut |_| None))));
    group.bench_function("simplify", |b| b.iter(|| black_box(passes::pipeline::run(g, &["simplify"], false))));

    let options = GradOptions::wrt(&["w"]);
    let made = passes::grad(g, "loss", &options).expect("a gradient").view().nodes() - g.nodes();
    println!("the gradient adds {made} nodes");
    group.throughput(Throughput::Elements(made as u64));
    group.bench_function("grad", |b| b.iter(|| black_box(passes::grad(g, "loss", &options))));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = compile
}
criterion_main!(benches);
