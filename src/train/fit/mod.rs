//! The loop of a run: steps, evaluations, checkpoints, callbacks, and the reasons to stop.
//!
//! Invariant: the actions after a step follow from the trainer's counters and from the numbers in its checkpoint. A
//! checkpoint is written after everything else of its step, except the callbacks for that checkpoint. So a resumed run
//! makes the same calls and evaluations as a run without a pause, and ends at the same step. A checkpoint never holds
//! params that are not finite, unless the trainer is set to go on after a loss that is not finite.

use super::early_stopping::EarlyStopping;
use super::parallel::SyncStates;
use super::stream_source::Source;
use super::trainer::{NonFinite, Progress, Trainer};
use crate::error::{Error, Kind, Result};
use crate::session::Program;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

mod feeds;
use feeds::{Feed, Taken};

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Every {
    /// After each step whose number this divides.
    Steps(u64),
    /// After each epoch whose number, counted from 1, this divides.
    Epochs(u64),
}

/// An event that a callback gets. The trainer beside it has done everything up to the event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step is done.
    Step(&'a Progress),
    /// An epoch is over: its number, counted from 0.
    Epoch(u64),
    /// An evaluation gave this metric. It was reported to the rate.
    Evaluation(f64),
    /// A checkpoint was written.
    Checkpoint(&'a Path),
}

/// A function that is called after steps, epochs, evaluations and checkpoints. `Break(reason)` ends the run.
pub type Callback<'a> = dyn FnMut(Event<'_>, &mut Trainer) -> Result<ControlFlow<String>> + 'a;

/// A function that measures the params, on a method or on another program.
pub type Evaluate<'a> = dyn FnMut(&mut Trainer) -> Result<f64> + 'a;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// All steps are done.
    Steps,
    /// All epochs are done.
    Epochs,
    /// The stream ended.
    Data,
    /// The metric got no better.
    EarlyStopping,
    /// A callback said so, for this reason.
    Callback(String),
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// Why it ended.
    pub ended: Ended,
    /// Its last step; `None` if there was none.
    pub last: Option<Progress>,
    /// The metric of its last evaluation; `None` if there was none.
    pub metric: Option<f64>,
}

/// The loop of a run. After each step it does the following, in this order. It calls the callbacks for the step and, at
/// the end of an epoch, those for the epoch. If an evaluation is due, it evaluates, tells the metric to the learning
/// rate, calls the callbacks for the evaluation, and writes the file of [`Fit::keep_best`] if the metric is the best so
/// far. If a checkpoint is due, it writes it and calls the callbacks for it.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::train::{EarlyStopping, Event, Every, Fit};
/// use std::ops::ControlFlow;
/// # fn main() -> Result<()> {
/// fn net(g: &Builder, rows: usize) -> Var<'_> {
///     let (x, y) = (g.input("x", [rows, 1], DType::F32), g.input("y", [rows, 1], DType::F32));
///     nn::linear(g, "fc", x, 1).mse(y).named("loss")
/// }
/// let (g, h) = (Builder::new("learn"), Builder::new("evaluate"));
/// let learn = train(&g.finish([net(&g, 4)])?, "loss", optim::Sgd::new(0.1))?;
/// let evaluate = h.finish([net(&h, 16)])?;
/// let program = Session::new().compile_all(&[("learn", &learn), ("evaluate", &evaluate)])?;
/// let (x, y) = (program.input::<f32>("x")?, program.input::<f32>("y")?);
///
/// let mut trainer = Trainer::new(program, "loss", Schedule::Constant { lr: 0.1 }, Batches::new(20, 4, 0)?, 0)?;
/// let fitted = Fit::new()
///     .epochs(40)
///     .evaluate(Every::Epochs(1), |t| {
///         let p = t.program_mut();
///         let m = p.method("evaluate")?;
///         let (x, y) = (p.input_of::<f32>(m, "x")?, p.input_of::<f32>(m, "y")?);
///         (0..16).for_each(|i| (p[x][i], p[y][i]) = (i as f32 / 16.0, i as f32 / 8.0));
///         p.run(m)?;
///         Ok(f64::from(p[p.output_of::<f32>(m, "loss")?][0]))
///     })
///     .early_stopping(EarlyStopping::default().patience(3))
///     .callback(|event, t| {
///         if let Event::Evaluation(metric) = event {
///             println!("step {}: {metric}", t.steps_done());
///         }
///         Ok(ControlFlow::Continue(()))
///     })
///     .run(&mut trainer, &mut |p, which| {
///         for (k, &i) in which.iter().enumerate() {
///             (p[x][k], p[y][k]) = (i as f32 / 20.0, i as f32 / 10.0);
///         }
///         Ok(())
///     })?;
/// assert!(fitted.metric.is_some_and(|m| m < 0.01));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Fit<'a> {
    steps: Option<u64>,
    epochs: Option<u64>,
    evaluate: Option<(Every, Box<Evaluate<'a>>)>,
    checkpoint: Option<(PathBuf, Every)>,
    stopping: Option<EarlyStopping>,
    best: Option<PathBuf>,
    callbacks: Vec<Box<Callback<'a>>>,
    saved: Saved,
    /// Whether this run has written the checkpoint.
    wrote: bool,
}

/// What the checkpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Saved {
    /// This run has done nothing yet: a file may be another run's.
    #[default]
    Untouched,
    /// Something is done that it does not hold.
    Behind,
    /// All that is done.
    Current,
}

impl<'a> Fit<'a> {
    /// A loop without evaluations, checkpoints and callbacks.
    pub fn new() -> Fit<'a> {
        Fit::default()
    }

    /// Ends when the trainer has done `n` steps, including those before a resume.
    pub fn steps(mut self, n: u64) -> Fit<'a> {
        self.steps = Some(n);
        self
    }

    /// Ends when the trainer has done `n` epochs, including those before a resume.
    pub fn epochs(mut self, n: u64) -> Fit<'a> {
        self.epochs = Some(n);
        self
    }

    /// Evaluates the params. The metric is reported to the rate and to early stopping; with several ranks, the mean of
    /// the ranks' metrics. An evaluation should leave what training reads as it is.
    pub fn evaluate(mut self, every: Every, f: impl FnMut(&mut Trainer) -> Result<f64> + 'a) -> Fit<'a> {
        self.evaluate = Some((every, Box::new(f)));
        self
    }

    /// Writes a checkpoint to `path`, each time as a whole or not at all, and one at the end of the run. If a source or
    /// `fill` fails, one is written, too, from before that batch, so that the run can go on from there.
    pub fn checkpoint(mut self, path: impl Into<PathBuf>, every: Every) -> Fit<'a> {
        self.checkpoint = Some((path.into(), every));
        self
    }

    /// Ends when the metric gets no better.
    pub fn early_stopping(mut self, how: EarlyStopping) -> Fit<'a> {
        self.stopping = Some(how);
        self
    }

    /// Writes a checkpoint to `path` after each evaluation that is the best so far, as early stopping counts.
    pub fn keep_best(mut self, path: impl Into<PathBuf>) -> Fit<'a> {
        self.best = Some(path.into());
        self
    }

    /// Adds a callback. All are called in the order in which they were added; the first that breaks ends the run.
    pub fn callback(mut self, f: impl FnMut(Event<'_>, &mut Trainer) -> Result<ControlFlow<String>> + 'a) -> Fit<'a> {
        self.callbacks.push(Box::new(f));
        self
    }

    /// Runs the loop on the trainer's shuffled batches. `fill` is that of [`Trainer::step`].
    ///
    /// Errors: those of [`Trainer::step`], of evaluations, of callbacks and of writing checkpoints; a choice that can
    /// have no effect, or a loop that nothing ends. If the loss or, when a checkpoint is due, a param is not finite,
    /// the error is of kind [`Kind::Diverged`] and names the step and the last good checkpoint, which is kept.
    pub fn run(
        self,
        trainer: &mut Trainer,
        fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>,
    ) -> Result<Fitted> {
        self.run_feed(trainer, Feed::Fill(fill))
    }

    /// As [`Fit::run`], on the batches of a stream.
    pub fn run_from(self, trainer: &mut Trainer, source: &mut dyn Source) -> Result<Fitted> {
        self.run_feed(trainer, Feed::Source(source))
    }

    /// Fails if a choice can have no effect.
    fn validate(&self, feed: &Feed<'_>, t: &Trainer) -> Result<()> {
        let bad = |text: &str| Err(Error::new(Kind::Data, format!("fit: {text}")));
        let every = [self.evaluate.as_ref().map(|e| e.0), self.checkpoint.as_ref().map(|c| c.1)];
        if every.iter().flatten().any(|e| matches!(e, Every::Steps(0) | Every::Epochs(0))) {
            return bad("something happens every 0 steps or epochs; give at least 1");
        }
        let by_epochs = self.epochs.is_some() || every.iter().flatten().any(|e| matches!(e, Every::Epochs(_)));
        if by_epochs && t.is_streaming() && matches!(feed, Feed::Fill(_)) {
            return bad("batches that the caller writes one by one have no epochs; count steps, or give a source");
        }
        if self.evaluate.is_none() && self.stopping.is_some() {
            return bad("early stopping needs an evaluation");
        }
        if self.best.is_some() && self.stopping.is_none() {
            return bad("the best checkpoint is that of early stopping, which is not given");
        }
        let ends = self.steps.is_some() || self.epochs.is_some() || self.stopping.is_some();
        if !ends && self.callbacks.is_empty() && matches!(feed, Feed::Fill(_)) {
            return bad("nothing ends the run; give steps, epochs, early stopping or a callback");
        }
        self.stopping.map_or(Ok(()), |s| s.validate())
    }

    /// Why the run is over, if it is.
    fn is_over(&self, t: &mut Trainer) -> Result<Option<Ended>> {
        if self.steps.is_some_and(|n| t.steps_done() >= n) {
            return Ok(Some(Ended::Steps));
        }
        if self.epochs.is_some_and(|n| t.epochs_done() >= n) {
            return Ok(Some(Ended::Epochs));
        }
        match self.stopping {
            Some(s) if s.is_over(t)? => Ok(Some(Ended::EarlyStopping)),
            _ => Ok(None),
        }
    }

    fn run_feed(mut self, t: &mut Trainer, mut feed: Feed<'_>) -> Result<Fitted> {
        self.validate(&feed, t)?;
        let mut fitted = Fitted { ended: Ended::Data, last: None, metric: None };
        loop {
            if let Some(ended) = self.is_over(t)? {
                fitted.ended = ended;
                break;
            }
            let taken = match feed.take(t) {
                Ok(taken) => taken,
                Err(e) => return Err(self.failed(t, e)),
            };
            self.saved = Saved::Behind;
            let (flow, due) = match taken {
                Taken::End => break,
                Taken::Step(p) => {
                    fitted.last = Some(p);
                    (self.call(Event::Step(&p), t)?, self.after(t, FitDue::Step(p.step))?)
                }
                Taken::LastStep(p) => {
                    fitted.last = Some(p);
                    let step = self.call(Event::Step(&p), t)?;
                    let (flow, due) = self.epoch(t, p.epoch, FitDue::Both(p.step, p.epoch + 1))?;
                    (earlier_break(step, flow), due)
                }
                Taken::EndOfEpoch(epoch) => self.epoch(t, epoch, FitDue::Epoch(epoch + 1))?,
            };
            fitted.metric = due.metric.or(fitted.metric);
            if let ControlFlow::Break(reason) = earlier_break(flow, due.flow) {
                fitted.ended = Ended::Callback(reason);
                break;
            }
        }
        if self.checkpoint.is_some() && self.saved == Saved::Behind {
            // A callback that breaks here has nothing left to end.
            let _ = self.save(t)?;
        }
        Ok(fitted)
    }

    /// What happens at the end of an epoch.
    fn epoch(&mut self, t: &mut Trainer, epoch: u64, due: FitDue) -> Result<(ControlFlow<String>, After)> {
        let flow = self.call(Event::Epoch(epoch), t)?;
        Ok((flow, self.after(t, due)?))
    }

    /// Evaluates and writes the checkpoint, each if it is due.
    fn after(&mut self, t: &mut Trainer, due: FitDue) -> Result<After> {
        let mut after = After { flow: ControlFlow::Continue(()), metric: None };
        if let Some((every, evaluate)) = &mut self.evaluate
            && due.has(*every)
        {
            let own = evaluate(t).map_err(|e| e.context(format!("evaluation after step {}", t.steps_done())));
            let metric = t.mean_over_ranks(own)?;
            t.report(metric);
            after.metric = Some(metric);
            let better = self.stopping.map_or(Ok(false), |s| s.count(t, metric))?;
            after.flow = self.call(Event::Evaluation(metric), t)?;
            if let Some(path) = self.best.as_deref().filter(|_| better) {
                save_if_finite(t, path)?;
            }
        }
        if self.checkpoint.as_ref().is_some_and(|c| due.has(c.1)) {
            after.flow = earlier_break(after.flow, self.save(t)?);
        }
        Ok(after)
    }

    /// Writes the checkpoint and tells the callbacks.
    fn save(&mut self, t: &mut Trainer) -> Result<ControlFlow<String>> {
        let Some((path, _)) = &self.checkpoint else { return Ok(ControlFlow::Continue(())) };
        let path = path.clone();
        save_if_finite(t, &path)?;
        (self.saved, self.wrote) = (Saved::Current, true);
        self.call(Event::Checkpoint(&path), t)
    }

    /// Calls the callbacks. One that breaks or fails on a rank ends the run on all ranks.
    fn call(&mut self, event: Event<'_>, t: &mut Trainer) -> Result<ControlFlow<String>> {
        let mut flow = Ok(ControlFlow::Continue(()));
        for callback in &mut self.callbacks {
            flow = callback(event, t);
            if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                break;
            }
        }
        let ends = t.any_rank(!matches!(flow, Ok(ControlFlow::Continue(()))))?;
        match flow {
            Ok(ControlFlow::Continue(())) if ends => Ok(ControlFlow::Break("a callback of another rank".into())),
            flow => flow,
        }
    }

    /// The error of a step, and what is left of the run.
    #[cold]
    fn failed(&mut self, t: &mut Trainer, e: Error) -> Error {
        let Some((path, _)) = &self.checkpoint else { return e };
        let shown = path.display();
        // Params that are no longer good replace no checkpoint.
        let half = t.program().is_half_done();
        let bad = e.kind == Kind::Diverged || t.any_rank(half).unwrap_or(true);
        let what = match self.saved {
            _ if bad && self.wrote => format!("the last good checkpoint is {shown}"),
            _ if bad && path.is_file() => format!("{shown} is as it was before this run"),
            Saved::Untouched => return e,
            _ if bad => return e,
            Saved::Current => format!("{shown} holds the run before this step"),
            // The step left the trainer as it was.
            Saved::Behind => match save_if_finite(t, path) {
                Ok(()) => format!("{shown} holds the run before this step"),
                Err(other) => format!("no checkpoint could be written: {other}"),
            },
        };
        Error { message: format!("{}; {what}", e.message), ..e }
    }
}

/// What is due: after a step, at the end of an epoch, or after the last step of an epoch.
#[derive(Clone, Copy)]
enum FitDue {
    Step(u64),
    Epoch(u64),
    Both(u64, u64),
}

impl FitDue {
    fn has(self, every: Every) -> bool {
        match (every, self) {
            (Every::Steps(n), FitDue::Step(step) | FitDue::Both(step, _)) => step.is_multiple_of(n),
            (Every::Epochs(n), FitDue::Epoch(epoch) | FitDue::Both(_, epoch)) => epoch.is_multiple_of(n),
            _ => false,
        }
    }
}

/// What came after a step.
struct After {
    flow: ControlFlow<String>,
    metric: Option<f64>,
}

fn earlier_break(a: ControlFlow<String>, b: ControlFlow<String>) -> ControlFlow<String> {
    if a.is_break() { a } else { b }
}

/// Writes a checkpoint, unless a param or a buffer is not finite and the trainer takes that for an error.
fn save_if_finite(t: &mut Trainer, path: &Path) -> Result<()> {
    t.sync_states(SyncStates::default())?;
    t.save_after(path, check_finite(t, path))
}

fn check_finite(t: &Trainer, path: &Path) -> Result<()> {
    if t.non_finite_choice() == NonFinite::Error
        && let Some(name) = t.weights().iter().find(|e| !e.is_finite()).map(|e| e.name)
    {
        let kept = if path.is_file() { format!("; the checkpoint {} is kept", path.display()) } else { String::new() };
        let text = format!(
            "{name:?} is not finite after step {}, though the loss before was{kept}; Session::find_nan (`train --find-nan` of \
             the program) names the op that makes the first NaN",
            t.steps_done()
        );
        return Err(Error::new(Kind::Diverged, text));
    }
    Ok(())
}
