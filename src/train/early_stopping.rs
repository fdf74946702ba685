//! The end of a run whose metric gets no better.
//!
//! Invariant: all that it remembers are three numbers that the trainer's checkpoint keeps.

use super::plateau::{Mode, Threshold};
use super::trainer::Trainer;
use crate::error::Result;
use crate::nodes::arguments::setters::setters;

/// The name of the numbers in the checkpoint: best metric, its step, evaluations since then.
const KEPT: &str = "early_stopping";

/// Stops a run after more than `patience` evaluations without a better metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EarlyStopping {
    /// Which metrics are good. Default: small ones.
    pub mode: Mode,
    /// Evaluations without a better metric that are borne. Default: 10.
    pub patience: u64,
    /// How much better counts as better. Default: any amount.
    pub threshold: Threshold,
}

impl Default for EarlyStopping {
    fn default() -> EarlyStopping {
        EarlyStopping { mode: Mode::Min, patience: 10, threshold: Threshold::Absolute(0.0) }
    }
}

setters! {
    [] EarlyStopping { mode: Mode, patience: u64, threshold: Threshold }
}

/// The best evaluation of a run so far.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Best {
    /// Its metric.
    pub metric: f64,
    /// Steps done before it.
    pub step: u64,
    /// Evaluations after it.
    pub since: u64,
}

impl EarlyStopping {
    /// Fails with [`Kind::Data`](crate::error::Kind::Data) if the threshold is negative or not finite.
    pub fn validate(&self) -> Result<()> {
        self.threshold.validate("early stopping")
    }

    /// The numbers in the checkpoint.
    fn kept<'t>(&self, t: &'t mut Trainer) -> Result<&'t mut [f64]> {
        t.kept(KEPT, &[self.mode.worst(), 0.0, 0.0])
    }

    /// Counts an evaluation, and returns whether it is the best one so far. NaN never is.
    pub fn count(&self, t: &mut Trainer, metric: f64) -> Result<bool> {
        let step = t.steps_done() as f64;
        let kept = self.kept(t)?;
        let better = self.threshold.is_better(self.mode, metric, kept[0]);
        match better {
            true => kept.copy_from_slice(&[metric, step, 0.0]),
            false => kept[2] += 1.0,
        }
        Ok(better)
    }

    /// The best evaluation so far. Its metric is infinite before the first that counts.
    pub fn best(&self, t: &mut Trainer) -> Result<Best> {
        let kept = self.kept(t)?;
        Ok(Best { metric: kept[0], step: kept[1] as u64, since: kept[2] as u64 })
    }

    /// Whether the run should stop.
    pub fn is_over(&self, t: &mut Trainer) -> Result<bool> {
        Ok(self.best(t)?.since > self.patience)
    }
}
