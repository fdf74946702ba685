//! Products of rows by the matrix of their group, where matrices are blocks: against products with decoded matrices.

use super::{noise, path};
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Var, Vmap, grad};
use arenagrad::nn::{self, Moe};
use arenagrad::session::{Program, Session};
use arenagrad::train::gguf::{Gguf, GgufEntry, TensorType, decode, encode, save};
use arenagrad::train::{Load, Unmatched};

const F32: DType = DType::F32;

/// How the matrices of a product are stored.
#[derive(Clone, Copy, PartialEq)]
enum Stored {
    Blocks,
    /// `[groups, n, k]`.
    Numbers,
    /// Blocks that are decoded into numbers first, `[groups, k, n]`.
    Decoded,
}

/// y of x, the matrices and the groups of the rows, with the gradient of Σ y² with respect to x.
fn product(t: BlockType, rows: usize, [groups, n, k]: [usize; 3], stored: Stored) -> GraphBuf {
    let g = Builder::new("experts");
    let (x, at) = (g.param("x", [rows, k], F32, Init::Zeros), g.input("at", [rows], DType::I32));
    let blocks = || g.input("w", [t.bytes_of(groups * n * k).unwrap()], DType::U8);
    let y = match stored {
        Stored::Blocks => x.gguf_grouped_matmul(blocks(), t, at, [groups, n]),
        Stored::Numbers => x.grouped_matmul_t(g.input("w", [groups, n, k], F32), at, true),
        Stored::Decoded => x.grouped_matmul(blocks().gguf_dequant_experts(t, [groups, n, k]), at),
    };
    let graph = g.finish([y.named("y"), (y * y).sum(..).named("loss")]).unwrap();
    grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap()
}

/// y and the gradient.
fn step(p: &mut Program, x: &[f32], at: &[i32]) -> [Vec<f32>; 2] {
    p.values_mut::<f32>("x").unwrap().copy_from_slice(x);
    p.values_mut::<i32>("at").unwrap().copy_from_slice(at);
    p.step().unwrap();
    ["y", "grad.x"].map(|name| p.values::<f32>(name).unwrap().to_vec())
}

/// Some rows share a group, and group 1 has none.
fn some_groups(rows: usize, groups: usize) -> Vec<i32> {
    (0..rows).map(|i| if i * i % groups == 1 { 0 } else { (i * i % groups) as i32 }).collect()
}

#[test]
fn products_by_group_and_gradients_are_those_of_decoded_matrices() {
    for t in [BlockType::Q4K, BlockType::Q8_0] {
        for (rows, sizes) in [(3, [4, 40, 256]), (25, [5, 300, 256]), (90, [3, 33, 512])] {
            let [groups, n, k] = sizes;
            let (x, at) = (noise(rows * k, 1), some_groups(rows, groups));
            let w = encode(t, &noise(groups * n * k, 2)).unwrap();
            let d = decode(t, &w).unwrap();
            let mut by_numbers = Session::new().compile(&product(t, rows, sizes, Stored::Numbers)).unwrap();
            by_numbers.values_mut::<f32>("w").unwrap().copy_from_slice(&d);
            let want = step(&mut by_numbers, &x, &at);
            let mut decoded = Session::new().compile(&product(t, rows, sizes, Stored::Decoded)).unwrap();
            decoded.values_mut::<u8>("w").unwrap().copy_from_slice(&w);
            assert_eq!(step(&mut decoded, &x, &at)[0], want[0], "rows in the same order of terms");
            let run = |threads: usize| {
                let session = Session::new().threads(threads).share(true);
                let mut p = session.compile(&product(t, rows, sizes, Stored::Blocks)).unwrap();
                p.values_mut::<u8>("w").unwrap().copy_from_slice(&w);
                step(&mut p, &x, &at)
            };
            let got = run(1);
            for (got, want) in got.iter().zip(&want) {
                let size = want.iter().fold(1.0f32, |m, y| m.max(y.abs()));
                let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 4e-6 * size, "{}: {rows} rows of {sizes:?} are off by {off} of {size}", t.name());
            }
            // More than sixteen rows are multiplied by decoded panels: the same chain of sums.
            assert!(rows < 17 || got[0] == want[0], "{}: {rows} rows of {sizes:?}", t.name());
            assert!([2, 3, 5].iter().all(|&threads| run(threads) == got), "{}: threads change bits", t.name());
        }
    }
}

#[test]
fn decoded_matrices_are_never_in_memory() {
    let (t, rows, sizes) = (BlockType::Q4K, 64, [8, 512, 1024]);
    let decoded = 4 * sizes.iter().product::<usize>();
    let plan = Session::new().plan(&product(t, rows, sizes, Stored::Blocks)).unwrap();
    assert!(plan.arena_bytes < decoded / 4, "{} of {decoded}", plan.arena_bytes);
    let plan = Session::new().plan(&product(t, rows, sizes, Stored::Decoded)).unwrap();
    assert!(plan.arena_bytes > decoded);
}

/// Members with blocks of their own, and members that share them.
#[test]
fn batches_are_their_members() {
    let (t, rows, [groups, n, k]) = (BlockType::Q4_0, 5, [3, 7, 64]);
    let g = Builder::new("one");
    let (x, at) = (g.input("x", [rows, k], F32), g.input("at", [rows], DType::I32));
    let bytes = t.bytes_of(groups * n * k).unwrap();
    let y = x.gguf_grouped_matmul(g.input("w", [bytes], DType::U8), t, at, [groups, n]);
    let one = g.finish([y.named("y")]).unwrap();
    let (x, at) = (noise(4 * rows * k, 1), some_groups(4 * rows, groups));
    let w = encode(t, &noise(4 * groups * n * k, 2)).unwrap();
    for own in [false, true] {
        let all = Vmap::new(4).leaf("x", 0).leaf("at", 0);
        let all = one.vmap(&if own { all.leaf("w", 0) } else { all }).unwrap();
        let mut p = Session::new().compile(&all).unwrap();
        p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
        p.values_mut::<i32>("at").unwrap().copy_from_slice(&at);
        p.values_mut::<u8>("w").unwrap().copy_from_slice(&w[..if own { 4 * bytes } else { bytes }]);
        p.step().unwrap();
        let y = p.values::<f32>("y").unwrap();
        for i in 0..4 {
            let mut p = Session::new().compile(&one).unwrap();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&x[i * rows * k..][..rows * k]);
            p.values_mut::<i32>("at").unwrap().copy_from_slice(&at[i * rows..][..rows]);
            let first = if own { i * bytes } else { 0 };
            p.values_mut::<u8>("w").unwrap().copy_from_slice(&w[first..][..bytes]);
            p.step().unwrap();
            let want = p.values::<f32>("y").unwrap();
            let off = y[i * rows * n..][..rows * n].iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "member {i}, blocks of its own: {own}: {off}");
        }
    }
}

#[test]
fn wrong_groups_end_the_step_and_wrong_operands_are_refused() {
    let mut p = Session::new().compile(&product(BlockType::Q8_0, 3, [2, 4, 32], Stored::Blocks)).unwrap();
    p.init(1).unwrap();
    p.values_mut::<u8>("w").unwrap().fill(0);
    p.values_mut::<i32>("at").unwrap().copy_from_slice(&[1, 2, 0]);
    let e = p.step().unwrap_err().to_string();
    assert!(e.contains("gguf_grouped_matmul") && e.contains("element 1") && e.contains("0..2"), "{e}");
    let refused = |f: &dyn for<'g> Fn(&'g Builder) -> Var<'g>, why: &str| {
        let g = Builder::new("bad");
        let y = f(&g);
        let e = g.finish([y.named("y")]).unwrap_err().to_string();
        assert!(e.contains("gguf_") && e.contains(why) && e.contains("experts.rs"), "{e}");
    };
    let t = BlockType::Q8_0;
    refused(
        &|g| {
            let (x, w) = (g.input("x", [3, 32], F32), g.input("w", [271], DType::U8));
            x.gguf_grouped_matmul(w, t, g.input("e", [3], DType::I32), [2, 4])
        },
        "the blocks have 271 bytes; 8 rows of 32 elements of Q8_0 have 272",
    );
    refused(
        &|g| {
            let (x, w) = (g.input("x", [3, 32], F32), g.input("w", [272], DType::U8));
            x.gguf_grouped_matmul(w, t, g.input("e", [4], DType::I32), [2, 4])
        },
        "[4]",
    );
    refused(
        &|g| {
            let (x, w) = (g.input("x", [3, 32], F32), g.input("w", [272], DType::U8));
            x.gguf_grouped_matmul(w, t, g.input("e", [3], F32), [2, 4])
        },
        "i32 or i64",
    );
    refused(
        &|g| {
            let (x, w) = (g.input("x", [3, 33], F32), g.input("w", [272], DType::U8));
            x.gguf_grouped_matmul(w, t, g.input("e", [3], DType::I32), [2, 4])
        },
        "no whole Q8_0 blocks",
    );
    refused(
        &|g| {
            let (x, w) = (g.input("x", [], F32), g.input("w", [0], DType::U8));
            x.gguf_grouped_matmul(w, t, g.input("e", [3], DType::I32), [2, 4])
        },
        "x has shape []; rank 2 is needed",
    );
    refused(&|g| g.input("w", [272], DType::I8).gguf_dequant_experts(t, [2, 4, 32]), "must be u8");
    refused(&|g| g.input("w", [272], DType::U8).gguf_dequant_experts(t, [1 << 40, 1 << 40, 32]), "too many");
}

const WIDTH: usize = 64;
const HIDDEN: usize = 96;

/// y of a mixture of experts, and the gradients of x and of the router.
fn layer(o: Moe) -> GraphBuf {
    let g = Builder::new("moe");
    let x = g.param("x", [10, WIDTH], F32, Init::Zeros);
    let [y, balance] = nn::moe(&g, "m", x, o);
    let graph = g.finish([y.named("y"), ((y * y).sum(..) + balance).named("loss")]).unwrap();
    grad(&graph, "loss", &GradOptions::wrt(&["x", "m.router.weight"])).unwrap()
}

#[test]
fn experts_in_blocks_come_from_a_file_and_are_the_experts_of_their_numbers() {
    let (t, plain) = (BlockType::Q8_0, Moe::new(4, 2, HIDDEN));
    let weights = [("gate", [4, HIDDEN, WIDTH]), ("up", [4, HIDDEN, WIDTH]), ("down", [4, WIDTH, HIDDEN])];
    let names = weights.map(|(what, _)| format!("m.{what}.weight"));
    let blocks = weights.map(|(_, d)| encode(t, &noise(d.iter().product(), d[1] as u64)).unwrap());
    let entry = |i: usize| GgufEntry::new(&names[i], TensorType::Blocks(t), &weights[i].1, &blocks[i]);
    let file = path("experts.gguf");
    save(&file, &[], &[entry(0), entry(1), entry(2)]).unwrap();
    let opened = Gguf::open(&file).unwrap();
    let run = |o: Moe, how: Load<'_>| {
        let mut p = Session::new().compile(&layer(o)).unwrap();
        p.init(1).unwrap();
        let report = p.load_gguf(&opened, how.missing(Unmatched::Allow).unexpected(Unmatched::Allow)).unwrap();
        assert_eq!(report.loaded.len(), 3, "{report:?}");
        p.values_mut::<f32>("x").unwrap().copy_from_slice(&noise(10 * WIDTH, 3));
        p.values_mut::<f32>("m.router.weight").unwrap().copy_from_slice(&noise(4 * WIDTH, 4));
        p.step().unwrap();
        ["y", "grad.x", "grad.m.router.weight"].map(|name| p.values::<f32>(name).unwrap().to_vec())
    };
    let coded = run(plain.blocks(t), Load::default());
    let numbers = run(plain, Load::default().cast(true));
    std::fs::remove_file(&file).unwrap();
    for (a, b) in coded.iter().zip(&numbers) {
        let size = b.iter().fold(0.0f32, |m, y| m.max(y.abs()));
        let off = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(size > 0.1 && off < 1e-5 * size, "{off} of {size}");
    }
    let g = Builder::new("bad");
    let [y, _] = nn::moe(&g, "m", g.input("x", [3, 40], F32), plain.blocks(t));
    let e = g.finish([y]).unwrap_err().to_string();
    assert!(e.contains("m.gate.weight") && e.contains("rows of 40 elements are no whole Q8_0 blocks"), "{e}");
}
