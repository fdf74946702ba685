//! The proof that tapes are free of races: every unit runs once, and threads that touch the same bytes have a barrier
//! in between unless all of them read.
//!
//! Independent of how the tapes were made ([`share`](super::share)): it looks at the bytes of each thread.
//! [`Exec`](super::exec::Exec) rests on it.

use super::checker::Checked;
use super::faults::FaultCommits;
use super::instructions::{Instructions, OUT_OF_PLACE, Operand};
use super::plan::Plan;
use super::tape::{Entry, Tapes};
use crate::kernels::abi::Split;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that a thread touches between two barriers.
struct Access {
    /// Number of barriers before it.
    phase: usize,
    bytes: Range<usize>,
    /// The thread, or a pseudo-thread: see [`race_accesses`].
    thread: usize,
    write: bool,
}

/// Units of an instruction that a thread runs between two barriers.
struct Run {
    /// Number of barriers before it.
    phase: usize,
    instr: usize,
    thread: usize,
}

/// All threads run both branches of a choice, or one thread runs either.
fn check_branch_threads(code: &Instructions, tapes: &Tapes) -> Result<(), String> {
    let mixed = |i: &usize| {
        let one = code.body_range(*i).any(|b| tapes.inner.get(b).is_some_and(|t| t.threads() != tapes.threads()));
        tapes.team_runs(code.body_range(*i)) && one
    };
    match (0..code.len()).find(mixed) {
        Some(i) => Err(format!("the branches of instruction {i} are for different numbers of threads")),
        None => Ok(()),
    }
}

/// Every entry names units of an instruction of `code`.
fn check_entries(code: &Instructions, tapes: &Tapes) -> Result<(), String> {
    tapes.entries.iter().try_for_each(|e| match code.units.get(e.instr as usize) {
        None => Err("the tapes are of other instructions".into()),
        Some(&units) if !e.barrier && (e.from > e.to || e.to > units) => Err(not_run_once(e.instr as usize)),
        Some(_) => Ok(()),
    })
}

/// What is wrong where threads leave a unit of instruction `i` out, or run it twice.
fn not_run_once(i: usize) -> String {
    format!("the units of instruction {i} are not run once each")
}

/// Proves that `tapes` run every unit of every instruction once, and that no two threads touch a byte between two
/// barriers unless both read it. The error names the thread, the instruction or the byte.
///
/// A loop that one thread runs counts as an access to all its operands. A loop that all threads run stands between
/// barriers, and a barrier after each iteration keeps iterations apart, so it is enough that the tapes of one iteration
/// are free of races. They are proved in the body's own address space, where distinct operands have distinct bytes.
pub fn race_free(plan: &Checked, tapes: &Tapes) -> Result<(), String> {
    let code = &plan.code;
    let threads = tapes.threads();
    if threads > plan.threads {
        return Err(format!("{threads} threads; the plan has scratch for {}", plan.threads));
    }
    check_entries(code, tapes)?;
    let barriers_of = |t: usize| tapes.thread(t).iter().filter(|e| e.barrier).map(|e| e.instr).collect::<Vec<_>>();
    let barriers = barriers_of(0);
    if tapes.inner.len() != code.loops.len() || tapes.inner.iter().any(|i| ![1, threads].contains(&i.threads())) {
        return Err("the tapes are of other loops".into());
    }
    for (l, inner) in code.loops.iter().zip(&tapes.inner) {
        race_free(&l.plan, inner)?;
    }
    check_branch_threads(code, tapes)?;
    let mut together = vec![0; code.len()];
    let mut runs: Vec<Vec<(usize, usize)>> = vec![Vec::new(); code.len()];
    let commits = FaultCommits::new(plan);
    // Runs that may stop the step, and runs that write leaves.
    let (mut stops, mut writes): (Vec<Run>, Vec<Run>) = (Vec::new(), Vec::new());
    let mut touched: Vec<Access> = Vec::new();
    for t in 0..threads {
        if barriers_of(t) != barriers {
            return Err(format!("thread {t} has other barriers than thread 0"));
        }
        let (mut phase, mut passed, mut last) = (0, 0, None);
        let mut before = None;
        for e in tapes.thread(t) {
            let previous = before.replace(e);
            if e.barrier {
                (phase, passed) = (phase + 1, passed + 1);
                continue;
            }
            let early = barriers.get(passed).is_some_and(|&m| m <= e.instr);
            let late = barriers[..passed].last().is_some_and(|&m| m > e.instr);
            if last.is_some_and(|l| l >= e.instr) || early || late {
                return Err(format!("thread {t} runs instruction {} out of order", e.instr));
            }
            last = Some(e.instr);
            let i = e.instr as usize;
            if tapes.team_runs(code.body_range(i)) {
                if previous.is_none_or(|p| !p.barrier || p.instr != e.instr) {
                    return Err(format!("thread {t} enters loop {i} without a barrier"));
                }
                // All threads must run it; together they count as one run of its one unit.
                runs[i].extend((t == 0).then_some((0, 1)));
                together[i] += 1;
                phase += 1;
                continue;
            }
            if code.has_body(i) && t != 0 {
                return Err(format!("thread {t} runs loop {i}, whose tape is for thread 0"));
            }
            runs[i].push((e.from, e.to));
            stops.extend(commits.stops[i].then_some(Run { phase, instr: i, thread: t }));
            writes.extend(commits.writes[i].then_some(Run { phase, instr: i, thread: t }));
            race_accesses(plan, e, t, &mut |bytes, thread, write| touched.push(Access { phase, bytes, thread, write }));
        }
    }
    for (i, mut r) in runs.into_iter().enumerate() {
        r.sort_unstable();
        let end = r.iter().try_fold(0, |at, &(from, to)| (from == at && to > from).then_some(to));
        if end != Some(code.units[i]) || ![0, threads].contains(&together[i]) {
            return Err(not_run_once(i));
        }
    }
    race_conflicts(touched)?;
    race_of_stops(&stops, &writes)
}

/// An error if a thread writes leaves while another thread may still stop the step. One instruction may do both: its
/// units check their indices before they write.
fn race_of_stops(stops: &[Run], writes: &[Run]) -> Result<(), String> {
    let mut of_phase: BTreeMap<usize, Vec<&Run>> = BTreeMap::new();
    stops.iter().for_each(|s| of_phase.entry(s.phase).or_default().push(s));
    for w in writes {
        let mut others = of_phase.get(&w.phase).into_iter().flatten();
        if let Some(s) = others.find(|s| s.thread != w.thread && s.instr != w.instr) {
            return Err(format!(
                "thread {} writes leaves by {} while thread {} may stop the step by {}",
                w.thread, w.instr, s.thread, s.instr
            ));
        }
    }
    Ok(())
}

/// Calls `touch` with the bytes that thread `t` touches by entry `e`, the thread that they are attributed to, and true
/// if they are written.
///
/// A share of a matrix's columns counts as the whole matrix, attributed to a pseudo-thread that represents all threads
/// sharing it. Their columns are disjoint, as their units are; every other access must keep away from the whole matrix,
/// even one by the same threads in another instruction.
fn race_accesses(plan: &Plan, e: &Entry, t: usize, touch: &mut dyn FnMut(Range<usize>, usize, bool)) {
    let (code, i) = (&plan.code, e.instr as usize);
    let byte = |o: &Operand, r: Range<usize>| {
        let base = plan.offset[o.buf as usize] + o.off;
        base + r.start.min(o.len) * o.size..base + r.end.min(o.len) * o.size
    };
    for (o, r) in code.reads_of(i).iter().zip(code.read_range(i)) {
        if plan.inplace[r] == OUT_OF_PLACE {
            touch(byte(o, 0..o.len), t, false);
        }
    }
    for o in code.writes_of(i) {
        let (r, thread) = match o.split {
            Split::Whole => (0..o.len, t),
            Split::PerUnit(n) => (e.from * n..e.to * n, t),
            Split::PerThread(n) => (t * n..(t + 1) * n, t),
            Split::Columns { .. } if e.to - e.from == code.units[i] => (0..o.len, t),
            Split::Columns { .. } => (0..o.len, usize::MAX - 1 - i),
        };
        touch(byte(o, r), thread, true);
    }
}

/// An error if two threads touch a byte in one phase and one of them writes it.
fn race_conflicts(mut touched: Vec<Access>) -> Result<(), String> {
    touched.retain(|a| !a.bytes.is_empty());
    touched.sort_by_key(|a| (a.phase, a.bytes.start));
    // For each phase, a sweep over rising starts. For reads (0) and for writes (1) it keeps the two farthest ends of
    // different threads, as (end, thread).
    let mut far = [[(0usize, usize::MAX); 2]; 2];
    let mut phase = 0;
    for Access { phase: p, bytes: r, thread: t, write } in touched {
        if p != phase {
            (phase, far) = (p, [[(0, usize::MAX); 2]; 2]);
        }
        let overlaps = |ends: &[(usize, usize); 2]| ends.iter().any(|&(end, u)| u != t && end > r.start);
        if overlaps(&far[1]) || (write && overlaps(&far[0])) {
            return Err(format!("two threads touch byte {} without a barrier between", r.start));
        }
        let ends = &mut far[usize::from(write)];
        match ends.iter().position(|e| e.1 == t) {
            Some(k) => ends[k].0 = ends[k].0.max(r.end),
            None => {
                let k = usize::from(ends[0].0 > ends[1].0);
                if r.end > ends[k].0 {
                    ends[k] = (r.end, t);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_conflict_where_one_writes() {
        let a = |phase, bytes, thread, write| Access { phase, bytes, thread, write };
        assert!(race_conflicts(vec![a(0, 0..64, 0, false), a(0, 0..64, 1, false)]).is_ok());
        assert!(race_conflicts(vec![a(0, 0..64, 0, true), a(0, 32..33, 1, false)]).is_err());
        assert!(race_conflicts(vec![a(0, 0..64, 0, false), a(0, 10..20, 0, false), a(0, 32..33, 1, true)]).is_err());
        assert!(race_conflicts(vec![a(0, 0..64, 0, true), a(1, 0..64, 1, true), a(1, 64..65, 0, true)]).is_ok());
        assert!(race_conflicts(vec![a(0, 0..64, 0, true), a(0, 0..8, 0, false), a(0, 64..70, 1, true)]).is_ok());
    }
}
