//! The parts of a training step, each alone and on one thread: cross entropy, layer norm, convolution and the
//! optimiser's update as small programs; vector math on slices, compared with std's functions.
//!
//! `cargo bench -p arenagrad-benches --bench parts -- NAME` runs the benches whose name contains NAME. The sizes are
//! those of the networks that `arenagrad bench` times.
#![allow(missing_docs)]

use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Init, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::optim::{self, Optimiser, Rule, train};
use arenagrad::session::{Program, Role, Session};
use arenagrad::tools::kernels::vmath;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// A program with numbers in [-1, 1] in all float inputs and zeros in all index inputs.
fn program(g: &GraphBuf) -> Program {
    let mut p = Session::new().compile(g).expect("a valid program");
    p.init(0).expect("start values");
    let inputs: Vec<_> = p.bindings().iter().filter(|b| b.role == Role::Input).cloned().collect();
    for b in &inputs {
        if b.dtype == DType::I32 {
            p.values_mut::<i32>(&b.name).expect("an input").fill(0);
            continue;
        }
        let x = p.values_mut::<f32>(&b.name).expect("an input");
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7919 % 1009) as f32 / 504.5 - 1.0);
    }
    p.step().expect("a step");
    p
}

/// Times `loss` alone and with its gradients with respect to `wrt`.
fn both(c: &mut Criterion, name: &str, elements: usize, wrt: &[&str], loss: impl Fn(&Builder) -> Var<'_>) {
    let g = Builder::new("part");
    let loss = loss(&g).named("loss");
    let forward = g.finish([loss]).expect("a valid graph");
    let back = grad(&forward, "loss", &GradOptions::wrt(wrt)).expect("gradients");
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(elements as u64));
    for (what, graph) in [("forward", &forward), ("with gradients", &back)] {
        let mut p = program(graph);
        group.bench_function(what, |b| b.iter(|| p.step()));
    }
    group.finish();
}

/// Times cross entropy of class indices.
fn cross_entropy(c: &mut Criterion) {
    for (rows, classes) in [(32, 10), (768, 65), (256, 50257)] {
        both(c, &format!("cross entropy {rows}x{classes}"), rows * classes, &["x"], |g| {
            g.input("x", [rows, classes], DType::F32)
                .cross_entropy_with(g.input("y", [rows], DType::I32), CrossEntropy::per_row())
                .mean(..)
        });
    }
}

/// Times layer norm over the last axis.
fn layer_norm(c: &mut Criterion) {
    for (rows, width) in [(768, 128), (1024, 1024)] {
        both(c, &format!("layer norm {rows}x{width}"), rows * width, &["x", "ln.weight", "ln.bias"], |g| {
            let y = nn::layer_norm(g, "ln", g.input("x", [rows, width], DType::F32), 1e-5);
            (y * g.input("g", [rows, width], DType::F32)).sum(..)
        });
    }
}

/// Times convolutions in two dimensions.
fn convolution(c: &mut Criterion) {
    let shapes = [([64, 1, 28, 28], 6, 5, 2), ([64, 6, 14, 14], 16, 5, 0), ([16, 64, 28, 28], 64, 3, 1)];
    for (x, out, kernel, pad) in shapes {
        let name = format!("convolution {x:?} to {out} by {kernel}x{kernel}");
        both(c, &name, x.iter().product(), &["x", "conv.weight"], |g| {
            let geometry = Conv2d::default().pad([pad; 4]);
            let y = nn::conv2d(g, "conv", g.input("x", x, DType::F32), out, [kernel, kernel], geometry);
            (y * g.input("g", y.dims(), DType::F32)).sum(..)
        });
    }
}

/// Times the update of 100,000 elements, the size of a small network.
fn update(c: &mut Criterion) {
    const N: usize = 100_000;
    let mut group = c.benchmark_group("update of 100000");
    group.throughput(Throughput::Elements(N as u64));
    for (name, optimiser) in [
        ("sgd", Optimiser::<Rule>::from(optim::Sgd::new(0.1))),
        ("momentum", optim::Sgd::new(0.1).momentum(0.9).into()),
        ("adamw", optim::AdamW::new(1e-3).into()),
    ] {
        let g = Builder::new("update");
        let loss = (g.param("p", [N], DType::F32, Init::Normal(0.1)) * g.input("g", [N], DType::F32)).sum(..);
        let graph = g.finish([loss.named("loss")]).expect("a valid graph");
        let mut p = program(&train(&graph, "loss", &optimiser).expect("a step program"));
        group.bench_function(name, |b| b.iter(|| p.step()));
    }
    group.finish();
}

/// Times the vector functions and std's scalar ones.
fn vector_math(c: &mut Criterion) {
    const N: usize = 4096;
    let x: Vec<f32> = (0..N).map(|i| (i * 7919 % 1009) as f32 / 126.0 - 4.0).collect();
    let positive: Vec<f32> = x.iter().map(|x| x.abs() + 0.1).collect();
    let mut y = vec![0f32; N];
    let mut group = c.benchmark_group("vector math on 4096");
    group.throughput(Throughput::Elements(N as u64));
    type Slice = fn(&mut [f32], &[f32]);
    let ours: [(&str, Slice); 6] = [
        ("exp", vmath::exp_slice),
        ("tanh", vmath::tanh_slice),
        ("gelu", vmath::gelu_slice),
        ("gelu_tanh", vmath::gelu_tanh_slice),
        ("sigmoid", vmath::sigmoid_slice),
        ("log", vmath::log_slice),
    ];
    for (name, f) in ours {
        let x = if name == "log" { &positive } else { &x };
        group.bench_function(name, |b| b.iter(|| f(black_box(&mut y), black_box(x))));
    }
    let std: [(&str, fn(f32) -> f32); 3] = [("std exp", f32::exp), ("std tanh", f32::tanh), ("std log", f32::ln)];
    for (name, f) in std {
        let x = if name == "std log" { &positive } else { &x };
        group.bench_function(name, |b| b.iter(|| y.iter_mut().zip(black_box(x)).for_each(|(y, x)| *y = f(*x))));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(1))
        .warm_up_time(std::time::Duration::from_millis(300));
    targets = cross_entropy, layer_norm, convolution, update, vector_math
}
criterion_main!(benches);
