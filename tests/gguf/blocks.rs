//! The ops on blocks: numbers of the format's library, plans, gradients, refusals.

use super::{blocks_of, noise};
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::train::gguf::{decode, encode};

/// The upper byte of each scale of a block of random bytes.
fn scales_of(t: BlockType) -> &'static [usize] {
    match t {
        BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4K | BlockType::Q5K => &[1, 3],
        BlockType::Q2K => &[81, 83],
        BlockType::Q3K => &[109],
        BlockType::Q6K => &[209],
        BlockType::Tq1_0 => &[53],
        BlockType::Tq2_0 => &[65],
        BlockType::Q8K => &[3],
        BlockType::Mxfp4 => &[],
        _ => &[1],
    }
}

/// FNV-1a of the bytes of numbers.
fn digest(numbers: &[f32]) -> u64 {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

#[test]
fn blocks_have_the_bits_of_the_formats_library() {
    let known = std::fs::read_to_string("tests/torch/gguf_blocks.txt").unwrap();
    for line in known.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let t = BlockType::from_name(name).unwrap();
        let want: Vec<u64> = words.map(|w| u64::from_str_radix(w, 16).unwrap()).collect();
        assert_eq!(want.len(), 50);
        let blocks = blocks_of(name, t.bytes(), want.len(), scales_of(t));
        let g = Builder::new("decode");
        let held = g.input("blocks", [blocks.len()], DType::U8);
        let y = held.gguf_dequant(t, [want.len(), t.elements()]).named("y");
        let mut p = Session::new().compile(&g.finish([y]).unwrap()).unwrap();
        p.values_mut::<u8>("blocks").unwrap().copy_from_slice(&blocks);
        p.step().unwrap();
        let y = p.values::<f32>("y").unwrap();
        let got: Vec<u64> = y.chunks(t.elements()).map(digest).collect();
        assert_eq!(got, want, "{name}");
        assert_eq!(digest(&decode(t, &blocks).unwrap()), digest(y));
    }
    assert_eq!(
        known.lines().count(),
        BlockType::ALL.len() - 1,
        "all types but Q8_K, which the library does not decode"
    );
}

/// y = x·Dᵀ, its gradient, and what x·D by numbers gives.
fn product(m: usize, n: usize, k: usize, threads: usize) -> Program {
    let g = Builder::new("product");
    let x = g.param("x", [m, k], DType::F32, Init::Zeros);
    let blocks = g.input("blocks", [BlockType::Q4K.bytes_of(n * k).unwrap()], DType::U8);
    let y = x.gguf_matmul(blocks, BlockType::Q4K, n);
    let graph = g.finish([y.named("y"), (y * y).sum(..).named("loss")]).unwrap();
    let options = arenagrad::graph::GradOptions::wrt(&["x"]);
    let graph = arenagrad::graph::grad(&graph, "loss", &options).unwrap();
    Session::new().threads(threads).compile(&graph).unwrap()
}

#[test]
fn products_and_gradients_are_those_of_decoded_weights() {
    for (m, n, k) in [(1, 300, 512), (3, 64, 256), (40, 70, 512)] {
        let (x, w) = (noise(m * k, 1), encode(BlockType::Q4K, &noise(n * k, 2)).unwrap());
        let d = decode(BlockType::Q4K, &w).unwrap();
        let mut bits = Vec::new();
        for threads in [1, 2, 3] {
            let mut p = product(m, n, k, threads);
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
            p.values_mut::<u8>("blocks").unwrap().copy_from_slice(&w);
            p.step().unwrap();
            bits.push((p.values::<f32>("y").unwrap().to_vec(), p.values::<f32>("grad.x").unwrap().to_vec()));
        }
        assert!(bits.iter().all(|b| *b == bits[0]), "threads change bits");
        let dot = |i: usize, j: usize| (0..k).map(|t| f64::from(x[i * k + t]) * f64::from(d[j * k + t])).sum::<f64>();
        let y: Vec<f64> = (0..m * n).map(|e| dot(e / n, e % n)).collect();
        let size = y.iter().fold(1.0f64, |m, y| m.max(y.abs()));
        assert!(bits[0].0.iter().zip(&y).all(|(a, b)| (f64::from(*a) - b).abs() < 3e-6 * size), "{m} {n} {k}");
        for (e, got) in bits[0].1.iter().enumerate() {
            let (i, t) = (e / k, e % k);
            let want: f64 = (0..n).map(|j| 2.0 * y[i * n + j] * f64::from(d[j * k + t])).sum();
            assert!((f64::from(*got) - want).abs() < 1e-4 * (1.0 + want.abs()), "{e}: {got} {want}");
        }
    }
}

#[test]
fn decoded_weights_are_never_in_memory() {
    let (m, n, k) = (64, 2048, 2048);
    let p = product(m, n, k, 1);
    let (decoded, blocks) = (4 * n * k, BlockType::Q4K.bytes_of(n * k).unwrap());
    assert!(p.plan().buffers.iter().all(|b| b.size < decoded / 4), "{:?}", p.plan().largest(3));
    assert!(p.plan().arena_bytes < blocks + decoded / 4, "{}", p.plan().arena_bytes);
}

/// Only corrections of a frozen base are trained, and they lower the loss.
#[test]
fn corrections_of_blocks_are_trained() {
    let (m, n, k, t) = (16, 8, 64, BlockType::Q4_0);
    let g = Builder::new("lora");
    let (x, y) = (g.input("x", [m, k], DType::F32), g.input("y", [m, n], DType::F32));
    let blocks = g.frozen_param("w", [t.bytes_of(n * k).unwrap()], DType::U8, Init::Zeros);
    let (a, b) = (g.param("a", [2, k], DType::F32, Init::Normal(0.1)), g.param("b", [n, 2], DType::F32, Init::Zeros));
    let out = x.gguf_matmul(blocks, t, n) + x.matmul_t(a, false, true).matmul_t(b, false, true);
    let graph = train(&g.finish([out.mse(y).named("loss")]).unwrap(), "loss", optim::Adam::new(0.02)).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(3).unwrap();
    let w = encode(t, &noise(n * k, 4)).unwrap();
    p.values_mut::<u8>("w").unwrap().copy_from_slice(&w);
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&noise(m * k, 5));
    p.values_mut::<f32>("y").unwrap().copy_from_slice(&noise(m * n, 6));
    p.step().unwrap();
    let first = p.values::<f32>("loss").unwrap()[0];
    (0..200).for_each(|_| p.step().unwrap());
    assert!(p.values::<f32>("loss").unwrap()[0] < 0.8 * first);
    assert_eq!(p.values::<u8>("w").unwrap(), w);
}

#[test]
fn wrong_blocks_are_refused() {
    let message = |build: &dyn Fn(&Builder)| {
        let g = Builder::new("wrong");
        build(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let cases: [(&str, &dyn Fn(&Builder)); 6] = [
        ("the blocks have 100 bytes; 5 rows of 64 elements of Q4_0 have 180", &|g| {
            g.input("x", [3, 64], DType::F32).gguf_matmul(g.input("w", [100], DType::U8), BlockType::Q4_0, 5);
        }),
        ("rows of 40 elements are no whole Q4_0 blocks", &|g| {
            g.input("x", [3, 40], DType::F32).gguf_matmul(g.input("w", [180], DType::U8), BlockType::Q4_0, 5);
        }),
        ("the blocks are i8; they must be u8", &|g| {
            g.input("x", [3, 64], DType::F32).gguf_matmul(g.input("w", [180], DType::I8), BlockType::Q4_0, 5);
        }),
        ("x is a scalar", &|g| {
            g.input("x", [], DType::F32).gguf_matmul(g.input("w", [0], DType::U8), BlockType::Q4_0, 5);
        }),
        ("dims is empty", &|g| {
            g.input("w", [18], DType::U8).gguf_dequant(BlockType::Q4_0, []);
        }),
        ("are too many", &|g| {
            g.input("w", [18], DType::U8).gguf_dequant(BlockType::Q4_0, [1 << 40, 1 << 40]);
        }),
    ];
    for (want, build) in cases {
        let e = message(build);
        assert!(e.contains(want) && e.contains("gguf_"), "{e}");
    }
    assert!(encode(BlockType::Q6K, &[0.0; 256]).unwrap_err().message.contains("no encoder"));
    assert!(encode(BlockType::Q4K, &[0.0; 32]).unwrap_err().message.contains("no whole Q4_K blocks"));
    assert!(decode(BlockType::Q4K, &[0; 143]).unwrap_err().message.contains("no whole Q4_K blocks"));
}
