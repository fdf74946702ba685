//! The trainer: one training step with its learning rate and batch, and the checkpoint of all state.
//!
//! Invariant: [`Trainer::restore`] brings back the state that [`Trainer::save`] wrote, bit for bit, so a resumed run
//! equals one that never stopped. A step allocates nothing, except in the caller's `fill` or source.

mod kept;
mod param_copies;
mod ranks;
mod save_restore;
pub(super) mod step_io;
pub(super) mod streamed;

use super::checkpoint::{Entry, entries};
use super::parallel::Parallel;
use super::plateau::PlateauState;
use super::rate::{Rate, RateInput};
use super::saved_names::is_saved_trainer_tensor;
pub use super::saved_names::{CURSOR, MAX_STEPS};
use super::stream_source::Source;
use super::{Batches, Partial};
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::session::MarkedInputs;
use crate::session::{Binding, Method, Program, Trace};
pub use kept::KEPT_LIMIT;
use kept::Kept;
pub use param_copies::{averages, copy_averages, copy_params, set_params};
pub use step_io::MASK;
use step_io::StepIo;
use streamed::{Pulled, StreamFeed};

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Steps done, this one included.
    pub step: u64,
    /// Epoch of the batch, counted from 0.
    pub epoch: u64,
    /// Examples of the batch, without those that fill it up.
    pub examples: usize,
    /// The loss before the step's update.
    pub loss: f64,
    /// The step's learning rate.
    pub lr: f64,
    /// Time of the program, in nanoseconds, without `fill`.
    pub ns: u64,
}

/// What happens to a step whose loss is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NonFinite {
    /// An error of kind [`Kind::Diverged`].
    #[default]
    Error,
    /// Training goes on; [`Progress::loss`] tells.
    GoOn,
}

/// Where batches come from.
enum Feed {
    /// An order of examples that the caller has.
    Shuffled(Batches),
    /// A stream.
    Stream(StreamFeed),
}

/// A step program with its learning rate, its batches and its counters.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// // 64 examples of y = 2·x, in batches of 8.
/// let x: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
/// let g = Builder::new("line");
/// let (input, target) = (g.input("x", [8, 1], DType::F32), g.input("y", [8, 1], DType::F32));
/// let loss = nn::linear(&g, "fc", input, 1).mse(target).named("loss");
/// let program = Session::new().compile(&train(&g.finish([loss])?, "loss", optim::Adam::new(0.1))?)?;
///
/// let batches = Batches::new(64, 8, 7)?; // number of examples, of a batch, seed
/// let mut t = Trainer::new(program, "loss", Schedule::cosine(0.1, 0, 400), batches, 7)?;
/// let mut fill = |p: &mut Program, batch: &[u32]| -> Result<()> {
///     let at = |k: f32| batch.iter().map(|&i| k * x[i as usize]).collect::<Vec<_>>();
///     p.values_mut::<f32>("x")?.copy_from_slice(&at(1.0));
///     p.values_mut::<f32>("y")?.copy_from_slice(&at(2.0));
///     Ok(())
/// };
/// let mut last = t.step(&mut fill)?;
/// while last.step < 400 {
///     last = t.step(&mut fill)?;
/// }
/// assert!(last.loss < 1e-4 && last.epoch == 49, "{last:?}");
/// assert!((t.program().values::<f32>("fc.weight")?[0] - 2.0).abs() < 0.01);
/// # Ok(())
/// # }
/// ```
pub struct Trainer {
    program: Program,
    rate: Rate,
    plateau: PlateauState,
    feed: Feed,
    seed: u64,
    step: u64,
    /// The loss of the last step.
    last_loss: f64,
    /// The rate of the last step; `None` before the first.
    last_rate: Option<f64>,
    /// The last report.
    metric: f64,
    /// The program's training methods: the first is for full batches.
    steps: Vec<StepIo>,
    /// Of each: the inputs that its first batch may leave unwritten, until that is checked.
    unchecked: Vec<Option<MarkedInputs>>,
    loss: String,
    non_finite: NonFinite,
    kept: Vec<Kept>,
    tracing: bool,
    trace: Option<Trace>,
    /// The other ranks, if there are any.
    parallel: Option<Parallel>,
    /// The mean of their losses in the last step.
    mean_loss: f64,
    /// Whether a checkpoint may be of another number of ranks.
    rescale: bool,
}

impl Trainer {
    /// A trainer of a step program that [`train`](crate::passes::optimiser::train) made. `loss` is the name of the
    /// scalar output that is reported. Params and states without a value are initialised from `seed`; those that were
    /// loaded, initialised or written keep theirs. Of a program with several methods, the first one trains.
    ///
    /// `rate` is a [`Schedule`](super::Schedule), a [`ReduceLrOnPlateau`](super::ReduceLrOnPlateau), a function of the
    /// step, or a [`Rate`].
    ///
    /// Fails if the rate is invalid, if the program has no input `lr` or no such output, or if batches are to be
    /// filled up ([`Partial::Pad`]) and the program has no input [`MASK`] with an element for each example.
    pub fn new(program: Program, loss: &str, rate: impl Into<Rate>, batches: Batches, seed: u64) -> Result<Trainer> {
        Trainer::new_with_feed(program, loss, rate.into(), Feed::Shuffled(batches), seed)
    }

    fn new_with_feed(program: Program, loss: &str, rate: Rate, feed: Feed, seed: u64) -> Result<Trainer> {
        let first = program.methods().next().unwrap_or_default();
        let first = program.method(first)?;
        let batch = if let Feed::Shuffled(b) = &feed { b.batch() } else { 0 };
        let mut io = StepIo::new(&program, first, loss, batch)?;
        if matches!(&feed, Feed::Shuffled(b) if b.partial_choice() == Partial::Pad) {
            io.mask = Some(step_io::Mask::new(&program, first, batch)?);
        }
        Trainer::with_first(program, io, loss, rate, feed, seed)
    }

    /// A trainer whose first method is `io`.
    fn with_first(program: Program, io: StepIo, loss: &str, rate: Rate, feed: Feed, seed: u64) -> Result<Trainer> {
        rate.validate()?;
        if let Some((b, _)) = program.persistent().find(|(b, _)| is_saved_trainer_tensor(&b.name)) {
            let text = format!("{:?} is the name of a tensor that checkpoints keep for the trainer", b.name);
            return Err(Error::new(Kind::Name, text));
        }
        let nothing = PlateauState { lr: 0.0, best: 0.0, bad: 0, cooldown: 0 };
        let mut t = Trainer {
            plateau: rate.plateau().map_or(nothing, |p| p.start()),
            unchecked: vec![Some(program.longer_inputs(io.method, io.examples))],
            steps: vec![io],
            loss: loss.to_string(),
            program,
            rate,
            feed,
            seed,
            step: 0,
            last_loss: f64::NAN,
            last_rate: None,
            metric: f64::NAN,
            non_finite: NonFinite::default(),
            kept: Vec::new(),
            tracing: false,
            trace: None,
            parallel: None,
            mean_loss: f64::NAN,
            rescale: false,
        };
        t.program.init_rest(seed)?;
        Ok(t)
    }

    /// Runs batches of `examples` examples by `method`, which shares the params. With [`Partial::Short`], the last
    /// batches of epochs are such batches. `fill` gets as many indices and writes into the inputs of that method.
    ///
    /// Errors: the method is of another program, has no input `lr` or no output of the loss's name, or is given for a
    /// size that another one is for.
    pub fn method_of(mut self, examples: usize, method: Method) -> Result<Trainer> {
        if self.steps.iter().any(|io| io.examples == examples) {
            return Err(Error::new(Kind::Name, format!("there is a method for batches of {examples} examples")));
        }
        self.steps.push(StepIo::new(&self.program, method, &self.loss, examples)?);
        self.unchecked.push(Some(self.program.longer_inputs(method, examples)));
        Ok(self)
    }

    /// What happens to a step whose loss is not finite: by default an error.
    pub fn on_non_finite(mut self, choice: NonFinite) -> Trainer {
        self.non_finite = choice;
        self
    }

    /// Runs one step. `fill` writes the examples whose indices it gets into the program's inputs.
    ///
    /// The first batch of each method is checked: an input with more rows than the batch, of which `fill` writes only
    /// those of the batch, is an error of kind [`Kind::Data`].
    ///
    /// A step that fails in the rate, in `fill` or in the program leaves the trainer unchanged: the next step sees the
    /// same examples. A loss that is not finite is an error of kind [`Kind::Diverged`], unless
    /// [`Trainer::on_non_finite`] says otherwise. That step is done and has updated the params, so training can only go
    /// on from a checkpoint or from new start values.
    pub fn step(&mut self, fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>) -> Result<Progress> {
        let lr = self.next_lr()?;
        match &mut self.feed {
            Feed::Stream(_) => self.step_streamed_alone(lr, fill),
            Feed::Shuffled(b) => {
                let before = b.cursor();
                b.advance();
                let done = self.step_shuffled(lr, fill);
                if let (Err(_), Feed::Shuffled(b)) = (&done, &mut self.feed) {
                    b.seek(before.0, before.1)?;
                }
                let (at, examples, ns) = done?;
                self.done(at, examples, lr, ns)
            }
        }
    }

    /// Runs one step on the next batch of `source`; `None` at the end of the stream.
    ///
    /// Errors are those of [`Trainer::step`]; those of the source name the batch and its epoch, both counted from 0. A
    /// step that fails, unless for its loss, leaves the trainer unchanged: the source seeks back to the same batch
    /// before the next step. A trainer of shuffled batches takes none from a stream.
    pub fn step_from(&mut self, source: &mut dyn Source) -> Result<Option<Progress>> {
        let (mut ended, start) = (false, self.stream_position());
        loop {
            match self.pull_streamed(source)? {
                Pulled::Step(p) => return Ok(Some(p)),
                Pulled::End => return Ok(None),
                Pulled::EndOfEpoch if ended => return Err(self.empty_streamed_epoch(start)),
                Pulled::EndOfEpoch => ended = true,
            }
        }
    }

    /// Runs the step of the batch taken last. Returns the number of its method in `steps`, its examples and its time.
    fn step_shuffled(
        &mut self,
        lr: f64,
        fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>,
    ) -> Result<(usize, usize, u64)> {
        let Feed::Shuffled(batches) = &self.feed else { return Err(wrong_feed("a stream", "step_from")) };
        let (size, real) = (batches.taken().len(), batches.real());
        let at = self.steps.iter().position(|io| io.examples == size).ok_or_else(|| {
            let text = format!("no method is for a batch of {size} examples; see Trainer::method_of");
            Error::new(Kind::Data, text)
        })?;
        let filled = self.fill_shuffled(at, lr, fill);
        Ok((at, real, self.run_after(at, filled)?))
    }

    /// Writes the rate and the batch taken last into the inputs of method `at`.
    fn fill_shuffled(
        &mut self,
        at: usize,
        lr: f64,
        fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>,
    ) -> Result<()> {
        let Feed::Shuffled(batches) = &self.feed else { return Err(wrong_feed("a stream", "step_from")) };
        let (io, real) = (self.steps[at], batches.real());
        io.lr.write(&mut self.program, lr)?;
        if let Some(mask) = io.mask {
            mask.write(&mut self.program, real)?;
        }
        if let Some(marked) = &mut self.unchecked[at] {
            self.program.mark_inputs(marked);
            let filled = fill(&mut self.program, batches.taken());
            let whole = self.program.unmark_inputs(marked);
            filled.and(whole)?;
            self.unchecked[at] = None;
        } else {
            fill(&mut self.program, batches.taken())?;
        }
        Ok(())
    }

    /// Steps the program and returns the time of that step in nanoseconds.
    fn run(&mut self, at: usize) -> Result<u64> {
        let start = Instant::now();
        match std::mem::take(&mut self.tracing) {
            true => self.trace = Some(self.program.step_traced()?),
            false => self.program.run(self.steps[at].method)?,
        }
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Counts a step and reports it.
    fn done(&mut self, at: usize, examples: usize, lr: f64, ns: u64) -> Result<Progress> {
        self.step += 1;
        let loss = self.loss_of(at)?;
        (self.last_loss, self.last_rate) = (loss, Some(lr));
        match loss.is_finite() || self.non_finite == NonFinite::GoOn {
            true => Ok(Progress { step: self.step, epoch: self.epoch(), examples, loss, lr, ns }),
            false => Err(self.diverged(at, lr)),
        }
    }

    /// The error of a step whose loss is not finite.
    #[cold]
    fn diverged(&self, at: usize, lr: f64) -> Error {
        let (name, step, loss) = (self.steps[at].loss.name(&self.program), self.step, self.last_loss);
        let text = format!(
            "the loss of step {step} is {loss} (output {name:?}, rate {lr}); a lower rate, clipped gradients or a look \
             at the batch may help, from an earlier checkpoint or new start values; Session::find_nan (`train \
             --find-nan` of the program) names the op that makes the first NaN"
        );
        Error::new(Kind::Diverged, text)
    }

    /// The rate of the next step.
    fn next_lr(&self) -> Result<f64> {
        let m = RateInput { step: self.step, epoch: self.epoch(), loss: self.last_loss, metric: self.metric };
        self.rate.lr(&m, &self.plateau)
    }

    /// The rate of the last step, which may have been done before [`Trainer::restore`]. `None` before the first step,
    /// and after a checkpoint of a version that did not keep it.
    pub fn last_rate(&self) -> Option<f64> {
        self.last_rate
    }

    /// The rate that the trainer's schedule or function gives the step after `step` others. `None` if it depends on
    /// more than the step.
    pub fn rate_of_step(&self, step: u64) -> Option<f64> {
        let m = RateInput { step, epoch: 0, loss: f64::NAN, metric: f64::NAN };
        if self.rate.has_state() { None } else { self.rate.lr(&m, &self.plateau).ok() }
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

    /// The epoch of the batch taken last, counted from 0; of a stream whose epoch has ended, the next one.
    pub fn epoch(&self) -> u64 {
        match &self.feed {
            Feed::Shuffled(b) => b.cursor().0,
            Feed::Stream(s) => s.at.epoch,
        }
    }

    /// Number of epochs whose last batch was taken. A stream's epoch ends when the stream says so.
    pub fn epochs_done(&self) -> u64 {
        match &self.feed {
            Feed::Shuffled(b) => b.cursor().0 + u64::from(b.at_epoch_end()),
            Feed::Stream(s) => s.at.epoch,
        }
    }

    /// Number of batches taken. A step that fails takes none.
    pub fn batches_taken(&self) -> u64 {
        match &self.feed {
            Feed::Shuffled(b) => b.before(b.cursor()),
            Feed::Stream(s) => s.taken,
        }
    }

    /// Reports a metric: of an evaluation, say. [`ReduceLrOnPlateau`](crate::train::ReduceLrOnPlateau) counts reports,
    /// and functions of the metrics see the last one. The checkpoint holds what follows from them.
    pub fn report(&mut self, metric: f64) {
        self.metric = metric;
        if let Some(p) = self.rate.plateau() {
            self.plateau = p.after(self.plateau, metric);
        }
    }

    /// What happens to a step whose loss is not finite.
    pub fn non_finite_choice(&self) -> NonFinite {
        self.non_finite
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, mutable.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The params and buffers, as entries of a weights file.
    pub fn weights(&self) -> Vec<Entry<'_>> {
        entries(&self.program, Binding::is_weight)
    }
}

/// The error of a step that takes its batch from elsewhere.
#[cold]
fn wrong_feed(what: &str, method: &str) -> Error {
    Error::new(Kind::Data, format!("this trainer takes {what}; call Trainer::{method}"))
}

#[cfg(test)]
mod tests;
