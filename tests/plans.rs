//! Plans of whole training programs: bytes, bounds and instruction counts that may only get better.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "common/models.rs"]
mod models;

use arenagrad::nodes::GraphBuf;
use arenagrad::passes::optimiser::{Optimiser, train};
use arenagrad::session::Session;

/// Arena, lower bound and number of instructions of the training program of `g`.
fn plan(g: &GraphBuf) -> (usize, usize, usize) {
    let step = train(g.view(), "loss", &Optimiser::adamw(1e-3)).unwrap();
    let p = Session::new().compile(&step).unwrap();
    let r = p.plan();
    (r.arena_bytes, r.lower_bound_bytes, r.instructions)
}

/// The arena is the lower bound, and neither it nor the tape has grown beyond what was recorded.
fn holds(name: &str, g: &GraphBuf, arena: usize, instructions: usize) {
    let (bytes, bound, count) = plan(g);
    println!("{name}: arena {bytes}, bound {bound}, ratio {:.4}, {count} instructions", bytes as f64 / bound as f64);
    assert!(bytes as f64 <= 1.1 * bound as f64, "{name}: {bytes} bytes where {bound} would do");
    assert!(bytes <= arena, "{name}: {bytes} bytes, {arena} were recorded");
    assert!(count <= instructions, "{name}: {count} instructions, {instructions} were recorded");
}

#[test]
fn mlp() {
    holds("mlp", &models::mlp(32), 1_840_128, 17);
}

#[test]
fn convnet() {
    holds("convnet", &models::convnet(64), 3_834_944, 41);
}

#[test]
fn transformer() {
    holds("transformer", &models::transformer(4, 32, 64, 4, 2, 65), 2_801_280, 175);
}
