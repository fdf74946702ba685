//! The callbacks of the executor while a thread walks its tape.
//!
//! All kinds of steps run the same walk, which is compiled once for each observer. A plain step has one thread and
//! observes nothing. A poisoned step overwrites bytes that hold no value any more. A watched step looks for NaN and
//! infinities. A recorded step notes times. Steps on several threads wait at barriers. Implemented in
//! [`exec`](super::exec), [`team`](super::team), [`track`](super::track) and [`nonfinite`](super::nonfinite).

use super::link::Segment;
use crate::kernels::abi::{ArenaPtr, LoopOffsets};
use std::ops::Range;

/// How a thread's wait at a barrier ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched) enum Meeting {
    /// All parts before the barrier have run.
    Open,
    /// The step stopped before the barrier.
    Stopped,
    /// This thread has not begun its part before the barrier. The thread that waits has to run it, and to wait again.
    Late(usize),
}

/// The time of the end of a step, behind all instructions.
pub(in crate::sched) const END: usize = usize::MAX;

/// Observes the walk of one thread along its tape.
///
/// Times are timestamps: they count the instructions that run one after another in a step, each iteration of a loop
/// anew. All threads give an instruction the same time.
pub(super) trait StepObserver {
    /// The arena, for the next instruction.
    fn arena(&mut self) -> ArenaPtr;
    /// True if the instruction at `time` may run; false if the step has stopped before it.
    fn goes_on(&mut self, time: usize) -> bool;
    /// True if this thread runs the part of its tape before the next barrier; false if another thread took it over.
    #[inline(always)]
    fn owns(&self) -> bool {
        true
    }
    /// Waits for the other threads at the barrier before `time`, or at the [`END`].
    #[inline(always)]
    fn barrier(&mut self, _time: usize) -> Meeting {
        Meeting::Open
    }
    /// Instruction `i` of `segment`, which runs a kernel, is about to run at iteration `moves` of the loops around it.
    #[inline(always)]
    fn begins(&mut self, _segment: &Segment, _i: usize, _moves: &LoopOffsets<'_>) {}
    /// These bytes hold no value any more.
    fn dead(&mut self, bytes: &[Range<usize>]);
    /// Instruction `i` of `segment` is done.
    fn done(&mut self, segment: &Segment, i: usize);
}
