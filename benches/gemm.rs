//! Matrix products, compared with the crates `gemm` (with AVX-512), `private-gemm-x86` and `matrixmultiply`.
//!
//! `cargo bench -p arenagrad-benches --bench gemm -- [OPTIONS]` prints one line for each layout and shape (m,k,n), in
//! GFLOP/s: the median call of a round, and the best of a few interleaved rounds. Options: `--threads N` (above 1, our
//! product is a program of one node), `--only M,K,N` (any shape), `--rounds N`, `--precision` (our product in f32,
//! bf16x3, bf16x2 and bf16 instead of the other crates), `--json`.
#![allow(missing_docs)]

use arenagrad::graph::{Builder, DType};
use arenagrad::session::Session;
use arenagrad::tools::kernels::gemm::{Gemm, Precision, gemm};
use std::hint::black_box;
use std::time::Instant;

/// Which operand is stored transposed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Nn,
    Nt,
    Tn,
}
use Layout::{Nn, Nt, Tn};

/// The shapes (m, k, n). Each is measured in all layouts.
const SHAPES: [[usize; 3]; 12] = [
    [1, 128, 128],
    [8, 128, 384],
    [64, 32, 64],
    [64, 64, 64],
    [32, 784, 128],
    [32, 128, 784],
    [768, 128, 128],
    [768, 128, 512],
    [256, 1024, 4096],
    [256, 4096, 4096],
    [512, 512, 512],
    [2048, 2048, 2048],
];
/// More shapes for `--precision`: where bf16 units begin to pay, and products of large networks.
const CHOICES: [[usize; 3]; 9] = [
    [16, 16, 16],
    [32, 32, 32],
    [32, 128, 10],
    [784, 32, 128],
    [2, 1024, 1024],
    [4, 1024, 1024],
    [8, 1024, 1024],
    [128, 768, 512],
    [4096, 256, 4096],
];
/// Seconds of a round of one shape and crate.
const ROUND: f64 = 0.04;

/// A product to measure.
struct Case {
    layout: Layout,
    dims: [usize; 3],
    threads: usize,
}

impl Case {
    /// The product's descriptor.
    fn gemm(&self, precision: Precision) -> Gemm {
        let [m, k, n] = self.dims;
        let g = Gemm { precision, ..Gemm::new(m, n, k) };
        match self.layout {
            Nn => g,
            Nt => g.with_b_transposed(),
            Tn => g.with_a_transposed(),
        }
    }

    /// The strides of A and of B: row, column, row, column.
    fn strides(&self) -> [isize; 4] {
        let g = self.gemm(Precision::F32);
        [g.a.row, g.a.col, g.b.row, g.b.col].map(|s| s as isize)
    }

    /// A call of our product: on one thread the kernel alone, on more a program.
    fn ours<'a>(&self, precision: Precision, a: &'a [f32], b: &'a [f32]) -> Box<dyn FnMut() -> f32 + 'a> {
        let [m, k, n] = self.dims;
        if self.threads == 1 {
            let g = self.gemm(precision);
            let (mut c, mut scratch) = (Buffer::new(m * n), Buffer::new(g.scratch_len::<f32>()));
            return Box::new(move || {
                gemm(&g, black_box(a), black_box(b), None, &mut c, 0..g.units(), &mut scratch);
                c[m * n / 2]
            });
        }
        let graph = Builder::new("product");
        let x = graph.input("a", if self.layout == Tn { [k, m] } else { [m, k] }, DType::F32);
        let y = graph.input("b", if self.layout == Nt { [n, k] } else { [k, n] }, DType::F32);
        let z = x.matmul_t(y, self.layout == Tn, self.layout == Nt).named("c");
        let session = Session::new().threads(self.threads).precision(precision);
        let mut p = session.compile(&graph.finish([z]).expect("a graph")).expect("a program");
        p.values_mut::<f32>("a").expect("a").copy_from_slice(a);
        p.values_mut::<f32>("b").expect("b").copy_from_slice(b);
        let slot = p.output::<f32>("c").expect("c");
        Box::new(move || {
            p.step().expect("a step");
            p.get(slot).expect("c")[m * n / 2]
        })
    }

    /// A call of `matrixmultiply`.
    fn matrixmultiply<'a>(&self, a: &'a [f32], b: &'a [f32]) -> Box<dyn FnMut() -> f32 + 'a> {
        let ([m, k, n], [ar, ac, br, bc]) = (self.dims, self.strides());
        let mut c = Buffer::new(m * n);
        Box::new(move || {
            let (a, b) = (black_box(a).as_ptr(), black_box(b).as_ptr());
            // SAFETY: the strides are those of the slices.
            #[allow(unsafe_code)]
            unsafe {
                matrixmultiply::sgemm(m, k, n, 1.0, a, ar, ac, b, br, bc, 0.0, c.as_mut_ptr(), n as isize, 1);
            }
            c[m * n / 2]
        })
    }

    /// A call of the crate `gemm`.
    fn gemm_crate<'a>(&self, a: &'a [f32], b: &'a [f32]) -> Box<dyn FnMut() -> f32 + 'a> {
        let ([m, k, n], [ar, ac, br, bc]) = (self.dims, self.strides());
        let mut c = Buffer::new(m * n);
        let peer = gemm_f32::gemm::f32::get_gemm_fn();
        let threads = match self.threads {
            1 => gemm_common::Parallelism::None,
            n => gemm_common::Parallelism::Rayon(n),
        };
        Box::new(move || {
            let (a, b, p) = (black_box(a).as_ptr(), black_box(b).as_ptr(), c.as_mut_ptr());
            // SAFETY: the strides are those of the slices. The kernels want a column-major C, so they compute the
            // transpose.
            #[allow(unsafe_code)]
            unsafe {
                peer(n, m, k, p, n as isize, 1, false, b, br, bc, a, ar, ac, 0.0, 1.0, false, false, false, threads);
            }
            c[m * n / 2]
        })
    }

    /// A call of `private-gemm-x86`.
    fn private_gemm<'a>(&self, a: &'a [f32], b: &'a [f32]) -> Box<dyn FnMut() -> f32 + 'a> {
        use private_gemm_x86::{Accum, DType, DstKind, IType, InstrSet, gemm};
        let ([m, k, n], [ar, ac, br, bc], threads) = (self.dims, self.strides(), self.threads);
        let (mut c, one) = (Buffer::new(m * n), 1f32);
        let none = std::ptr::null();
        let set = if is_x86_feature_detected!("avx512f") { InstrSet::Avx512 } else { InstrSet::Avx256 };
        Box::new(move || {
            let (a, b, p) = (black_box(a).as_ptr().cast(), black_box(b).as_ptr().cast(), c.as_mut_ptr().cast());
            let (whole, over, alpha) = (DstKind::Full, Accum::Replace, (&raw const one).cast());
            // SAFETY: the strides are those of the slices.
            #[allow(unsafe_code)]
            unsafe {
                gemm(
                    DType::F32,
                    IType::U64,
                    set,
                    m,
                    n,
                    k,
                    p,
                    n as isize,
                    1,
                    none,
                    none,
                    whole,
                    over,
                    a,
                    ar,
                    ac,
                    false,
                    none,
                    0,
                    b,
                    br,
                    bc,
                    false,
                    alpha,
                    threads,
                );
            }
            c[m * n / 2]
        })
    }
}

/// The median time of a call in one round, in seconds.
fn round(call: &mut dyn FnMut() -> f32) -> f64 {
    let start = Instant::now();
    black_box(call());
    // A sample takes at least 20 µs, because reading the clock costs some 30 ns.
    let calls = (2e-5 / start.elapsed().as_secs_f64().max(1e-8)).ceil() as usize;
    let (mut samples, start) = (Vec::with_capacity(4096), Instant::now());
    while samples.len() < 5 || start.elapsed().as_secs_f64() < ROUND {
        let from = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        samples.push(from.elapsed().as_secs_f64() / calls as f64);
    }
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Floats that start at a cache line, as tensors do in arenas and in other frameworks. Elsewhere each unpacked vector
/// would straddle two lines, in buffers that chance decides.
struct Buffer {
    all: Vec<f32>,
    at: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let all = vec![0f32; len + 15];
        let at = all.as_ptr().align_offset(64);
        Buffer { all, at, len }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.all[self.at..][..self.len]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.all[self.at..][..self.len]
    }
}

/// `len` numbers in [-1, 1].
fn numbers(len: usize) -> Buffer {
    let mut to = Buffer::new(len);
    to.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
    to
}

/// An implementation of the product: its name, and a call.
type Named<'a> = (&'static str, Box<dyn FnMut() -> f32 + 'a>);

/// The implementations that are compared. The first is ours.
fn contenders<'a>(case: &Case, precision: bool, a: &'a [f32], b: &'a [f32]) -> Vec<Named<'a>> {
    if precision {
        return Precision::ALL.iter().map(|&(p, name)| (name, case.ours(p, a, b))).collect();
    }
    vec![
        ("arenagrad", case.ours(Precision::F32, a, b)),
        ("gemm", case.gemm_crate(a, b)),
        ("private-gemm", case.private_gemm(a, b)),
        ("matrixmultiply", case.matrixmultiply(a, b)),
    ]
}

/// Measures a product and prints the results.
fn measure(case: &Case, rounds: usize, precision: bool, json: bool) {
    let [m, k, n] = case.dims;
    let (a, b) = (numbers(m * k), numbers(k * n));
    let mut all = contenders(case, precision, &a, &b);
    let mut best = vec![f64::INFINITY; all.len()];
    for r in 0..rounds {
        for i in 0..all.len() {
            let i = if r % 2 == 0 { i } else { all.len() - 1 - i };
            best[i] = best[i].min(round(&mut all[i].1));
        }
    }
    let layout = format!("{:?}", case.layout).to_lowercase();
    let rate = |i: usize| 2.0 * (m * k * n) as f64 / best[i] / 1e9;
    if json {
        for (i, (name, _)) in all.iter().enumerate() {
            println!(
                r#"{{"bench":"gemm","impl":"{name}","m":{m},"k":{k},"n":{n},"layout":"{layout}","threads":{},"us":{:.3},"gflops":{:.2}}}"#,
                case.threads,
                best[i] * 1e6,
                rate(i)
            );
        }
        return;
    }
    let rates: String = (0..all.len()).map(|i| format!("  {} {:7.1}", all[i].0, rate(i))).collect();
    let others = (1..all.len()).map(rate).fold(0.0, f64::max);
    println!("{layout} {:14} {} thr {rates}  ours/best {:.2}", format!("{m},{k},{n}"), case.threads, rate(0) / others);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let has = |name: &str| args.iter().any(|a| a == name);
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).cloned();
    let number = |name: &str, or: usize| value(name).map_or(or, |v| v.parse().expect("a number"));
    let (threads, rounds) = (number("--threads", 1), number("--rounds", 5));
    let more: &[[usize; 3]] = if has("--precision") { &CHOICES } else { &[] };
    let only = value("--only").map(|only| {
        let sizes: Vec<usize> = only.split(',').map(|n| n.parse().expect("m,k,n")).collect();
        <[usize; 3]>::try_from(sizes).expect("m,k,n")
    });
    let all = SHAPES.iter().chain(more).copied().filter(|_| only.is_none()).chain(only);
    for dims in all {
        for layout in [Nn, Nt, Tn] {
            measure(&Case { layout, dims, threads }, rounds, has("--precision"), has("--json"));
        }
    }
}
