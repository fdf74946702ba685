//! What the executor asks and tells while a thread walks its tape.
//!
//! Plain steps, poisoned steps, steps of a team and recorded steps differ in their observer only, and each is compiled
//! on its own. Implemented by [`exec`](super::exec), [`team`](super::team) and [`trace`](super::trace).

use super::link::Segment;
use crate::kernels::abi::ArenaPtr;
use std::ops::Range;

/// What stands around the instructions of a thread's tape. Times count the instructions that run one after another in
/// a step, each iteration of a loop anew; all threads give an instruction the same time.
pub(super) trait StepObserver {
    /// The arena, for the next instruction.
    fn frame(&mut self) -> ArenaPtr;
    /// Whether to run what stands at `time`.
    fn goes_on(&mut self, time: usize) -> bool;
    /// Meets the other threads, before `time`: whether the step goes on.
    fn barrier(&mut self, time: usize) -> bool;
    /// These bytes hold nothing any more.
    fn dead(&mut self, bytes: &[Range<usize>]);
    /// Instruction `i` of `segment` is done.
    fn done(&mut self, segment: &Segment, i: usize);
}
