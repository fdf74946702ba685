//! What threads have touched since the last barrier, and whether an instruction may follow without another.

use crate::kernels::abi::Split;
use crate::sched::faults::FaultCommits;
use crate::sched::instructions::Operand;
use crate::sched::plan::Plan;
use std::collections::BTreeMap;
use std::ops::Range;

/// The thread that runs an instruction, or several that divide its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    One(usize),
    Several,
}

/// Ranges of bytes that are disjoint, and who touched each: start to (end, who).
#[derive(Default)]
struct ByWhom(BTreeMap<usize, (usize, Who)>);

impl ByWhom {
    /// Ranges that overlap become one; if they are of different threads, it is of several.
    fn add(&mut self, mut r: Range<usize>, mut who: Who) {
        if r.is_empty() {
            return;
        }
        while let Some((&start, &(end, other))) = self.0.range(..r.end).next_back()
            && end > r.start
        {
            r = r.start.min(start)..r.end.max(end);
            who = if other == who { who } else { Who::Several };
            self.0.remove(&start);
        }
        self.0.insert(r.start, (r.end, who));
    }

    /// Those who touched some of these bytes.
    fn of(&self, r: &Range<usize>) -> impl Iterator<Item = Who> + use<'_> {
        let (start, some) = (r.start, if r.is_empty() { 0 } else { usize::MAX });
        let before = self.0.range(..r.end).rev().take_while(move |(_, (end, _))| *end > start);
        before.take(some).map(|(_, &(_, who))| who)
    }
}

/// What was touched since the last barrier.
#[derive(Default)]
pub(super) struct SinceBarrier {
    reads: ByWhom,
    writes: ByWhom,
    /// Per-thread scratch, by offset: its end and the bytes of one thread. Thread `t` touches part `t` of it in every
    /// instruction.
    scratch: BTreeMap<usize, (usize, usize)>,
    /// Who ran instructions that may stop the step.
    stops: Option<Who>,
}

impl SinceBarrier {
    /// Who is to end before `who` may begin instruction `i`: who touches its bytes, or may stop the step before it
    /// writes leaves. Threads that divide an instruction wait for one another, too, as their parts differ.
    pub(super) fn in_the_way(&self, plan: &Plan, commits: &FaultCommits, i: usize, who: Who) -> Option<Who> {
        let stops = self.stops.filter(|_| commits.writes.get(i) == Some(&true));
        let of_bytes = self.touching(plan, i);
        stops.into_iter().chain(of_bytes).find(|&other| other == Who::Several || other != who)
    }

    /// Those who touch bytes of instruction `i`, unless both read.
    fn touching(&self, plan: &Plan, i: usize) -> impl Iterator<Item = Who> {
        let code = &plan.code;
        let reads = code.reads_of(i).iter().flat_map(move |o| {
            let r = plan.arena_range(o);
            self.writes.of(&r).chain(self.in_scratch(&r).then_some(Who::Several))
        });
        let writes = code.writes_of(i).iter().flat_map(move |o| {
            let r = plan.arena_range(o);
            let scratch = match o.split {
                Split::PerThread(_) => self.clashes_in_scratch(&r, part_of_scratch(plan, o)),
                _ => self.in_scratch(&r),
            };
            self.writes.of(&r).chain(self.reads.of(&r)).chain(scratch.then_some(Who::Several))
        });
        reads.chain(writes)
    }

    /// Adds instruction `i`, which `who` runs.
    pub(super) fn add(&mut self, plan: &Plan, commits: &FaultCommits, i: usize, who: Who) {
        let code = &plan.code;
        if commits.stops.get(i) == Some(&true) {
            self.stops = Some(if self.stops.is_none_or(|other| other == who) { who } else { Who::Several });
        }
        code.reads_of(i).iter().for_each(|o| self.reads.add(plan.arena_range(o), who));
        for o in code.writes_of(i) {
            let r = plan.arena_range(o);
            match o.split {
                Split::PerThread(_) if r.is_empty() => {}
                Split::PerThread(_) => drop(self.scratch.insert(r.start, (r.end, part_of_scratch(plan, o)))),
                _ => self.writes.add(r, who),
            }
        }
    }

    fn in_scratch(&self, r: &Range<usize>) -> bool {
        !r.is_empty() && self.scratch.range(..r.end).next_back().is_some_and(|(_, &(end, _))| end > r.start)
    }

    /// Per-thread scratch clashes with everything but per-thread scratch of the same bytes and the same division.
    fn clashes_in_scratch(&self, r: &Range<usize>, part: usize) -> bool {
        let same = self.scratch.get(&r.start) == Some(&(r.end, part));
        [&self.reads, &self.writes].iter().any(|t| t.of(r).next().is_some()) || (!same && self.in_scratch(r))
    }
}

/// Bytes of one thread in per-thread scratch.
fn part_of_scratch(plan: &Plan, o: &Operand) -> usize {
    o.bytes() / plan.threads.max(1)
}
