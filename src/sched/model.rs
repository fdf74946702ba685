//! How long a step takes on some threads, by [`kernels::work`](crate::kernels::work)'s table, and how many threads a
//! program is worth.
//!
//! Invariant: equal plans give equal tapes; nothing here measures. Results do not depend on what is chosen. Made for
//! [`tape`](super::tape), which divides, and for reports.

use super::check::Checked;
use super::code::Code;
use super::tape::{Rule, Tapes, tapes_by};

/// Picoseconds of a meeting of two threads, and what each thread more adds.
const MEET: (u64, u64) = (450_000, 60_000);
/// Picoseconds of a byte that lies in another core's cache: it is fetched, or taken away from there.
const FETCH: u64 = 80;
/// Numbers of threads that are tried, beside the most that there may be.
const LADDER: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128];
/// Picoseconds of work that a thread must get of an instruction: each is tried. The last shares nothing but loops.
const GRAINS: [u64; 3] = [1_000_000, 4_000_000, 16_000_000];

/// Picoseconds of a meeting of `lanes` threads.
pub fn meeting(lanes: usize) -> u64 {
    match lanes {
        0 | 1 => 0,
        n => MEET.0 + MEET.1 * (n as u64 - 2),
    }
}

/// The tapes of `plan` for the number of threads, of at most as many as it was planned for, with which a step is
/// shortest; the fewest of equals. What is modelled on one thread needs no meetings.
pub fn best(plan: &Checked) -> Tapes {
    let mut best = tapes_by(plan, 1, Rule::Alone);
    let mut least = step(plan, &best);
    // What does not gain with two threads does not with more: so much for programs that are small.
    let all = LADDER.into_iter().filter(|&n| n > 1 && n < plan.lanes).chain((plan.lanes > 1).then_some(plan.lanes));
    for lanes in all {
        for grain in GRAINS {
            let tapes = tapes_by(plan, lanes, Rule::Worth(grain));
            let time = step(plan, &tapes);
            if time < least {
                (best, least) = (tapes, time);
            }
        }
    }
    best
}

/// The best tapes for exactly `lanes` threads.
pub fn best_on(plan: &Checked, lanes: usize) -> Tapes {
    let rules = GRAINS.map(Rule::Worth);
    let all = rules.into_iter().filter(|_| lanes > 1).map(|r| tapes_by(plan, lanes, r));
    let best = all.min_by_key(|t| step(plan, t));
    best.unwrap_or_else(|| tapes_by(plan, 1, Rule::Alone))
}

/// Picoseconds of a step of `plan` by `tapes`: between two meetings, those of the thread that is last.
pub fn step(plan: &Checked, tapes: &Tapes) -> u64 {
    let ends = 2 * meeting(tapes.lanes());
    run(plan, tapes).saturating_add(ends)
}

/// As [`step`], without its begin and end: an iteration of a loop.
pub fn run(plan: &Checked, tapes: &Tapes) -> u64 {
    let (code, lanes) = (&plan.code, tapes.lanes());
    let fetched = if lanes > 1 { fetches(code, tapes) } else { vec![[0; 2]; code.len()] };
    let met = meeting(lanes);
    let mut phases: Vec<u64> = Vec::new();
    for t in 0..lanes {
        let (mut phase, mut busy) = (0, 0u64);
        let mut close = |busy: &mut u64, phase: &mut usize| {
            if phases.len() <= *phase {
                phases.push(0);
            }
            phases[*phase] = phases[*phase].max(std::mem::take(busy));
            *phase += 1;
        };
        for e in tapes.lane(t) {
            if e.barrier {
                close(&mut busy, &mut phase);
                continue;
            }
            let i = e.instr as usize;
            let inner = tapes.inner.get(code.body[i] as usize);
            let own = match (inner, code.loop_of(i)) {
                (Some(inner), Some(l)) => {
                    let each = run(&l.plan, inner).saturating_add(meeting(inner.lanes()));
                    each.saturating_mul(l.length as u64)
                }
                _ => part(code, i, e.to - e.from),
            };
            busy = busy.saturating_add(own).saturating_add(fetched[i][usize::from(t > 0)]);
        }
        close(&mut busy, &mut phase);
    }
    let meetings = phases.len().saturating_sub(1) as u64;
    phases.into_iter().fold(meetings.saturating_mul(met), u64::saturating_add)
}

/// Picoseconds of `units` of instruction `i`'s units.
fn part(code: &Code, i: usize, units: usize) -> u64 {
    let (time, call) = code.time[i];
    let each = (time - call) as f64 / code.units[i].max(1) as f64;
    call + (each * units as f64) as u64
}

/// For each instruction, what its first thread and each other spend on bytes that others wrote. Equal splits are taken
/// to touch equal parts: what one team wrote, the same team reads where it is.
fn fetches(code: &Code, tapes: &Tapes) -> Vec<[u64; 2]> {
    let mut width = vec![0usize; code.len()];
    for t in 0..tapes.lanes() {
        tapes.lane(t).iter().filter(|e| !e.barrier).for_each(|e| width[e.instr as usize] = t + 1);
    }
    let mut home = vec![0usize; code.bytes.len()];
    let mut all = vec![[0; 2]; code.len()];
    for i in 0..code.len() {
        let w = width[i];
        let wide = |n: usize| n.max(1) as u64;
        for o in code.reads_of(i) {
            let (bytes, h) = (o.bytes() as u64, home[o.buf as usize]);
            let [first, others] = match (h, w) {
                (0, _) => [0, 0],
                (h, w) if h == w => [0, 0],
                // What several wrote, and one reads.
                (h, 1) => [bytes - bytes / wide(h), 0],
                // What one wrote, and several read.
                (1, w) => [0, bytes / wide(w)],
                (_, w) => [bytes / wide(w); 2],
            };
            all[i][0] += first.saturating_mul(FETCH);
            all[i][1] += others.saturating_mul(FETCH);
        }
        code.writes_of(i).iter().for_each(|o| home[o.buf as usize] = w);
    }
    all
}
