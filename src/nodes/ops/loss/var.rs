//! Losses as methods of [`Var`], with torch's options and defaults.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::attr_types::choice;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::loss::attrs::{CrossEntropyAttrs, ReductionAttrs};

choice! {
    /// How the losses of the elements are reduced.
    #[derive(Default)]
    pub enum Reduction {
        /// Not at all.
        None = "none",
        /// Their mean.
        #[default]
        Mean = "mean",
        /// Their sum.
        Sum = "sum",
    }
}

/// Options of [`Var::cross_entropy_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Rows with this label have no loss.
    pub ignore_index: i64,
    /// ε: the target is (1 − ε)·onehot + ε/classes.
    pub label_smoothing: f64,
    /// How the losses of the rows are reduced. The mean is over the rows that count, and NaN if none does.
    pub reduction: Reduction,
}

impl CrossEntropy {
    /// The loss of each row. If no label is ignored, the mean over all rows equals the default loss. Training on that
    /// mean is cheaper: all rows have the same weight, so one kernel computes the loss and its gradient.
    pub fn per_row() -> CrossEntropy {
        CrossEntropy { reduction: Reduction::None, ..CrossEntropy::default() }
    }
}

impl Default for CrossEntropy {
    fn default() -> CrossEntropy {
        CrossEntropy { ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean }
    }
}

impl<'g> Var<'g> {
    /// The mean of −ln softmax(x)\[label\] over the rows whose label is not −100: [`Var::cross_entropy_with`] with
    /// torch's defaults.
    #[track_caller]
    pub fn cross_entropy(self, labels: Var<'g>) -> Var<'g> {
        self.cross_entropy_with(labels, CrossEntropy::default())
    }

    /// Cross entropy of logits `[.., classes]` and integer labels `[..]`, as `torch.nn.functional.cross_entropy` on
    /// `[N, classes]`. The classes are always the last axis (torch has them second for rank above 2).
    #[track_caller]
    pub fn cross_entropy_with(self, labels: Var<'g>, opt: CrossEntropy) -> Var<'g> {
        if !self.g.owns("cross_entropy", &[labels]) || !self.is_some() || !labels.is_some() {
            return self.g.var(Value::NONE);
        }
        let (d, rows) = (self.dims(), labels.dims());
        if d.split_last().is_none_or(|(_, lead)| *lead != *rows) {
            let text = format!("cross_entropy: labels of shape {rows} do not fit logits of shape {d}, classes last");
            return self.g.fail(Kind::Shape, text);
        }
        let (n, classes) = (rows.numel(), d[d.len() - 1]);
        let CrossEntropy { ignore_index, label_smoothing, reduction } = opt;
        let attrs = CrossEntropyAttrs { ignore_index, label_smoothing };
        let flat = labels.reshape([n]);
        let loss = self.g.emit1(Op::SOFTMAX_CROSS_ENTROPY, &[self.reshape([n, classes]), flat], &attrs.list());
        match reduction {
            Reduction::None => loss.reshape(rows),
            Reduction::Sum => loss.sum(..),
            Reduction::Mean => loss.sum(..) / flat.not_equal(ignore_index as f64).cast(loss.dtype()).sum(..),
        }
    }

    /// The mean of (a − b)² over all elements.
    #[track_caller]
    pub fn mse(self, b: Var<'g>) -> Var<'g> {
        self.mse_with(b, Reduction::Mean)
    }

    /// (a − b)² of two tensors of one type and shape, reduced as `reduction` says.
    #[track_caller]
    pub fn mse_with(self, b: Var<'g>, reduction: Reduction) -> Var<'g> {
        self.g.emit1(Op::MSE_LOSS, &[self, b], &ReductionAttrs { reduction }.list())
    }

    /// The mean of the binary cross entropy between σ(this) and `targets`, which are in [0, 1].
    #[track_caller]
    pub fn bce_with_logits(self, targets: Var<'g>) -> Var<'g> {
        self.bce_with_logits_with(targets, Reduction::Mean)
    }

    /// The binary cross entropy between σ(this) and `targets`, which are in [0, 1], reduced as `reduction` says. It is
    /// computed from the logits, without overflow.
    #[track_caller]
    pub fn bce_with_logits_with(self, targets: Var<'g>, reduction: Reduction) -> Var<'g> {
        self.g.emit1(Op::BCE_WITH_LOGITS, &[self, targets], &ReductionAttrs { reduction }.list())
    }
}
