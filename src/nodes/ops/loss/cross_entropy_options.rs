//! Options of cross entropy, with torch's names.

use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ops::loss::attrs::Reduction;

/// Options of [`Var::cross_entropy_with`](crate::nodes::Var::cross_entropy_with).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CrossEntropy<'g> {
    /// Rows with this label have no loss. Probabilities have no label to ignore.
    pub ignore_index: i64,
    /// ε: the target is (1 − ε)·onehot + ε/classes.
    pub label_smoothing: f64,
    /// How the losses of the rows are reduced. The mean is over the rows that count, and NaN if none does. With
    /// weights it is the sum divided by the sum of the rows' weights; with probabilities, by the number of rows.
    pub reduction: Reduction,
    /// The factor of each class's part of the loss, `[classes]`, in the type of the logits.
    pub weight: Option<Var<'g>>,
}

setters! {
    ['g] CrossEntropy<'g> {
        ignore_index: i64,
        label_smoothing: f64,
        reduction: Reduction,
        weight: impl Into<Option<Var<'g>>> => weight.into(),
    }
}

impl<'g> CrossEntropy<'g> {
    /// The loss of each row. If no label is ignored, the mean over all rows equals the default loss. Training on that
    /// mean is cheaper: all rows have the same weight, so one kernel computes the loss and its gradient.
    pub fn per_row() -> CrossEntropy<'g> {
        CrossEntropy { reduction: Reduction::None, ..CrossEntropy::default() }
    }
}

impl<'g> Default for CrossEntropy<'g> {
    fn default() -> CrossEntropy<'g> {
        CrossEntropy { ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean, weight: None }
    }
}
