//! From lowered code to a proven plan: order, sharing of bytes, packing, check. It plans a graph, or one iteration of a
//! loop.

use super::alias::Alias;
use super::checker::{Checked, check_plan};
use super::instructions::{BufKind, Instructions};
use super::intervals::Intervals;
use super::lower::{BufferSlice, Lowered};
use super::order;
use super::pack::Packing;
use super::placement::{Placement, Placements, code_checksum};
use super::plan::Plan;
use crate::arena::tensor::LINE;
use crate::arena::{Value, ids::Id};
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use std::time::Duration;

/// Scheduled code: a proven plan, and what reports say about it.
pub struct Scheduled {
    /// The proven plan.
    pub plan: Checked,
    /// Lifetimes of buffers.
    pub live: Intervals,
    /// Which buffers share bytes.
    pub alias: Alias,
    /// The buffer and offset of each value of the graph that has bytes.
    pub slices: Vec<BufferSlice>,
    /// Lower bound of the arena for this order, in lines.
    pub bound: u64,
    /// Lower bound of the arena for all orders, in lines.
    pub order_bound: u64,
    /// Name of the order that was kept, one of [`order::CANDIDATES`].
    pub order: &'static str,
    /// The phases in the order in which they ran, and how long each took.
    pub phases: Vec<(&'static str, Duration)>,
    /// What was decided, for the bodies of loops and, last, for the graph.
    pub placements: Vec<Placement>,
}

/// Measures how long phases take.
pub(super) struct PlannerTimer {
    since: Instant,
    phases: Vec<(&'static str, Duration)>,
}

impl PlannerTimer {
    pub(super) fn new() -> PlannerTimer {
        PlannerTimer { since: Instant::now(), phases: Vec::new() }
    }

    /// Ends phase `name`; the next begins.
    pub(super) fn lap(&mut self, name: &'static str) {
        self.phases.push((name, self.since.elapsed()));
        self.since = Instant::now();
    }
}

/// A packer: offsets in lines for lifetimes.
pub(super) type Packer = dyn Fn(&Intervals) -> Result<Packing>;

/// Orders, packs and proves `lowered`, which is of `g`. `timer` counts from its creation. An error of memory that is
/// too large names the largest value and its line.
pub(super) fn plan_and_prove(
    g: Graph<'_>,
    lowered: Lowered,
    threads: usize,
    pack: &Packer,
    places: &Placements,
    timer: PlannerTimer,
) -> Result<Scheduled> {
    let largest = largest_beyond_offsets(&lowered.code);
    plan_lowered(lowered, threads, pack, places, timer).map_err(|e| match largest {
        Some(v) => {
            let n = g.def[v.at()];
            let kind = g.def_of(n).name;
            let name = g.leaf(v).map_or_else(|| g.str(g.names[v.at()]), |leaf| leaf.1);
            let called = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            let message = format!("{}; the largest value is {kind}{called}, {}", e.message, g.ty_text(v));
            Error { message, ..e }.at(g.location(n))
        }
        None => e,
    })
}

/// The value of the most bytes, if all buffers together have more lines than offsets can count.
fn largest_beyond_offsets(code: &Instructions) -> Option<Value> {
    let lines = code.bytes.iter().fold(0u64, |sum, &b| sum.saturating_add(b.div_ceil(LINE) as u64));
    let values = code.value.iter().zip(&code.bytes).filter(|v| v.0.is_some());
    // The first of several.
    let largest = values.rev().max_by_key(|v| v.1).map(|v| *v.0);
    largest.filter(|_| lines > u64::from(u32::MAX))
}

fn plan_lowered(
    lowered: Lowered,
    threads: usize,
    pack: &Packer,
    places: &Placements,
    mut timer: PlannerTimer,
) -> Result<Scheduled> {
    let (best, offset, bytes) = match places.next()? {
        Some(stored) => {
            let (ordered, offset) = stored.apply(&lowered.code)?;
            places.note(stored.clone());
            timer.lap("order");
            (ordered, offset, stored.end as usize * LINE)
        }
        None => {
            let best = order::best_order(&lowered.code)?;
            timer.lap("order");
            let (offset, bytes) = planned_offsets(&best.code, &best.alias, &best.live, pack)?;
            places.note(Placement::of(code_checksum(&lowered.code), &best, &offset, bytes));
            timer.lap("pack");
            (best, offset, bytes)
        }
    };
    let inplace = best.alias.inplace.clone();
    let plan = check_plan(Plan { code: best.code, offset, inplace, bytes, threads, foreign: Vec::new() })?;
    timer.lap("check");
    Ok(Scheduled {
        plan,
        live: best.live,
        alias: best.alias,
        slices: lowered.slices,
        bound: best.bound,
        order_bound: best.order_bound,
        order: best.name,
        phases: timer.phases,
        placements: Vec::new(),
    })
}

/// Byte offsets of all buffers, and the size of the arena in bytes.
///
/// Pinned buffers come first, by kind, so that all params are one run of bytes; `pack` gives the others offsets behind
/// them. An error if the arena would have more than `u32::MAX` lines.
pub fn planned_offsets(
    code: &Instructions,
    alias: &Alias,
    live: &Intervals,
    pack: impl Fn(&Intervals) -> Result<Packing>,
) -> Result<(Vec<usize>, usize)> {
    let n = code.bytes.len();
    let mut rest = live.clone();
    let mut at = vec![0u64; n];
    let mut base = 0u64;
    for kind in [BufKind::Param, BufKind::State, BufKind::Input, BufKind::Constant] {
        for b in (0..n).filter(|&b| code.kind[b] == kind) {
            at[b] = base;
            base += u64::from(std::mem::take(&mut rest.lines[b]));
        }
    }
    let packed = pack(&rest)?;
    let lines = base + packed.height;
    let too_large = || Error::new(Kind::Plan, format!("{lines} lines of memory do not fit the arena's offsets"));
    if lines > u64::from(u32::MAX) {
        return Err(too_large());
    }
    let bytes = usize::try_from(lines * LINE as u64).map_err(|_| too_large())?;
    let offset = (0..n).map(|b| {
        let root = alias.class[b] as usize;
        let line = if code.kind[root].is_pinned() { at[root] } else { base + packed.at[root] };
        line as usize * LINE
    });
    Ok((offset.collect(), bytes))
}
