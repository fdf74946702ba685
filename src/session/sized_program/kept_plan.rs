//! A plan that a sized program keeps: a program without an arena, and the data to place it again.

use super::layout::{Layout, LayoutPlanLines};
use crate::arena::tensor::{LINE, TensorArena};
use crate::error::Result;
use crate::nodes::Sizes;
use crate::sched::areas::Areas;
use crate::sched::exec::Exec;
use crate::sched::team::Team;
use crate::session::PlanReport;
use crate::session::choices::Choices;
use crate::session::compiled_graph::CompiledGraph;
use crate::session::divided::Divided;
use crate::session::leaves_by_name::LeafTable;
use crate::session::program::Program;
use std::ops::Range;

/// A param or a state of a program, and its number in the table of leaves.
struct LeafLink {
    binding: usize,
    number: usize,
}

/// See the file's head.
pub struct KeptPlan {
    pub sizes: Sizes,
    /// Its arena and its team are here only while it is the current program.
    pub program: Program,
    /// Tells whether `program` is still the one that was made.
    id: u64,
    ready: CompiledGraph,
    areas: Areas,
    pub lines: LayoutPlanLines,
    /// The version of the layout for which it is placed.
    pub version: u64,
    /// When it was used last.
    pub used: u64,
    links: Vec<LeafLink>,
}

impl KeptPlan {
    /// The plan of `program`, which was made of `divided`.
    pub fn new(sizes: Sizes, program: Program, divided: Divided, own: Range<u64>, leaves: &LeafTable) -> KeptPlan {
        let Divided { ready, areas } = divided;
        let lines = LayoutPlanLines { own, workspace: areas.workspace };
        let persistent = program.bindings.iter().enumerate().filter(|(_, b)| b.is_persistent());
        let link = |(binding, number): (usize, u32)| LeafLink { binding, number: number as usize };
        let links = persistent.filter_map(|(i, b)| Some((i, leaves.number(&b.name)?))).map(link).collect();
        KeptPlan { id: program.id, sizes, program, ready, areas, lines, version: 0, used: 0, links }
    }

    /// The same plan at its places under `layout`, and the number of threads that it needs.
    pub fn placed_again(self, layout: &Layout, leaves: &LeafTable, choices: &Choices) -> Result<(KeptPlan, usize)> {
        let KeptPlan { sizes, mut program, id, ready, areas, lines, used, links, .. } = self;
        let places = leaves.places(&ready);
        let placed = Divided { ready, areas }.place(&layout.frame(&places, lines.own.start), choices)?;
        let Divided { ready, areas } = placed;
        let (report, exec): (PlanReport, Exec) = (ready.report(), ready.exec(choices)?);
        let threads = exec.threads();
        program.moved(&ready, exec, report);
        let version = layout.version;
        Ok((KeptPlan { sizes, program, id, ready, areas, lines, version, used, links }, threads))
    }

    /// Gives the program the arena, the team, and the facts which params and states are `set`.
    pub fn lend(&mut self, arena: TensorArena, team: Option<Team>, set: &[bool]) {
        let p = &mut self.program;
        if let Some(method) = p.methods.first_mut() {
            method.report.arena_bytes = arena.len();
        }
        p.arena = arena;
        if let Some(team) = team {
            p.runner.lend_team(team);
        }
        for link in &self.links {
            match set.get(link.number) {
                Some(true) => p.fresh.put(link.binding),
                _ => p.fresh.clear(link.binding),
            }
        }
    }

    /// Takes back what [`KeptPlan::lend`] gave. `None` if the program was replaced by another.
    pub fn give_back(&mut self, set: &mut [bool]) -> Option<(TensorArena, Option<Team>)> {
        let p = &mut self.program;
        if p.id != self.id {
            return None;
        }
        for link in &self.links {
            if let Some(set) = set.get_mut(link.number) {
                *set = p.fresh.is_set(link.binding);
            }
        }
        Some((std::mem::take(&mut p.arena), p.runner.take_team()))
    }

    /// The bytes of its own area.
    pub fn own_bytes(&self) -> Range<usize> {
        bytes_of_lines(&self.lines.own)
    }
}

/// The bytes of `lines`.
pub fn bytes_of_lines(lines: &Range<u64>) -> Range<usize> {
    lines.start as usize * LINE..lines.end as usize * LINE
}
