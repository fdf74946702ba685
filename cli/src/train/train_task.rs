//! The interface between the loop over the steps and a task, and the parts that all tasks share.
//!
//! Invariant: an evaluation changes nothing that training reads.

use super::ranks::Ranks;
use crate::config::Config;
use crate::fail::Run;
use crate::measure::Measure;
use arenagrad::error::Result;
use arenagrad::session::Session;
use arenagrad::train::{Batches, Comm, Parallel, Progress, Trainer};
use arenagrad::{graph::GraphBuf, optim};

/// A file that a task writes beside the weights.
pub struct Artifact {
    /// The file's name.
    pub name: &'static str,
    /// The file's content.
    pub text: String,
}

/// The sizes of a task's data, in words: `1,438 images`.
pub struct Sizes {
    /// What is trained on.
    pub trained: String,
    /// What the final evaluation covers.
    pub evaluated: String,
}

/// A network, its data, and the programs that train and evaluate it.
pub trait TrainTask {
    /// The step program and its cursor.
    fn trainer(&self) -> &Trainer;
    /// The same, mutable.
    fn trainer_mut(&mut self) -> &mut Trainer;
    /// Runs one step. Allocates nothing.
    fn step(&mut self) -> Result<Progress>;
    /// The measure of [`TrainTask::evaluate`].
    fn measure(&self) -> Measure;
    /// Evaluates the params on data that the optimiser does not see: all of it if `whole`, else at most a part.
    fn evaluate(&mut self, whole: bool) -> Run<f64>;
    /// A digest of the data that is trained on.
    fn data_digest(&self) -> u64;
    /// The sizes of the data.
    fn sizes(&self) -> Sizes;
    /// Files without which the weights mean nothing.
    fn artifacts(&self) -> Run<Vec<Artifact>> {
        Ok(Vec::new())
    }
    /// A sample of the trained model, if it generates text.
    fn sample_text(&mut self) -> Run<Option<String>> {
        Ok(None)
    }
}

/// The session of a run.
pub fn train_task_session(c: &Config) -> Session {
    let session = Session::new()
        .threads(c.threads)
        .precision(c.precision)
        .convolutions(c.convolutions)
        .keep(c.keep)
        .find_nan(c.find_nan);
    c.latency.pinned(session)
}

/// Compiles the training step of `graph`, whose scalar output is called `loss`, for `examples` examples.
pub fn train_task_trainer(c: &Config, ranks: &Ranks, graph: &GraphBuf, loss: &str, examples: usize) -> Run<Trainer> {
    // With accumulation the inputs gain a leading axis over micro-batches. Their bytes are those of one large batch.
    let whole = c.batch.saturating_mul(ranks.size()).saturating_mul(c.optimiser.accumulate);
    let batches = Batches::new(examples, whole, c.seed)?;
    let session = c.max_memory.map_or_else(|| train_task_session(c), |m| train_task_session(c).memory_budget(m));
    if let Some(comm) = ranks.comm() {
        let mut split = optim::train_split(graph, loss, &c.optimiser)?;
        if c.shard_states {
            split = split.shard(comm.rank(), ranks.size())?;
        }
        let mut program = session.compile_all(&split.methods())?;
        c.latency.settle(&mut program, ranks.size())?;
        let parallel = Parallel::new(&program, comm, &split)?;
        let parallel = if c.no_overlap { parallel.overlap(&program, false)? } else { parallel };
        let trainer = Trainer::parallel(program, parallel, c.schedule.clone(), batches, c.seed)?;
        return Ok(trainer.rescale(c.rescale));
    }
    let step = optim::train(graph, loss, &c.optimiser)?;
    let mut program = match c.trace {
        Some(_) => session.compile_traced(&step)?,
        None => session.compile(&step)?,
    };
    c.latency.settle(&mut program, ranks.size())?;
    Ok(Trainer::new(program, loss, c.schedule.clone(), batches, c.seed)?.rescale(c.rescale))
}
