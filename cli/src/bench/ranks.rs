//! Workloads on the ranks of `mpirun`: each rank steps on its share of the batch, and rank 0 prints.
//!
//! Invariant: all ranks make equally many steps.

use crate::args::BenchRankArgs;
use crate::config::byte_size::byte_size_as_usize;
use crate::fail::{Run, fail_bad_input};
use crate::train::ranks::Ranks;
use arenagrad::error::Result;
use arenagrad::optim::Split;
use arenagrad::session::Program;
use arenagrad::train::Parallel;
use arenagrad::train::parallel::ExchangePlan;

/// The steps of this rank.
pub struct RankSteps {
    parallel: Parallel,
}

impl RankSteps {
    /// The steps of `program`, compiled from `split`; none in a run of one process.
    pub fn open(ranks: &Ranks, a: &BenchRankArgs, program: &Program, split: &Split) -> Run<Option<RankSteps>> {
        let Some(comm) = ranks.comm() else { return Ok(None) };
        let mut parallel = Parallel::new(program, comm, split)?;
        if let Some(bytes) = a.bucket {
            parallel = parallel.bucket_bytes(program, byte_size_as_usize(bytes))?;
        }
        if a.no_overlap {
            parallel = parallel.overlap(program, false)?;
        }
        Ok(Some(RankSteps { parallel }))
    }

    /// What is exchanged, and when.
    pub fn plan(&self) -> &ExchangePlan {
        self.parallel.plan()
    }

    /// A step. Returns the mean loss.
    pub fn step(&mut self, program: &mut Program) -> Result<f64> {
        self.parallel.step(program)
    }

    /// Nanoseconds for which the last step waited for its exchange.
    pub fn waited(&self) -> u64 {
        u64::try_from(self.parallel.waited().as_nanos()).unwrap_or(u64::MAX)
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
