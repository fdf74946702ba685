//! Matrix products beside `matrixmultiply` and `gemm-f32`, one thread each: `cargo bench --bench gemm`.
//!
//! Each line is one layout and shape, m,k,n. `-- --list` names them, `-- 64,64,64` picks one. `-- precision` runs the
//! same product in f32, as three products of bf16 terms, and in bf16.
#![allow(missing_docs)]

use arenagrad::kernels::gemm::{Gemm, Precision, gemm};
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use std::hint::black_box;
use std::time::Duration;

/// Which operand is stored transposed.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Nn,
    Nt,
    Tn,
}

const SHAPES: [(Layout, usize, usize, usize); 20] = [
    (Layout::Nn, 1, 128, 128),
    (Layout::Nn, 8, 128, 384),
    (Layout::Nn, 32, 784, 128),
    (Layout::Nn, 32, 128, 784),
    (Layout::Nn, 32, 128, 10),
    (Layout::Nn, 64, 64, 64),
    (Layout::Nn, 256, 256, 256),
    (Layout::Nn, 256, 1024, 4096),
    (Layout::Nn, 768, 128, 512),
    (Layout::Nn, 512, 512, 512),
    (Layout::Nn, 2048, 2048, 2048),
    (Layout::Nt, 1, 128, 128),
    (Layout::Nt, 8, 128, 384),
    (Layout::Nt, 32, 784, 128),
    (Layout::Nt, 32, 10, 128),
    (Layout::Nt, 512, 512, 512),
    (Layout::Tn, 784, 32, 128),
    (Layout::Tn, 128, 768, 512),
    (Layout::Tn, 32, 1, 32),
    (Layout::Tn, 512, 512, 512),
];

/// Those of the measured networks, forward and both gradients, and some on the way to the smallest.
const PRECISIONS: [(Layout, usize, usize, usize); 22] = [
    (Layout::Nn, 8, 128, 384),
    (Layout::Nn, 16, 16, 16),
    (Layout::Nn, 32, 32, 32),
    (Layout::Nn, 64, 64, 64),
    (Layout::Nn, 64, 32, 64),
    (Layout::Nn, 32, 784, 128),
    (Layout::Nn, 32, 128, 10),
    (Layout::Nt, 32, 10, 128),
    (Layout::Nt, 32, 784, 128),
    (Layout::Tn, 784, 32, 128),
    (Layout::Nn, 2, 1024, 1024),
    (Layout::Nn, 4, 1024, 1024),
    (Layout::Nn, 8, 1024, 1024),
    (Layout::Nn, 768, 128, 512),
    (Layout::Tn, 128, 768, 512),
    (Layout::Nn, 512, 512, 512),
    (Layout::Nn, 2048, 2048, 2048),
    (Layout::Nn, 256, 1024, 4096),
    (Layout::Nn, 256, 4096, 4096),
    (Layout::Nt, 256, 4096, 4096),
    (Layout::Tn, 4096, 256, 4096),
    (Layout::Nt, 256, 4096, 1024),
];

fn described(layout: Layout, m: usize, k: usize, n: usize) -> Gemm {
    match layout {
        Layout::Nn => Gemm::new(m, n, k),
        Layout::Nt => Gemm::new(m, n, k).with_b_transposed(),
        Layout::Tn => Gemm::new(m, n, k).with_a_transposed(),
    }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * 0.7).sin()).collect()
}

fn precisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("precision");
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300)).sample_size(10);
    for (layout, m, k, n) in PRECISIONS {
        let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![0f32; m * n]);
        group.throughput(Throughput::Elements(2 * (m * n * k) as u64));
        for (precision, name) in Precision::ALL {
            let g = Gemm { precision, ..described(layout, m, k, n) };
            let mut scratch = vec![0f32; g.scratch_len::<f32>()];
            group.bench_function(format!("{layout:?} {m},{k},{n} {name}"), |bench| {
                bench.iter(|| gemm(&g, black_box(&a), black_box(&b), None, &mut c, 0..g.units(), &mut scratch));
            });
        }
    }
    group.finish();
}

fn shape(group: &mut BenchmarkGroup<'_, WallTime>, layout: Layout, m: usize, k: usize, n: usize) {
    let g = described(layout, m, k, n);
    let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![0f32; m * n]);
    let mut scratch = vec![0f32; g.scratch_len::<f32>()];
    let name = format!("{layout:?} {m},{k},{n}");
    let (ar, ac) = (g.a.row as isize, g.a.col as isize);
    let (br, bc, cr) = (g.b.row as isize, g.b.col as isize, n as isize);
    group.throughput(Throughput::Elements(2 * (m * n * k) as u64));
    group.bench_function(format!("{name} arenagrad"), |bench| {
        bench.iter(|| gemm(&g, black_box(&a), black_box(&b), None, &mut c, 0..g.units(), &mut scratch));
    });
    group.bench_function(format!("{name} matrixmultiply"), |bench| {
        bench.iter(|| {
            let (a, b) = (black_box(&a).as_ptr(), black_box(&b).as_ptr());
            // SAFETY: the strides are those of the slices.
            #[allow(unsafe_code)]
            unsafe {
                matrixmultiply::sgemm(m, k, n, 1.0, a, ar, ac, b, br, bc, 0.0, c.as_mut_ptr(), cr, 1);
            }
        });
    });
    let peer = gemm_f32::gemm::f32::get_gemm_fn();
    group.bench_function(format!("{name} gemm"), |bench| {
        bench.iter(|| {
            let (a, b, c) = (black_box(&a).as_ptr(), black_box(&b).as_ptr(), c.as_mut_ptr());
            let one = gemm_common::Parallelism::None;
            // SAFETY: the strides are those of the slices.
            #[allow(unsafe_code)]
            unsafe {
                // Its kernels want C by columns, so it computes the transpose, as the `gemm` crate does.
                peer(n, m, k, c, cr, 1, false, b, br, bc, a, ar, ac, 0.0, 1.0, false, false, false, one);
            }
        });
    });
}

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gemm");
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(20);
    for (layout, m, k, n) in SHAPES {
        shape(&mut group, layout, m, k, n);
    }
    group.finish();
}

criterion_group!(benches, products, precisions);
criterion_main!(benches);
