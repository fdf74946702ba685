//! The selective scan, forward and backward, compared with its decomposition, a scan over the steps.

use arenagrad::graph::recurrent::SelectiveScan;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Sequences, steps, channels, numbers of a state.
const SIZES: [usize; 4] = [4, 1024, 256, 16];

type Form = for<'g> fn([Var<'g>; 5]) -> Var<'g>;

fn fused(x: [Var<'_>; 5]) -> Var<'_> {
    x[0].selective_scan(x[1], x[2], x[3], x[4], SelectiveScan::default())[0]
}

/// As the op decomposes.
fn looped<'g>([x, delta, a, b, c]: [Var<'g>; 5]) -> Var<'g> {
    let [batch, _, channels, states] = SIZES;
    let start = x.builder().full(0.0, [batch, channels, states], DType::F32);
    let rows = [x, delta, b, c].map(|x| x.transpose(&[1, 0, 2]));
    let (_, y) = x.builder().scan(&[start], &rows, |h, row| {
        let decay = (row[1].unsqueeze(2) * a).exp();
        let h = decay * h[0] + row[1].unsqueeze(2) * row[0].unsqueeze(2) * row[2].unsqueeze(1);
        (vec![h], vec![(h * row[3].unsqueeze(1)).sum(-1)])
    });
    y[0].transpose(&[1, 0, 2])
}

/// The scan of positive Δ and negative A, and its gradients with respect to all operands.
fn graphs(f: Form) -> [GraphBuf; 2] {
    let [batch, steps, channels, states] = SIZES;
    let g = Builder::new("selective_scan");
    let input = |name: &str, dims: &[usize]| g.input(name, dims, DType::F32);
    let [x, delta] = ["x", "delta"].map(|name| input(name, &[batch, steps, channels]));
    let [b, c] = ["b", "c"].map(|name| input(name, &[batch, steps, states]));
    let a = input("a", &[channels, states]);
    let y = f([x, delta.abs(), -a.abs(), b, c]);
    let graph = g.finish([(y * y).sum(..).named("loss")]).expect("a valid graph");
    let back = grad(&graph, "loss", &GradOptions::wrt(&["x", "delta", "a", "b", "c"])).expect("a gradient");
    [graph, back]
}

/// A program with numbers in ±½ in all inputs.
fn program(g: &GraphBuf) -> Program {
    let mut p = Session::new().compile(g).expect("a valid graph");
    for name in ["x", "delta", "a", "b", "c"] {
        let x = p.values_mut::<f32>(name).expect("an input");
        let n = x.len();
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7919 % n) as f32 / n as f32 - 0.5);
    }
    p
}

/// Times both forms.
fn selective_scan(c: &mut Criterion) {
    let [batch, steps, channels, states] = SIZES;
    let mut group = c.benchmark_group(format!("selective scan {batch}x{steps}x{channels}x{states}"));
    group.throughput(Throughput::Elements((batch * steps * channels * states) as u64));
    for (name, f) in [("fused", fused as Form), ("scan", looped)] {
        for (what, g) in ["forward", "gradient"].into_iter().zip(graphs(f)) {
            let mut p = program(&g);
            println!("{name} {what}: {} instructions, {} bytes", p.plan().instructions, p.plan().arena_bytes);
            group.bench_function(format!("{name} {what}"), |b| b.iter(|| p.step()));
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = selective_scan
}
criterion_main!(benches);
