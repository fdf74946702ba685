//! Tapes: for each thread, the instructions it runs, its units of them, and its barriers. Fixed before the first step.
//!
//! Made by [`share`](super::share), proved by [`races`](super::races), walked by [`exec`](super::exec).

/// One entry of a tape: units of an instruction, or a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The instruction.
    pub instr: u32,
    /// True for a barrier of all threads in front of the instruction.
    pub barrier: bool,
    /// First unit.
    pub from: usize,
    /// One past the last unit.
    pub to: usize,
}

/// The number of the last part of a tape.
pub(super) const LAST: usize = usize::MAX;

/// The tapes of all threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tapes {
    /// Entries of thread `t`: `entries[at[t]..at[t + 1]]`.
    pub(super) at: Vec<u32>,
    /// Entries, by thread.
    pub(super) entries: Vec<Entry>,
    /// The tapes of one iteration of each loop and of each branch: for all threads, with a barrier after each
    /// iteration, or for one thread.
    pub(super) inner: Vec<Tapes>,
}

impl Tapes {
    /// The tapes whose thread `t` has the entries `entries[at[t]..at[t + 1]]`, with those of the bodies of loops.
    /// Errors: `at` does not rise from 0 to the number of entries, or there is no thread.
    pub fn from_columns(at: Vec<u32>, entries: Vec<Entry>, inner: Vec<Tapes>) -> Result<Tapes, String> {
        let ends = at.first() == Some(&0) && at.last().map(|&end| end as usize) == Some(entries.len());
        if at.len() < 2 || !ends || !at.is_sorted() {
            return Err("the tapes do not divide their entries among threads".into());
        }
        Ok(Tapes { at, entries, inner })
    }

    /// The columns that [`Tapes::from_columns`] takes.
    pub fn columns(&self) -> (&[u32], &[Entry], &[Tapes]) {
        (&self.at, &self.entries, &self.inner)
    }

    /// True if all threads run the bodies `bodies`, which are those of one instruction.
    pub(super) fn team_runs(&self, bodies: std::ops::Range<usize>) -> bool {
        self.inner.get(bodies).is_some_and(|t| t.iter().any(|t| t.threads() > 1))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.at.len() - 1
    }

    /// The entries of thread `t`.
    #[inline]
    pub fn thread(&self, t: usize) -> &[Entry] {
        &self.entries[self.at[t] as usize..self.at[t + 1] as usize]
    }

    /// Part `nth` of the tape of thread `t`: its entries behind `nth` barriers, up to the next one.
    pub(super) fn part(&self, t: usize, nth: usize) -> &[Entry] {
        let mut parts = self.thread(t).split(|e| e.barrier);
        if nth == LAST { parts.next_back() } else { parts.nth(nth) }.unwrap_or_default()
    }
}
