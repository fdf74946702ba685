//! What the loop asks of a task: steps, judgement, and what it leaves behind.
//!
//! Invariant: judging changes nothing that training reads.

use super::{images::Images, text::Text};
use crate::config::{Config, Task as Chosen};
use crate::fail::Run;
use crate::measure::Measure;
use crate::sys;
use arenagrad::error::Result;
use arenagrad::session::{Program, Session};
use arenagrad::train::{Batches, Progress, Trainer};
use arenagrad::{graph::GraphBuf, optim};

/// A file that a task leaves beside the weights.
pub struct Artifact {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// See the file's head.
pub trait Task {
    /// The step program and its cursor.
    fn trainer(&self) -> &Trainer;
    /// The same, to restore.
    fn trainer_mut(&mut self) -> &mut Trainer;
    /// One step. Allocates nothing.
    fn step(&mut self) -> Result<Progress>;
    /// What the task is judged by.
    fn measure(&self) -> Measure;
    /// Judges the params on what the optimiser does not see; during training, on a part of it if it is much.
    fn evaluate(&mut self, whole: bool) -> Run<f64>;
    /// What is trained on, and what is judged on.
    fn sizes(&self) -> [String; 2];
    /// Files that the weights mean nothing without.
    fn extras(&self) -> Run<Vec<Artifact>> {
        Ok(Vec::new())
    }
    /// Something that the trained model makes.
    fn sample_text(&mut self) -> Run<Option<String>> {
        Ok(None)
    }
}

/// The task that a configuration asks for.
pub fn open(c: &Config) -> Run<Box<dyn Task>> {
    Ok(match &c.task {
        Chosen::Images(model) => Box::new(Images::open(c, model)?),
        Chosen::CharGpt(network) => Box::new(Text::open(c, network)?),
    })
}

/// The session of a run.
pub fn session(c: &Config) -> Session {
    Session::new().threads(c.threads).precision(c.precision)
}

/// The trainer of a graph with a loss, over `examples` examples.
pub fn trainer(c: &Config, graph: &GraphBuf, loss: &str, examples: usize) -> Run<Trainer> {
    // Micro-batches lie one after another: the inputs have one more axis, and the same bytes.
    let batches = Batches::new(examples, c.batch.saturating_mul(c.optimiser.accumulate), c.seed)?;
    let step = optim::train(&graph, loss, &c.optimiser)?;
    let session = c.max_memory.map_or_else(|| session(c), |m| session(c).memory_budget(m));
    let program: Program = match c.trace {
        Some(_) => session.compile_traced(&step)?,
        None => session.compile(&step)?,
    };
    Ok(Trainer::new(program, loss, c.schedule, batches, c.seed)?)
}

/// A number of things, for people.
pub fn count(n: usize, what: &str) -> String {
    format!("{} {what}", sys::grouped(n))
}
