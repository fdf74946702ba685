//! The time to pack buffers and to prove the packing: training steps, unrolled chains and power laws of a thousand to a
//! million buffers, and full rectangles, which need search.

use arenagrad::tools::sched::pack::{self, Buffers, Options, greedy, instances, proof};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// Packs the buffers, proves the packing, and returns its height.
fn proven(v: &Buffers) -> u64 {
    let p = pack::pack(v, &Options::default()).expect("sizes that add up");
    proof::prove_packing(v, &p.at, p.height, 1).expect("no overlap");
    p.height
}

/// Times instances whose lifetimes look like those of programs.
fn shaped(c: &mut Criterion) {
    let kinds: [(&str, fn(usize) -> Buffers); 3] = [
        ("training", |n| instances::training_instance(n, 1)),
        ("unrolled", instances::unrolled_instance),
        ("power law", |n| instances::power_law_instance(n, 1)),
    ];
    for (kind, make) in kinds {
        let mut group = c.benchmark_group(format!("pack {kind}"));
        for n in [1_000, 10_000, 100_000, 1_000_000] {
            let v = make(n);
            let p = pack::pack(&v, &Options::default()).expect("sizes that add up");
            println!("{kind}, {n} buffers: height / max-live {:.6}", p.height as f64 / p.max_live as f64);
            group.sample_size(10);
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::new("pack and check", n), |b| b.iter(|| black_box(proven(&v))));
            if n <= 10_000 {
                let (_, height) = greedy::choose_as_xla(&v);
                println!("{kind}, {n} buffers, best fit as in XLA: {:.6}", height as f64 / p.max_live as f64);
                group.bench_function(BenchmarkId::new("best fit as in XLA", n), |b| {
                    b.iter(|| black_box(greedy::choose_as_xla(&v)))
                });
            }
        }
        group.finish();
    }
}

/// Times rectangles that a perfect packing fills.
fn full(c: &mut Criterion) {
    let mut group = c.benchmark_group("pack a full rectangle");
    group.sample_size(10);
    for n in [120, 200, 400] {
        let all: Vec<Buffers> = (0..10).map(|seed| instances::perfect_instance(n, 1 << 16, 1 << 20, seed)).collect();
        let solved = all.iter().filter(|v| proven(v) == 1 << 20).count();
        println!("{n} pieces: {solved} of {} put together", all.len());
        group.bench_function(BenchmarkId::new("ten", n), |b| b.iter(|| all.iter().map(proven).sum::<u64>()));
    }
    group.finish();
}

criterion_group!(benches, shaped, full);
criterion_main!(benches);
