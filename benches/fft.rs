//! Fourier transforms of rows, compared with the crate that computes them, called directly.

use arenagrad::graph::signal::FftNorm;
use arenagrad::graph::{Builder, DType};
use arenagrad::session::Session;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

/// Elements of all rows together, at least.
const ELEMENTS: usize = 1 << 14;

/// Times the op, and a copy with the crate's transform in place: the op keeps its operand.
fn fft(c: &mut Criterion) {
    let mut group = c.benchmark_group("fft");
    let powers = [8, 10, 12, 14, 16, 18, 20].map(|power| 1 << power);
    for n in powers.into_iter().chain([1000]) {
        let rows = ELEMENTS.div_ceil(n);
        group.throughput(Throughput::Elements((rows * n) as u64));
        let g = Builder::new("fft");
        let x = g.input("x", [rows, n], DType::C64);
        let y = x.fft(None, -1, FftNorm::Backward);
        let mut p = Session::new().compile(&g.finish([y.named("y")]).expect("a valid graph")).expect("a valid graph");
        let values: Vec<[f32; 2]> = (0..rows * n).map(|i| [(i % 17) as f32 - 8.0, (i % 23) as f32 - 11.0]).collect();
        p.values_mut::<[f32; 2]>("x").expect("an input").copy_from_slice(&values);
        group.bench_function(format!("op {rows}x{n}"), |b| b.iter(|| p.step()));

        let plan = FftPlanner::<f32>::new().plan_fft_forward(n);
        let from: Vec<Complex<f32>> = values.iter().map(|v| Complex::new(v[0], v[1])).collect();
        let mut to = from.clone();
        let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
        group.bench_function(format!("rustfft {rows}x{n}"), |b| {
            b.iter(|| {
                to.copy_from_slice(&from);
                plan.process_with_scratch(&mut to, &mut scratch);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = fft
}
criterion_main!(benches);
