//! Tapes: for each thread, the instructions it runs and its share of their units, fixed before the first step.
//!
//! Shares follow from the shape and the number of threads; results do not depend on them, because kernels compute
//! units. An instruction that is too small to share (by [`model`]) runs on thread 0, a small one on the first few.
//! Threads meet only where bytes that one of them touches are touched by another, and where one may stop the step
//! before another writes leaves: [`race_free`] proves that afterwards, in a way of its own.

use super::check::{Checked, Plan};
use super::code::{Code, Operand};
use super::faults::Commits;
use super::loops::Loop;
use super::model;
use crate::kernels::abi::Split;
use std::collections::BTreeMap;
use std::ops::Range;

/// One thing for a thread to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The instruction.
    pub instr: u32,
    /// Whether this is a barrier of all threads before the instruction, and not the instruction.
    pub barrier: bool,
    /// First unit.
    pub from: usize,
    /// One past the last unit.
    pub to: usize,
}

/// The tapes of all threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tapes {
    /// Entries of thread `t`: `entries[at[t]..at[t + 1]]`.
    pub(super) at: Vec<u32>,
    /// Entries, by thread.
    pub(super) entries: Vec<Entry>,
    /// The tapes of one iteration of each loop: for all threads, which then meet after each iteration, or for one.
    pub(super) inner: Vec<Tapes>,
}

impl Tapes {
    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.at.len() - 1
    }

    /// What thread `t` does.
    #[inline]
    pub fn thread(&self, t: usize) -> &[Entry] {
        &self.entries[self.at[t] as usize..self.at[t + 1] as usize]
    }
}

/// Which instructions are divided among how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// None.
    Alone,
    /// Those that take this many picoseconds on one thread, among all; and loops around such.
    Share(u64),
    /// So that each thread gets this many picoseconds; loops if a step is shorter so.
    Worth(u64),
}

impl Rule {
    /// Threads among which instruction `i` is divided.
    fn width(self, code: &Code, i: usize, threads: usize) -> usize {
        let time = code.time[i].0;
        let worth = match self {
            Rule::Alone => 1,
            Rule::Share(share) => threads * usize::from(time >= share),
            Rule::Worth(grain) => usize::try_from(time / grain.max(1)).unwrap_or(threads),
        };
        worth.min(threads).min(code.units[i]).max(1)
    }
}

/// The units of thread `t` of `threads`: contiguous, and equal to within one.
fn portion(units: usize, threads: usize, t: usize) -> Range<usize> {
    let (each, more) = (units / threads, units % threads);
    let start = t * each + t.min(more);
    start..start + each + usize::from(t < more)
}

/// The tapes of `plan` by the model of times: for as many threads as make a step shortest. One tape if no instruction
/// is worth sharing: then no thread is ever woken.
pub fn tapes(plan: &Checked) -> Tapes {
    model::best(plan)
}

/// Tapes that share the instructions that take at least `share` picoseconds among all threads.
pub fn tapes_sharing(plan: &Checked, share: u64) -> Tapes {
    let threads = if shares(plan, Rule::Share(share), plan.threads) { plan.threads } else { 1 };
    tapes_by(plan, threads, Rule::Share(share))
}

/// Whether any instruction of `plan`, or of a loop in it, is divided.
fn shares(plan: &Checked, rule: Rule, threads: usize) -> bool {
    let code = &plan.code;
    (0..code.len()).any(|i| rule.width(code, i, threads) > 1)
        || code.loops.iter().any(|l| shares(&l.plan, rule, threads))
}

/// The tapes of the body of `l`: of all threads if it is worth that.
fn inside(l: &Loop, threads: usize, rule: Rule) -> Tapes {
    let alone = |rule| tapes_by(&l.plan, 1, rule);
    if threads == 1 || !shares(&l.plan, rule, threads) {
        return alone(rule);
    }
    let team = tapes_by(&l.plan, threads, rule);
    let Rule::Worth(_) = rule else { return team };
    let alone = alone(Rule::Alone);
    let sooner = model::run(&l.plan, &team).saturating_add(model::barrier(threads)) < model::run(&l.plan, &alone);
    if sooner { team } else { alone }
}

/// The tapes of `plan` for `threads` threads, of which there are as many as it was planned for or fewer.
pub(super) fn tapes_by(plan: &Checked, threads: usize, rule: Rule) -> Tapes {
    let code = &plan.code;
    let inner: Vec<Tapes> = code.loops.iter().map(|l| inside(l, threads, rule)).collect();
    let mut lane: Vec<Vec<Entry>> = vec![Vec::new(); threads];
    let commits = if threads > 1 { Commits::new(plan) } else { Commits::default() };
    let mut open = Window::default();
    for i in 0..code.len() {
        let (instr, width) = (i as u32, rule.width(code, i, threads));
        let team = width > 1;
        if inner.get(code.body[i] as usize).is_some_and(|t| t.threads() > 1) {
            // All threads run the loop; they meet before it and after each iteration.
            for l in &mut lane {
                l.push(Entry { instr, barrier: true, from: 0, to: 0 });
                l.push(Entry { instr, barrier: false, from: 0, to: 1 });
            }
            open = Window::default();
            continue;
        }
        if threads > 1 && !(open.settles(&commits, i, team) && open.admit(plan, i, team)) {
            lane.iter_mut().for_each(|l| l.push(Entry { instr, barrier: true, from: 0, to: 0 }));
            open = Window::default();
            open.settles(&commits, i, team);
            open.admit(plan, i, team);
        }
        for (t, l) in lane.iter_mut().enumerate() {
            let r = if t < width { portion(code.units[i], width, t) } else { 0..0 };
            if !r.is_empty() {
                l.push(Entry { instr, barrier: false, from: r.start, to: r.end });
            }
        }
    }
    let mut at = vec![0];
    let entries: Vec<Entry> = lane.into_iter().fold(Vec::new(), |mut all, l| {
        all.extend(l);
        at.push(all.len() as u32);
        all
    });
    Tapes { at, entries, inner }
}

/// Bytes, as a union of ranges.
#[derive(Default)]
struct Union(BTreeMap<usize, usize>);

impl Union {
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

    fn meets(&self, r: &Range<usize>) -> bool {
        !r.is_empty() && self.0.range(..r.end).next_back().is_some_and(|(_, &end)| end > r.start)
    }
}

/// What has been touched since the last barrier: by thread 0 alone, and by several.
#[derive(Default)]
struct Window {
    solo_reads: Union,
    solo_writes: Union,
    team_reads: Union,
    team_writes: Union,
    /// Scratch of all threads, by place: thread `t` touches part `t` of it, whichever instruction asks.
    threads: BTreeMap<usize, (usize, usize)>,
    /// Whether thread 0 alone, or several threads, ran what may stop the step.
    solo_stops: bool,
    team_stops: bool,
}

impl Window {
    /// Adds instruction `i`, unless it writes leaves while another thread may be about to stop the step.
    fn settles(&mut self, commits: &Commits, i: usize, team: bool) -> bool {
        if commits.writes[i] && (self.team_stops || (team && self.solo_stops)) {
            return false;
        }
        self.solo_stops |= commits.stops[i] && !team;
        self.team_stops |= commits.stops[i] && team;
        true
    }

    /// Adds instruction `i`, unless it touches what another thread may be touching.
    fn admit(&mut self, plan: &Plan, i: usize, team: bool) -> bool {
        let code = &plan.code;
        let range = |o: &Operand| plan.place[o.buf as usize] + o.off..plan.place[o.buf as usize] + o.off + o.bytes();
        let reads = || code.reads_of(i).iter().map(range);
        let (threads, writes): (Vec<&Operand>, Vec<&Operand>) =
            code.writes_of(i).iter().partition(|o| matches!(o.split, Split::PerThread(_)));
        let read_clash = |r: &Range<usize>| self.team_writes.meets(r) || (team && self.solo_writes.meets(r));
        let write_clash = |r: &Range<usize>| {
            read_clash(r) || self.team_reads.meets(r) || (team && self.solo_reads.meets(r)) || self.in_threads(r)
        };
        let clash = reads().any(|r| read_clash(&r) || self.in_threads(&r))
            || writes.iter().any(|o| write_clash(&range(o)))
            || threads.iter().any(|o| self.thread_clash(&range(o), o.size * o.len / plan.threads.max(1)));
        if clash {
            return false;
        }
        let (read_set, write_set) = match team {
            true => (&mut self.team_reads, &mut self.team_writes),
            false => (&mut self.solo_reads, &mut self.solo_writes),
        };
        reads().for_each(|r| read_set.add(r));
        writes.iter().for_each(|o| write_set.add(range(o)));
        for o in threads.iter().filter(|o| o.bytes() > 0) {
            let r = range(o);
            self.threads.insert(r.start, (r.end, o.bytes() / plan.threads.max(1)));
        }
        true
    }

    fn in_threads(&self, r: &Range<usize>) -> bool {
        !r.is_empty() && self.threads.range(..r.end).next_back().is_some_and(|(_, &(end, _))| end > r.start)
    }

    /// ThreadState scratch clashes with everything but lane scratch of the same place and division.
    fn thread_clash(&self, r: &Range<usize>, stride: usize) -> bool {
        let touched = [&self.solo_reads, &self.solo_writes, &self.team_reads, &self.team_writes];
        let same = self.threads.get(&r.start) == Some(&(r.end, stride));
        touched.iter().any(|u| u.meets(r)) || (!same && self.in_threads(r))
    }
}

/// Proves that `tapes` run every unit of every instruction once, in an order in which no two threads touch a byte
/// between two barriers unless both read it. Independent of how the tapes were made: it looks at each thread's bytes.
///
/// A loop that one thread runs touches its operands. One that all run stands between barriers, and its iterations are
/// kept apart by the barrier after each: so it is enough that the tapes of one iteration are free of races. They are
/// looked at in the body's own space, where distinct operands have distinct places.
pub fn race_free(plan: &Checked, tapes: &Tapes) -> Result<(), String> {
    let code = &plan.code;
    let threads = tapes.threads();
    if threads > plan.threads {
        return Err(format!("{threads} threads; the plan has scratch for {}", plan.threads));
    }
    let barriers_of = |t: usize| tapes.thread(t).iter().filter(|e| e.barrier).map(|e| e.instr).collect::<Vec<_>>();
    let barriers = barriers_of(0);
    if tapes.inner.len() != code.loops.len() || tapes.inner.iter().any(|i| ![1, threads].contains(&i.threads())) {
        return Err("the tapes are of other loops".into());
    }
    for (l, inner) in code.loops.iter().zip(&tapes.inner) {
        race_free(&l.plan, inner)?;
    }
    let mut together = vec![0; code.len()];
    let mut runs: Vec<Vec<(usize, usize)>> = vec![Vec::new(); code.len()];
    let commits = Commits::new(plan);
    // What may stop the step, and what writes leaves, between barriers: (phase, instruction, thread).
    let (mut stops, mut writes) = (Vec::new(), Vec::new());
    // Accesses between barriers: (phase, range, thread, write).
    let mut touched: Vec<(usize, Range<usize>, usize, bool)> = Vec::new();
    for t in 0..threads {
        if barriers_of(t) != barriers {
            return Err(format!("thread {t} meets elsewhere than thread 0"));
        }
        let (mut phase, mut met, mut last) = (0, 0, None);
        let mut before = None;
        for e in tapes.thread(t) {
            let previous = before.replace(e);
            if e.barrier {
                (phase, met) = (phase + 1, met + 1);
                continue;
            }
            let early = barriers.get(met).is_some_and(|&m| m <= e.instr);
            let late = barriers[..met].last().is_some_and(|&m| m > e.instr);
            if last.is_some_and(|l| l >= e.instr) || early || late {
                return Err(format!("thread {t} runs instruction {} out of order", e.instr));
            }
            last = Some(e.instr);
            let i = e.instr as usize;
            if tapes.inner.get(code.body[i] as usize).is_some_and(|inner| inner.threads() > 1) {
                if previous.is_none_or(|p| !p.barrier || p.instr != e.instr) {
                    return Err(format!("thread {t} enters loop {i} without a barrier"));
                }
                // All must run it; together they count as one run of its one unit.
                runs[i].extend((t == 0).then_some((0, 1)));
                together[i] += 1;
                phase += 1;
                continue;
            }
            if code.loop_of(i).is_some() && t != 0 {
                return Err(format!("thread {t} runs loop {i}, whose tape is for thread 0"));
            }
            runs[i].push((e.from, e.to));
            stops.extend(commits.stops[i].then_some((phase, i, t)));
            writes.extend(commits.writes[i].then_some((phase, i, t)));
            accesses(plan, e, t, &mut |r, who, write| touched.push((phase, r, who, write)));
        }
    }
    for (i, mut r) in runs.into_iter().enumerate() {
        r.sort_unstable();
        let end = r.iter().try_fold(0, |at, &(from, to)| (from == at && to > from).then_some(to));
        if end != Some(code.units[i]) || ![0, threads].contains(&together[i]) {
            return Err(format!("the units of instruction {i} are not run once each"));
        }
    }
    conflicts(touched)?;
    atomic(&stops, &writes)
}

/// True if no thread writes leaves while another thread may still stop the step. The units of one instruction that does
/// both look first.
fn atomic(stops: &[(usize, usize, usize)], writes: &[(usize, usize, usize)]) -> Result<(), String> {
    let mut of_phase: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    stops.iter().for_each(|&(phase, i, t)| of_phase.entry(phase).or_default().push((i, t)));
    for &(phase, i, t) in writes {
        let others = of_phase.get(&phase).into_iter().flatten();
        if let Some((k, u)) = others.copied().find(|&(k, u)| u != t && k != i) {
            return Err(format!("thread {t} writes leaves by {i} while thread {u} may stop the step by {k}"));
        }
    }
    Ok(())
}

/// The bytes that thread `t` touches by entry `e`, who touches them, and whether it writes them. Some columns of a
/// matrix are taken for all of it, attributed to a pseudo-thread that represents all threads sharing the matrix: theirs
/// are disjoint, as their units are, and everybody else, themselves by other instructions too, must keep away from all
/// of it.
fn accesses(plan: &Plan, e: &Entry, t: usize, touch: &mut dyn FnMut(Range<usize>, usize, bool)) {
    let (code, i) = (&plan.code, e.instr as usize);
    let byte = |o: &Operand, r: Range<usize>| {
        let base = plan.place[o.buf as usize] + o.off;
        base + r.start.min(o.len) * o.size..base + r.end.min(o.len) * o.size
    };
    for (o, r) in code.reads_of(i).iter().zip(code.read_range(i)) {
        if plan.inplace[r] == super::alias::OUT_OF_PLACE {
            touch(byte(o, 0..o.len), t, false);
        }
    }
    for o in code.writes_of(i) {
        let (r, who) = match o.split {
            Split::Whole => (0..o.len, t),
            Split::PerUnit(n) => (e.from * n..e.to * n, t),
            Split::PerThread(n) => (t * n..(t + 1) * n, t),
            Split::Columns { .. } if e.to - e.from == code.units[i] => (0..o.len, t),
            Split::Columns { .. } => (0..o.len, usize::MAX - 1 - i),
        };
        touch(byte(o, r), who, true);
    }
}

/// Whether two threads touch a byte in one phase, and not both to read it.
fn conflicts(mut touched: Vec<(usize, Range<usize>, usize, bool)>) -> Result<(), String> {
    touched.retain(|a| !a.1.is_empty());
    touched.sort_by_key(|a| (a.0, a.1.start));
    // For each phase, a sweep that remembers, for reads and for writes, the two farthest ends of different threads.
    let mut far = [[(0usize, usize::MAX); 2]; 2];
    let mut phase = 0;
    for (p, r, t, write) in touched {
        if p != phase {
            (phase, far) = (p, [[(0, usize::MAX); 2]; 2]);
        }
        let meets = |ends: &[(usize, usize); 2]| ends.iter().any(|&(end, u)| u != t && end > r.start);
        if meets(&far[1]) || (write && meets(&far[0])) {
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
    fn portions_cover_the_units() {
        for (units, threads) in [(0, 3), (2, 3), (7, 3), (9, 1)] {
            let mut at = 0;
            for t in 0..threads {
                let r = portion(units, threads, t);
                assert_eq!(r.start, at);
                at = r.end;
            }
            assert_eq!(at, units);
        }
    }

    #[test]
    fn unions_meet_what_they_hold() {
        let mut u = Union::default();
        u.add(10..20);
        u.add(30..40);
        assert!(u.meets(&(19..25)) && !u.meets(&(20..30)) && !u.meets(&(15..15)));
        u.add(20..30);
        assert_eq!(u.0.len(), 1);
        u.add(0..50);
        assert!(u.meets(&(0..1)) && u.0.len() == 1);
    }

    #[test]
    fn threads_conflict_where_one_writes() {
        let a = |phase, r, t, write| (phase, r, t, write);
        assert!(conflicts(vec![a(0, 0..64, 0, false), a(0, 0..64, 1, false)]).is_ok());
        assert!(conflicts(vec![a(0, 0..64, 0, true), a(0, 32..33, 1, false)]).is_err());
        assert!(conflicts(vec![a(0, 0..64, 0, false), a(0, 10..20, 0, false), a(0, 32..33, 1, true)]).is_err());
        assert!(conflicts(vec![a(0, 0..64, 0, true), a(1, 0..64, 1, true), a(1, 64..65, 0, true)]).is_ok());
        assert!(conflicts(vec![a(0, 0..64, 0, true), a(0, 0..8, 0, false), a(0, 64..70, 1, true)]).is_ok());
    }
}
