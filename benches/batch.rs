//! Batches of whole networks: an ensemble in one program against a program for each member, and the gradients of single
//! examples in one step against one step for each.

use arenagrad::graph::{CrossEntropy, Vmap};
use arenagrad::optim::Sgd;
use arenagrad::prelude::*;
use criterion::{Criterion, criterion_group, criterion_main};

const MEMBERS: usize = 64;

/// A step of training an MLP 784-128-10 on 32 examples.
fn mlp() -> GraphBuf {
    let g = Builder::new("mlp");
    let (x, y) = (g.input("x", [32, 784], DType::F32), g.input("y", [32], DType::I32));
    let h = nn::linear(&g, "fc1", x, 128).relu();
    let loss = nn::linear(&g, "fc2", h, 10).cross_entropy_with(y, CrossEntropy::per_row()).mean(..);
    let graph = g.finish([loss.named("loss")]).expect("a valid graph");
    train(&graph, "loss", Sgd::new(0.1)).expect("an optimiser")
}

/// The gradients of LeNet's params for one image.
fn lenet() -> GraphBuf {
    let g = Builder::new("lenet");
    let (x, y) = (g.input("x", [1, 1, 28, 28], DType::F32), g.input("y", [1], DType::I32));
    let h = nn::conv2d(&g, "conv1", x, 6, 5, Conv2d::default().padding([2, 2])).relu().max_pool2d(Pool2d::new(2));
    let h = nn::conv2d(&g, "conv2", h, 16, 5, Conv2d::default()).relu().max_pool2d(Pool2d::new(2));
    let h = nn::linear(&g, "fc1", h.reshape([1, 400]), 120).relu();
    let logits = nn::linear(&g, "fc3", nn::linear(&g, "fc2", h, 84).relu(), 10);
    let loss = logits.cross_entropy_with(y, CrossEntropy::per_row()).mean(..);
    let graph = g.finish([loss.named("loss")]).expect("a valid graph");
    graph.grad("loss", &GradOptions::default()).expect("a gradient")
}

/// A program of `g` with numbers in its inputs.
fn program(g: &GraphBuf, threads: usize, seed: u64) -> Program {
    let mut p = Session::new().threads(threads).compile(g).expect("a valid graph");
    p.init(seed).expect("params");
    let x = p.values_mut::<f32>("x").expect("an input");
    x.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
    p.values_mut::<i32>("y").expect("an input").iter_mut().enumerate().for_each(|(i, y)| *y = (i % 10) as i32);
    p
}

/// Times `one` for all members in one program, and in a program for each.
fn compare(c: &mut Criterion, name: &str, one: &GraphBuf, shared: &[&str]) {
    let v = one.view();
    let own: Vec<&str> = v.leaves().map(|l| l.name).filter(|name| !shared.contains(name)).collect();
    let all = one.vmap(&Vmap::new(MEMBERS).leaves(&own)).expect("a batch");
    for threads in [1, 2] {
        let mut group = c.benchmark_group(format!("{name}, {threads} threads"));
        let mut together = program(&all, threads, 1);
        let mut apart: Vec<Program> = (0..MEMBERS as u64).map(|seed| program(one, threads, seed)).collect();
        println!("{} and {} bytes", together.plan().arena_bytes, MEMBERS * apart[0].plan().arena_bytes);
        group.bench_function("together", |b| b.iter(|| together.step()));
        group.bench_function("apart", |b| b.iter(|| apart.iter_mut().try_for_each(Program::step)));
        group.finish();
    }
}

fn batch(c: &mut Criterion) {
    compare(c, "64 MLPs", &mlp(), &["lr"]);
    let one = lenet();
    let params: Vec<String> =
        one.view().leaves().map(|l| l.name.to_string()).filter(|n| n != "x" && n != "y").collect();
    compare(c, "gradients of 64 images", &one, &params.iter().map(String::as_str).collect::<Vec<_>>());
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = batch
}
criterion_main!(benches);
