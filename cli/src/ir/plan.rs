//! `plan`: where the bytes of a graph's program lie, and what decides how many there are.
//!
//! Invariant: the figures are those of the program that `run` and `train` would use.

use super::{load, of, show::emit};
use crate::args::PlanArgs;
use crate::fail::Run;
use crate::report::{memory, page::largest};
use crate::sys::human;
use arenagrad::session::{PlanReport, Session};
use arenagrad::train::checkpoint::write_atomically;
use std::fmt::Write;

/// Prints the plan, and draws it if asked.
pub fn plan(a: &PlanArgs) -> Run {
    let graph = load(&a.file)?;
    let program = Session::new().threads(a.threads).compile(&graph).map_err(of(&a.file))?;
    let plan = program.plan();
    if let Some(path) = &a.svg {
        write_atomically(path, memory::svg(plan).as_bytes())?;
    }
    emit(&table(plan))
}

/// Bytes that are live at each instruction.
fn live_bytes(plan: &PlanReport) -> Vec<usize> {
    let mut change = vec![0i64; plan.instructions + 2];
    for (_, b) in plan.buffers.iter().enumerate().filter(|(i, b)| b.root as usize == *i) {
        change[(b.first as usize).min(plan.instructions)] += b.size as i64;
        change[(b.last as usize + 1).min(plan.instructions + 1)] -= b.size as i64;
    }
    let mut live = 0;
    let running = change.iter().map(|c| {
        live += c;
        live.max(0) as usize
    });
    running.take(plan.instructions.max(1)).collect()
}

fn table(plan: &PlanReport) -> String {
    let mut s = String::new();
    let (arena, bound) = (plan.arena_bytes, plan.lower_bound_bytes);
    let ratio = if bound > 0 { arena as f64 / bound as f64 } else { 1.0 };
    let _ = writeln!(s, "arena        {arena} bytes ({})", human(arena as u64));
    let _ = writeln!(s, "lower bound  {bound} bytes (ratio {ratio:.3})");
    let _ = writeln!(s, "any order    {} bytes at least", plan.order_bound_bytes);
    let _ = writeln!(s, "pinned       {} bytes of params, states, inputs and constants", plan.pinned_bytes);
    let _ = writeln!(s, "instructions {} (order: {})", plan.instructions, plan.order);
    let live = live_bytes(plan);
    let peak = (0..live.len()).max_by_key(|&i| (live[i], std::cmp::Reverse(i))).unwrap_or(0);
    let _ = writeln!(s, "peak         {} bytes live at instruction {peak}, the largest of them:", live[peak]);
    let there = |b: &&arenagrad::session::BufferReport| b.first as usize <= peak && peak <= b.last as usize;
    for b in largest(plan, usize::MAX).into_iter().filter(there).take(5) {
        let _ = writeln!(s, "  {:>12}  {}", b.size, memory::line(b));
    }
    let _ = writeln!(s, "largest buffers");
    let _ = writeln!(s, "  {:>12} {:>12} {:>6} {:>6}  value", "bytes", "offset", "from", "to");
    for b in largest(plan, 10) {
        let last = b.last.min(plan.instructions.saturating_sub(1) as u32);
        let _ = writeln!(s, "  {:>12} {:>12} {:>6} {last:>6}  {}", b.size, b.offset, b.first, memory::line(b));
    }
    s
}
