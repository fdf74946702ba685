//! Workloads on the ranks of `mpirun`: each rank steps on its share of the batch, and rank 0 prints.
//!
//! Invariant: all ranks make equally many steps.

use crate::fail::{Run, fail_bad_input};
use crate::train::ranks::{Joined, Ranks};
use arenagrad::error::Result;
use arenagrad::optim::Split;
use arenagrad::session::Program;
use arenagrad::train::{Comm, Parallel};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The time of calls of a communicator, in nanoseconds.
type Spent = Arc<AtomicU64>;

/// A communicator that counts the time of its calls, waiting for other ranks included.
struct TimedComm(Joined, Spent);

impl TimedComm {
    fn timed<R>(&self, f: impl FnOnce(&Joined) -> R) -> R {
        let start = Instant::now();
        let done = f(&self.0);
        let spent = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.1.fetch_add(spent, Ordering::Relaxed);
        done
    }
}

impl Comm for TimedComm {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.timed(|c| c.all_to_all(send, receive))
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.timed(|c| c.all_gather(send, receive))
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.timed(|c| c.broadcast(root, bytes))
    }

    fn barrier(&self) -> Result<()> {
        self.timed(|c| c.barrier())
    }

    fn abort(&self, why: &str) -> ! {
        self.0.abort(why)
    }
}

/// The steps of this rank.
pub struct RankSteps {
    parallel: Parallel,
    spent: Spent,
}

impl RankSteps {
    /// The steps of `program`, compiled from `split`; none in a run of one process.
    pub fn open(ranks: &Ranks, program: &Program, split: &Split) -> Run<Option<RankSteps>> {
        let Some(comm) = ranks.comm() else { return Ok(None) };
        let spent = Spent::default();
        let parallel = Parallel::new(program, TimedComm(comm, spent.clone()), split)?;
        Ok(Some(RankSteps { parallel, spent }))
    }

    /// A step. Returns the mean loss.
    pub fn step(&mut self, program: &mut Program) -> Result<f64> {
        self.parallel.step(program)
    }

    /// Nanoseconds in calls of the communicator since the last time this was asked.
    pub fn take_spent(&self) -> u64 {
        self.spent.swap(0, Ordering::Relaxed)
    }

    /// Whether rank 0 says so.
    pub fn first_says(&self, own: bool) -> Result<bool> {
        let mut said = [u8::from(own)];
        self.parallel.comm().broadcast(0, &mut said)?;
        Ok(said[0] != 0)
    }
}

/// Fails on ranks if the command asks for what only one process does.
pub fn check_choices(ranks: &Ranks, data: bool, trace: bool) -> Run {
    match (ranks.size() > 1, data, trace) {
        (true, true, _) => Err(fail_bad_input("--data holds batches of one process, not shares of ranks under mpirun")),
        (true, _, true) => Err(fail_bad_input("--trace records a step of one process, not of ranks under mpirun")),
        _ => Ok(()),
    }
}
