//! Linear systems and Cholesky factors: one matrix, beside `faer` called directly, and batches of small ones.

use arenagrad::graph::{Builder, DType};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, criterion_group, criterion_main};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::lu::partial_pivoting as lu;
use faer::{Mat, Par};

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

/// The same by `faer`: a copy of the matrix, its factors, and the solution.
fn faer_solve(n: usize) -> impl FnMut() -> f64 {
    let (a, b) = (Mat::from_fn(n, n, |i, j| number(n, i, j)), Mat::from_fn(n, 1, |_, _| 1.0));
    let (mut factors, mut x, mut rows, mut places) = (a.clone(), b.clone(), vec![0usize; n], vec![0usize; n]);
    let factor = lu::factor::lu_in_place_scratch::<usize, f64>(n, n, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(factor.or(lu::solve::solve_in_place_scratch::<usize, f64>(n, 1, Par::Seq)));
    move || {
        factors.copy_from(&a);
        x.copy_from(&b);
        let stack = MemStack::new(&mut memory);
        let lu = factors.as_mut();
        let (_, order) = lu::factor::lu_in_place(lu, &mut rows, &mut places, Par::Seq, stack, Default::default());
        lu::solve::solve_in_place(factors.as_ref(), factors.as_ref(), order, x.as_mut(), Par::Seq, stack);
        x[(0, 0)]
    }
}

/// A copy of the matrix and its Cholesky factor by `faer`.
fn faer_cholesky(n: usize) -> impl FnMut() -> f64 {
    let a = Mat::from_fn(n, n, |i, j| number(n, i, j));
    let mut factor = a.clone();
    let mut memory = MemBuffer::new(llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default()));
    move || {
        factor.copy_from(&a);
        let (l, stack) = (factor.as_mut(), MemStack::new(&mut memory));
        llt::factor::cholesky_in_place(l, Default::default(), Par::Seq, stack, Default::default())
            .expect("it is definite");
        factor[(0, 0)]
    }
}

fn linalg(c: &mut Criterion) {
    let mut group = c.benchmark_group("linalg");
    for op in ["solve", "cholesky"] {
        for n in [16, 32, 64, 128, 256, 512, 1024] {
            let mut p = program(op, 1, n);
            group.bench_function(format!("{op} {n}"), |b| b.iter(|| p.step()));
            let mut peer: Box<dyn FnMut() -> f64> =
                if op == "solve" { Box::new(faer_solve(n)) } else { Box::new(faer_cholesky(n)) };
            group.bench_function(format!("{op} {n} by faer"), |b| b.iter(&mut peer));
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
