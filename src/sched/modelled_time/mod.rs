//! The modelled time of a step: times of instructions by [`kernels::cost_model`](crate::kernels::cost_model), barriers,
//! and bytes that threads fetch from each other's caches.
//!
//! Invariant: nothing here reads a clock, so equal plans get equal tapes. Used by [`share`](super::share), which
//! chooses tapes by it, and by reports.

use super::checker::Checked;
use super::instructions::Instructions;
use super::planned_body::PlannedBody;
use super::tape::Tapes;
use crate::kernels::abi::Split;
use crate::kernels::cost_model::CostClass;

/// Picoseconds of a barrier of two threads, and of each further thread.
const BARRIER: (u64, u64) = (450_000, 60_000);
/// Picoseconds for a byte in another core's cache: to fetch it, or to invalidate it there.
const FETCH: u64 = 100;

/// The modelled time of an instruction, in picoseconds: see [`kernels::cost_model`](crate::kernels::cost_model).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstrTime {
    /// All units on one thread, `fixed` included.
    pub total: u64,
    /// The part of a call that does not depend on the number of its units.
    pub fixed: u64,
    /// Whether the bytes of its operands count. If not, it reads them in rare cases, or a few rows of them.
    pub by_bytes: bool,
}

impl InstrTime {
    /// The time of a call of class `class` that makes `ops` operations and moves `bytes` bytes.
    pub fn of(class: CostClass, ops: u64, bytes: u64) -> InstrTime {
        InstrTime { total: class.time(ops, bytes), fixed: class.fixed(), by_bytes: class.counts_bytes() }
    }
}

/// Picoseconds of a barrier of `threads` threads.
pub fn modelled_barrier(threads: usize) -> u64 {
    match threads {
        0 | 1 => 0,
        n => BARRIER.0 + BARRIER.1 * (n as u64 - 2),
    }
}

/// Picoseconds of a step of `plan` by `tapes`: the time of the slowest thread between barriers, summed, and the
/// barriers, with those at the start and the end of the step.
pub fn modelled_step(plan: &Checked, tapes: &Tapes) -> u64 {
    let ends = 2 * modelled_barrier(tapes.threads());
    modelled_run(plan, tapes).saturating_add(ends)
}

/// As [`modelled_step`], without start and end: one iteration of a loop.
pub fn modelled_run(plan: &Checked, tapes: &Tapes) -> u64 {
    let (code, threads) = (&plan.code, tapes.threads());
    let (runs, fetched) = if threads > 1 { modelled_fetches(code, tapes) } else { Default::default() };
    let each_barrier = modelled_barrier(threads);
    let mut phases: Vec<u64> = Vec::new();
    for t in 0..threads {
        let (mut phase, mut busy) = (0, 0u64);
        let mut close = |busy: &mut u64, phase: &mut usize| {
            if phases.len() <= *phase {
                phases.push(0);
            }
            phases[*phase] = phases[*phase].max(std::mem::take(busy));
            *phase += 1;
        };
        for e in tapes.thread(t) {
            if e.barrier {
                close(&mut busy, &mut phase);
                continue;
            }
            let i = e.instr as usize;
            let inner = tapes.inner.get(code.body_range(i)).unwrap_or(&[]);
            let bodies = inner.iter().zip(code.bodies_of(i)).map(|(inner, l)| {
                let each = modelled_run(&l.plan, inner).saturating_add(modelled_barrier(inner.threads()));
                each.saturating_mul(l.expected() as u64)
            });
            // One branch of a choice runs: the longer one counts.
            let own = bodies.max().unwrap_or_else(|| modelled_part(code, i, e.to - e.from));
            let fetched = fetched.get(i).map_or(0, |f: &[u64; 2]| f[usize::from(t > runs[i].first)]);
            busy = busy.saturating_add(own).saturating_add(fetched);
        }
        close(&mut busy, &mut phase);
    }
    let barriers = phases.len().saturating_sub(1) as u64;
    phases.into_iter().fold(barriers.saturating_mul(each_barrier), u64::saturating_add)
}

/// Picoseconds of instruction `i` on one thread.
pub fn modelled_alone(code: &Instructions, i: usize) -> u64 {
    let body = |l: &PlannedBody| {
        let inner = &l.plan.code;
        let each = (0..inner.len()).map(|j| modelled_alone(inner, j)).fold(0, u64::saturating_add);
        each.saturating_mul(l.expected() as u64)
    };
    // One branch of a choice runs: the longer one counts.
    code.bodies_of(i).iter().map(|l| body(l)).max().unwrap_or(code.time[i].total)
}

/// Picoseconds of `units` units of instruction `i`.
fn modelled_part(code: &Instructions, i: usize, units: usize) -> u64 {
    let InstrTime { total, fixed, .. } = code.time[i];
    let each = (total - fixed) as f64 / code.units[i].max(1) as f64;
    fixed + (each * units as f64) as u64
}

/// The threads of an instruction: `width` from `first` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Threads {
    first: usize,
    width: usize,
}

/// In which caches the bytes of a buffer are.
#[derive(Clone, Copy, Default)]
struct Home {
    /// The threads that wrote it, a part each; none if it was written before the step.
    by: Threads,
    /// True if other threads have read it since, so that a writer must invalidate their copies.
    spread: bool,
    /// True if the parts are columns, which match no part of a reader.
    across: bool,
}

/// The threads of each instruction, and picoseconds that the first of them, and each other one, spends on bytes in
/// other caches. Thread t is assumed to touch the t-th part of each operand unless units read all of it, so the same
/// threads find their own parts in their own caches.
fn modelled_fetches(code: &Instructions, tapes: &Tapes) -> (Vec<Threads>, Vec<[u64; 2]>) {
    let mut runs = vec![Threads::default(); code.len()];
    for t in (0..tapes.threads()).rev() {
        for e in tapes.thread(t).iter().filter(|e| !e.barrier) {
            let of = &mut runs[e.instr as usize];
            *of = Threads { first: t, width: of.width + 1 };
        }
    }
    let mut home = vec![Home::default(); code.bytes.len()];
    let mut all = vec![[0; 2]; code.len()];
    // Two rounds: leaves start in the caches where the previous step left them.
    for _ in 0..2 {
        for i in 0..code.len() {
            let by = Threads { width: runs[i].width.max(1), ..runs[i] };
            all[i] = modelled_fetch(code, i, by, &mut home).map(|bytes| bytes.saturating_mul(FETCH));
        }
        for u in &code.updates {
            home[u.leaf as usize] = home[u.from.buf as usize];
        }
    }
    (runs, all)
}

/// Bytes that instruction `i` fetches or invalidates on the threads `by`: the first thread, and each other thread.
fn modelled_fetch(code: &Instructions, i: usize, by: Threads, home: &mut [Home]) -> [u64; 2] {
    let w = by.width;
    let mut sum = [0u64; 2];
    let mut add = |[first, others]: [u64; 2]| sum = [sum[0].saturating_add(first), sum[1].saturating_add(others)];
    for (k, o) in code.reads_of(i).iter().enumerate().filter(|_| code.time[i].by_bytes) {
        let (bytes, h) = (o.bytes() as u64, &mut home[o.buf as usize]);
        // Divides only where there are two writers or more.
        let (writers, readers) = (h.by.width as u64, w as u64);
        let whole = w > 1 && k < 64 && code.whole[i] >> k & 1 == 1;
        let part = if whole { bytes } else { bytes / readers };
        match h.by.width {
            // All threads have copies.
            _ if h.spread && whole => {}
            // Written before the step: no thread has it.
            0 => {}
            // One thread has all of it: the others fetch what they read.
            1 if h.by.first == by.first => add([0, if w > 1 { part } else { 0 }]),
            1 => add([part; 2]),
            // Each thread has the part that it wrote and fetches the rest.
            _ if whole => add([bytes - bytes / writers; 2]),
            // Each thread reads the part that it wrote.
            n if n == w && !h.across => {}
            // One thread fetches the parts of the other writers.
            _ if w == 1 => add([bytes - bytes / writers; 2]),
            // The parts of writers and readers differ: each thread fetches its part.
            _ => add([part; 2]),
        }
        h.spread |= whole;
    }
    for o in code.writes_of(i).iter().filter(|o| !matches!(o.split, Split::PerThread(_))) {
        let across = w > 1 && matches!(o.split, Split::Columns { .. });
        home[o.buf as usize] = Home { by, spread: false, across };
    }
    for &(r, _) in code.pairs_of(i) {
        // The operand of an in-place write may have copies in other caches.
        let Some(o) = code.reads_of(i).get(usize::from(r)) else { continue };
        if home[o.buf as usize].spread {
            add([o.bytes() as u64 / w as u64; 2]);
        }
    }
    sum
}

#[cfg(test)]
mod tests;
