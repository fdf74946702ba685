//! A training loop of one's own, that can be stopped at any step and resumes to the same bits.
//!
//! The net learns to tell which of two spirals a point is on. The last batch of an epoch is filled up and masked. The
//! learning rate falls when the accuracy on held-out points stops rising. The checkpoint holds the params, the
//! optimiser's moments, the order of examples, the state of the learning rate, and the best accuracy so far.
//!
//! Run with `cargo run --release --example own_loop`, stop it with Ctrl-C, and run it again.

use arenagrad::graph::Reduction;
use arenagrad::prelude::*;
use arenagrad::session::Method;
use arenagrad::train::{Mode, Partial, ReduceLrOnPlateau};
use std::path::Path;

const POINTS: usize = 500;
const BATCH: usize = 64;
const HELD_OUT: usize = 200;

/// Point `i` and the spiral that it is on.
fn point(i: usize) -> ([f32; 2], i32) {
    let (turn, side) = ((i / 2) as f32 * 0.618_034 % 1.0, i % 2);
    let angle = 2.0 * std::f32::consts::PI * (turn + side as f32 / 2.0);
    ([turn * angle.cos(), turn * angle.sin()], side as i32)
}

fn logits<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    let h = nn::linear(g, "fc2", nn::linear(g, "fc1", x, 32).tanh(), 32).tanh();
    nn::linear(g, "fc3", h, 2)
}

/// Two methods with one set of params: `learn` trains on a batch, `judge` classifies the held-out points.
pub fn program() -> Result<Program> {
    let g = Builder::new("learn");
    let (x, y) = (g.input("x", [BATCH, 2], DType::F32), g.input("y", [BATCH], DType::I32));
    let mask = g.input("mask", [BATCH], DType::F32); // the trainer writes it: 0 for what only fills up a batch
    let each = logits(&g, x).cross_entropy_with(y, CrossEntropy::default().reduction(Reduction::None));
    let loss = (each * mask).sum(..) / mask.sum(..);
    let learn = train(&g.finish([loss.named("loss")])?, "loss", optim::AdamW::new(1e-2))?;

    let g = Builder::new("judge");
    let x = g.input("x", [HELD_OUT, 2], DType::F32);
    let judge = g.finish([logits(&g, x).named("logits")])?;
    Session::new().compile_all(&[("learn", &learn), ("judge", &judge)])
}

/// A trainer at its first step.
fn trainer() -> Result<Trainer> {
    let rate = ReduceLrOnPlateau::new(1e-2).mode(Mode::Max).patience(3).factor(0.5);
    let batches = Batches::new(POINTS, BATCH, 0)?.partial(Partial::Pad);
    Trainer::new(program()?, "loss", rate, batches, 0)
}

/// The fraction of the held-out points that the net gets right.
fn accuracy(p: &mut Program, judge: Method) -> Result<f64> {
    let (x, logits) = (p.input_of::<f32>(judge, "x")?, p.output_of::<f32>(judge, "logits")?);
    let held_out = |k: usize| point(POINTS + k);
    for k in 0..HELD_OUT {
        p[x][2 * k..2 * k + 2].copy_from_slice(&held_out(k).0);
    }
    p.run(judge)?;
    let right = p[logits].chunks_exact(2).enumerate().filter(|(k, l)| held_out(*k).1 == i32::from(l[1] > l[0]));
    Ok(right.count() as f64 / HELD_OUT as f64)
}

/// Trains up to step `steps`, from the checkpoint if there is one, and writes it every 20 steps. Returns the losses of
/// the steps that it ran, and the best accuracy of the whole run.
pub fn run(checkpoint: &Path, steps: u64) -> Result<(Vec<f64>, f64)> {
    let mut t = trainer()?;
    if checkpoint.exists() {
        t.restore(checkpoint)?;
        println!("goes on after step {}", t.steps_done());
    }
    let (x, y) = (t.program().input::<f32>("x")?, t.program().input::<i32>("y")?);
    let judge = t.program().method("judge")?;
    let mut losses = Vec::new();
    while t.steps_done() < steps {
        let done = t.step(&mut |p, which| {
            for (k, &i) in which.iter().enumerate() {
                let (at, side) = point(i as usize);
                p[x][2 * k..2 * k + 2].copy_from_slice(&at);
                p[y][k] = side;
            }
            Ok(())
        })?;
        losses.push(done.loss);
        if done.step % 20 == 0 {
            let accuracy = accuracy(t.program_mut(), judge)?;
            t.report(accuracy); // the rate may fall
            let best = t.kept("best", &[0.0])?;
            best[0] = best[0].max(accuracy);
            t.save(checkpoint)?;
            println!("step {}: loss {:.4}, accuracy {accuracy:.3}, rate {:.1e}", done.step, done.loss, done.lr);
        }
    }
    let best = t.kept("best", &[0.0])?[0];
    Ok((losses, best))
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let path = std::env::temp_dir().join("arenagrad-own-loop.safetensors");
    let (_, best) = run(&path, 2000)?;
    println!("best accuracy {best:.3}; the checkpoint is {}", path.display());
    Ok(())
}
