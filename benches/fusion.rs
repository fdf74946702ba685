//! Fused ops compared with their decompositions: time of a step and bytes of the arena.
//!
//! `cargo bench -p arenagrad-benches --bench fusion -- [THREADS]`. Both sides go through all other passes, so pointwise
//! ops are one sweep on either side. Steps of both sides alternate, and the shortest of each counts.

use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::op::{Attr, Op};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ops::blocks::attrs::SwigluAttrs;
use arenagrad::tools::ops::matmul::activation::Activation;
use arenagrad::tools::ops::matmul::attrs::LoraMatmulAttrs;
use arenagrad::tools::ops::matmul::attrs::MatmulBiasActAttrs;
use arenagrad::tools::ops::norm::NormAttrs;
use arenagrad::tools::passes::{pipeline, unfuse};
use std::time::Instant;

/// Steps of each side.
const STEPS: usize = 40;

fn input<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F32)
}

/// A fused op on f32 inputs.
struct Case<'a> {
    name: &'static str,
    op: Op,
    shapes: &'a [&'a [usize]],
    attrs: &'a [Attr<'a>],
    /// The first results, as many as this, are outputs.
    outputs: usize,
}

/// The graph of a fused op.
fn one(case: &Case<'_>) -> Result<GraphBuf> {
    let g = Builder::new("one");
    let args: Vec<Var<'_>> = case.shapes.iter().enumerate().map(|(i, d)| input(&g, &format!("x{i}"), d)).collect();
    let mut all = Vec::from(g.emit(case.op, &args, case.attrs));
    all.truncate(case.outputs);
    g.finish(all)
}

/// Layers of a decoder in primitive ops, with gradients if `back`.
fn net(layers: usize, back: bool) -> Result<GraphBuf> {
    let g = Builder::new("net");
    let (b, s, d, f) = (4, 128, 256, 1024);
    let mut h = input(&g, "x", &[b * s, d]);
    for i in 0..layers {
        let w = |name: &str, dims: &[usize]| g.param(&format!("{i}.{name}"), dims, DType::F32, Init::Uniform(0.05));
        let eps = NormAttrs { eps: 1e-5 };
        let n = g.emit1(Op::RMS_NORM, &[h, w("g1", &[d]), w("b1", &[d])], &eps.list());
        let a = n.matmul(w("v", &[d, d])).matmul(w("o", &[d, d]));
        h = h + a;
        let n = g.emit1(Op::RMS_NORM, &[h, w("g2", &[d]), w("b2", &[d])], &eps.list());
        let up = (n.matmul(w("up", &[d, f])) + w("up_b", &[f])).gelu();
        h = h + up.matmul(w("down", &[f, d]));
    }
    let g = g.finish([(h * h).mean(..).named("loss")])?;
    if back { grad(&g, "loss", &GradOptions::default()) } else { Ok(g) }
}

/// A program of `g` with synthetic data, compiled with or without the fusion patterns.
fn program(g: &GraphBuf, threads: usize, patterns: bool) -> Result<Program> {
    let names: Vec<&str> = pipeline::pipeline_passes().into_iter().filter(|p| patterns || *p != "patterns").collect();
    let ready = pipeline::run_pipeline(g, &names, false)?.0;
    let mut p = Session::new().threads(threads).optimise(false).compile(&ready)?;
    let names: Vec<String> = p.bindings().iter().map(|b| b.name.clone()).collect();
    for (i, name) in names.iter().enumerate() {
        if let Ok(x) = p.values_mut::<f32>(name) {
            x.iter_mut().enumerate().for_each(|(j, x)| *x = ((j * 7919 + i * 31) % 1009) as f32 / 504.5 - 1.0);
        }
        if let Ok(x) = p.values_mut::<i32>(name) {
            x.fill(0);
        }
    }
    p.init(1)?;
    Ok(p)
}

/// Prints one line: the fused graph compared with the plain one.
fn compare(name: &str, fused: &GraphBuf, plain: &GraphBuf, threads: usize) -> Result<()> {
    let mut sides = [program(fused, threads, true)?, program(plain, threads, false)?];
    let mut best = [f64::INFINITY; 2];
    for _ in 0..STEPS {
        for (p, best) in sides.iter_mut().zip(&mut best) {
            let start = Instant::now();
            p.step()?;
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let bytes = sides.map(|p| p.plan().arena_bytes as f64);
    println!(
        "{name:<44} {:>9.1} us, apart {:>9.1} us: {:.2} x; arena {:.2} x",
        best[0] * 1e6,
        best[1] * 1e6,
        best[1] / best[0],
        bytes[1] / bytes[0]
    );
    Ok(())
}

/// Compares each fused op with its decomposition.
fn fused_ops(threads: usize) -> Result<()> {
    let products: [(&str, &[&[usize]], Activation); 3] = [
        ("matmul + bias, 2048x64x512", &[&[2048, 64], &[64, 512], &[512]], Activation::None),
        ("matmul + bias + gelu, 2048x64x512", &[&[2048, 64], &[64, 512], &[512]], Activation::Gelu),
        ("matmul + bias + silu, 512x512x2048", &[&[512, 512], &[512, 2048], &[2048]], Activation::Silu),
    ];
    for (name, shapes, act) in products {
        let attrs = MatmulBiasActAttrs { ta: false, tb: false, act };
        apart(&Case { name, op: Op::MATMUL_BIAS_ACT, shapes, attrs: &attrs.list(), outputs: 1 }, threads)?;
    }
    let shapes: &[&[usize]] = &[&[4096, 768], &[4096, 768], &[768], &[768]];
    let norms = [
        ("residual + layer norm, 4096x768", Op::RESIDUAL_LAYER_NORM, 1),
        ("residual + layer norm, sum kept", Op::RESIDUAL_LAYER_NORM, 2),
        ("residual + rms norm, 4096x768", Op::RESIDUAL_RMS_NORM, 1),
        ("residual + rms norm, sum kept", Op::RESIDUAL_RMS_NORM, 2),
    ];
    for (name, op, outputs) in norms {
        apart(&Case { name, op, shapes, attrs: &NormAttrs { eps: 1e-5 }.list(), outputs }, threads)?;
    }
    let half = SwigluAttrs { gate_first: false, to: DType::F32 }.list();
    let swiglu = Case { name: "swiglu, 2048x4096", op: Op::SWIGLU, shapes: &[&[2048, 4096]], attrs: &half, outputs: 1 };
    apart(&swiglu, threads)?;
    let adapters: [(&str, &[&[usize]]); 2] = [
        ("lora, 512x768x768, rank 8", &[&[512, 768], &[768, 768], &[768, 8], &[8, 768]]),
        ("lora, 2048x64x512, rank 8", &[&[2048, 64], &[64, 512], &[64, 8], &[8, 512]]),
    ];
    for (name, shapes) in adapters {
        let attrs = LoraMatmulAttrs { scale: 0.5, transposed: false };
        apart(&Case { name, op: Op::LORA_MATMUL, shapes, attrs: &attrs.list(), outputs: 1 }, threads)?;
    }
    Ok(())
}

/// Compares a fused op with its decomposition.
fn apart(case: &Case<'_>, threads: usize) -> Result<()> {
    let g = one(case)?;
    compare(case.name, &g, &unfuse(&g)?, threads)
}

fn main() -> Result<()> {
    let threads = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(1);
    fused_ops(threads)?;
    for (name, back) in [("4 layers, forward", false), ("4 layers, forward and backward", true)] {
        let g = net(4, back)?;
        compare(name, &g, &g, threads)?;
    }
    Ok(())
}
