//! Weights that are stored as codes: fixed numbers, gradients against the same net in floats, memory, training beside
//! frozen codes.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::quant::{CodedWeights, WeightScheme, encode_weights};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Missing, grad, vjp};
use arenagrad::optim::{self, train};
use arenagrad::session::{Elem, Program, Session};
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::ad::prepare;

fn set<T: Elem>(p: &mut Program, name: &str, x: &[T]) {
    p.values_mut::<T>(name).unwrap().copy_from_slice(x);
}

#[test]
fn numbers_products_and_gradients_are_those_of_the_definition() {
    let g = Builder::new("example");
    let (x, w) = (g.input("x", [2, 4], DType::F32), g.input("w", [4, 2], DType::I8));
    let (s, z) = (g.input("s", [2, 2], DType::F32), g.input("z", [2, 2], DType::F32));
    let w = CodedWeights::new(WeightScheme::Int8, 4, 2, w, s).with_zeros(z);
    g.output("numbers", w.numbers());
    g.output("y", x.dequant_matmul(w));
    let graph = g.finish([]).unwrap();
    let wrt = ["x", "w", "s", "z"];
    let graph = vjp(graph.view(), &["y"], &wrt, Missing::Error).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    set(&mut p, "x", &[1f32, 2.0, -1.0, 0.5, 0.0, -1.0, 3.0, 2.0]);
    set(&mut p, "w", &[1i8, -2, 3, 4, -5, 6, 7, -8]);
    set(&mut p, "s", &[0.5f32, 0.25, 2.0, 0.125]);
    set(&mut p, "z", &[1f32, 0.0, -1.0, 2.0]);
    let cotangent = graph.view().leaves().last().unwrap().name.to_string();
    set(&mut p, &cotangent, &[1f32, -1.0, 0.5, 2.0]);
    p.step().unwrap();
    let read = |name: &str| p.values::<f32>(name).unwrap().to_vec();
    assert_eq!(read("numbers"), [0.0, -0.5, 1.0, 1.0, -8.0, 0.5, 16.0, -1.25]);
    assert_eq!(read("y"), [18.0, 0.375, 7.0, -2.0]);
    assert_eq!(read("grad.x"), [0.5, 0.0, -8.5, 17.25, -1.0, 2.5, -3.0, 5.5]);
    assert_eq!(read("grad.s"), [3.0, -14.0, 10.0, -7.0]);
    assert_eq!(read("grad.z"), [-1.25, 1.25, -4.0, -1.3125]);
    assert_eq!(read("grad.w"), [0.5, -0.25, 0.75, -1.0, 1.0, 0.875, 3.0, 0.4375]);
}

/// The sum of squares of products of x `[m, k]` with weights in blocks of `block` rows.
fn squares(scheme: WeightScheme, [m, k, n, block]: [usize; 4], zeros: bool) -> GraphBuf {
    let g = Builder::new("squares");
    let x = g.input("x", [m, k], DType::F64);
    let dtype = if scheme == WeightScheme::Int8 { DType::I8 } else { DType::U8 };
    let packed = scheme == WeightScheme::Int4;
    let codes = if packed { g.input("w", [(k * n).div_ceil(2)], dtype) } else { g.input("w", [k, n], dtype) };
    let s = g.input("s", [k.div_ceil(block), n], DType::F64);
    let z = zeros.then(|| g.input("z", [k.div_ceil(block), n], DType::F64));
    let w = CodedWeights::new(scheme, k, block, codes, s);
    let y = x.dequant_matmul(z.map_or(w, |z| w.with_zeros(z)));
    g.finish([y.square().sum(..).named("loss")]).unwrap()
}

/// The same with codes as floats, in ops that know no codes.
fn squares_in_floats([m, k, n, block]: [usize; 4], zeros: bool) -> GraphBuf {
    let g = Builder::new("floats");
    let (x, w) = (g.input("x", [m, k], DType::F64), g.input("w", [k, n], DType::F64));
    let block_of_row: Vec<i32> = (0..k).map(|p| (p / block) as i32).collect();
    let block_of_row = g.constant_bytes(bytemuck::cast_slice(&block_of_row), [k], DType::I32);
    let s = g.input("s", [k.div_ceil(block), n], DType::F64);
    let w = if zeros { w - g.input("z", [k.div_ceil(block), n], DType::F64).gather(block_of_row, 0) } else { w };
    let y = x.matmul(w * s.gather(block_of_row, 0));
    g.finish([y.square().sum(..).named("loss")]).unwrap()
}

#[test]
fn gradients_are_those_of_the_net_in_floats() {
    let sizes = [[1, 6, 5, 2], [3, 7, 3, 3], [70, 20, 9, 16], [2, 5, 4, 100], [2, 3, 2, 1]];
    for (case, size) in sizes.into_iter().enumerate() {
        let [m, k, n, block]: [usize; 4] = size;
        for (scheme, zeros) in [(WeightScheme::Int8, false), (WeightScheme::Int8, true), (WeightScheme::Int4, true)] {
            let mut draw = TensorDraws(5 + case as u64);
            let of_scales = [k.div_ceil(block), n];
            let x = draw.tensor(DType::F64, &[m, k], Domain::Real);
            let (s, z) = (
                draw.tensor(DType::F64, &of_scales, Domain::Real),
                draw.tensor(DType::F64, &of_scales, Domain::Count(9)),
            );
            let packed = scheme == WeightScheme::Int4;
            let codes: Vec<f64> =
                (0..k * n).map(|i| ((i * 37 + case) % if packed { 16 } else { 256 }) as f64).collect();
            let codes: Vec<f64> = codes.iter().map(|c| if packed { *c } else { c - 128.0 }).collect();
            let stored = match packed {
                true => {
                    let pairs = codes.chunks(2).map(|p| p[0] + 16.0 * p.get(1).copied().unwrap_or(0.0)).collect();
                    Tensor { dtype: DType::U8, dims: vec![(k * n).div_ceil(2)], data: pairs }
                }
                false => Tensor { dtype: DType::I8, dims: vec![k, n], data: codes.clone() },
            };
            let floats = Tensor { dtype: DType::F64, dims: vec![k, n], data: codes };
            let wrt: &[&str] = if zeros { &["x", "s", "z"] } else { &["x", "s"] };
            let results = |g: GraphBuf, w: Tensor| {
                let g = grad(&g, "loss", &GradOptions::wrt(wrt)).unwrap();
                // Inputs in the order of the leaves.
                let inputs: Vec<Tensor> = g
                    .view()
                    .leaves()
                    .map(|l| match l.name {
                        "x" => x.clone(),
                        "w" => w.clone(),
                        "s" => s.clone(),
                        _ => z.clone(),
                    })
                    .collect();
                let (outs, names) = (run(&g, &inputs, PLAIN), g.view().output_names.to_vec());
                let mut all: Vec<(String, Tensor)> =
                    names.iter().map(|n| g.view().str(*n).to_string()).zip(outs).collect();
                all.sort_by(|a, b| a.0.cmp(&b.0));
                all
            };
            let (ours, theirs) =
                (results(squares(scheme, size, zeros), stored), results(squares_in_floats(size, zeros), floats));
            assert_eq!(ours.len(), wrt.len() + 1);
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let most = theirs.1.data.iter().fold(1f64, |m, x| m.max(x.abs()));
                let scaled = |t: &Tensor| -> Vec<f64> { t.data.iter().map(|x| x / most).collect() };
                assert_eq!(ours.0, theirs.0);
                assert!(
                    conform_distance(&scaled(&ours.1), &scaled(&theirs.1)) < 1e-12,
                    "{scheme:?} {size:?} {}",
                    ours.0
                );
            }
        }
    }
}

/// A product with int4 weights `[k, n]`.
fn product([m, k, n, block]: [usize; 4]) -> GraphBuf {
    let g = Builder::new("product");
    let x = g.input("x", [m, k], DType::F32);
    let codes = g.param("w", [k * n / 2], DType::U8, Init::Zeros);
    let scales = g.param("s", [k.div_ceil(block), n], DType::F32, Init::Zeros);
    let y = x.dequant_matmul(CodedWeights::new(WeightScheme::Int4, k, block, codes, scales));
    g.finish([y.named("y")]).unwrap()
}

#[test]
fn the_numbers_of_the_weights_take_no_memory() {
    for m in [1, 64] {
        let [k, n, block] = [1024, 1024, 32];
        let p = Session::new().compile(&product([m, k, n, block])).unwrap();
        let operands = 4 * m * (k + n) + k * n / 2 + 4 * k * n / block;
        let most = operands + 4 * k * n / 4;
        let bytes = p.plan().arena_bytes;
        assert!(bytes < most, "{bytes} bytes for m = {m}, more than {most}");
    }
}

#[test]
fn encoded_weights_are_near_the_numbers() {
    let [k, n, block] = [50, 7, 16];
    let w: Vec<f32> = (0..k * n).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
    for (scheme, far) in [
        (WeightScheme::Int8, 0.5 / 127.0 + 1e-6),
        (WeightScheme::Int4, 0.5 / 7.0 + 1e-6),
        (WeightScheme::Fp8E4m3, 1.0 / 16.0),
        (WeightScheme::Fp8E5m2, 1.0 / 8.0),
        (WeightScheme::Nvfp4, 0.25),
    ] {
        let block = if scheme == WeightScheme::Nvfp4 { 16 } else { block };
        let e = encode_weights(scheme, &w, [k, n], block).unwrap();
        let g = Builder::new("encoded");
        let (codes, of_scales) = (e.codes.len(), [k.div_ceil(block), n]);
        let all = match scheme {
            WeightScheme::Nvfp4 => CodedWeights::nvfp4(
                k,
                g.input("w", [codes], DType::U8),
                g.input("s", of_scales, DType::U8),
                g.constant(&[e.all_scales], []),
            ),
            WeightScheme::Int8 => CodedWeights::new(
                scheme,
                k,
                block,
                g.input("w", [k, n], DType::I8),
                g.input("s", of_scales, DType::F32),
            ),
            WeightScheme::Int4 => CodedWeights::new(
                scheme,
                k,
                block,
                g.input("w", [codes], DType::U8),
                g.input("s", of_scales, DType::F32),
            ),
            _ => CodedWeights::new(
                scheme,
                k,
                block,
                g.input("w", [k, n], DType::U8),
                g.input("s", of_scales, DType::F32),
            ),
        };
        let mut p = Session::new().compile(&g.finish([all.numbers().named("y")]).unwrap()).unwrap();
        match scheme {
            WeightScheme::Int8 => set(&mut p, "w", bytemuck::cast_slice::<u8, i8>(&e.codes)),
            _ => set(&mut p, "w", &e.codes),
        }
        match scheme {
            WeightScheme::Nvfp4 => set(&mut p, "s", &e.scale_codes),
            _ => set(&mut p, "s", &e.scales),
        }
        p.step().unwrap();
        for (y, w) in p.values::<f32>("y").unwrap().iter().zip(&w) {
            // Of floats the error is relative, of integers a share of the largest weight of a block, which is below 1.
            let size =
                if matches!(scheme, WeightScheme::Fp8E4m3 | WeightScheme::Fp8E5m2) { w.abs() + 1e-4 } else { 1.0 };
            assert!((y - w).abs() <= far * size, "{scheme:?}: {y} for {w}");
        }
    }
    assert!(encode_weights(WeightScheme::Int8, &w, [k, n], 0).is_err());
    assert!(encode_weights(WeightScheme::Int8, &w[1..], [k, n], 4).is_err());
    assert!(encode_weights(WeightScheme::Int8, &[f32::NAN], [1, 1], 4).is_err());
}

/// The scale of the smallest weights is the least number there is, and the largest of them have no code.
#[test]
fn weights_beyond_the_codes_get_the_outermost_ones() {
    // Multiples of the least number. 10 / 7 and 160 / 127 of it are rounded to 1.
    let of = |scheme: WeightScheme, n: u32| {
        let w = [f32::from_bits(n), -f32::from_bits(n)];
        let e = encode_weights(scheme, &w, [2, 1], 2).unwrap();
        assert_eq!(e.scales, [f32::from_bits(1)]);
        e.codes
    };
    assert_eq!(of(WeightScheme::Int4, 10), [15]);
    assert_eq!(of(WeightScheme::Int8, 160), [127, 129]);
}

/// Fits y = x·(w + a·b) to targets: w is in frozen int4 codes, a and b are learned.
#[test]
fn low_rank_corrections_train_beside_frozen_codes() {
    let ([m, k, n, block], rank) = ([32, 24, 10, 8], 4);
    let w: Vec<f32> = (0..k * n).map(|i| ((i * 31) % 17) as f32 / 20.0 - 0.4).collect();
    let e = encode_weights(WeightScheme::Int4, &w, [k, n], block).unwrap();
    let g = Builder::new("lora");
    let (x, t) = (g.input("x", [m, k], DType::F32), g.input("t", [m, n], DType::F32));
    let codes = g.state("w", [k * n / 2], DType::U8, Init::Zeros);
    let scales = g.state("s", [k.div_ceil(block), n], DType::F32, Init::Zeros);
    let base = x.dequant_matmul(CodedWeights::new(WeightScheme::Int4, k, block, codes, scales));
    let (a, b) =
        (g.param("a", [k, rank], DType::F32, Init::Normal(0.2)), g.param("b", [rank, n], DType::F32, Init::Zeros));
    let y = base + x.matmul(a).matmul(b);
    let loss = (y - t).square().mean(..).named("loss");
    let step = train(&g.finish([loss]).unwrap(), "loss", optim::Adam::new(0.02)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.init(1).unwrap();
    set(&mut p, "w", &e.codes);
    set(&mut p, "s", &e.scales);
    let xs: Vec<f32> = (0..m * k).map(|i| ((i * 37) % 41) as f32 / 20.0 - 1.0).collect();
    set(&mut p, "x", &xs);
    // Targets of another matrix: w and a matrix of rank 2.
    let target = |i: usize, j: usize| -> f32 {
        let other = |p: usize| w[p * n + j] + 0.3 * ((p % 3) as f32 - 1.0) * ((j % 4) as f32 - 1.5);
        (0..k).map(|p| xs[i * k + p] * other(p)).sum()
    };
    let ts: Vec<f32> = (0..m * n).map(|e| target(e / n, e % n)).collect();
    set(&mut p, "t", &ts);
    let mut losses = Vec::new();
    for _ in 0..300 {
        p.step().unwrap();
        losses.push(p.values::<f32>("loss").unwrap()[0]);
    }
    assert!(losses[299] < 0.05 * losses[0] && losses[0] > 0.1, "{} to {}", losses[0], losses[299]);
    assert_eq!(p.values::<u8>("w").unwrap(), e.codes);
    assert_eq!(p.values::<f32>("s").unwrap(), e.scales);
}

#[test]
fn wrong_use_is_refused() {
    let refused = |scheme, codes: (&[usize], DType), scales: &[usize], zeros: bool, part: &str| {
        let g = Builder::new("wrong");
        let w = CodedWeights::new(scheme, 6, 4, g.input("w", codes.0, codes.1), g.input("s", scales, DType::F32));
        let w = if zeros { w.with_zeros(g.input("z", scales, DType::F32)) } else { w };
        g.output("y", g.input("x", [2, 6], DType::F32).dequant_matmul(w));
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(part) && e.contains("dequant_matmul"), "{e}");
    };
    refused(WeightScheme::Int8, (&[6, 3], DType::U8), &[2, 3], false, "i8 is needed");
    refused(WeightScheme::Int8, (&[6, 3], DType::I8), &[3, 3], false, "[3,3], not [2,3]");
    refused(WeightScheme::Int4, (&[10], DType::U8), &[2, 3], false, "[10], not [9]");
    refused(WeightScheme::Fp8E4m3, (&[6, 3], DType::U8), &[2, 3], true, "have no zeros");
    refused(WeightScheme::Nvfp4, (&[9], DType::U8), &[2, 3], false, "a number that multiplies");
}

/// The numbers of nvfp4 are linear in the number that multiplies all scales: so its derivative is known from the loss.
#[test]
fn the_number_of_all_scales_has_a_derivative() {
    let [k, n] = [20, 3];
    let w: Vec<f32> = (0..k * n).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
    let e = encode_weights(WeightScheme::Nvfp4, &w, [k, n], 16).unwrap();
    let by_product = |product: bool| {
        let g = Builder::new("all scales");
        let all = g.input("all", [], DType::F64);
        let (codes, scales) = (g.input("w", [e.codes.len()], DType::U8), g.input("s", [k.div_ceil(16), n], DType::U8));
        let w = CodedWeights::nvfp4(k, codes, scales, all);
        let y = if product { g.input("x", [2, k], DType::F64).dequant_matmul(w) } else { w.numbers() };
        g.finish([y.square().sum(..).named("loss")]).unwrap()
    };
    for product in [false, true] {
        let graph = by_product(product);
        let reverse = graph.grad("loss", &GradOptions::wrt(&["all"])).unwrap();
        let forward = graph.jvp(&["loss"], &["all"]).unwrap();
        for (graph, slope) in [(&reverse, "grad.all"), (&forward, "tangent.loss")] {
            let mut p = Session::new().compile(graph).unwrap();
            set(&mut p, "w", &e.codes);
            set(&mut p, "s", &e.scale_codes);
            set(&mut p, "all", &[0.75f64]);
            if product {
                set(&mut p, "x", &(0..2 * k).map(|i| (i as f64).sin()).collect::<Vec<_>>());
            }
            if slope == "tangent.loss" {
                set(&mut p, "tangent.all", &[1f64]);
            }
            p.step().unwrap();
            let (loss, y) = (p.values::<f64>("loss").unwrap()[0], p.values::<f64>(slope).unwrap()[0]);
            assert!(loss > 1e-3 && (y - 2.0 * loss / 0.75).abs() < 1e-9 * y.abs(), "{slope}: {y} for {loss}");
        }
    }
}

/// A code of a scale may be any byte: that of NaN makes the block 0, in the kernels and in simpler ops.
#[test]
fn a_scale_that_is_no_number_counts_as_zero() {
    let g = Builder::new("nan");
    let (codes, scales) = (g.input("w", [2], DType::U8), g.input("s", [1, 2], DType::U8));
    let all = g.constant_f64(&[0.5], []);
    let y = CodedWeights::nvfp4(2, codes, scales, all).numbers();
    let graph = g.finish([y.named("y")]).unwrap();
    let bytes = |dims: &[usize], data: &[f64]| Tensor { dtype: DType::U8, dims: dims.to_vec(), data: data.to_vec() };
    // Numbers 6 and −1 above 0.5 and 2, scales NaN and 1.
    let inputs =
        [bytes(&[2], &[f64::from(0xa7), f64::from(0x41)]), bytes(&[1, 2], &[f64::from(0x7f), f64::from(0x38)])];
    let plain = prepare::decompose_fully(graph.view()).unwrap();
    for (graph, optimise) in [(&graph, true), (&plain, false)] {
        assert_eq!(run(graph, &inputs, How { optimise, ..PLAIN })[0].data, [0.0, -0.5, 0.0, 1.0]);
    }
}
