//! Scheduling: graph → a program with a place for every byte.
//!
//! [`lower`] writes instructions over logical buffers ([`code`]); [`order`] permutes them; [`alias`] lets buffers share
//! bytes; [`live`] and [`plan`] (by way of [`sky`]) give each a place; [`check`] proves the result; [`tape`] divides it among threads;
//! [`exec`] and [`team`] run it. May import arena, kernels and nodes.

pub mod alias;
pub mod check;
pub mod code;
pub mod exec;
pub mod live;
pub mod lower;
pub mod order;
pub mod plan;
pub mod sky;
pub mod tape;
pub mod team;

use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use alias::Alias;
use check::{Checked, Plan};
use code::{BufKind, Code};
use live::Intervals;
use lower::Spot;

/// A scheduled graph: what a program is made of.
pub struct Scheduled {
    /// The proven plan.
    pub plan: Checked,
    /// Lifetimes, for reports.
    pub live: Intervals,
    /// Who shares bytes, for reports.
    pub alias: Alias,
    /// Where each value of the graph lies, for leaves and constants.
    pub spots: Vec<Spot>,
    /// Lines that no plan for this order can do without.
    pub bound: u64,
    /// Lines that no plan for any order can do without.
    pub order_bound: u64,
    /// Which of the orders of [`order::CANDIDATES`] was kept.
    pub order: &'static str,
}

/// Schedules `g` for `lanes` threads.
pub fn schedule(g: Graph<'_>, lanes: usize) -> Result<Scheduled> {
    let lowered = lower::lower(g, lanes.max(1))?;
    let best = order::best(&lowered.code)?;
    let (place, bytes) = places(&best.code, &best.alias, &best.live, plan::pack)?;
    let inplace = best.alias.inplace.clone();
    let plan = check::check(Plan { code: best.code, place, inplace, bytes, lanes: lanes.max(1) })?;
    Ok(Scheduled {
        plan,
        live: best.live,
        alias: best.alias,
        spots: lowered.spots,
        bound: best.bound,
        order_bound: best.order_bound,
        order: best.name,
    })
}

/// First bytes of all buffers, and the bytes of the arena. Pinned buffers stand first, by kind, so that all parameters
/// are one run of bytes; `pack` places the others behind them.
pub fn places(
    code: &Code,
    alias: &Alias,
    live: &Intervals,
    pack: impl Fn(&Intervals) -> Result<plan::Offsets>,
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
    let bytes = lines.checked_mul(LINE as u64).and_then(|b| usize::try_from(b).ok());
    let bytes = bytes
        .filter(|_| lines <= u64::from(u32::MAX))
        .ok_or_else(|| Error::new(Kind::Plan, format!("{lines} lines of memory do not fit the arena's offsets")))?;
    let place = (0..n).map(|b| {
        let root = alias.class[b] as usize;
        let line = if code.kind[root].is_pinned() { at[root] } else { base + u64::from(packed.at[root]) };
        line as usize * LINE
    });
    Ok((place.collect(), bytes))
}

#[cfg(test)]
pub(crate) mod tests;
