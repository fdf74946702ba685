//! Faults: which instructions may stop a step, and which instruction is the first that may change a leaf.
//!
//! A kernel that reads indices checks them, and stops the step at a bad one. A kernel that solves equations stops the
//! step at a singular matrix. Updates are in place, so a step that stopped after the first update would leave some
//! leaves updated and others not. Hence the invariant that [`checker`](super::checker) proves: no instruction that may
//! stop a step comes after one that writes bytes of a param or a state. An instruction that checks the same indices
//! against the same bound as an earlier one cannot stop the step any more, so the derivative of a look-up does not
//! delay updates.
//!
//! In the body of a loop the rule does not apply. There, an instruction that may stop makes the loop's instruction one
//! that may stop.

use super::instructions::{BufKind, Instructions};
use super::plan::Plan;
use crate::nodes::ir::call::Looks;
use hashbrown::HashSet;
use std::ops::Range;

/// [`FaultCheck::buf`] of indices inside a loop's body, which no other check can be compared with.
pub const UNSEEN: u32 = u32::MAX;

/// Indices that an instruction checks: `bytes` bytes of buffer `buf` from byte `off` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultCheck {
    /// The buffer, or [`UNSEEN`].
    pub buf: u32,
    /// Byte offset in the buffer.
    pub off: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// Which indices are good, and when the kernel checks them.
    pub looks: Looks,
}

/// The identity of a check: after a check passed, another one of equal key cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CheckKey {
    buf: u32,
    off: usize,
    bytes: usize,
    below: u64,
    or: Option<i64>,
}

impl FaultCheck {
    /// The key; `None` for a check that may fail whatever passed before.
    fn key(&self) -> Option<CheckKey> {
        let below = self.looks.below.filter(|_| self.buf != UNSEEN)?;
        Some(CheckKey { buf: self.buf, off: self.off, bytes: self.bytes, below, or: self.looks.or })
    }
}

/// The checks that earlier instructions made.
#[derive(Default)]
struct FaultHistory(HashSet<CheckKey>);

impl FaultHistory {
    /// `None` if instruction `i` cannot stop the step; else true if it can only before it writes anything. Adds its
    /// checks.
    fn stops(&mut self, code: &Instructions, i: usize) -> Option<bool> {
        let mut stops = None;
        for c in code.checks_of(i) {
            if c.key().is_none_or(|key| self.0.insert(key)) {
                stops = Some(stops.unwrap_or(true) && c.looks.early);
            }
        }
        stops
    }
}

/// The first position of `seq` from which on leaves may be written, if the instructions run in that order.
pub fn first_fault_free(code: &Instructions, seq: &[u32]) -> u32 {
    if code.iterated || code.checks.is_empty() {
        return 0;
    }
    let (mut made, mut settled) = (FaultHistory::default(), 0);
    for (at, &i) in seq.iter().enumerate() {
        if let Some(early) = made.stops(code, i as usize) {
            settled = at as u32 + u32::from(!early);
        }
    }
    settled
}

/// For each group, true if it may stop a step when groups run in program order.
pub fn faulting_groups(code: &Instructions) -> Vec<bool> {
    let mut made = FaultHistory::default();
    let mut stops = |i: usize| !code.iterated && made.stops(code, i).is_some();
    // `count` rather than `any`: the checks of every instruction must be added.
    (0..code.groups()).map(|g| code.group(g).filter(|&i| stops(i)).count() > 0).collect()
}

/// Which instructions of a plan may stop a step, and which write leaves. Tapes set barriers so that no thread writes a
/// leaf while another may still stop the step.
#[derive(Clone, Debug, Default)]
pub struct FaultCommits {
    /// True for instructions that may stop the step.
    pub stops: Vec<bool>,
    /// True for instructions that write bytes of params or states.
    pub writes: Vec<bool>,
}

impl FaultCommits {
    /// The flags of `plan`'s instructions.
    pub fn new(plan: &Plan) -> FaultCommits {
        let code = &plan.code;
        if code.iterated {
            return FaultCommits { stops: vec![false; code.len()], writes: vec![false; code.len()] };
        }
        let (mut made, leaves) = (FaultHistory::default(), FaultLeaves::new(plan));
        let writes = |i: usize| code.writes_of(i).iter().any(|o| leaves.overlap(&plan.arena_range(o)));
        FaultCommits {
            stops: (0..code.len()).map(|i| made.stops(code, i).is_some()).collect(),
            writes: (0..code.len()).map(writes).collect(),
        }
    }
}

/// The bytes of params and states, as ranges in the arena by rising start.
pub struct FaultLeaves(Vec<Range<usize>>);

impl FaultLeaves {
    /// Of `plan`, whose params and states must not overlap.
    pub fn new(plan: &Plan) -> FaultLeaves {
        let code = &plan.code;
        let kept = |b: &usize| matches!(code.kind[*b], BufKind::Param | BufKind::State) && code.bytes[*b] > 0;
        let extent = |b: usize| plan.offset[b]..plan.offset[b].saturating_add(code.bytes[b]);
        let mut all: Vec<Range<usize>> = (0..code.bytes.len()).filter(kept).map(extent).collect();
        all.sort_by_key(|r| r.start);
        FaultLeaves(all)
    }

    /// True if `r` overlaps any of them.
    pub fn overlap(&self, r: &Range<usize>) -> bool {
        let before = self.0.partition_point(|l| l.start < r.end);
        !r.is_empty() && before.checked_sub(1).is_some_and(|k| self.0[k].end > r.start)
    }
}
