//! Products with weights in the blocks of GGUF files, as bytes of blocks a second: one row beside the rate at which
//! one thread reads memory, and many rows beside the product with the same weights in `f32`.

use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType};
use arenagrad::session::{Program, Session};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// Rows and columns of the weights: 16 Mi numbers, which no cache holds even in four bits.
const N: usize = 8192;
const K: usize = 4096;

/// Bytes that are usual scales and codes.
fn blocks(t: BlockType) -> Vec<u8> {
    (0..t.bytes_of(N * K).expect("whole blocks")).map(|i| (i * 37 + 11) as u8 & 0x3b).collect()
}

/// y = x·Dᵀ for `m` rows x, on one thread.
fn program(t: Option<BlockType>, m: usize) -> Program {
    let g = Builder::new("product");
    let x = g.input("x", [m, K], DType::F32);
    let y = match t {
        Some(t) => x.gguf_matmul(g.input("w", [t.bytes_of(N * K).expect("whole blocks")], DType::U8), t, N),
        None => x.matmul_t(g.input("w", [N, K], DType::F32), false, true),
    };
    let graph = g.finish([y.named("y")]).expect("a valid graph");
    let mut p = Session::new().threads(1).compile(&graph).expect("a valid graph");
    match t {
        Some(t) => p.values_mut::<u8>("w").expect("an input").copy_from_slice(&blocks(t)),
        None => p.values_mut::<f32>("w").expect("an input").iter_mut().enumerate().for_each(|(i, w)| {
            *w = (i % 17) as f32 - 8.0;
        }),
    }
    let x = p.values_mut::<f32>("x").expect("an input");
    x.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 23) as f32 - 11.0);
    p
}

/// The exclusive or of all words: reading, and next to nothing else.
fn read_all(words: &[u64]) -> u64 {
    let (lanes, rest) = words.as_chunks::<32>();
    let mut sum = [0; 32];
    for chunk in lanes {
        for (s, w) in sum.iter_mut().zip(chunk) {
            *s ^= w;
        }
    }
    sum.iter().chain(rest).fold(0, |a, b| a ^ b)
}

fn one_row(c: &mut Criterion) {
    let mut group = c.benchmark_group("gguf one row");
    let memory = vec![1u64; 32 << 20];
    group.throughput(Throughput::Bytes(8 * memory.len() as u64));
    group.bench_function("reading memory", |b| b.iter(|| read_all(black_box(&memory))));
    for &t in BlockType::ALL {
        let mut p = program(Some(t), 1);
        group.throughput(Throughput::Bytes(t.bytes_of(N * K).expect("whole blocks") as u64));
        group.bench_function(t.name(), |b| b.iter(|| p.step()));
    }
    group.finish();
}

fn many_rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("gguf rows");
    for m in [4, 8, 64, 512] {
        group.throughput(Throughput::Elements((2 * m * N * K) as u64));
        for (name, t) in [("f32", None), ("Q4_K", Some(BlockType::Q4K)), ("Q8_0", Some(BlockType::Q8_0))] {
            let mut p = program(t, m);
            group.bench_function(BenchmarkId::new(name, m), |b| b.iter(|| p.step()));
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = one_row, many_rows
}
criterion_main!(benches);
