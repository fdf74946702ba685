//! Two trainers at once: how much one slows down the other.
//!
//! Each trainer runs on its own thread, with its own program, and trains a small classifier. They run alternately alone
//! and together, and the mean step times are compared. On two cores, two trainers of one thread should not slow each
//! other down, and two trainers of two threads should take twice as long, not more.
//!
//! `cargo bench -p arenagrad-benches --bench side_by_side -- [ROUNDS]`

use arenagrad::error::Result;
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf};
use arenagrad::nn;
use arenagrad::optim::{self, LR, train};
use arenagrad::session::{Program, Session};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Length of a measurement.
const INTERVAL: Duration = Duration::from_millis(250);

/// The step of an MLP 784-width-10 with cross entropy and SGD, batch 32.
fn graph(width: usize) -> Result<GraphBuf> {
    let g = Builder::new("mlp");
    let x = g.input("x", [32, 784], DType::F32);
    let h = nn::linear(&g, "fc1", x, width).relu();
    let loss = nn::linear(&g, "fc2", h, 10)
        .cross_entropy_with(g.input("y", [32], DType::I32), CrossEntropy::per_row())
        .mean(..);
    train(g.finish([loss.named("loss")])?.view(), "loss", optim::Sgd::new(0.1))
}

/// A program with synthetic data.
fn trainer(threads: usize, width: usize, seed: u64) -> Result<Program> {
    let mut p = Session::new().threads(threads).compile(&graph(width)?)?;
    p.init(seed)?;
    p.values_mut::<f32>(LR)?.fill(0.01);
    p.values_mut::<f32>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
    p.values_mut::<i32>("y")?.iter_mut().enumerate().for_each(|(i, y)| *y = (i % 10) as i32);
    Ok(p)
}

/// The mean time of a step over [`INTERVAL`], in microseconds. `times` is scratch.
fn measure(p: &mut Program, times: &mut Vec<u64>) -> Result<f64> {
    times.clear();
    let start = Instant::now();
    let mut last = start;
    while last - start < INTERVAL {
        p.step()?;
        let now = Instant::now();
        times.push((now - last).as_nanos() as u64);
        last = now;
    }
    // A mean, because a median would hide the few steps that the other trainer interrupts.
    Ok(times.iter().sum::<u64>() as f64 / times.len().max(1) as f64 / 1e3)
}

fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}

/// The median step times, alone and together, in microseconds.
fn compare(threads: usize, width: usize, rounds: usize) -> Result<(f64, f64)> {
    let barrier = Barrier::new(2);
    let run = |me: usize| -> Result<(Vec<f64>, Vec<f64>)> {
        // Compiled on the thread that steps it, which then touches the arena's pages first.
        let mut p = trainer(threads, width, me as u64)?;
        let mut times = Vec::with_capacity(1 << 20);
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for other in [0, 1] {
                barrier.wait();
                if other == me {
                    alone.push(measure(&mut p, &mut times)?);
                }
            }
            barrier.wait();
            together.push(measure(&mut p, &mut times)?);
        }
        Ok((alone, together))
    };
    let (a, b) = std::thread::scope(|s| {
        let other = s.spawn(|| run(1));
        let own = run(0);
        (own, other.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    });
    let ((mut alone, mut together), more) = (a?, b?);
    alone.extend(more.0);
    together.extend(more.1);
    Ok((median(alone), median(together)))
}

fn main() -> Result<()> {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(5);
    for (threads, width) in [(1, 128), (1, 1024), (2, 128), (2, 1024)] {
        let (alone, together) = compare(threads, width, rounds)?;
        let ratio = together / alone;
        println!("{threads} threads each, width {width}: alone {alone:.1} us, together {together:.1} us: {ratio:.3}");
    }
    Ok(())
}
