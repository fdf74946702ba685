//! Scheduling: from a graph to a proven plan with an offset for every buffer, and the executor that runs it.
//!
//! [`lower`] writes instructions over buffers ([`instructions`]). [`planner`] puts them in order ([`order`]), lets
//! buffers share bytes ([`alias`]), finds their lifetimes ([`intervals`]) and offsets ([`pack`]), and has the plan
//! proved ([`checker`]). [`share`] divides the plan among threads by [`modelled_time`] into [`tape`]s, and [`races`]
//! proves the tapes.
//! [`link`] resolves operands; [`exec`] and [`team`] run steps. [`faults`] says where a step may stop. The body of a
//! loop ([`planned_loop`]) is planned once, as code for one iteration. [`areas`] places the plans of several graphs in
//! one arena. Imports arena, kernels and nodes only.

pub mod alias;
pub mod areas;
mod buf_kind;
pub mod checker;
pub mod exec;
pub mod faults;
pub mod instructions;
pub mod intervals;
pub mod link;
pub mod lower;
pub mod modelled_time;
pub mod nonfinite;
mod observer;
mod operand;
pub mod order;
pub mod pack;
pub mod planned_loop;
pub mod planner;
pub mod races;
pub mod share;
pub mod tape;
pub mod team;
mod team_gate;
mod team_sync;
pub mod track;

pub use planner::{Scheduled, offsets};

use crate::error::Result;
use crate::kernels::gemm::Precision;
use crate::nodes::Graph;
use intervals::Intervals;
use pack::lines;
use planner::{Packer, PlannerTimer};

/// Schedules the entry region of `g` for at most `threads` threads, with products of the default precision.
pub fn schedule(g: Graph<'_>, threads: usize) -> Result<Scheduled> {
    schedule_in(g, threads, &[])
}

/// As [`schedule`], with `precision[n]` for the products of node `n`, or the default if the column is empty.
pub fn schedule_in(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    schedule_packed(g, threads, precision, &lines::pack_lines)
}

/// As [`schedule_in`], with a red zone of one line behind each buffer of the graph that is not pinned:
/// [`exec::Exec::with_red_zones`] checks them.
pub fn schedule_with_red_zones(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    schedule_packed(g, threads, precision, &|v| lines::pack_lines(&wider(v)))
}

/// `v`, with one line more for each buffer that is not empty.
fn wider(v: &Intervals) -> Intervals {
    Intervals { lines: v.lines.iter().map(|&l| l.saturating_add(l.min(1))).collect(), ..v.clone() }
}

fn schedule_packed(g: Graph<'_>, threads: usize, precision: &[Precision], pack: &Packer) -> Result<Scheduled> {
    let mut timer = PlannerTimer::new();
    let lowered = lower::lower_with_precision(g, threads.max(1), precision)?;
    timer.lap("lower");
    planner::run_planner(lowered, threads.max(1), pack, timer)
}

#[cfg(test)]
pub(crate) mod tests;
