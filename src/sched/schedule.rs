//! From a graph to a proven plan: lowering, then all phases of the planner.

use super::arithmetic::Arithmetic;
use super::intervals::Intervals;
use super::pack::lines;
use super::placement::{Placement, Placements};
use super::planner::{Packer, PlannerTimer, Scheduled};
use super::{lower, planner};
use crate::error::Result;
use crate::nodes::Graph;

/// Schedules the entry region of `g` for at most `threads` threads, computed as by default.
pub fn schedule(g: Graph<'_>, threads: usize) -> Result<Scheduled> {
    plan_with_arithmetic(g, threads, Arithmetic::DEFAULT)
}

/// As [`schedule`], with nodes that are computed as `how` says.
pub fn plan_with_arithmetic(g: Graph<'_>, threads: usize, how: &Arithmetic) -> Result<Scheduled> {
    lower_and_plan(g, threads, how, &lines::pack_lines, Placements::search())
}

/// The plan of `g` that has these placements: nothing is searched. `threads` and `how` are those that it was made
/// for. Errors (kind `Plan`): the placements are of another graph or of other kernels; the proof fails.
pub fn plan_again(g: Graph<'_>, threads: usize, how: &Arithmetic, all: Vec<Placement>) -> Result<Scheduled> {
    lower_and_plan(g, threads, how, &lines::pack_lines, Placements::stored(all))
}

/// As [`plan_with_arithmetic`], with a red zone of one line behind each buffer of the graph that is not pinned:
/// [`Exec::with_red_zones`](super::exec::Exec::with_red_zones) checks them.
pub fn plan_with_red_zones(g: Graph<'_>, threads: usize, how: &Arithmetic) -> Result<Scheduled> {
    lower_and_plan(g, threads, how, &|v| lines::pack_lines(&widen_buffers(v)), Placements::search())
}

/// As [`schedule`], for one thread whose kernels need no scratch of their own: code that is made from the instructions
/// of the plan, not the executor.
pub fn plan_without_thread_scratch(g: Graph<'_>) -> Result<Scheduled> {
    let mut timer = PlannerTimer::new();
    let mut lowered = lower::emit_with_arithmetic(g, 1, Arithmetic::DEFAULT)?;
    lowered.code.drop_thread_scratch();
    timer.lap("lower");
    planner::plan_and_prove(g, lowered, 1, &lines::pack_lines, &Placements::search(), timer)
}

/// `v`, with one line more for each buffer that is not empty.
pub(super) fn widen_buffers(v: &Intervals) -> Intervals {
    Intervals { lines: v.lines.iter().map(|&l| l.saturating_add(l.min(1))).collect(), ..v.clone() }
}

fn lower_and_plan(
    g: Graph<'_>,
    threads: usize,
    how: &Arithmetic,
    pack: &Packer,
    places: Placements,
) -> Result<Scheduled> {
    let mut timer = PlannerTimer::new();
    let lowered = lower::emit_placed(g, threads.max(1), how, &places)?;
    timer.lap("lower");
    let planned = planner::plan_and_prove(g, lowered, threads.max(1), pack, &places, timer)?;
    Ok(Scheduled { placements: places.finish()?, ..planned })
}
