//! Products of codes and products with coded weights, beside the same products in f32, and a plain read of memory.

use arenagrad::graph::quant::{CodeProduct, CodedWeights, WeightScheme};
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::{Program, Session};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

fn compiled(g: Builder) -> Program {
    Session::new().threads(1).compile(&g.finish([]).expect("a valid graph")).expect("a valid graph")
}

/// Codes of all values.
fn fill_codes(p: &mut Program) {
    for (name, step) in [("x", 37), ("w", 91)] {
        let codes = p.values_mut::<i8>(name).expect("an input");
        codes.iter_mut().enumerate().for_each(|(i, c)| *c = (i * step) as i8);
    }
}

/// x `[m, k]` by w `[k, n]` in `i8`, to sums (`to` = `i32`) or to codes; or in f32.
fn product(to: DType, [m, k, n]: [usize; 3]) -> Program {
    let g = Builder::new("product");
    let of = if to == DType::F32 { DType::F32 } else { DType::I8 };
    let (x, w) = (g.input("x", [m, k], of), g.input("w", [k, n], of));
    let y = match to {
        DType::F32 => x.matmul(w),
        DType::I32 => x.q_matmul(w, None, None, CodeProduct::to_i32().x_zp(3).w_zp(-1)),
        _ => x.q_matmul(w, None, None, CodeProduct::to_i8().x_zp(3).w_zp(-1).s_out(5000.0)),
    };
    g.output("y", y);
    let mut p = compiled(g);
    if of == DType::I8 {
        fill_codes(&mut p);
    } else {
        p.values_mut::<f32>("x").expect("an input").fill(0.5);
        p.values_mut::<f32>("w").expect("an input").fill(0.25);
    }
    p
}

fn products_of_codes(c: &mut Criterion) {
    for size in [[512, 512, 512], [256, 1024, 4096]] {
        let [m, k, n] = size;
        let mut group = c.benchmark_group(format!("q_matmul {m}x{k}x{n}"));
        group.throughput(Throughput::Elements((m * k * n) as u64));
        for (name, to) in [("f32", DType::F32), ("i8 to i32", DType::I32), ("i8 to i8", DType::I8)] {
            let mut p = product(to, size);
            group.bench_function(name, |b| b.iter(|| p.step()));
        }
        group.finish();
    }
}

/// One row, or a few, by weights `[k, n]` in blocks of 32 rows.
fn coded(scheme: Option<WeightScheme>, [m, k, n]: [usize; 3]) -> Program {
    let (g, block) = (Builder::new("coded"), 32);
    let x = g.input("x", [m, k], DType::F32);
    let y = match scheme {
        None => x.matmul(g.param("w", [k, n], DType::F32, Init::Constant(0.5))),
        Some(scheme) => {
            let codes = match scheme {
                WeightScheme::Int8 => g.param("w", [k, n], DType::I8, Init::Ones),
                WeightScheme::Int4 => g.param("w", [k * n / 2], DType::U8, Init::Ones),
                _ => g.param("w", [k, n], DType::U8, Init::Ones),
            };
            let scales = g.param("s", [k / block, n], DType::F32, Init::Ones);
            x.dequant_matmul(CodedWeights::new(scheme, k, block, codes, scales))
        }
    };
    g.output("y", y);
    let mut p = compiled(g);
    p.init(1).expect("start values");
    p.values_mut::<f32>("x").expect("an input").fill(0.5);
    p
}

fn coded_weights(c: &mut Criterion) {
    let (k, n) = (4096, 4096);
    for m in [1, 64] {
        let mut group = c.benchmark_group(format!("dequant_matmul {m}x{k}x{n}"));
        for (name, scheme, bits) in [
            ("f32", None, 32),
            ("int8", Some(WeightScheme::Int8), 8),
            ("int4", Some(WeightScheme::Int4), 4),
            ("fp8_e4m3", Some(WeightScheme::Fp8E4m3), 8),
        ] {
            // Bytes of the weights, and of scales.
            let scales = if bits < 32 { k / 32 * n * 4 } else { 0 };
            group.throughput(Throughput::Bytes((k * n * bits / 8 + scales) as u64));
            let mut p = coded(scheme, [m, k, n]);
            group.bench_function(name, |b| b.iter(|| p.step()));
        }
        group.finish();
    }
}

/// Reads 64 MiB: what one thread takes from memory at most.
fn stream(c: &mut Criterion) {
    let words = vec![1u64; 8 << 20];
    let mut group = c.benchmark_group("stream");
    group.throughput(Throughput::Bytes(64 << 20));
    group.bench_function("read", |b| {
        b.iter(|| {
            let (lanes, _) = black_box(&words).as_chunks::<32>();
            let mut sums = [0u64; 32];
            lanes.iter().for_each(|c| sums.iter_mut().zip(c).for_each(|(s, x)| *s ^= x));
            black_box(sums)
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = products_of_codes, coded_weights, stream
}
criterion_main!(benches);
