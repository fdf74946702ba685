//! Cross entropies. Three ops take integer labels: the loss, its gradient, and both at once. Losses with class weights,
//! and losses whose targets are probabilities, are written in other ops.

use super::attrs::{CrossEntropyAttrs, CrossEntropyGradientAttrs, Reduction};
use super::{define_loss, lower};
use crate::ensure;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::attrs::Scatter;
use crate::nodes::ops::loss::cross_entropy_options::CrossEntropy;
use Domain::{Index, Real};

/// Checks logits `[N, C]`, labels `[N]` and the attributes, and gives N.
fn check_rows(cx: &Infer<'_>) -> Result<usize, String> {
    cx.float(0)?;
    cx.index(1)?;
    let d = cx.rank(0, "logits", 2)?;
    ensure!(d[1] > 0, "logits of shape {d} have no class");
    cx.expect_dims(1, "labels", &d[..1])?;
    let CrossEntropyAttrs { ignore_index, label_smoothing } = CrossEntropyAttrs::of(&cx.attrs);
    ensure!((0.0..=1.0).contains(&label_smoothing), "label_smoothing is {label_smoothing}; it must lie in [0, 1]");
    // Every label type, and the `f64` of a constant, holds every i32.
    ensure!(i32::try_from(ignore_index).is_ok(), "ignore_index is {ignore_index}; it must fit i32");
    Ok(d[0])
}

/// `v[N]` as `[N, C]`.
fn repeat_over_columns<'g>(v: Var<'g>, like: Var<'g>) -> Var<'g> {
    v.reshape([v.numel(), 1]).broadcast(like.dims())
}

/// Whether each row counts.
fn mark_counted_rows<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.args[1].not_equal(CrossEntropyAttrs::of(&s.attrs).ignore_index as f64)
}

/// The labels as a column `[N, 1]`, with 0 for an ignored one: that may be any number.
fn labels_as_column<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let labels = s.args[1];
    mark_counted_rows(s).select(labels, labels.full_like(0.0)).reshape([labels.numel(), 1])
}

/// (1 − ε)(lse − x[label]) + ε(lse − mean x), 0 in ignored rows; and lse.
fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, labels, smooth) = (s.args[0], s.args[1], CrossEntropyAttrs::of(&s.attrs).label_smoothing);
    let lse = x.logsumexp(1);
    let counted = mark_counted_rows(s);
    let picked = x.take_along_axis(labels_as_column(s), 1).reshape(labels.dims());
    let mut loss = lse - picked;
    if smooth > 0.0 {
        loss = loss * (1.0 - smooth) + (lse - x.mean(1)) * smooth;
    }
    vec![counted.select(loss, loss.full_like(0.0)), lse]
}

fn emit_backward<'g>(s: &Site<'_, 'g>, lse: Var<'g>, dloss: Var<'g>) -> Var<'g> {
    let attrs = CrossEntropyAttrs::of(&s.attrs);
    s.g.emit1(Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, &[s.args[0], s.args[1], lse, dloss], &attrs.list())
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let loss = t[0].map(|t| {
        let lse = s.outs[1];
        (emit_backward(s, lse, lse.full_like(1.0)) * t).sum(1)
    });
    vec![loss, None]
}

/// Cross entropy of each row of logits, with its log-sum-exp.
pub const SOFTMAX_CROSS_ENTROPY: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STATS),
    infer: |cx| {
        let n = check_rows(cx)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[n])?;
        cx.result(dtype, &[n])
    },
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(decompose_forward),
    cases: &[
        Case { args: "f[4,5] i32[4]", attrs: "ignore_index=-100 label_smoothing=0", domains: &[Real, Index(5)] },
        Case { args: "f[7,3] i64[7]", attrs: "ignore_index=1 label_smoothing=0.1", domains: &[Real, Index(3)] },
        Case { args: "f[3,1] i32[3]", attrs: "ignore_index=-1 label_smoothing=1", domains: &[Real, Index(1)] },
        Case { args: "f[0,4] i32[0]", attrs: "ignore_index=-100 label_smoothing=0", domains: &[Real, Index(4)] },
        Case {
            args: "f[2,1100] i32[2]",
            attrs: "ignore_index=-100 label_smoothing=0.2",
            domains: &[Real, Index(1100)],
        },
    ],
    lower: Lower::Kernel(lower::emit_softmax_cross_entropy),
    ..define_loss(
        "softmax_cross_entropy",
        "loss = −Σ target·ln softmax(x) for each row, target = (1 − ε)·onehot(label) + ε/C, 0 where label = \
        ignore_index; lse = ln Σ eˣ",
        2,
        CrossEntropyAttrs::FIELDS,
        Deriv::Rules(push_tangents, |s, ct, _| vec![ct[0].map(|g| emit_backward(s, s.outs[1], g)), None]),
    )
};

/// (e^(x − lse) − target)·dloss, 0 in ignored rows.
fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, lse, dloss) = (s.args[0], s.args[2], s.args[3]);
    let (smooth, classes) = (CrossEntropyAttrs::of(&s.attrs).label_smoothing, x.dims().get(1).copied().unwrap_or(1));
    // A scatter, not `one_hot`: a label outside of the classes is an error.
    let at = labels_as_column(s);
    let hot = x.full_like(0.0).scatter(at, at.full_like(1.0).cast(x.dtype()), 1, Scatter::Set);
    let target = if smooth > 0.0 { hot * (1.0 - smooth) + smooth / classes as f64 } else { hot };
    let dx = ((x - repeat_over_columns(lse, x)).exp() - target) * repeat_over_columns(dloss, x);
    // A select, not a product with 0: infinite logits of an ignored row have no gradient either.
    vec![repeat_over_columns(mark_counted_rows(s), x).select(dx, x.full_like(0.0))]
}

/// The cotangent of the logits of [`SOFTMAX_CROSS_ENTROPY`].
pub const SOFTMAX_CROSS_ENTROPY_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let n = check_rows(cx)?;
        for (i, what) in [(2, "lse"), (3, "dloss")] {
            cx.same_dtype(0, i)?;
            cx.expect_dims(i, what, &[n])?;
        }
        cx.same_as(0)
    },
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(decompose_backward),
    cases: &[
        Case {
            args: "f[4,5] i32[4] f[4] f[4]",
            attrs: "ignore_index=-100 label_smoothing=0",
            domains: &[Real, Index(5), Domain::Positive, Real],
        },
        Case {
            args: "f[7,3] i64[7] f[7] f[7]",
            attrs: "ignore_index=1 label_smoothing=0.1",
            domains: &[Real, Index(3), Domain::Positive, Real],
        },
    ],
    lower: Lower::Kernel(lower::emit_softmax_cross_entropy_backward),
    ..define_loss(
        "softmax_cross_entropy_backward",
        "dx = (e^(x − lse) − target)·dloss, with the target of softmax_cross_entropy; 0 in ignored rows",
        4,
        CrossEntropyAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// [`SOFTMAX_CROSS_ENTROPY`] with the gradient of its sum, in one sweep.
pub const CROSS_ENTROPY_GRADIENT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let n = check_rows(cx)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[n])?;
        cx.result(dtype, &[n])?;
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let CrossEntropyGradientAttrs { ignore_index, label_smoothing, weight } =
            CrossEntropyGradientAttrs::of(&s.attrs);
        let attrs = CrossEntropyAttrs { ignore_index, label_smoothing };
        let mut all = Vec::from(s.g.emit(Op::SOFTMAX_CROSS_ENTROPY, s.args, &attrs.list()));
        if let Some(&lse) = all.get(1) {
            all.push(emit_backward(s, lse, lse.full_like(weight)));
        }
        all
    }),
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case {
            args: "f[4,5] i32[4]",
            attrs: "ignore_index=-100 label_smoothing=0 weight=0.25",
            domains: &[Real, Index(5)],
        },
        Case {
            args: "f[70,3] i64[70]",
            attrs: "ignore_index=1 label_smoothing=0.1 weight=1",
            domains: &[Real, Index(3)],
        },
        Case {
            args: "f[2,1100] i32[2]",
            attrs: "ignore_index=-100 label_smoothing=0.2 weight=0.5",
            domains: &[Real, Index(1100)],
        },
        Case {
            args: "f[0,4] i32[0]",
            attrs: "ignore_index=-100 label_smoothing=0 weight=1",
            domains: &[Real, Index(4)],
        },
    ],
    lower: Lower::Kernel(lower::emit_cross_entropy_gradient),
    ..define_loss(
        "cross_entropy_gradient",
        "loss and lse of softmax_cross_entropy, and the gradient of weight·Σ loss in the logits",
        2,
        CrossEntropyGradientAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// The loss of each row of logits `[N, classes]`.
pub(super) fn label_losses<'g>(x: Var<'g>, labels: Var<'g>, opt: &CrossEntropy<'g>) -> Var<'g> {
    let attrs = CrossEntropyAttrs { ignore_index: opt.ignore_index, label_smoothing: opt.label_smoothing };
    x.g.emit1(Op::SOFTMAX_CROSS_ENTROPY, &[x, labels], &attrs.list())
}

/// (1 − ε)·w[label]·(−ln p[label]) − ε/classes·Σ w·ln p for each row, and w[label]; both 0 in ignored rows.
pub(super) fn weighted_label_losses<'g>(
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
    let hard = label_losses(x, labels, &CrossEntropy { label_smoothing: 0.0, ..*opt });
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
pub(super) fn probability_losses<'g>(x: Var<'g>, targets: Var<'g>, opt: CrossEntropy<'g>) -> Var<'g> {
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
