//! The cost of a loop's iteration, compared with the unrolled loop: small recurrent networks, forward and with
//! gradients.

use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::session::{Program, Session};
use arenagrad::tools::passes::ad::prepare::flatten_regions;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// `h' = tanh(x·W + h·U + b)` over `steps` steps. The loss depends on every step.
fn rnn(steps: usize, batch: usize, n: usize) -> GraphBuf {
    let g = Builder::new("rnn");
    let x = g.input("x", [steps, batch, n], DType::F32);
    let h0 = g.input("h0", [batch, n], DType::F32);
    let (w, u) = (g.input("w", [n, n], DType::F32), g.input("u", [n, n], DType::F32));
    let b = g.input("b", [n], DType::F32);
    let (h, y) = g.scan(&[h0], &[x], |h, x| {
        let h = (x[0].matmul(w) + h[0].matmul(u) + b).tanh();
        (vec![h], vec![h])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..);
    g.finish([loss.named("loss")]).expect("a valid graph")
}

/// A GRU, whose loss depends on every step.
fn gru(steps: usize, batch: usize, n: usize) -> GraphBuf {
    let g = Builder::new("gru");
    let (x, h0) = (g.input("x", [steps, batch, n], DType::F32), g.input("h0", [batch, n], DType::F32));
    let (y, _) = nn::gru(&g, "gru", x, h0);
    g.finish([(y * y).mean(..).named("loss")]).expect("a valid graph")
}

/// A program of `g` with numbers in ±0.05 in the inputs `names`, and drawn params.
fn program(g: &GraphBuf, names: &[&str]) -> Program {
    let mut p = Session::new().compile(g).expect("a valid graph");
    p.init(1).expect("params");
    for name in names {
        let x = p.values_mut::<f32>(name).expect("an input");
        let n = x.len();
        x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 7919 % n) as f32 / n as f32 - 0.5) * 0.1);
    }
    p
}

/// Times both forms of each network.
fn scan(c: &mut Criterion) {
    for (steps, batch, n) in [(128, 1, 16), (128, 8, 64), (64, 32, 256)] {
        let looped = rnn(steps, batch, n);
        let flat = flatten_regions(&looped).expect("a valid graph");
        let mut group = c.benchmark_group(format!("rnn {steps}x{batch}x{n}"));
        group.throughput(Throughput::Elements(steps as u64));
        for (name, g) in [("scan", &looped), ("unrolled", &flat)] {
            let options = GradOptions::wrt(&["w", "u", "b", "h0"]);
            let back = grad(g, "loss", &options).expect("a gradient");
            for (what, g) in [("forward", g), ("gradient", &back)] {
                let mut p = program(g, &["x", "h0", "w", "u", "b"]);
                println!("{name} {what}: {} instructions, {} bytes", p.plan().instructions, p.plan().arena_bytes);
                group.bench_function(format!("{name} {what}"), |b| b.iter(|| p.step()));
            }
        }
        group.finish();
    }
    let mut p = program(&grad(&gru(256, 8, 128), "loss", &GradOptions::default()).expect("a gradient"), &["x", "h0"]);
    c.bench_function("gru 256x8x128 gradient", |b| b.iter(|| p.step()));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = scan
}
criterion_main!(benches);
