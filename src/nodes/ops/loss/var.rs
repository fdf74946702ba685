//! Losses as methods of [`Var`], with torch's options and defaults.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::loss::attrs::{Reduction, ReductionAttrs};
use crate::nodes::ops::loss::cross_entropy_options::CrossEntropy;
use crate::nodes::ops::loss::{bounded_log, cross_entropy, refuse_unequal_shapes};

impl<'g> Var<'g> {
    /// The mean of −ln softmax(x)\[label\] over the rows whose label is not −100: [`Var::cross_entropy_with`] with
    /// torch's defaults.
    #[track_caller]
    pub fn cross_entropy(self, labels: Var<'g>) -> Var<'g> {
        self.cross_entropy_with(labels, CrossEntropy::default())
    }

    /// Cross entropy of logits `[.., classes]` and integer labels `[..]`, as in `torch.nn.functional.cross_entropy` on
    /// `[N, classes]`. The classes are always the last axis (torch has them second for rank above 2). Labels of a float
    /// type are probabilities `[.., classes]`, as in torch: the loss is −Σ target·ln softmax(x); they get gradients,
    /// too.
    #[track_caller]
    pub fn cross_entropy_with(self, labels: Var<'g>, opt: CrossEntropy<'g>) -> Var<'g> {
        let weight = opt.weight.unwrap_or(labels);
        if !self.g.owns("cross_entropy", &[labels, weight]) || [self, labels, weight].iter().any(|x| !x.is_some()) {
            return self.g.var(Value::NONE);
        }
        self.g.with_caller(|| {
            let (d, rows) = (self.dims(), labels.dims());
            let classes = d.last().copied().unwrap_or(0);
            if let Some(w) = opt.weight.filter(|w| *w.dims() != [classes] || w.dtype() != self.dtype()) {
                let why = format!("{}{} do not fit logits of {}{d}, classes last", w.dtype(), w.dims(), self.dtype());
                return self.g.fail(Kind::Shape, format!("cross_entropy: weights of {why}"));
            }
            if labels.dtype().is_float() && rows == d {
                return cross_entropy::probability_losses(self, labels, opt);
            }
            if d.split_last().is_none_or(|(_, lead)| *lead != *rows) {
                let text =
                    format!("cross_entropy: labels of shape {rows} do not fit logits of shape {d}, classes last");
                return self.g.fail(Kind::Shape, text);
            }
            let (x, flat) = (self.reshape([rows.numel(), classes]), labels.reshape([rows.numel()]));
            let (loss, counts) = match opt.weight {
                Some(w) => {
                    let (loss, weights) = cross_entropy::weighted_label_losses(x, flat, w, &opt);
                    (loss, Some(weights))
                }
                None => (cross_entropy::label_losses(x, flat, &opt), None),
            };
            let ones = || flat.not_equal(opt.ignore_index as f64).cast(loss.dtype());
            match opt.reduction {
                Reduction::None => loss.reshape(rows),
                Reduction::Sum => loss.sum(..),
                Reduction::Mean => loss.sum(..) / counts.unwrap_or_else(ones).sum(..),
            }
        })
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

    /// The binary cross entropy −t·ln p − (1 − t)·ln(1 − p) of these probabilities p and targets t, both in \[0, 1\],
    /// of one type and shape, reduced as `reduction` says; as in `torch.nn.BCELoss`: logarithms are at least −100, and
    /// the divisors of the gradient at least 1e-12. [`Var::bce_with_logits`] loses fewer digits.
    #[track_caller]
    pub fn bce(self, targets: Var<'g>, reduction: Reduction) -> Var<'g> {
        if !self.g.owns("bce", &[targets]) || !self.is_some() || !targets.is_some() {
            return self.g.var(Value::NONE);
        }
        if let Some(error) = refuse_unequal_shapes("bce", ("targets", targets), ("probabilities", self)) {
            return error;
        }
        let (a, b) = (self.dtype(), targets.dtype());
        if a != b || !a.is_float() {
            let (t, p) = (targets.dims(), self.dims());
            return self.g.fail(Kind::Shape, format!("bce: targets of {b}{t} do not fit probabilities of {a}{p}"));
        }
        self.g.with_caller(|| reduction.of(-(targets * bounded_log(self) + (1.0 - targets) * bounded_log(1.0 - self))))
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
