//! The time to order a large program: an unrolled recurrence of about 100,000 instructions.
//!
//! `cargo bench -p arenagrad-benches --bench order`

#[path = "../tests/common/models.rs"]
#[allow(dead_code)]
mod models;
#[path = "../tests/common/zoo.rs"]
#[allow(dead_code)]
mod zoo;

use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::{lower, order};
use std::time::Instant;

fn main() -> arenagrad::error::Result<()> {
    let graph = zoo::step(zoo::rnn(12_500, 32, 128, 256));
    let prepared = run_whole_pipeline(&graph)?;
    let code = lower::lower(prepared.view(), 1)?.code;
    for _ in 0..5 {
        let start = Instant::now();
        let best = order::best_order(&code)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let (n, buffers) = (code.len(), code.bytes.len());
        println!("{n} instructions, {buffers} buffers: {ms:.1} ms, order {}, {} lines", best.name, best.bound);
    }
    Ok(())
}
