//! Sharing: how many threads a program gets, and which units of each instruction each thread gets.
//!
//! Shares follow from shapes and the number of threads. Results do not depend on them, because a unit gives the same
//! result on every thread. By [`modelled_time`], an instruction that is too small to share runs on one thread, and a
//! small one on the first few. Where the model says that it is shorter, instructions of one thread that do not need one
//! another run side by side. A barrier is set only where one thread touches bytes that another writes, or where one
//! thread may stop the step before another writes leaves. [`races`](super::races) proves the tapes by other means.

use super::checker::Checked;
use super::faults::FaultCommits;
use super::instructions::Instructions;
use super::modelled_time;
use super::planned_body::PlannedBody;
use super::tape::{Entry, Tapes};
use std::ops::Range;
use touches::{SinceBarrier, Who};

mod touches;

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
    /// Those that have one unit run side by side.
    AtLeast(u64),
    /// Each thread of an instruction gets at least this many picoseconds. A loop runs on all threads if the model says
    /// that it is shorter that way. What is not divided runs on thread 0.
    Grain(u64),
    /// As `Grain`, but what is not divided runs on the thread that has the least to do.
    Beside(u64),
}

impl Sharing {
    /// Threads among which instruction `i` is divided.
    fn width(self, code: &Instructions, i: usize, threads: usize) -> usize {
        let time = code.time[i].total;
        let worth = match self {
            Sharing::Never => 1,
            Sharing::AtLeast(least) => threads * usize::from(time >= least),
            Sharing::Grain(grain) | Sharing::Beside(grain) => usize::try_from(time / grain.max(1)).unwrap_or(threads),
        };
        worth.min(threads).min(code.units[i]).max(1)
    }

    /// Whether what is not divided runs on the thread that has the least to do.
    fn beside(self) -> bool {
        matches!(self, Sharing::AtLeast(_) | Sharing::Beside(_))
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
        for sharing in GRAINS.into_iter().flat_map(|grain| [Sharing::Grain(grain), Sharing::Beside(grain)]) {
            let tapes = divide_around(plan, threads, sharing, loops.clone());
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
    let (Sharing::Grain(_) | Sharing::Beside(_)) = sharing else {
        let threads = if divides_any(&l.plan, sharing, threads) { threads } else { 1 };
        return divide_tapes(&l.plan, threads, sharing);
    };
    let mut best = divide_tapes(&l.plan, 1, Sharing::Never);
    if threads == 1 {
        return best;
    }
    let loops = divide_loops(&l.plan.code, threads, sharing);
    let mut least = modelled_time::modelled_run(&l.plan, &best);
    for sharing in GRAINS_IN_LOOPS.into_iter().flat_map(|grain| [Sharing::Grain(grain), Sharing::Beside(grain)]) {
        let tapes = divide_around(&l.plan, threads, sharing, loops.clone());
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
    // Since the last barrier: what was touched, and how long each thread has run.
    let (mut open, mut busy) = (SinceBarrier::default(), vec![0u64; threads]);
    for i in 0..code.len() {
        let (instr, width) = (i as u32, sharing.width(code, i, threads));
        let barrier = Entry { instr, barrier: true, from: 0, to: 0 };
        if inner.get(code.body_range(i)).is_some_and(|t| t.iter().any(|t| t.threads() > 1)) {
            // All threads run the loop, with a barrier before it and after each iteration.
            for tape in &mut by_thread {
                tape.extend([barrier, Entry { instr, barrier: false, from: 0, to: 1 }]);
            }
            (open, busy) = (SinceBarrier::default(), vec![0; threads]);
            continue;
        }
        // The tapes of a body are for thread 0.
        let beside = width == 1 && sharing.beside() && !code.has_body(i);
        let first = |busy: &[u64]| match width {
            1 if beside => Who::One((0..threads).min_by_key(|&t| busy[t]).unwrap_or(0)),
            1 => Who::One(0),
            _ => Who::Several,
        };
        let mut who = first(&busy);
        if threads > 1 {
            let mut waits = open.in_the_way(plan, &commits, i, who);
            if let Some(Who::One(t)) = waits.filter(|_| beside) {
                // It may follow on that thread.
                who = Who::One(t);
                waits = open.in_the_way(plan, &commits, i, who);
            }
            if waits.is_some() {
                by_thread.iter_mut().for_each(|tape| tape.push(barrier));
                (open, busy) = (SinceBarrier::default(), vec![0; threads]);
                who = first(&busy);
            }
            open.add(plan, &commits, i, who);
        }
        let runs = match who {
            Who::One(t) => t..t + 1,
            Who::Several => 0..width,
        };
        for (k, t) in runs.enumerate() {
            let r = units_of_thread(code.units[i], width, k);
            busy[t] = busy[t].saturating_add(code.time[i].total / width as u64);
            if !r.is_empty() {
                by_thread[t].push(Entry { instr, barrier: false, from: r.start, to: r.end });
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
