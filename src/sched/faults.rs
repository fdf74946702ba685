//! Where a step may stop, and from where on it may change what persists.
//!
//! Kernels that follow indices look through them and stop the step at a bad one. Updates are in place, so a step that
//! stops after the first of them would leave some leaves of this step and some of the last. Hence the invariant, which
//! [`check`](super::check) proves: no instruction that may stop a step comes after one that writes a leaf's bytes. What
//! looks through the same indices for the same bound as an instruction before it cannot stop a step any more: the
//! derivative of a look-up does not keep updates waiting.
//!
//! The code of a loop's body has no such order of its own: its looks are those of the loop's instruction.

use super::check::Plan;
use super::code::{BufKind, Code};
use super::loops::{Extern, Loop, Outer};
use crate::nodes::ir::call::Looks;
use hashbrown::HashSet;
use std::ops::Range;

/// Stands for indices that nothing else can be seen to look through.
pub const UNSEEN: u32 = u32::MAX;

/// Indices that an instruction looks through: `bytes` bytes of buffer `buf` from `off` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// The buffer, or [`UNSEEN`].
    pub buf: u32,
    /// First byte in it.
    pub off: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// Which indices are good, and how the kernel looks.
    pub looks: Looks,
}

impl Check {
    /// What two checks share where the second cannot fail after the first; `None` if it always can.
    pub fn key(&self) -> Option<(u32, usize, usize, u64, Option<i64>)> {
        let below = self.looks.below.filter(|_| self.buf != UNSEEN)?;
        Some((self.buf, self.off, self.bytes, below, self.looks.or))
    }
}

/// The checks that were made so far.
#[derive(Default)]
struct Made(HashSet<(u32, usize, usize, u64, Option<i64>)>);

impl Made {
    /// Whether instruction `i` may stop the step, and whether it may so only before it writes anything.
    fn stops(&mut self, code: &Code, i: usize) -> Option<bool> {
        let mut stops = None;
        for c in code.checks_of(i) {
            if c.key().is_none_or(|key| self.0.insert(key)) {
                stops = Some(stops.unwrap_or(true) && c.looks.early);
            }
        }
        stops
    }
}

/// If the instructions run in the order `seq`: the place of the first that may write a leaf's bytes.
pub fn settled(code: &Code, seq: &[u32]) -> u32 {
    if code.iterated || code.checks.is_empty() {
        return 0;
    }
    let (mut made, mut settled) = (Made::default(), 0);
    for (at, &i) in seq.iter().enumerate() {
        if let Some(early) = made.stops(code, i as usize) {
            settled = at as u32 + u32::from(!early);
        }
    }
    settled
}

/// The groups that may stop a step, if groups run in the order in which they stand.
pub fn stopping(code: &Code) -> Vec<bool> {
    let mut made = Made::default();
    let mut stops = |i: usize| !code.iterated && made.stops(code, i).is_some();
    // All instructions of a group are asked: each remembers what it looked through.
    (0..code.groups()).map(|g| code.group(g).filter(|&i| stops(i)).count() > 0).collect()
}

/// Which instructions of a plan may stop a step, and which write leaves: for the tapes, which keep threads from doing
/// the latter before all are past the former.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    /// Whether each instruction may stop the step.
    pub stops: Vec<bool>,
    /// Whether each instruction writes bytes of params or states.
    pub writes: Vec<bool>,
}

impl Commits {
    /// Of `plan`.
    pub fn new(plan: &Plan) -> Commits {
        let code = &plan.code;
        if code.iterated {
            return Commits { stops: vec![false; code.len()], writes: vec![false; code.len()] };
        }
        let (mut made, leaves) = (Made::default(), Leaves::new(plan));
        let writes = |i: usize| {
            let range = |b: usize, off: usize, bytes: usize| plan.offset[b] + off..plan.offset[b] + off + bytes;
            code.writes_of(i).iter().any(|o| leaves.meet(&range(o.buf as usize, o.off, o.bytes())))
        };
        Commits {
            stops: (0..code.len()).map(|i| made.stops(code, i).is_some()).collect(),
            writes: (0..code.len()).map(writes).collect(),
        }
    }
}

/// The bytes of params and states.
pub struct Leaves(Vec<Range<usize>>);

impl Leaves {
    /// Of `plan`, where they lie apart.
    pub fn new(plan: &Plan) -> Leaves {
        let code = &plan.code;
        let kept = |b: &usize| matches!(code.kind[*b], BufKind::Param | BufKind::State) && code.bytes[*b] > 0;
        let extent = |b: usize| plan.offset[b]..plan.offset[b].saturating_add(code.bytes[b]);
        let mut all: Vec<Range<usize>> =
            (0..code.bytes.len().min(plan.offset.len())).filter(kept).map(extent).collect();
        all.sort_by_key(|r| r.start);
        Leaves(all)
    }

    /// Whether `r` holds any of them.
    pub fn meet(&self, r: &Range<usize>) -> bool {
        let before = self.0.partition_point(|l| l.start < r.end);
        !r.is_empty() && before.checked_sub(1).is_some_and(|k| self.0[k].end > r.start)
    }
}

impl Loop {
    /// What an instruction that runs this loop on `reads` looks through: what its body does, in all iterations. A slice
    /// by iteration of an operand is all of the operand.
    pub fn checks(&self, reads: &[super::code::Operand]) -> Vec<Check> {
        let code = &self.plan.code;
        let outer = |e: &Extern| match e.outer {
            Outer::Read(k) => reads.get(k).map(|o| (o, e.sliced)),
            Outer::Write(_) => None,
        };
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for c in &code.checks {
            let operand = self.externs.iter().find(|e| e.buf == c.buf).and_then(outer);
            let looks = Looks { early: false, ..c.looks };
            let check = match operand {
                Some((o, false)) => Check { buf: o.buf, off: o.off + c.off, bytes: c.bytes, looks },
                Some((o, true)) if c.bytes == code.bytes[c.buf as usize] => {
                    Check { buf: o.buf, off: o.off, bytes: o.bytes(), looks }
                }
                _ => Check { buf: UNSEEN, off: 0, bytes: 0, looks },
            };
            if seen.insert(check) {
                all.push(check);
            }
        }
        all
    }
}
