//! Linear systems and Cholesky factors: one large matrix, and batches of small ones.

use arenagrad::graph::{Builder, DType};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, criterion_group, criterion_main};

/// A program of `op` on `batch` symmetric matrices of `n` rows, which are positive definite, and as many right sides of
/// one column.
fn program(op: &str, batch: usize, n: usize) -> Program {
    let g = Builder::new("linalg");
    let (a, b) = (g.input("a", [batch, n, n], DType::F64), g.input("b", [batch, n, 1], DType::F64));
    let y = if op == "solve" { a.solve(b) } else { a.cholesky() };
    let mut p = Session::new().compile(&g.finish([y.named("y")]).expect("a valid graph")).expect("a valid graph");
    let number = |i: usize, j: usize| 1.0 / (1.0 + i.abs_diff(j) as f64) + if i == j { n as f64 } else { 0.0 };
    let a = p.values_mut::<f64>("a").expect("an input");
    a.iter_mut().enumerate().for_each(|(k, a)| *a = number(k / n % n, k % n));
    p.values_mut::<f64>("b").expect("an input").fill(1.0);
    p
}

fn linalg(c: &mut Criterion) {
    let mut group = c.benchmark_group("linalg");
    for op in ["solve", "cholesky"] {
        for (batch, n) in [(1, 16), (1, 64), (1, 256), (1, 1024), (4096, 4), (4096, 16)] {
            let mut p = program(op, batch, n);
            group.bench_function(format!("{op} {batch}x{n}"), |b| b.iter(|| p.step()));
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = linalg
}
criterion_main!(benches);
