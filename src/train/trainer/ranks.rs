//! Trainers of one rank among several: the same loop, with gradients, losses and errors of all ranks.
//!
//! Invariant: all ranks take the same decisions, because each sees the mean of the losses and the errors of all.

use super::{Feed, StepIo, Trainer};
use crate::clock::Instant;
use crate::error::Result;
use crate::passes::optimiser::LR;
use crate::session::Program;
use crate::train::parallel::files::Part;
use crate::train::parallel::{Parallel, SyncStates, refused};
use crate::train::trainer::step_io::Scalar;
use crate::train::{Batches, Rate};
use std::path::Path;

impl Trainer {
    /// As [`Trainer::new`], on this rank of several. `batches` are those of one process: the rank takes its
    /// [share](Batches::share) of each, and the program is for batches of that size. The loss that is reported is the
    /// mean over the ranks. All ranks call the trainer's functions in the same order; only rank 0 writes files.
    ///
    /// # Errors
    /// Those of [`Trainer::new`] and [`Batches::share`]; on all ranks, the batches of a rank are others.
    pub fn parallel(
        program: Program,
        parallel: Parallel,
        rate: impl Into<Rate>,
        batches: Batches,
        seed: u64,
    ) -> Result<Trainer> {
        let (rank, ranks) = (parallel.comm().rank(), parallel.comm().size());
        parallel.agree("number of examples", batches.examples() as u64)?;
        parallel.agree("batch", batches.batch() as u64)?;
        parallel.agree("seed", seed)?;
        let batches = batches.share(rank, ranks)?;
        let lr = Scalar::input(&program, parallel.update(), LR)?;
        let (method, examples) = (parallel.grads(), batches.own_batch());
        let io = StepIo { method, examples, lr, loss: parallel.loss(), mask: None };
        let loss = parallel.loss().name(&program).to_string();
        let made = Trainer::with_first(program, io, &loss, rate.into(), Feed::Shuffled(batches), seed)?;
        Ok(Trainer { parallel: Some(parallel), ..made })
    }

    /// The number of ranks; 1 of a run of one process.
    pub fn ranks(&self) -> usize {
        self.parallel.as_ref().map_or(1, |p| p.comm().size())
    }

    /// The other ranks, if this is one of several.
    pub fn parallel_ref(&self) -> Option<&Parallel> {
        self.parallel.as_ref()
    }

    /// As [`Trainer::parallel_ref`], mutable.
    pub fn parallel_mut(&mut self) -> Option<&mut Parallel> {
        self.parallel.as_mut()
    }

    /// Whether [`Trainer::restore`] takes the checkpoint of another number of ranks. By default it does not: sums of
    /// gradients have other last bits then, random ops on ranks from 1 on draw other numbers, and statistics of layers
    /// go on from one value on all ranks.
    pub fn rescale(mut self, on: bool) -> Trainer {
        self.rescale = on;
        self
    }

    /// Gives the statistics of layers one value on all ranks; see [`Parallel::sync_states`]. Nothing on one rank.
    ///
    /// # Errors
    /// A rank has ended.
    pub fn sync_states(&mut self, how: SyncStates) -> Result<()> {
        self.parallel.as_mut().map_or(Ok(()), |p| p.sync_states(&mut self.program, how))
    }

    /// Whether `flag` is set on any rank.
    pub(in crate::train) fn any_rank(&mut self, flag: bool) -> Result<bool> {
        self.parallel.as_mut().map_or(Ok(flag), |p| p.any(flag))
    }

    /// The mean of a number over the ranks; an error of one is an error of all.
    pub(in crate::train) fn mean_over_ranks(&mut self, own: Result<f64>) -> Result<f64> {
        match &mut self.parallel {
            Some(p) => p.mean(own),
            None => own,
        }
    }

    /// As [`Trainer::save`], if `ready` is no error on any rank.
    pub(in crate::train) fn save_after(&self, path: &Path, ready: Result<()>) -> Result<()> {
        let Some(p) = &self.parallel else { return ready.and_then(|()| self.write_file(path, &[])) };
        let owned = p.gather_states(&self.program)?;
        p.share_result(ready.and_then(|()| if p.is_first() { self.write_file(path, &owned) } else { Ok(()) }))
    }

    /// `own`, unless it is an error on another rank.
    pub(super) fn share_result<T>(&mut self, own: Result<T>) -> Result<T> {
        let Some(p) = &mut self.parallel else { return own };
        p.restart();
        let (done, own) = match own {
            Ok(x) => (Ok(()), Some(x)),
            Err(e) => (Err(e), None),
        };
        p.share_result(done)?;
        own.ok_or_else(|| refused("this rank failed, and no rank has reported it: a bug of arenagrad"))
    }

    /// Steps the program, if the batch could be filled on all ranks. Returns the time in nanoseconds.
    pub(super) fn run_after(&mut self, at: usize, filled: Result<()>) -> Result<u64> {
        let Some(p) = &mut self.parallel else {
            filled?;
            return self.run(at);
        };
        let filled = match std::mem::take(&mut self.tracing) {
            true => Err(refused("a step cannot be traced")),
            false => filled,
        };
        let start = Instant::now();
        self.mean_loss = p.step_after(&mut self.program, filled)?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// What this rank has of a checkpoint.
    pub(super) fn part(&self) -> Part<'_> {
        self.parallel.as_ref().map_or(Part { rank: 0, split: false, owned: &[] }, |p| p.part())
    }

    /// The loss of the step that method `at` has made.
    pub(super) fn loss_of(&self, at: usize) -> Result<f64> {
        if self.parallel.is_some() { Ok(self.mean_loss) } else { self.steps[at].loss.read(&self.program) }
    }
}
