//! From a graph to a proven plan: lowering, then all phases of the planner.

use super::intervals::Intervals;
use super::pack::lines;
use super::planner::{Packer, PlannerTimer, Scheduled};
use super::{lower, planner};
use crate::error::Result;
use crate::kernels::gemm::Precision;
use crate::nodes::Graph;

/// Schedules the entry region of `g` for at most `threads` threads, with products of the default precision.
pub fn schedule(g: Graph<'_>, threads: usize) -> Result<Scheduled> {
    plan_with_precision(g, threads, &[])
}

/// As [`schedule`], with `precision[n]` for the products of node `n`, or the default if the column is empty.
pub fn plan_with_precision(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    lower_and_plan(g, threads, precision, &lines::pack_lines)
}

/// As [`plan_with_precision`], with a red zone of one line behind each buffer of the graph that is not pinned:
/// [`Exec::with_red_zones`](super::exec::Exec::with_red_zones) checks them.
pub fn plan_with_red_zones(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    lower_and_plan(g, threads, precision, &|v| lines::pack_lines(&widen_buffers(v)))
}

/// `v`, with one line more for each buffer that is not empty.
pub(super) fn widen_buffers(v: &Intervals) -> Intervals {
    Intervals { lines: v.lines.iter().map(|&l| l.saturating_add(l.min(1))).collect(), ..v.clone() }
}

fn lower_and_plan(g: Graph<'_>, threads: usize, precision: &[Precision], pack: &Packer) -> Result<Scheduled> {
    let mut timer = PlannerTimer::new();
    let lowered = lower::emit_with_precision(g, threads.max(1), precision)?;
    timer.lap("lower");
    planner::plan_and_prove(g, lowered, threads.max(1), pack, timer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType};

    #[test]
    fn a_red_zone_is_a_line_behind_each_buffer_that_has_lines() {
        let v = Intervals { first: vec![0, 1, 2, 3], end: vec![4, 5, 6, 7], lines: vec![0, 1, 7, u32::MAX] };
        let lines = vec![0, 2, 8, u32::MAX];
        assert_eq!(widen_buffers(&v), Intervals { lines, ..v });
    }

    #[test]
    fn a_schedule_is_for_one_thread_or_more_and_tells_its_phases() {
        let g = Builder::new("g");
        let graph = g.finish([g.input("x", [4], DType::F32).exp().named("y")]).unwrap();
        for (threads, planned) in [(0, 1), (1, 1), (3, 3)] {
            let s = schedule(graph.view(), threads).unwrap();
            assert_eq!(s.plan.threads, planned);
            assert_eq!(s.phases.iter().map(|p| p.0).collect::<Vec<_>>(), ["lower", "order", "pack", "check"]);
        }
    }
}
