//! The trainer: one training step with its learning rate and batch, and the checkpoint of all state.
//!
//! Invariant: [`Trainer::restore`] brings back the state that [`Trainer::save`] wrote, bit for bit, so a resumed run
//! equals one that never stopped. A step allocates nothing, except in the caller's `fill`.

use super::checkpoint::{self, Digest, Entry, HEADER_LIMIT, Loaded};
use super::{Batches, Schedule};
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::passes::optimiser::{LR, STEP};
use crate::session::{Handle, Program, Role, Trace};
use std::path::Path;
use std::time::Instant;

/// Name of the checkpoint's tensor of counters, `i64[6]`: version, step, epoch, position, seed, batch.
pub const CURSOR: &str = "train.cursor";
/// Version of the cursor.
const VERSION: u64 = 1;
/// Largest number of steps of a run: 2⁵³, up to which an f64 is exact. Rates are computed in f64.
pub const MAX_STEPS: u64 = 1 << 53;

/// The counters of a checkpoint: the elements of [`CURSOR`], in order.
#[derive(Clone, Copy)]
struct TrainerCursor {
    version: u64,
    /// Steps done.
    step: u64,
    epoch: u64,
    /// Examples of the epoch that were taken.
    position: u64,
    seed: u64,
    batch: u64,
}

impl TrainerCursor {
    fn to_words(self) -> [u64; 6] {
        [self.version, self.step, self.epoch, self.position, self.seed, self.batch]
    }

    fn from_words([version, step, epoch, position, seed, batch]: [u64; 6]) -> TrainerCursor {
        TrainerCursor { version, step, epoch, position, seed, batch }
    }
}

/// A scalar input or output, f32 or f64.
#[derive(Clone, Copy)]
enum Scalar {
    F32(Handle<f32>),
    F64(Handle<f64>),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps done, this one included.
    pub step: u64,
    /// Epoch of the batch, counted from 0.
    pub epoch: u64,
    /// The loss before the step's update.
    pub loss: f64,
    /// The step's learning rate.
    pub lr: f64,
    /// Time of the program, in nanoseconds, without `fill`.
    pub ns: u64,
}

/// A step program with its schedule, its batches and its counters.
pub struct Trainer {
    program: Program,
    schedule: Schedule,
    batches: Batches,
    seed: u64,
    step: u64,
    lr: Scalar,
    loss: Scalar,
    tracing: bool,
    trace: Option<Trace>,
}

impl Trainer {
    /// A trainer of a step program that [`train`](crate::passes::optimiser::train) made. `loss` is the name of the
    /// scalar output that is reported. Params and states without a value are initialised from `seed`; those that were
    /// loaded, initialised or written keep theirs. Fails if the schedule is invalid, or if the program has no input
    /// `lr` or no such output.
    pub fn new(program: Program, loss: &str, schedule: Schedule, batches: Batches, seed: u64) -> Result<Trainer> {
        schedule.validate()?;
        let lr = match program.input::<f32>(LR) {
            Ok(slot) => Scalar::F32(slot),
            Err(_) => Scalar::F64(program.input::<f64>(LR)?),
        };
        let loss = match program.output::<f32>(loss) {
            Ok(slot) => Scalar::F32(slot),
            Err(_) => Scalar::F64(program.output::<f64>(loss)?),
        };
        let mut t = Trainer { program, schedule, batches, seed, step: 0, lr, loss, tracing: false, trace: None };
        t.program.init_rest(seed)?;
        Ok(t)
    }

    /// Runs one step. `fill` writes the examples whose indices it gets into the program's inputs.
    ///
    /// A step that fails in `fill` or in the program leaves the trainer unchanged: the next step sees the same
    /// examples. A loss that is not finite is an error of kind [`Kind::Diverged`]. That step is done and has updated
    /// the params, so training can only go on from a checkpoint or from new start values.
    pub fn step(&mut self, fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>) -> Result<Progress> {
        let (epoch, at) = self.batches.cursor();
        let lr = self.schedule.lr(self.step);
        let ns = match self.run(lr, fill) {
            Ok(ns) => ns,
            Err(e) => {
                self.batches.seek(epoch, at)?;
                return Err(e);
            }
        };
        self.step += 1;
        let loss = match self.loss {
            Scalar::F32(slot) => self.program.get(slot)?.first().map_or(f64::NAN, |&x| f64::from(x)),
            Scalar::F64(slot) => self.program.get(slot)?.first().copied().unwrap_or(f64::NAN),
        };
        match loss.is_finite() {
            true => Ok(Progress { step: self.step, epoch: self.batches.cursor().0, loss, lr, ns }),
            false => Err(self.diverged(loss, lr)),
        }
    }

    /// Fills in the rate and the next batch, steps the program, and returns the time of that step in nanoseconds.
    fn run(&mut self, lr: f64, fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>) -> Result<u64> {
        match self.lr {
            Scalar::F32(slot) => self.program.write(slot, &[lr as f32])?,
            Scalar::F64(slot) => self.program.write(slot, &[lr])?,
        }
        fill(&mut self.program, self.batches.advance())?;
        let start = Instant::now();
        match std::mem::take(&mut self.tracing) {
            true => self.trace = Some(self.program.step_traced()?),
            false => self.program.step()?,
        }
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The error of a step whose loss is not finite.
    #[cold]
    fn diverged(&self, loss: f64, lr: f64) -> Error {
        let name = match self.loss {
            Scalar::F32(slot) => self.program.name_of(slot),
            Scalar::F64(slot) => self.program.name_of(slot),
        };
        let (name, step) = (name.unwrap_or("loss"), self.step);
        let text = format!(
            "the loss of step {step} is {loss} (output {name:?}, rate {lr}); a lower rate, clipped gradients or a look \
             at the batch may help, from an earlier checkpoint or new start values"
        );
        Error::new(Kind::Diverged, text)
    }

    /// Records the next step, see [`Program::step_traced`].
    pub fn trace_next(&mut self) {
        self.tracing = true;
    }

    /// Takes the recording of the last recorded step.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    /// Number of steps done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// Number of batches taken. A step that fails takes none.
    pub fn batches_taken(&self) -> u64 {
        self.batches.before(self.batches.cursor())
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, mutable.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The params, as entries of a weights file.
    pub fn weights(&self) -> Vec<Entry<'_>> {
        entries(&self.program, |role| role == Role::Param)
    }

    /// The present counters.
    fn cursor(&self) -> TrainerCursor {
        let (epoch, position) = self.batches.cursor();
        let (seed, batch) = (self.seed, self.batches.batch() as u64);
        TrainerCursor { version: VERSION, step: self.step, epoch, position, seed, batch }
    }

    /// Writes params, states and the cursor to `path`, as a whole or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let cursor = self.cursor().to_words();
        let mut all = entries(&self.program, |role| matches!(role, Role::Param | Role::State));
        all.push(Entry { name: CURSOR, dtype: DType::I64, dims: &[6], bytes: bytemuck::cast_slice(&cursor) });
        checkpoint::save(path, &all)
    }

    /// Continues from a checkpoint of the same graph, seed and batch, and returns whether the file holds a digest.
    /// Fails if the file is damaged, belongs to another run, or has counters that no run reaches. A failure changes
    /// nothing.
    pub fn restore(&mut self, path: &Path) -> Result<Digest> {
        let data: u64 = self.program.persistent().map(|(_, bytes)| bytes.len() as u64).sum();
        let file = Loaded::open_within(path, data + HEADER_LIMIT)?;
        self.restore_from(&file).map_err(|e| e.context(path.display()))?;
        Ok(file.digest())
    }

    fn restore_from(&mut self, file: &Loaded) -> Result<()> {
        let words: [u64; 6] = bytemuck::pod_read_unaligned(file.expect(CURSOR, DType::I64, &[6])?.bytes);
        let (read, own) = (TrainerCursor::from_words(words), self.cursor());
        let same = |what: &str, theirs: u64, ours: u64| {
            let text = || format!("the checkpoint has {what} {theirs}, this run has {ours}");
            if theirs == ours { Ok(()) } else { Err(Error::new(Kind::Data, text())) }
        };
        same("version", read.version, own.version)?;
        same("seed", read.seed, own.seed)?;
        same("batch", read.batch, own.batch)?;
        let TrainerCursor { step, epoch, position, .. } = read;
        // Each step takes one batch, so no run has taken fewer batches than steps.
        let taken = self.batches.before((epoch, position));
        if step > taken || taken > MAX_STEPS {
            let text = format!(
                "the checkpoint has step {step} at epoch {epoch}, position {position}, before which are {taken} batches of \
                 this data; there is one a step, and {MAX_STEPS} at most"
            );
            return Err(Error::new(Kind::Data, text));
        }
        for (b, _) in self.program.persistent() {
            let e = file.expect(&b.name, b.dtype, &b.dims)?;
            if b.name == STEP && b.dtype == DType::I64 && b.bytes == 8 {
                check_trainer_steps(bytemuck::pod_read_unaligned(e.bytes))?;
            }
        }
        let mut known: Vec<&str> = self.program.persistent().map(|(b, _)| b.name.as_str()).collect();
        known.sort_unstable();
        if let Some(extra) = file.entries().find(|e| e.name != CURSOR && known.binary_search(&e.name).is_err()) {
            return Err(Error::new(
                Kind::Name,
                format!("the checkpoint has {:?}, which this run does not have", extra.name),
            ));
        }
        self.batches.seek(epoch, position)?;
        self.step = step;
        for e in file.entries().filter(|e| e.name != CURSOR) {
            self.program.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
        }
        Ok(())
    }
}

/// Fails if the optimiser's count of steps is one that no run reaches.
fn check_trainer_steps(steps: i64) -> Result<()> {
    match u64::try_from(steps) {
        Ok(n) if n <= MAX_STEPS => Ok(()),
        _ => Err(Error::new(Kind::Data, format!("{STEP} is {steps}; it goes from 0 to {MAX_STEPS}"))),
    }
}

/// The params and states of `program` whose role is `wanted`, as entries of a file.
pub fn entries(program: &Program, wanted: impl Fn(Role) -> bool) -> Vec<Entry<'_>> {
    let kept = program.persistent().filter(|(b, _)| wanted(b.role));
    kept.map(|(b, bytes)| Entry { name: &b.name, dtype: b.dtype, dims: &b.dims, bytes }).collect()
}

/// The moving averages of a program's params, under the params' names, as entries of a weights file. Empty if the
/// [optimiser](crate::passes::optimiser::Optimiser::ema) keeps none.
pub fn averages(program: &Program) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    for (b, bytes) in program.persistent() {
        found.extend(b.averages.as_deref().map(|name| Entry { name, dtype: b.dtype, dims: &b.dims, bytes }));
    }
    found
}

/// Copies the params of `from` into the params of the same names of `to`, an inference program for instance. Fails with
/// [`Kind::Name`] or [`Kind::Shape`] if a param of `to` has no counterpart of its dtype and shape; then `to` is
/// unchanged.
pub fn copy_params(from: &Program, to: &mut Program) -> Result<()> {
    set_params(&entries(from, |role| role == Role::Param), to)
}

/// As [`copy_params`], with the moving averages of the params. Frozen params have none and are copied themselves. Fails
/// with [`Kind::Name`] if the program keeps no averages.
pub fn copy_averages(from: &Program, to: &mut Program) -> Result<()> {
    let mut source = averages(from);
    if source.is_empty() {
        return Err(Error::new(Kind::Name, "the program keeps no moving averages; see Optimiser::ema"));
    }
    // Averages come first: the first entry of a name counts.
    source.extend(entries(from, |role| role == Role::Param));
    set_params(&source, to)
}

/// Copies the first entry of each name into the params of `to`, such as the [merged](super::merge) weights of another
/// program. Entries that `to` has no param for are left out. Errors as for [`copy_params`].
pub fn set_params(source: &[Entry<'_>], to: &mut Program) -> Result<()> {
    let mut by_name: Vec<&Entry<'_>> = source.iter().collect();
    // The sort is stable: the first entry of a name stays first.
    by_name.sort_by_key(|e| e.name);
    let mut found = Vec::new();
    for p in entries(to, |role| role == Role::Param) {
        let first = by_name.partition_point(|e| e.name < p.name);
        let e = by_name.get(first).filter(|e| e.name == p.name);
        let e = e.ok_or_else(|| Error::new(Kind::Name, format!("there are no values for param {:?}", p.name)))?;
        if p.dtype != e.dtype || p.dims != e.dims {
            let text = format!("param {:?} is {}{:?}, its values are {}{:?}", p.name, p.dtype, p.dims, e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        found.push(*e);
    }
    for e in found {
        to.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
