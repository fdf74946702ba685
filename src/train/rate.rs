//! Where a step's learning rate comes from: a schedule, a function of the step or of the metrics, or a plateau.
//!
//! Invariant: a rate is a function of the step and of the numbers that the trainer's checkpoint holds.

use super::Schedule;
use super::plateau::{PlateauState, ReduceLrOnPlateau};
use crate::error::{Error, Kind, Result};
use std::fmt;

/// The numbers that a rate may depend on. A checkpoint holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateInput {
    /// Steps done: 0 for the first step.
    pub step: u64,
    /// The epoch of the batch before; 0 for the first step.
    pub epoch: u64,
    /// The loss of the step before; NaN for the first step.
    pub loss: f64,
    /// The metric that was last reported, see [`Trainer::report`](super::Trainer::report); NaN before the first.
    pub metric: f64,
}

type OfStep = Box<dyn Fn(u64) -> f64 + Send>;
type OfMetrics = Box<dyn Fn(&RateInput) -> f64 + Send>;

enum Source {
    Schedule(Schedule),
    Step(OfStep),
    Metrics(OfMetrics),
    Plateau(ReduceLrOnPlateau),
}

/// The learning rate of a [`Trainer`](super::Trainer): a number, a [`Schedule`], a [`ReduceLrOnPlateau`] or a function.
///
/// A function should keep no numbers of its own, as no checkpoint would hold them: what a resumed run computes must
/// follow from the arguments. A rate that is negative, NaN or infinite ends its step with an error before anything
/// changes.
///
/// ```
/// use arenagrad::train::{Rate, RateInput, ReduceLrOnPlateau, Schedule};
/// let all: [Rate; 5] = [
///     Rate::from(1e-3),
///     Schedule::cosine(1e-3, 10, 1000).into(),
///     Rate::from(|step: u64| 0.1 / (1.0 + step as f64).sqrt()),
///     Rate::of_metrics(|m: &RateInput| if m.loss < 0.5 { 1e-3 } else { 1e-2 }),
///     ReduceLrOnPlateau::new(1e-2).into(),
/// ];
/// # let _ = all;
/// ```
pub struct Rate(Source);

impl Rate {
    /// A function of the step, the epoch, the last loss and the last metric.
    pub fn of_metrics(f: impl Fn(&RateInput) -> f64 + Send + 'static) -> Rate {
        Rate(Source::Metrics(Box::new(f)))
    }

    /// Fails with [`Kind::Data`] if an option makes no sense. Functions are checked at each step.
    pub fn validate(&self) -> Result<()> {
        match &self.0 {
            Source::Schedule(s) => s.validate(),
            Source::Plateau(p) => p.validate(),
            Source::Step(_) | Source::Metrics(_) => Ok(()),
        }
    }

    /// The plateau, if the rate is one.
    pub(super) fn plateau(&self) -> Option<&ReduceLrOnPlateau> {
        match &self.0 {
            Source::Plateau(p) => Some(p),
            _ => None,
        }
    }

    /// Whether the rate depends on more than the step.
    pub(super) fn has_state(&self) -> bool {
        matches!(self.0, Source::Metrics(_) | Source::Plateau(_))
    }

    /// The rate of the step that `m` describes. Fails with [`Kind::Data`] if it is negative or not finite.
    pub(super) fn lr(&self, m: &RateInput, plateau: &PlateauState) -> Result<f64> {
        let lr = match &self.0 {
            Source::Schedule(s) => s.lr(m.step),
            Source::Step(f) => f(m.step),
            Source::Metrics(f) => f(m),
            Source::Plateau(_) => plateau.lr,
        };
        match lr.is_finite() && lr >= 0.0 {
            true => Ok(lr),
            false => Err(Error::new(Kind::Data, format!("the learning rate of step {} is {lr}", m.step + 1))),
        }
    }
}

impl From<Schedule> for Rate {
    fn from(s: Schedule) -> Rate {
        Rate(Source::Schedule(s))
    }
}

impl From<ReduceLrOnPlateau> for Rate {
    fn from(p: ReduceLrOnPlateau) -> Rate {
        Rate(Source::Plateau(p))
    }
}

/// One rate for all steps.
impl From<f64> for Rate {
    fn from(lr: f64) -> Rate {
        Schedule::Constant { lr }.into()
    }
}

/// A function of the step, counted from 0.
impl<F: Fn(u64) -> f64 + Send + 'static> From<F> for Rate {
    fn from(f: F) -> Rate {
        Rate(Source::Step(Box::new(f)))
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Schedule(s) => s.fmt(f),
            Source::Plateau(p) => p.fmt(f),
            Source::Step(_) => f.write_str("a function of the step"),
            Source::Metrics(_) => f.write_str("a function of the metrics"),
        }
    }
}
