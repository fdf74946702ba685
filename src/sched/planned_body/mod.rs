//! Planned bodies, of loops and of choices: the code of one iteration or of one branch, and how its buffers map to the
//! operands of the instruction that runs it.
//!
//! The body is lowered, ordered, packed and proved once ([`lower`](super::lower)). The loop's operands are *externs* of
//! the body: buffers that exist before the iteration. Carries and stacked results are states with updates. So the rules
//! for updates decide whether the next value of a carry is made in place. The checker proves that at the end carries
//! hold their next values, stacked results are written, and every other extern is unchanged. All other buffers form the
//! workspace, one scratch buffer of the loop's instruction. In the body's address space externs come first and the
//! workspace follows. Linking maps both to the arena; the offsets of slices of stacked operands advance with each
//! iteration.

mod fits;

use super::checker::Checked;
use super::faults::{FaultCheck, UNSEEN};
use super::instructions::{Instructions, Operand};
use crate::nodes::ir::call::Looks;
use crate::nodes::ops::control::scan::UNBOUNDED_GUESS;
use hashbrown::HashSet;
use std::ops::Range;

/// An operand of the loop's instruction, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// A read.
    Read(usize),
    /// A write.
    Write(usize),
}

/// A buffer of the body whose bytes are those of an operand of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extern {
    /// The buffer of the body.
    pub buf: u32,
    /// The operand.
    pub outer: Outer,
    /// True if each iteration has its own slice of the operand; false if it has all of it.
    pub sliced: bool,
    /// True if the operand has one slice more, for what is there before the first iteration. The slice of each
    /// iteration stands next to that of the iteration before.
    pub behind_start: bool,
}

/// What happens if a loop that a flag ends is to go on after its [`PlannedBody::length`] iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagBound {
    /// It goes on. The iterations from the last one on share its timestamps. Nothing is sliced.
    None,
    /// It ends, as a stretch of a longer loop.
    Ends,
    /// The step stops. The error tells this number of iterations.
    Stops(usize),
}

/// What ends a loop before its last iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopExit {
    /// The byte of write 0: an iteration runs only if it is not 0.
    Flag(FlagBound),
    /// The `i64` in this read: the number of iterations. If it is not in `0..=length`, the step stops.
    Count(usize),
}

/// A stacked result of a loop that ends early, of which only the slices have contents that an iteration made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialWrite {
    /// The write.
    pub write: usize,
    /// The operand that holds the number of iterations that ran.
    pub trips: Outer,
}

/// Iterations of a loop without a bound that have timestamps of their own.
pub const UNBOUNDED_LENGTH: usize = 1 << 16;

/// The planned body of a loop, or a planned branch.
#[derive(Clone, Debug)]
pub struct PlannedBody {
    /// The plan of one iteration.
    pub plan: Checked,
    /// The pinned buffers of the body, each once.
    pub externs: Vec<Extern>,
    /// First byte of the workspace in the body's address space, behind the externs.
    pub base: usize,
    /// Number of iterations.
    pub length: usize,
    /// True if the last iteration runs first.
    pub reverse: bool,
    /// For a branch: the predicate with which it runs. The predicate is read 0 of the instruction.
    pub when: Option<bool>,
    /// What ends it early; `None`: all iterations run.
    pub exit: Option<LoopExit>,
    /// The stacked results without contents in the slices of iterations that do not run.
    pub partial: Vec<PartialWrite>,
    /// Timestamps of one iteration: one for each instruction, those of inner loops once for each time they run, and
    /// those of its [barriers](PlannedBody::barriers).
    pub timestamps: usize,
}

/// Timestamps of instruction `i`: 1, and for a loop those of all its iterations beside. Each branch of a choice has
/// timestamps of its own, so that a timestamp tells which branch ran.
pub fn count_timestamps(code: &Instructions, i: usize) -> usize {
    // Cannot overflow: lowering refuses loops that would.
    1 + code.bodies_of(i).iter().map(|l| l.length * l.timestamps).sum::<usize>()
}

impl PlannedBody {
    /// Bytes of the workspace.
    pub fn workspace(&self) -> usize {
        self.plan.bytes - self.base
    }

    /// The number of iterations that costs are counted for.
    pub fn expected(&self) -> usize {
        match self.exit {
            Some(LoopExit::Flag(FlagBound::None)) => UNBOUNDED_GUESS,
            _ => self.length,
        }
    }

    /// Barriers behind each iteration if all threads run it. Behind the first, all threads read the flag that ends the
    /// loop; behind the second, the next iteration may write it.
    pub fn barriers(&self) -> usize {
        if matches!(self.exit, Some(LoopExit::Flag(_))) { 2 } else { 1 }
    }

    /// The bytes of extern `e` in the body's address space.
    pub fn extern_range(&self, e: &Extern) -> Range<usize> {
        let at = self.plan.offset[e.buf as usize];
        at..at + self.plan.code.bytes[e.buf as usize]
    }

    /// Number of slices of the operand of `e`.
    fn slices(&self, e: &Extern) -> usize {
        if e.sliced { self.length + usize::from(e.behind_start) } else { 1 }
    }

    /// The place of the slice of iteration 0 in the operand of `e`.
    pub fn first_slice(&self, e: &Extern) -> usize {
        if e.behind_start && !self.reverse { self.extern_range(e).len() } else { 0 }
    }

    /// The check of the number of iterations.
    fn exit_check(&self, reads: &[Operand]) -> Option<FaultCheck> {
        let looks = Looks { read: 0, below: None, or: None, early: false };
        match self.exit? {
            LoopExit::Flag(FlagBound::Stops(_)) => Some(FaultCheck { buf: UNSEEN, off: 0, bytes: 0, looks }),
            LoopExit::Flag(_) => None,
            LoopExit::Count(k) => reads.get(k).map(|o| {
                let looks = Looks { read: k, below: Some((self.length as u64).saturating_add(1)), ..looks };
                FaultCheck { buf: o.buf, off: o.off, bytes: o.bytes(), looks }
            }),
        }
    }

    /// The checks of an instruction that runs this loop on `reads`: those of the body over all iterations. A check of a
    /// whole slice becomes a check of the whole operand.
    pub fn checks(&self, reads: &[Operand]) -> Vec<FaultCheck> {
        let code = &self.plan.code;
        let outer = |e: &Extern| match e.outer {
            Outer::Read(k) => reads.get(k).map(|o| (o, e.sliced)),
            Outer::Write(_) => None,
        };
        let mut seen = HashSet::new();
        let mut all: Vec<FaultCheck> = self.exit_check(reads).into_iter().collect();
        for c in &code.checks {
            let operand = self.externs.iter().find(|e| e.buf == c.buf).and_then(outer);
            let looks = Looks { early: false, ..c.looks };
            let check = match operand {
                // What a branch checks is unknown to what follows: the branch may not run. Nor may an iteration.
                _ if self.when.is_some() || self.exit.is_some() => FaultCheck { buf: UNSEEN, off: 0, bytes: 0, looks },
                Some((o, false)) => FaultCheck { buf: o.buf, off: o.off + c.off, bytes: c.bytes, looks },
                Some((o, true)) if c.bytes == code.bytes[c.buf as usize] => {
                    FaultCheck { buf: o.buf, off: o.off, bytes: o.bytes(), looks }
                }
                _ => FaultCheck { buf: UNSEEN, off: 0, bytes: 0, looks },
            };
            if seen.insert(check) {
                all.push(check);
            }
        }
        all
    }
}
