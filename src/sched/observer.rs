//! The callbacks of the executor while a thread walks its tape.
//!
//! All kinds of steps run the same walk, which is compiled once for each observer. A plain step has one thread and
//! observes nothing. A poisoned step overwrites bytes that hold no value any more. A watched step looks for NaN and
//! infinities. A recorded step notes times. Steps on several threads wait at barriers. Implemented in
//! [`exec`](super::exec), [`team`](super::team), [`track`](super::track) and [`nonfinite`](super::nonfinite).

use super::link::Segment;
use crate::kernels::abi::{ArenaPtr, LoopOffsets};
use std::ops::Range;

/// Observes the walk of one thread along its tape.
///
/// Times are timestamps: they count the instructions that run one after another in a step, each iteration of a loop
/// anew. All threads give an instruction the same time.
pub(super) trait StepObserver {
    /// The arena, for the next instruction.
    fn arena(&mut self) -> ArenaPtr;
    /// True if the instruction at `time` may run; false if the step has stopped before it.
    fn goes_on(&mut self, time: usize) -> bool;
    /// Waits for the other threads at the barrier before `time`. False if the step has stopped.
    fn barrier(&mut self, time: usize) -> bool;
    /// Instruction `i` of `segment`, which runs a kernel, is about to run at iteration `moves` of the loops around it.
    #[inline(always)]
    fn begins(&mut self, _segment: &Segment, _i: usize, _moves: &LoopOffsets<'_>) {}
    /// These bytes hold no value any more.
    fn dead(&mut self, bytes: &[Range<usize>]);
    /// Instruction `i` of `segment` is done.
    fn done(&mut self, segment: &Segment, i: usize);
}
