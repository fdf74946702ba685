//! The loop's one step: rate, batch, program, cursor; and the checkpoint of all of it.
//!
//! Invariant: after [`Trainer::restore`] the trainer is in the state that [`Trainer::save`] saw, bit for bit, so what
//! follows equals what would have followed. A step allocates nothing that its `fill` does not.

use super::checkpoint::{self, Digest, Entry, HEADER_LIMIT, Loaded};
use super::{Batches, Schedule};
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::passes::optimiser::{LR, STEP};
use crate::session::{Handle, Program, Role, Trace};
use std::path::Path;
use std::time::Instant;

/// Name of the tensor that holds a checkpoint's cursor: version, step, epoch, position, seed, batch (`i64[6]`).
pub const CURSOR: &str = "train.cursor";
const VERSION: u64 = 1;
/// Most steps of a run: what an f64, which rates are computed in, counts.
pub const MAX_STEPS: u64 = 1 << 53;

/// A scalar of either float type.
#[derive(Clone, Copy)]
enum Scalar {
    F32(Handle<f32>),
    F64(Handle<f64>),
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps done, this one included.
    pub step: u64,
    /// Epoch that its batch came from, from 0.
    pub epoch: u64,
    /// The loss before its update.
    pub loss: f64,
    /// Its learning rate.
    pub lr: f64,
    /// Nanoseconds that the program took.
    pub ns: u64,
}

/// A step program with what drives it.
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
    /// Of a step program that [`train`](crate::passes::optimiser::train) made, whose scalar output `loss` is reported.
    /// Params and states that were neither loaded nor initialised nor written start from `seed`; others stay as they
    /// are.
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

    /// Runs one step. `fill` writes the examples that it is given into the program's inputs.
    ///
    /// A step that fails, in `fill` or in the program, leaves the trainer where it was: the next one sees the same
    /// examples. A loss that is not finite is an error too, of a step that was done: its update has reached the params,
    /// so training goes on from a checkpoint or from new start values.
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

    /// The next batch, and the program's step on it: nanoseconds of the latter.
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

    /// Has the next step recorded, see [`Program::step_traced`].
    pub fn trace_next(&mut self) {
        self.tracing = true;
    }

    /// What was recorded last, once.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    /// Steps done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// Batches that steps took. A step that fails takes none.
    pub fn batches_taken(&self) -> u64 {
        self.batches.before(self.batches.cursor())
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, writable.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Params, as the entries of a weights file.
    pub fn weights(&self) -> Vec<Entry<'_>> {
        entries(&self.program, |role| role == Role::Param)
    }

    fn cursor(&self) -> [u64; 6] {
        let (epoch, at) = self.batches.cursor();
        [VERSION, self.step, epoch, at, self.seed, self.batches.batch() as u64]
    }

    /// Writes params, states and the cursor to `path`, as a whole or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let cursor = self.cursor();
        let mut all = entries(&self.program, |role| matches!(role, Role::Param | Role::State));
        all.push(Entry { name: CURSOR, dtype: DType::I64, dims: &[6], bytes: bytemuck::cast_slice(&cursor) });
        checkpoint::save(path, &all)
    }

    /// Continues from a checkpoint of the same graph, seed and batch, and says whether the file was compared with a
    /// digest. Refuses a file whose digest does not fit, and numbers that no run comes to. On an error nothing has
    /// changed.
    pub fn restore(&mut self, path: &Path) -> Result<Digest> {
        let data: u64 = self.program.persistent().map(|(_, bytes)| bytes.len() as u64).sum();
        let file = Loaded::open(path, data + HEADER_LIMIT)?;
        self.restore_from(&file).map_err(|e| e.context(path.display()))?;
        Ok(file.digest())
    }

    fn restore_from(&mut self, file: &Loaded) -> Result<()> {
        let cursor: [u64; 6] = bytemuck::pod_read_unaligned(file.expect(CURSOR, DType::I64, &[6])?.bytes);
        let [version, step, epoch, at, seed, batch] = cursor;
        let own = self.cursor();
        for (what, theirs, ours) in [("version", version, own[0]), ("seed", seed, own[4]), ("batch", batch, own[5])] {
            if theirs != ours {
                let text = format!("the checkpoint has {what} {theirs}, this run has {ours}");
                return Err(Error::new(Kind::Data, text));
            }
        }
        // A batch may be taken without a step, if that ended with an error; a step takes one.
        let taken = self.batches.before((epoch, at));
        if step > taken || taken > MAX_STEPS {
            let text = format!(
                "the checkpoint has step {step} at epoch {epoch}, position {at}, before which are {taken} batches of \
                 this data; there is one a step, and {MAX_STEPS} at most"
            );
            return Err(Error::new(Kind::Data, text));
        }
        for (b, _) in self.program.persistent() {
            let e = file.expect(&b.name, b.dtype, &b.dims)?;
            if b.name == STEP && b.dtype == DType::I64 && b.bytes == 8 {
                counted(bytemuck::pod_read_unaligned(e.bytes))?;
            }
        }
        let mut known: Vec<&str> = self.program.persistent().map(|(b, _)| b.name.as_str()).collect();
        known.sort_unstable();
        if let Some(extra) = file.entries().find(|e| e.name != CURSOR && known.binary_search(&e.name).is_err()) {
            return Err(Error::new(Kind::Name, format!("the checkpoint has {:?}, this run has not", extra.name)));
        }
        self.batches.seek(epoch, at)?;
        self.step = step;
        for e in file.entries().filter(|e| e.name != CURSOR) {
            self.program.persistent_mut(e.name)?.1.copy_from_slice(e.bytes);
        }
        Ok(())
    }
}

/// Refuses a number of the optimiser's steps that no run comes to.
fn counted(steps: i64) -> Result<()> {
    match u64::try_from(steps) {
        Ok(n) if n <= MAX_STEPS => Ok(()),
        _ => Err(Error::new(Kind::Data, format!("{STEP} is {steps}; it goes from 0 to {MAX_STEPS}"))),
    }
}

/// Params and states whose role is `wanted`, as entries of a file.
pub fn entries(program: &Program, wanted: impl Fn(Role) -> bool) -> Vec<Entry<'_>> {
    let kept = program.persistent().filter(|(b, _)| wanted(b.role));
    kept.map(|(b, bytes)| Entry { name: &b.name, dtype: b.dtype, dims: &b.dims, bytes }).collect()
}

/// The moving averages of a program's params, under the params' names: the entries of a weights file. There are none if
/// the [optimiser](crate::passes::optimiser::Optimiser::ema) keeps none.
pub fn averages(program: &Program) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    for (b, bytes) in program.persistent() {
        found.extend(b.averages.as_deref().map(|name| Entry { name, dtype: b.dtype, dims: &b.dims, bytes }));
    }
    found
}

/// Copies into all params of `to` the values that the params of the same names have in `from`: how an inference
/// program sees what a step program has learnt.
pub fn copy_params(from: &Program, to: &mut Program) -> Result<()> {
    copy(&entries(from, |role| role == Role::Param), to)
}

/// As [`copy_params`], with the moving averages; params that have none (they were frozen) come as they are.
pub fn copy_averages(from: &Program, to: &mut Program) -> Result<()> {
    let mut source = averages(from);
    if source.is_empty() {
        return Err(Error::new(Kind::Name, "the program keeps no moving averages; see Optimiser::ema"));
    }
    // Averages first: the first entry of a name counts.
    source.extend(entries(from, |role| role == Role::Param));
    copy(&source, to)
}

/// On an error nothing has changed.
fn copy(source: &[Entry<'_>], to: &mut Program) -> Result<()> {
    let mut by_name: Vec<&Entry<'_>> = source.iter().collect();
    // Stable: the first of a name stays the first.
    by_name.sort_by_key(|e| e.name);
    let mut found = Vec::new();
    for p in entries(to, |role| role == Role::Param) {
        let first = by_name.partition_point(|e| e.name < p.name);
        let e = by_name.get(first).filter(|e| e.name == p.name);
        let e = e.ok_or_else(|| Error::new(Kind::Name, format!("nothing gives param {:?} its values", p.name)))?;
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
