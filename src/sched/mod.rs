//! Scheduling: graph → a program with a place for every byte.
//!
//! [`lower`] writes instructions over logical buffers ([`code`]); [`order`] permutes them; [`alias`] lets buffers share
//! bytes; [`live`] and [`pack`] give each a place; [`check`] proves the result; [`tape`] divides it among threads by
//! [`model`];
//! [`exec`] and [`team`] run it; [`faults`] says where it may stop. The body of a loop ([`loops`]) goes the same way,
//! once; [`link`] puts it where its loop is. May import arena, kernels and nodes.

pub mod alias;
pub mod check;
pub mod code;
pub mod exec;
pub mod faults;
pub mod link;
pub mod live;
pub mod loops;
pub mod lower;
pub mod model;
pub mod order;
pub mod pack;
pub mod tape;
pub mod team;
pub mod trace;

use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::Precision;
use crate::nodes::Graph;
use alias::Alias;
use check::{Checked, Plan};
use code::{BufKind, Code};
use live::Intervals;
use lower::BufferSlice;
use std::time::{Duration, Instant};

/// A scheduled graph: what a program is made of.
pub struct Scheduled {
    /// The proven plan.
    pub plan: Checked,
    /// Lifetimes, for reports.
    pub live: Intervals,
    /// Who shares bytes, for reports.
    pub alias: Alias,
    /// Where each value of the graph lies, for leaves and constants.
    pub slices: Vec<BufferSlice>,
    /// Lines that no plan for this order can do without.
    pub bound: u64,
    /// Lines that no plan for any order can do without.
    pub order_bound: u64,
    /// Which of the orders of [`order::CANDIDATES`] was kept.
    pub order: &'static str,
    /// How long each phase took, in the order in which they ran.
    pub phases: Vec<(&'static str, Duration)>,
}

/// Times phases.
struct PhaseTimer {
    since: Instant,
    phases: Vec<(&'static str, Duration)>,
}

impl PhaseTimer {
    fn new() -> PhaseTimer {
        PhaseTimer { since: Instant::now(), phases: Vec::new() }
    }

    /// Ends the phase called `name`.
    fn lap(&mut self, name: &'static str) {
        self.phases.push((name, self.since.elapsed()));
        self.since = Instant::now();
    }
}

/// Schedules `g` for `threads` threads.
pub fn schedule(g: Graph<'_>, threads: usize) -> Result<Scheduled> {
    schedule_in(g, threads, &[])
}

/// As [`schedule`], with the precision of each node's products, or of none.
pub fn schedule_in(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    scheduled(g, threads, precision, &pack::lines::pack)
}

/// As [`schedule_in`], with a red zone behind each buffer of the graph: [`exec::Exec::with_red_zones`] checks them.
pub fn schedule_with_red_zones(g: Graph<'_>, threads: usize, precision: &[Precision]) -> Result<Scheduled> {
    fn wider(v: &Intervals) -> Intervals {
        Intervals { lines: v.lines.iter().map(|&l| l.saturating_add(l.min(1))).collect(), ..v.clone() }
    }
    scheduled(g, threads, precision, &|v| pack::lines::pack(&wider(v)))
}

fn scheduled(g: Graph<'_>, threads: usize, precision: &[Precision], pack: &Packer) -> Result<Scheduled> {
    let mut timer = PhaseTimer::new();
    let lowered = lower::lower_in(g, threads.max(1), precision)?;
    timer.lap("lower");
    let a = arrange(&lowered.code, threads.max(1), pack, &mut timer)?;
    Ok(Scheduled {
        plan: a.plan,
        live: a.live,
        alias: a.alias,
        slices: lowered.slices,
        bound: a.bound,
        order_bound: a.order_bound,
        order: a.order,
        phases: timer.phases,
    })
}

/// Ordered, placed and proved code.
struct Arranged {
    plan: Checked,
    live: Intervals,
    alias: Alias,
    bound: u64,
    order_bound: u64,
    order: &'static str,
}

/// Gives lifetimes a place.
type Packer = dyn Fn(&Intervals) -> Result<pack::Packing>;

/// Orders, places and proves `code`: that of a graph, or of one iteration of a loop.
fn arrange(code: &Code, threads: usize, pack: &Packer, timer: &mut PhaseTimer) -> Result<Arranged> {
    let best = order::best(code)?;
    timer.lap("order");
    let (place, bytes) = places(&best.code, &best.alias, &best.live, pack)?;
    timer.lap("pack");
    let inplace = best.alias.inplace.clone();
    let plan = check::check(Plan { code: best.code, place, inplace, bytes, threads })?;
    timer.lap("check");
    Ok(Arranged {
        plan,
        live: best.live,
        alias: best.alias,
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
    pack: impl Fn(&Intervals) -> Result<pack::Packing>,
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
        let line = if code.kind[root].is_pinned() { at[root] } else { base + packed.at[root] };
        line as usize * LINE
    });
    Ok((place.collect(), bytes))
}

#[cfg(test)]
pub(crate) mod tests;
