//! The evaluation metric of a run (accuracy or validation loss), and its values.
//!
//! Invariant: names in files never change, because scripts read them.

/// A measure of trained params.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The fraction of the test images that are classified correctly, in [0, 1].
    Accuracy,
    /// The mean cross entropy on the validation text, in nats per character.
    Loss,
}

/// The value of a measure after a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Steps done before the evaluation.
    pub step: u64,
    /// The value, in the measure's unit.
    pub value: f64,
}

impl Measure {
    /// The name in `metrics.jsonl`.
    pub fn metric(self) -> &'static str {
        match self {
            Measure::Accuracy => "test/accuracy",
            Measure::Loss => "val/loss",
        }
    }

    /// The name in `summary.json`.
    pub fn key(self) -> &'static str {
        match self {
            Measure::Accuracy => "test_accuracy",
            Measure::Loss => "val_loss",
        }
    }

    /// The name in printed text.
    pub fn label(self) -> &'static str {
        match self {
            Measure::Accuracy => "test accuracy",
            Measure::Loss => "validation loss",
        }
    }

    /// A value in printed text: per cent for an accuracy, four decimals for a loss.
    pub fn text(self, x: f64) -> String {
        match self {
            Measure::Accuracy => format!("{:.2} %", 100.0 * x),
            Measure::Loss => format!("{x:.4}"),
        }
    }
}
