//! Attention: the arena of forward and backward, compared with plain ops, and the rate of both kernels.
//!
//! `cargo bench -p arenagrad-benches --bench attention -- [--plan]`. With `--plan`, nothing is run. Operations are
//! counted as the op definitions count them: a causal mask halves them.

use arenagrad::error::Result;
use arenagrad::graph::{Attention, Builder, DType, GraphBuf};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::session::Session;
use arenagrad::tools::passes::ad::prepare;
use std::time::Instant;

/// Attention on `[1, heads, len, width]` with the sum of squares as loss: in plain ops if `plain`, with the gradients
/// of all operands if `back`.
fn graph([heads, len, width]: [usize; 3], causal: bool, plain: bool, back: bool) -> Result<GraphBuf> {
    let g = Builder::new("attention");
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [1, heads, len, width], DType::F32));
    let y = q.attention(k, v, Attention::default().causal(causal));
    let f = g.finish([(y * y).sum(..).named("loss")])?;
    let f = if plain { prepare::decompose_fully(f.view())? } else { f };
    if back { grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v"])) } else { Ok(f) }
}

/// The shortest of 20 steps, in seconds, and the operations of a step.
fn time(g: &GraphBuf, threads: usize) -> Result<(f64, u64)> {
    let mut p = Session::new().threads(threads).compile(g)?;
    for name in ["q", "k", "v"] {
        let x = p.values_mut::<f32>(name)?;
        x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 7919 % 1009) as f32 / 504.5) - 1.0);
    }
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        p.step()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok((best, p.plan().flops))
}

/// Prints the arenas of forward and backward.
fn memory() -> Result<()> {
    for len in [1024, 4096] {
        let arena = |plain| -> Result<usize> {
            Ok(Session::new().threads(1).plan(&graph([1, len, 64], false, plain, true)?)?.arena_bytes)
        };
        let (flash, plain) = (arena(false)?, arena(true)?);
        let ratio = plain as f64 / flash as f64;
        println!("1 head of 64, length {len}: {flash} bytes, in plain ops {plain}: {ratio:.1} times as much");
    }
    Ok(())
}

/// Prints times and rates of forward and backward.
fn rates() -> Result<()> {
    for (shape, causal) in [([8, 1024, 64], false), ([8, 1024, 64], true), ([1, 4096, 64], false)] {
        for threads in [1, 2] {
            let (forward, flops) = time(&graph(shape, causal, false, false)?, threads)?;
            let (both, all) = time(&graph(shape, causal, false, true)?, threads)?;
            let rate = |flops: u64, s: f64| flops as f64 / s / 1e9;
            let (back, more) = (both - forward, all.saturating_sub(flops));
            println!(
                "{shape:?} causal {causal}, {threads} threads: forward {:.2} ms, {:.1} GFLOP/s; backward {:.2} ms, {:.1} GFLOP/s",
                forward * 1e3,
                rate(flops, forward),
                back * 1e3,
                rate(more, back)
            );
        }
        let (plain, _) = time(&graph(shape, causal, true, true)?, 1)?;
        println!("{shape:?} causal {causal}, 1 thread: both in plain ops {:.2} ms", plain * 1e3);
    }
    Ok(())
}

fn main() -> Result<()> {
    memory()?;
    if std::env::args().any(|a| a == "--plan") { Ok(()) } else { rates() }
}
