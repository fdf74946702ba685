//! The measurements of a run.

use arenagrad::train::Times;
use std::time::Duration;

/// Step times that are kept for the percentiles.
const TIMES: usize = 1 << 16;

/// What was measured over the steps of this process.
pub struct Measured {
    /// Nanoseconds of each step.
    pub times: Times,
    /// Calls of the allocator within steps.
    pub allocs: u64,
    /// Number of steps, without the recorded one.
    pub steps: u64,
    /// The table of the recorded step, which counts in no other field.
    pub trace: Option<String>,
    /// Time of the loop, with evaluations and checkpoints.
    pub wall: Duration,
}

impl Measured {
    /// Nothing measured yet.
    pub fn new() -> Measured {
        Measured { times: Times::new(TIMES), allocs: 0, steps: 0, wall: Duration::ZERO, trace: None }
    }
}
