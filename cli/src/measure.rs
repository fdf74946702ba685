//! What trained params are judged by.
//!
//! Invariant: names in files stay as they are: scripts read them. For `train` and its report.

/// What params are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The part of the test images that are classified rightly.
    Accuracy,
    /// The mean cross entropy of what is validated on, in nats a character.
    Loss,
}

impl Measure {
    /// Its name in `metrics.jsonl`.
    pub fn metric(self) -> &'static str {
        match self {
            Measure::Accuracy => "test/accuracy",
            Measure::Loss => "val/loss",
        }
    }

    /// Its name in `summary.json`.
    pub fn key(self) -> &'static str {
        match self {
            Measure::Accuracy => "test_accuracy",
            Measure::Loss => "val_loss",
        }
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Measure::Accuracy => "test accuracy",
            Measure::Loss => "validation loss",
        }
    }

    /// A value for people.
    pub fn text(self, x: f64) -> String {
        match self {
            Measure::Accuracy => format!("{:.2} %", 100.0 * x),
            Measure::Loss => format!("{x:.4}"),
        }
    }
}
