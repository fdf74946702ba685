//! Kernels that are not products or convolutions, each in a program of one op, with its gradient where it has one.
//!
//! `cargo bench -p arenagrad-benches --bench kernels -- [OPTIONS]` prints one line for each case: the least time of a
//! step in milliseconds. Options: `--threads N`, `--only TEXT` (cases whose name contains it), `--seconds S` (for each
//! figure), `--json` (one line for each figure; `benches/peers/kernels_torch.py` reads them).
//!
//! Some cases are compared here: one row by weights in blocks with reading as many bytes (`beside`), products of codes
//! with the same product in `f32`.
#![allow(missing_docs)]

use arenagrad::graph::quant::{BlockType, CodeProduct};
use arenagrad::graph::signal::FftNorm;
use arenagrad::graph::{Builder, DType, Init, Missing, Var, vjp};
use arenagrad::optim::AdamOptions;
use arenagrad::session::{Program, Session};
use std::hint::black_box;
use std::time::Instant;

/// A case: its name, the op on an input `x` of these dims, and whether its gradient is timed, too.
struct Case {
    name: &'static str,
    dims: &'static [usize],
    op: for<'g> fn(&'g Builder, Var<'g>) -> Vec<Var<'g>>,
    gradient: bool,
}

fn indices<'g>(g: &'g Builder, _: Var<'g>) -> Var<'g> {
    g.input("i", [4096, 256], DType::I64)
}

const fn case(
    name: &'static str,
    dims: &'static [usize],
    op: for<'g> fn(&'g Builder, Var<'g>) -> Vec<Var<'g>>,
) -> Case {
    Case { name, dims, op, gradient: false }
}

const fn with_gradient(
    name: &'static str,
    dims: &'static [usize],
    op: for<'g> fn(&'g Builder, Var<'g>) -> Vec<Var<'g>>,
) -> Case {
    Case { name, dims, op, gradient: true }
}

fn group_norm<'g>(g: &'g Builder, x: Var<'g>) -> Vec<Var<'g>> {
    let affine = |name| g.input(name, [64], DType::F32);
    vec![x.group_norm(8, affine("gamma"), affine("beta"), 1e-5)]
}

fn sorted<'g>(_: &'g Builder, x: Var<'g>) -> Vec<Var<'g>> {
    let (values, positions) = x.sort(-1, false);
    vec![values, positions]
}

const CASES: &[Case] = &[
    with_gradient("top_k 256x32000 50", &[256, 32000], |_, x| vec![x.top_k(50, -1).0]),
    with_gradient("top_k 64x1000 5", &[64, 1000], |_, x| vec![x.top_k(5, -1).0]),
    with_gradient("take_along_axis 4096x256 1", &[4096, 256], |g, x| vec![x.take_along_axis(indices(g, x), 1)]),
    with_gradient("take_along_axis 4096x256 0", &[4096, 256], |g, x| vec![x.take_along_axis(indices(g, x), 0)]),
    with_gradient("gelu 1048576", &[1 << 20], |_, x| vec![x.gelu()]),
    case("sort 256x4096", &[256, 4096], sorted),
    case("sort 64x1000", &[64, 1000], sorted),
    case("svd 1024x8x8", &[1024, 8, 8], |_, x| x.svd().to_vec()),
    case("svd 256x16x16", &[256, 16, 16], |_, x| x.svd().to_vec()),
    case("rfft 256x1024", &[256, 1024], |_, x| vec![x.rfft(None, -1, FftNorm::Backward)]),
    case("rfft 64x4096", &[64, 4096], |_, x| vec![x.rfft(None, -1, FftNorm::Backward)]),
    with_gradient("group_norm 16x64x32x32 8", &[16, 64, 32, 32], group_norm),
];

impl Case {
    /// The programs of the case, each with its name.
    fn programs(&self, threads: usize) -> Vec<(String, Program)> {
        let g = Builder::new("kernel");
        let ys = (self.op)(&g, g.input("x", self.dims, DType::F32));
        for (i, y) in ys.iter().enumerate() {
            g.output(&format!("y{i}"), *y);
        }
        let graph = g.finish([]).expect("a graph");
        let compile = |graph| Session::new().threads(threads).compile(graph).expect("a program");
        let mut all = vec![(self.name.to_string(), compile(&graph))];
        if self.gradient {
            let gradient = vjp(&graph, &["y0"], &["x"], Missing::Error).expect("a gradient");
            all.push((format!("{} gradient", self.name), compile(&gradient)));
        }
        all.iter_mut().for_each(|(_, p)| fill(p));
        all
    }
}

/// Fills the inputs that the program has.
fn fill(p: &mut Program) {
    // As `noise` of the script beside: no order, few equals.
    for name in ["x", "cotangent.y0", "gamma", "beta", "p", "g"] {
        let Ok(x) = p.values_mut::<f32>(name) else { continue };
        let mut state = 1u64;
        for x in x {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *x = (state >> 40) as f32 / (1 << 22) as f32 - 2.0;
        }
    }
    if let Ok(i) = p.values_mut::<i64>("i") {
        i.iter_mut().enumerate().for_each(|(at, i)| *i = (at * 7919 % 251) as i64);
    }
}

/// AdamW's step of a param of ten million numbers.
fn adam(threads: usize) -> Program {
    let (g, n) = (Builder::new("adam"), 10_000_000);
    let p = g.param("p", [n], DType::F32, Init::Zeros);
    let [m, v] = ["m", "v"].map(|name| g.state(name, [n], DType::F32, Init::Zeros));
    let (lr, t) = (g.input("lr", [], DType::F32), g.input("t", [], DType::I64));
    let options = AdamOptions::default().weight_decay(0.01).decoupled(true);
    let next = p.adam_step(g.input("g", [n], DType::F32), [m, v], lr, t, options);
    [p, m, v].into_iter().zip(next).for_each(|(leaf, next)| g.update(leaf, next));
    let mut p = Session::new().threads(threads).compile(&g.finish([]).expect("a graph")).expect("a program");
    fill(&mut p);
    p.values_mut::<f32>("lr").expect("an input")[0] = 1e-3;
    p.values_mut::<i64>("t").expect("an input")[0] = 10;
    p
}

/// Rows and columns of weights in blocks: more bytes than caches hold, as the weights of a model are.
const ROWS: usize = 16384;
const COLS: usize = 4096;

/// One row by weights in blocks.
fn one_row(t: BlockType, threads: usize) -> Program {
    let (g, bytes) = (Builder::new("row"), t.bytes_of(ROWS * COLS).expect("whole blocks"));
    let y = g.input("x", [1, COLS], DType::F32).gguf_matmul(g.input("w", [bytes], DType::U8), t, ROWS);
    let graph = g.finish([y.named("y")]).expect("a graph");
    let mut p = Session::new().threads(threads).compile(&graph).expect("a program");
    let w = p.values_mut::<u8>("w").expect("an input");
    w.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 37 + 11) as u8 & 0x3b);
    fill(&mut p);
    p
}

/// A product of codes to sums, or the same in `f32`.
fn product(codes: bool, [m, k, n]: [usize; 3], threads: usize) -> Program {
    let (g, dtype) = (Builder::new("product"), if codes { DType::I8 } else { DType::F32 });
    let (x, w) = (g.input("x", [m, k], dtype), g.input("w", [k, n], dtype));
    let y = if codes { x.q_matmul(w, None, None, CodeProduct::to_i32().x_zp(3)) } else { x.matmul(w) };
    let graph = g.finish([y.named("y")]).expect("a graph");
    let mut p = Session::new().threads(threads).compile(&graph).expect("a program");
    for name in ["x", "w"] {
        match p.values_mut::<i8>(name) {
            Ok(x) => x.iter_mut().enumerate().for_each(|(i, x)| *x = (i * 37) as i8),
            Err(_) => p.values_mut::<f32>(name).expect("an input").fill(0.5),
        }
    }
    p
}

/// Reads all words.
fn read_all(words: &[u64]) -> u64 {
    let mut sums = [0; 32];
    for chunk in words.as_chunks::<32>().0 {
        sums.iter_mut().zip(chunk).for_each(|(s, w)| *s ^= w);
    }
    sums.iter().fold(0, |a, b| a ^ b)
}

/// What the figures are made with.
struct Options {
    threads: usize,
    seconds: f64,
    only: String,
    json: bool,
}

impl Options {
    /// The least time of a call in milliseconds.
    fn least_ms(&self, mut call: impl FnMut()) -> f64 {
        call();
        let (start, mut best, mut calls) = (Instant::now(), f64::INFINITY, 0);
        while calls < 5 || start.elapsed().as_secs_f64() < self.seconds {
            let from = Instant::now();
            call();
            best = best.min(from.elapsed().as_secs_f64());
            calls += 1;
        }
        1e3 * best
    }

    /// The least time of a step.
    fn step_ms(&self, p: &mut Program) -> f64 {
        self.least_ms(|| p.step().expect("a step"))
    }

    fn print(&self, name: &str, ms: f64, beside: Option<f64>) {
        match (self.json, beside) {
            (true, _) => {
                let beside = beside.map_or("null".into(), |b| format!("{b:.5}"));
                let threads = self.threads;
                println!(
                    r#"{{"bench":"kernels","case":"{name}","threads":{threads},"ms":{ms:.5},"beside_ms":{beside}}}"#
                );
            }
            (false, None) => println!("{name:40} {ms:9.4} ms"),
            (false, Some(b)) => println!("{name:40} {ms:9.4} ms  beside {b:9.4}  ratio {:5.2}", ms / b),
        }
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).cloned();
    let o = Options {
        threads: value("--threads").map_or(1, |v| v.parse().expect("a number")),
        seconds: value("--seconds").map_or(0.3, |v| v.parse().expect("a number")),
        only: value("--only").unwrap_or_default(),
        json: args.iter().any(|a| a == "--json"),
    };
    for case in CASES.iter().filter(|c| o.wants(c.name)) {
        for (name, mut p) in case.programs(o.threads) {
            o.print(&name, o.step_ms(&mut p), None);
        }
    }
    if o.wants("adamw 10000000") {
        o.print("adamw 10000000", o.step_ms(&mut adam(o.threads)), None);
    }
    for t in [BlockType::Q8_0, BlockType::Q4K, BlockType::Q4_0] {
        let name = format!("row by {} {ROWS}x{COLS}", t.name());
        if o.wants(&name) {
            let words = vec![1u64; t.bytes_of(ROWS * COLS).expect("whole blocks") / 8];
            let beside = o.least_ms(|| _ = black_box(read_all(black_box(&words))));
            o.print(&name, o.step_ms(&mut one_row(t, o.threads)), Some(beside));
        }
    }
    for size in [[256, 1024, 1024], [512, 512, 512]] {
        let name = format!("product of codes {}x{}x{}", size[0], size[1], size[2]);
        if o.wants(&name) {
            let [ms, beside] = [true, false].map(|codes| o.step_ms(&mut product(codes, size, o.threads)));
            o.print(&name, ms, Some(beside));
        }
    }
}
