//! Records the edges of the code that an input reached, by counters that the compiler adds under the flags of
//! `tools/soak`.
//!
//! A build without those flags has no counters, and inputs are then tried blindly. Under cargo-fuzz, which sets
//! `cfg(fuzzing)`, libFuzzer has the counters. Invariant: only this file touches
//! the counters, and only between two inputs, on the thread that runs them.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Called by the code that the compiler adds, before `main`: the linker has laid the counters of all crates side by
/// side, so each call names the same range.
#[cfg(not(fuzzing))]
// SAFETY: the name is the one that the compiler's pass calls; no other function of the program has it.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start, Ordering::Relaxed);
    LEN.store((stop as usize).saturating_sub(start as usize), Ordering::Relaxed);
}

/// Number of counters: the edges of the whole program. 0 without instrumentation.
pub fn counters() -> usize {
    LEN.load(Ordering::Relaxed)
}

/// Bytes that are looked at together.
const BLOCK: usize = 4096;
/// Bytes of a block that are compared with zeros together.
const LINE: usize = 64;
static ZEROS: [u8; LINE] = [0; LINE];
/// Inputs between two looks at all blocks.
const ALL: u64 = 128;

/// The edges that inputs have reached so far.
pub struct Coverage {
    /// For each counter, the classes of counts that were seen, a bit each.
    seen: Vec<u8>,
    /// Blocks in which some counter was ever above 0.
    hot: Vec<bool>,
    runs: u64,
    edges: usize,
    marks: usize,
}

impl Coverage {
    /// No edge is reached yet.
    pub fn new() -> Coverage {
        let n = counters();
        Coverage { seen: vec![0; n], hot: vec![false; n.div_ceil(BLOCK)], runs: 0, edges: 0, marks: 0 }
    }

    /// Number of edges that were reached.
    pub fn edges(&self) -> usize {
        self.edges
    }

    /// Number of pairs of an edge and a class of counts that were reached.
    pub fn marks(&self) -> usize {
        self.marks
    }

    /// Sets all counters to 0 before an input runs.
    pub fn clear(&mut self) {
        let all = self.runs.is_multiple_of(ALL);
        let hot = &self.hot;
        with_counters(|bytes| {
            let blocks = bytes.chunks_mut(BLOCK).zip(hot);
            blocks.filter(|(_, hot)| all || **hot).for_each(|(block, _)| block.fill(0));
        });
    }

    /// Number of marks that the input which has just run is the first to reach.
    pub fn take(&mut self) -> usize {
        let all = self.runs.is_multiple_of(ALL);
        self.runs += 1;
        let Coverage { seen, hot, edges, marks, .. } = self;
        let before = *marks;
        with_counters(|bytes| {
            for ((block, seen), hot) in bytes.chunks(BLOCK).zip(seen.chunks_mut(BLOCK)).zip(hot) {
                if !(all || *hot) {
                    continue;
                }
                for (line, seen) in block.chunks(LINE).zip(seen.chunks_mut(LINE)) {
                    // The system's library compares the bytes. It has no counters; a loop here would have some.
                    if *line == ZEROS[..line.len()] {
                        continue;
                    }
                    *hot = true;
                    for (&n, seen) in line.iter().zip(seen).filter(|(n, _)| **n > 0) {
                        let class = count_class(n);
                        *edges += usize::from(*seen == 0);
                        *marks += usize::from(*seen & class == 0);
                        *seen |= class;
                    }
                }
            }
        });
        *marks - before
    }
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage::new()
    }
}

/// The bit of a count: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, more.
fn count_class(n: u8) -> u8 {
    match n {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        _ => 128,
    }
}

fn with_counters(f: impl FnOnce(&mut [u8])) {
    let (start, len) = (START.load(Ordering::Relaxed), LEN.load(Ordering::Relaxed));
    if !start.is_null() && len > 0 {
        // SAFETY: the compiler's initialiser named these bytes, which live as long as the program and which no
        // reference of Rust covers. Instrumented code adds to them one by one while an input runs; between two inputs
        // no thread of a program runs, and this function's own counts may be lost, which only blurs a count.
        f(unsafe { std::slice::from_raw_parts_mut(start, len) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_counts_are_bits_in_order() {
        let classes: Vec<u8> = (0..=255).map(count_class).collect();
        assert!(classes.windows(2).all(|w| w[0] <= w[1]));
        assert!(classes[1..].iter().all(|c| c.count_ones() == 1));
        assert_eq!((classes[0], classes[255]), (0, 128));
    }
}
