//! Sharing: how many threads a program gets, and which units of each instruction each thread gets.
//!
//! Shares follow from shapes and the number of threads. Results do not depend on them, because a unit gives the same
//! result on every thread. By [`modelled_time`], an instruction that is too small to share runs on thread 0, and a
//! small one on the first few threads. A barrier is set only where one thread touches bytes that another writes, or
//! where one thread may stop the step before another writes leaves. [`races`](super::races) proves the tapes by other
//! means.

use super::checker::Checked;
use super::faults::FaultCommits;
use super::instructions::{Instructions, Operand};
use super::modelled_time;
use super::plan::Plan;
use super::planned_body::PlannedBody;
use super::tape::{Entry, Tapes};
use crate::kernels::abi::Split;
use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers of threads that are tried, beside one and the number that the plan was made for.
const LADDER: [usize; 12] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128];
/// Picoseconds of work that each thread of an instruction must get. All are tried, because none is best everywhere.
/// With a small one, threads find more of their operands in their own caches; with a large one, there are fewer
/// barriers.
const GRAINS: [u64; 3] = [1_000_000, 4_000_000, 16_000_000];
/// The same in bodies of loops, each of which has a grain of its own. With the least one, small instructions follow the
/// division of their neighbours, so that no thread fetches what another has written.
const GRAINS_IN_LOOPS: [u64; 4] = [250_000, 1_000_000, 4_000_000, 16_000_000];

/// Which instructions are divided, and among how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// No instruction.
    Never,
    /// Instructions that take at least this many picoseconds on one thread, and loops around them, run on all threads.
    AtLeast(u64),
    /// Each thread of an instruction gets at least this many picoseconds. A loop runs on all threads if the model says
    /// that it is shorter that way.
    Grain(u64),
}

impl Sharing {
    /// Threads among which instruction `i` is divided.
    fn width(self, code: &Instructions, i: usize, threads: usize) -> usize {
        let time = code.time[i].total;
        let worth = match self {
            Sharing::Never => 1,
            Sharing::AtLeast(least) => threads * usize::from(time >= least),
            Sharing::Grain(grain) => usize::try_from(time / grain.max(1)).unwrap_or(threads),
        };
        worth.min(threads).min(code.units[i]).max(1)
    }
}

/// The units of thread `t` of `threads`: contiguous, and equal in number to within one.
fn units_of_thread(units: usize, threads: usize, t: usize) -> Range<usize> {
    let (each, more) = (units / threads, units % threads);
    let start = t * each + t.min(more);
    start..start + each + usize::from(t < more)
}

/// The tapes with which [`modelled_time::modelled_step`] is least, over the thread counts of [`LADDER`] and that of
/// `plan`; the fewest threads win ties. A single tape if no instruction is worth sharing: then no other thread is ever
/// woken.
pub fn share_tapes(plan: &Checked) -> Tapes {
    let mut best = divide_tapes(plan, 1, Sharing::Never);
    let mut least = modelled_time::modelled_step(plan, &best);
    let all = LADDER.into_iter().filter(|&n| n < plan.threads).chain((plan.threads > 1).then_some(plan.threads));
    for threads in all {
        let loops = divide_loops(&plan.code, threads, Sharing::Grain(0));
        for grain in GRAINS {
            let tapes = divide_around(plan, threads, Sharing::Grain(grain), loops.clone());
            let time = modelled_time::modelled_step(plan, &tapes);
            if time < least {
                (best, least) = (tapes, time);
            }
        }
    }
    best
}

/// Tapes that divide each instruction of at least `least` picoseconds among all threads.
pub fn share_tapes_above(plan: &Checked, least: u64) -> Tapes {
    let sharing = Sharing::AtLeast(least);
    let threads = if divides_any(plan, sharing, plan.threads) { plan.threads } else { 1 };
    divide_tapes(plan, threads, sharing)
}

/// True if any instruction of `plan`, or of a loop in it, is divided.
fn divides_any(plan: &Checked, sharing: Sharing, threads: usize) -> bool {
    let code = &plan.code;
    (0..code.len()).any(|i| sharing.width(code, i, threads) > 1)
        || code.loops.iter().any(|l| divides_any(&l.plan, sharing, threads))
}

/// The tapes of the body of `l`. By grains, those that the model says are shortest, for all threads or for one.
fn divide_loop(l: &PlannedBody, threads: usize, sharing: Sharing) -> Tapes {
    let Sharing::Grain(_) = sharing else {
        let threads = if divides_any(&l.plan, sharing, threads) { threads } else { 1 };
        return divide_tapes(&l.plan, threads, sharing);
    };
    let mut best = divide_tapes(&l.plan, 1, Sharing::Never);
    if threads == 1 {
        return best;
    }
    let loops = divide_loops(&l.plan.code, threads, sharing);
    let mut least = modelled_time::modelled_run(&l.plan, &best);
    for grain in GRAINS_IN_LOOPS {
        let tapes = divide_around(&l.plan, threads, Sharing::Grain(grain), loops.clone());
        let time =
            modelled_time::modelled_run(&l.plan, &tapes).saturating_add(modelled_time::modelled_barrier(threads));
        if time < least {
            (best, least) = (tapes, time);
        }
    }
    best
}

/// The tapes of the bodies of `code`.
fn divide_loops(code: &Instructions, threads: usize, sharing: Sharing) -> Vec<Tapes> {
    code.loops.iter().map(|l| divide_loop(l, threads, sharing)).collect()
}

/// The tapes of `plan` for `threads` threads, at most as many as it was planned for.
fn divide_tapes(plan: &Checked, threads: usize, sharing: Sharing) -> Tapes {
    divide_around(plan, threads, sharing, divide_loops(&plan.code, threads, sharing))
}

/// As [`divide_tapes`], with the tapes of its bodies.
fn divide_around(plan: &Checked, threads: usize, sharing: Sharing, mut inner: Vec<Tapes>) -> Tapes {
    let code = &plan.code;
    for i in 0..code.len() {
        // All threads run both branches of a choice, or one thread does.
        let bodies = code.body_range(i);
        if inner.get(bodies.clone()).is_some_and(|t| t.iter().any(|t| t.threads() > 1)) {
            for b in bodies.filter(|&b| inner[b].threads() != threads).collect::<Vec<_>>() {
                inner[b] = divide_tapes(&code.loops[b].plan, threads, sharing);
            }
        }
    }
    let inner = inner;
    let mut by_thread: Vec<Vec<Entry>> = vec![Vec::new(); threads];
    let commits = if threads > 1 { FaultCommits::new(plan) } else { FaultCommits::default() };
    let mut open = ShareWindow::default();
    for i in 0..code.len() {
        let (instr, width) = (i as u32, sharing.width(code, i, threads));
        let team = width > 1;
        if inner.get(code.body_range(i)).is_some_and(|t| t.iter().any(|t| t.threads() > 1)) {
            // All threads run the loop, with a barrier before it and after each iteration.
            for tape in &mut by_thread {
                tape.push(Entry { instr, barrier: true, from: 0, to: 0 });
                tape.push(Entry { instr, barrier: false, from: 0, to: 1 });
            }
            open = ShareWindow::default();
            continue;
        }
        if threads > 1 && !(open.settles(&commits, i, team) && open.admit(plan, i, team)) {
            by_thread.iter_mut().for_each(|tape| tape.push(Entry { instr, barrier: true, from: 0, to: 0 }));
            open = ShareWindow::default();
            open.settles(&commits, i, team);
            open.admit(plan, i, team);
        }
        for (t, tape) in by_thread.iter_mut().enumerate() {
            let r = if t < width { units_of_thread(code.units[i], width, t) } else { 0..0 };
            if !r.is_empty() {
                tape.push(Entry { instr, barrier: false, from: r.start, to: r.end });
            }
        }
    }
    let mut at = vec![0];
    let entries: Vec<Entry> = by_thread.into_iter().fold(Vec::new(), |mut all, tape| {
        all.extend(tape);
        at.push(all.len() as u32);
        all
    });
    Tapes { at, entries, inner }
}

/// A set of bytes, as disjoint ranges: start to end.
#[derive(Default)]
struct ShareBytes(BTreeMap<usize, usize>);

impl ShareBytes {
    fn add(&mut self, mut r: Range<usize>) {
        if r.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..=r.end).next_back()
            && end >= r.start
        {
            r = r.start.min(start)..r.end.max(end);
            self.0.remove(&start);
        }
        self.0.insert(r.start, r.end);
    }

    fn overlaps(&self, r: &Range<usize>) -> bool {
        !r.is_empty() && self.0.range(..r.end).next_back().is_some_and(|(_, &end)| end > r.start)
    }
}

/// The bytes touched since the last barrier: by thread 0 alone (`solo`), and by several threads (`team`).
#[derive(Default)]
struct ShareWindow {
    solo_reads: ShareBytes,
    solo_writes: ShareBytes,
    team_reads: ShareBytes,
    team_writes: ShareBytes,
    /// Per-thread scratch, by offset: its end and the bytes of one thread. Thread `t` touches part `t` of it in every
    /// instruction.
    scratch: BTreeMap<usize, (usize, usize)>,
    /// True if an instruction that may stop the step ran on thread 0, or on several threads.
    solo_stops: bool,
    team_stops: bool,
}

impl ShareWindow {
    /// Adds instruction `i`, unless it writes leaves while another thread may still stop the step.
    fn settles(&mut self, commits: &FaultCommits, i: usize, team: bool) -> bool {
        if commits.writes[i] && (self.team_stops || (team && self.solo_stops)) {
            return false;
        }
        self.solo_stops |= commits.stops[i] && !team;
        self.team_stops |= commits.stops[i] && team;
        true
    }

    /// Adds instruction `i`, unless it touches bytes that another thread may be touching.
    fn admit(&mut self, plan: &Plan, i: usize, team: bool) -> bool {
        let code = &plan.code;
        let range = |o: &Operand| plan.arena_range(o);
        let reads = || code.reads_of(i).iter().map(range);
        let (scratch, writes): (Vec<&Operand>, Vec<&Operand>) =
            code.writes_of(i).iter().partition(|o| matches!(o.split, Split::PerThread(_)));
        let read_clash = |r: &Range<usize>| self.team_writes.overlaps(r) || (team && self.solo_writes.overlaps(r));
        let write_clash = |r: &Range<usize>| {
            read_clash(r) || self.team_reads.overlaps(r) || (team && self.solo_reads.overlaps(r)) || self.in_scratch(r)
        };
        let clash = reads().any(|r| read_clash(&r) || self.in_scratch(&r))
            || writes.iter().any(|o| write_clash(&range(o)))
            || scratch.iter().any(|o| self.scratch_clash(&range(o), o.size * o.len / plan.threads.max(1)));
        if clash {
            return false;
        }
        let (read_set, write_set) = match team {
            true => (&mut self.team_reads, &mut self.team_writes),
            false => (&mut self.solo_reads, &mut self.solo_writes),
        };
        reads().for_each(|r| read_set.add(r));
        writes.iter().for_each(|o| write_set.add(range(o)));
        for o in scratch.iter().filter(|o| o.bytes() > 0) {
            let r = range(o);
            self.scratch.insert(r.start, (r.end, o.bytes() / plan.threads.max(1)));
        }
        true
    }

    fn in_scratch(&self, r: &Range<usize>) -> bool {
        !r.is_empty() && self.scratch.range(..r.end).next_back().is_some_and(|(_, &(end, _))| end > r.start)
    }

    /// Per-thread scratch clashes with everything but per-thread scratch of the same bytes and the same division.
    fn scratch_clash(&self, r: &Range<usize>, stride: usize) -> bool {
        let touched = [&self.solo_reads, &self.solo_writes, &self.team_reads, &self.team_writes];
        let same = self.scratch.get(&r.start) == Some(&(r.end, stride));
        touched.iter().any(|u| u.overlaps(r)) || (!same && self.in_scratch(r))
    }
}
