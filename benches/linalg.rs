//! Linear systems and Cholesky factors: one matrix, with the feature `faer` beside `faer` called directly, and batches
//! of small ones.

#[cfg(feature = "faer")]
mod by_faer;

use arenagrad::graph::{Builder, DType};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, criterion_group, criterion_main};

/// An element of a symmetric matrix of `n` rows, which is positive definite.
fn number(n: usize, i: usize, j: usize) -> f64 {
    1.0 / (1.0 + i.abs_diff(j) as f64) + if i == j { n as f64 } else { 0.0 }
}

/// An element of batch member `m` that makes pivots of other rows than the diagonal's.
fn mixed(m: usize, i: usize, j: usize) -> f64 {
    ((m * 31 + i * 17 + j * 7) as f64 * 0.618_033_988_75).fract() - 0.5
}

/// A program of `op` on `batch` matrices of `n` rows, and as many right sides of one column.
fn program(op: &str, batch: usize, n: usize) -> Program {
    let g = Builder::new("linalg");
    let (a, b) = (g.input("a", [batch, n, n], DType::F64), g.input("b", [batch, n, 1], DType::F64));
    let y = if op == "cholesky" { a.cholesky() } else { a.solve(b) };
    let mut p = Session::new().compile(&g.finish([y.named("y")]).expect("a valid graph")).expect("a valid graph");
    let a = p.values_mut::<f64>("a").expect("an input");
    for (k, a) in a.iter_mut().enumerate() {
        let (m, i, j) = (k / (n * n), k / n % n, k % n);
        *a = if op == "mixed solve" { mixed(m, i, j) } else { number(n, i, j) };
    }
    p.values_mut::<f64>("b").expect("an input").fill(1.0);
    p
}

fn linalg(c: &mut Criterion) {
    let mut group = c.benchmark_group("linalg");
    for op in ["solve", "cholesky"] {
        for n in [16, 32, 64, 128, 256, 512, 1024] {
            let mut p = program(op, 1, n);
            group.bench_function(format!("{op} {n}"), |b| b.iter(|| p.step()));
            #[cfg(feature = "faer")]
            group.bench_function(format!("{op} {n} by faer"), |b| b.iter(by_faer::peer(op, n)));
        }
    }
    for (op, n) in
        [("solve", 4), ("solve", 16), ("mixed solve", 4), ("mixed solve", 16), ("cholesky", 4), ("cholesky", 16)]
    {
        let mut p = program(op, 4096, n);
        group.bench_function(format!("{op} 4096x{n}"), |b| b.iter(|| p.step()));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = linalg
}
criterion_main!(benches);
