//! Grouped products of a mixture of experts, beside dense products of the same number of operations.

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Rows, terms, columns, experts.
const SIZES: [usize; 4] = [4096, 512, 512, 8];

/// A product of x `[rows, k]` with w and, of experts, the expert of each row.
type Form = for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>;

fn dense<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    let [_, k, n, _] = SIZES;
    x.matmul(g.input("w", [k, n], DType::F32))
}

fn grouped<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    let [rows, k, n, experts] = SIZES;
    x.grouped_matmul(g.input("w", [experts, k, n], DType::F32), g.input("expert", [rows], DType::I32))
}

/// The product, and its gradients with respect to x and w.
fn graphs(f: Form) -> [GraphBuf; 2] {
    let [rows, k, n, _] = SIZES;
    let g = Builder::new("moe");
    let y = f(&g, g.input("x", [rows, k], DType::F32));
    let loss = (y * g.input("g", [rows, n], DType::F32)).sum(..).named("loss");
    let graph = g.finish([y.named("y"), loss]).expect("a valid graph");
    let back = grad(&graph, "loss", &GradOptions::wrt(&["x", "w"])).expect("a gradient");
    [graph, back]
}

/// A program with numbers in ±½ in all inputs, and rows that choose experts in no order.
fn program(g: &GraphBuf, experts: bool) -> Program {
    let mut p = Session::new().compile(g).expect("a valid graph");
    for name in ["x", "w", "g"] {
        let x = p.values_mut::<f32>(name).expect("an input");
        let n = x.len();
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7919 % n) as f32 / n as f32 - 0.5);
    }
    if experts {
        let chosen = p.values_mut::<i32>("expert").expect("an input");
        chosen.iter_mut().enumerate().for_each(|(i, e)| *e = (i * i + i / 3) as i32 % SIZES[3] as i32);
    }
    p
}

/// Times both forms. An element is a floating-point operation.
fn moe(c: &mut Criterion) {
    let [rows, k, n, experts] = SIZES;
    let mut group = c.benchmark_group(format!("{rows}x{k}x{n}, {experts} experts"));
    for (name, f) in [("dense", dense as Form), ("grouped", grouped)] {
        for (what, g, products) in
            ["forward", "gradient"].into_iter().zip(graphs(f)).zip([1, 3]).map(|((a, b), c)| (a, b, c))
        {
            let mut p = program(&g, name == "grouped");
            println!("{name} {what}: {} instructions, {} bytes", p.plan().instructions, p.plan().arena_bytes);
            group.throughput(Throughput::Elements((2 * products * rows * k * n) as u64));
            group.bench_function(format!("{name} {what}"), |b| b.iter(|| p.step()));
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = moe
}
criterion_main!(benches);
