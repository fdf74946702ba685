//! Cross entropies of labels, with weights of classes, and of probabilities, in terms of ops.

use super::attrs::{CrossEntropyAttrs, Reduction};
use crate::error::Kind;
use crate::nodes::build::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// Options of [`Var::cross_entropy_with`].
#[derive(Clone, Copy, Debug)]
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
        weight: Var<'g> => Some(weight),
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

/// The loss of each row of logits `[N, classes]`.
pub(super) fn cross_entropy_of_labels<'g>(x: Var<'g>, labels: Var<'g>, opt: &CrossEntropy<'g>) -> Var<'g> {
    let attrs = CrossEntropyAttrs { ignore_index: opt.ignore_index, label_smoothing: opt.label_smoothing };
    x.g.emit1(Op::SOFTMAX_CROSS_ENTROPY, &[x, labels], &attrs.list())
}

/// (1 − ε)·w[label]·(−ln p[label]) − ε/classes·Σ w·ln p for each row, and w[label]; both 0 in ignored rows.
pub(super) fn weighted_cross_entropy<'g>(
    x: Var<'g>,
    labels: Var<'g>,
    w: Var<'g>,
    opt: &CrossEntropy<'g>,
) -> (Var<'g>, Var<'g>) {
    let (smooth, classes) = (opt.label_smoothing, w.numel());
    if !(0.0..=1.0).contains(&smooth) {
        let none = x.g.fail(Kind::Shape, format!("cross_entropy: label_smoothing is {smooth}; it must lie in [0, 1]"));
        return (none, none);
    }
    let hard = cross_entropy_of_labels(x, labels, &CrossEntropy { label_smoothing: 0.0, ..*opt });
    let counted = labels.not_equal(opt.ignore_index as f64);
    // An ignored label may be any number: it must not reach the gather.
    let of_row = counted.select(w.gather(counted.select(labels, 0.0), 0), 0.0);
    if smooth == 0.0 {
        return (hard * of_row, of_row);
    }
    let spread = -(x.log_softmax(1) * w).sum(1) * (smooth / classes as f64);
    (hard * of_row * (1.0 - smooth) + counted.select(spread, 0.0), of_row)
}

/// −Σ w·((1 − ε)·target + ε/classes)·ln softmax(x) for each row, reduced. A class with target 0 and probability 0 adds
/// nothing.
pub(super) fn cross_entropy_of_probabilities<'g>(x: Var<'g>, targets: Var<'g>, opt: CrossEntropy<'g>) -> Var<'g> {
    let (smooth, d) = (opt.label_smoothing, x.dims());
    let classes = d.last().copied().unwrap_or(0);
    let unset = CrossEntropy::default().ignore_index;
    let why = match () {
        () if classes == 0 => format!("logits of shape {d} have no class"),
        () if targets.dtype() != x.dtype() => {
            format!("targets are {}, logits {}; cast one", targets.dtype(), x.dtype())
        }
        () if !(0.0..=1.0).contains(&smooth) => format!("label_smoothing is {smooth}; it must lie in [0, 1]"),
        () if opt.ignore_index != unset => format!("ignore_index is {}; probabilities have no label", opt.ignore_index),
        () => String::new(),
    };
    if !why.is_empty() {
        return x.g.fail(Kind::Shape, format!("cross_entropy: {why}"));
    }
    let target = if smooth > 0.0 { targets * (1.0 - smooth) + smooth / classes as f64 } else { targets };
    let log = x.log_softmax(-1);
    let none = target.equal(0.0).logical_and(log.equal(f64::NEG_INFINITY));
    let each = target * none.select(0.0, log);
    let each = opt.weight.map_or(each, |w| each * w);
    let loss = -each.sum(-1);
    match opt.reduction {
        Reduction::None => loss,
        Reduction::Sum => loss.sum(..),
        Reduction::Mean => loss.mean(..),
    }
}
