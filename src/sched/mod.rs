//! Scheduling: from a graph to a proven plan with an offset for every buffer, and the executor that runs it.
//!
//! [`lower`] writes instructions over buffers ([`code`]). [`planner`] puts them in order ([`order`]), lets buffers
//! share bytes ([`alias`]), finds their lifetimes ([`live`]) and offsets ([`pack`]), and has the plan proved
//! ([`check`]). [`share`] divides the plan among threads by [`model`] into [`tape`]s, and [`races`] proves the tapes.
//! [`link`] resolves operands; [`exec`] and [`team`] run steps. [`faults`] says where a step may stop. The body of a
//! loop ([`loops`]) is planned once, as code for one iteration. [`areas`] places the plans of several graphs in one
//! arena. Imports arena, kernels and nodes only.

pub mod alias;
pub mod areas;
pub mod check;
pub mod code;
pub mod exec;
pub mod faults;
pub mod link;
pub mod live;
pub mod loops;
pub mod lower;
pub mod model;
mod observer;
pub mod order;
pub mod pack;
pub mod planner;
pub mod races;
pub mod share;
pub mod tape;
pub mod team;
pub mod trace;

pub use planner::{Scheduled, offsets};

use crate::error::Result;
use crate::kernels::gemm::Precision;
use crate::nodes::Graph;
use live::Intervals;
use pack::lines;
use planner::{Packer, PhaseTimer};

/// Schedules the entry region of `g` for at most `threads` threads, with products of the default precision.
pub fn schedule(g: Graph<'_>, threads: usize) -> Result<Scheduled> {
    schedule_in(g, threads, &[])
}

/// As [`schedule`], with `precision[n]` for the products of node `n`, or the default if the column is empty.
pub fn schedule_in(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    scheduled(g, threads, precision, &lines::pack)
}

/// As [`schedule_in`], with a red zone of one line behind each buffer of the graph that is not pinned:
/// [`exec::Exec::with_red_zones`] checks them.
pub fn schedule_with_red_zones(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    scheduled(g, threads, precision, &|v| lines::pack(&wider(v)))
}

/// `v`, with one line more for each buffer that is not empty.
fn wider(v: &Intervals) -> Intervals {
    Intervals { lines: v.lines.iter().map(|&l| l.saturating_add(l.min(1))).collect(), ..v.clone() }
}

fn scheduled(g: Graph<'_>, threads: usize, precision: &[Precision], pack: &Packer) -> Result<Scheduled> {
    let mut timer = PhaseTimer::new();
    let lowered = lower::lower_in(g, threads.max(1), precision)?;
    timer.lap("lower");
    planner::plan(lowered, threads.max(1), pack, timer)
}

#[cfg(test)]
pub(crate) mod tests;
