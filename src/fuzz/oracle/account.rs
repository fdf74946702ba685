//! What an interpretation may take: work, elements held at a time, depth.

use super::stop::Stop;

/// The most work of one interpretation, in elements that are read or written.
const MOST_WORK: u64 = 1 << 32;
/// The most elements at a time: half a gibibyte of numbers and their bounds.
pub(super) const MOST_ELEMENTS: u64 = 1 << 25;
/// The deepest nest of calls, loops and decompositions.
const DEEPEST: usize = 64;

/// What all interpreters of one interpretation share.
pub(super) struct InterpreterAccount {
    /// Work done so far.
    work: u64,
    /// Elements of all values that are still read.
    pub(super) held: u64,
    depth: usize,
    /// Whether the step may fail, as an index or a divisor is unknown.
    pub(super) may_fault: bool,
}

impl InterpreterAccount {
    pub(super) fn new() -> InterpreterAccount {
        InterpreterAccount { work: 0, held: 0, depth: 0, may_fault: false }
    }

    pub(super) fn hold(&mut self, elements: u64) -> Result<(), Stop> {
        self.held = self.held.saturating_add(elements);
        if self.held > MOST_ELEMENTS { Err(Stop::TooLarge) } else { Ok(()) }
    }

    pub(super) fn spend(&mut self, work: u64) -> Result<(), Stop> {
        self.work = self.work.saturating_add(work);
        if self.work > MOST_WORK { Err(Stop::TooLarge) } else { Ok(()) }
    }

    pub(super) fn enter(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(Stop::TooLarge) } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }
}
