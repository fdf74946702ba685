//! Tapes: for each thread, the instructions it runs and its share of their units, fixed before the first step.
//!
//! Shares follow from the shape and the number of threads; results do not depend on them, because kernels compute
//! units. An instruction that is too small to share runs on thread 0.

use super::code::Code;

/// One thing for a thread to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The instruction.
    pub instr: u32,
    /// Whether this is a meeting of all threads before the instruction, and not the instruction.
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
}

impl Tapes {
    /// Number of threads.
    pub fn lanes(&self) -> usize {
        self.at.len() - 1
    }

    /// What thread `t` does.
    #[inline]
    pub fn lane(&self, t: usize) -> &[Entry] {
        &self.entries[self.at[t] as usize..self.at[t + 1] as usize]
    }
}

/// The tape of one thread that does everything.
pub fn single(code: &Code) -> Tapes {
    let entry = |i: usize| Entry { instr: i as u32, barrier: false, from: 0, to: code.units[i] };
    let entries: Vec<Entry> = (0..code.len()).map(entry).collect();
    Tapes { at: vec![0, entries.len() as u32], entries }
}
