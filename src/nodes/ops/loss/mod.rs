//! Losses. The cross entropy of integer labels has a forward and a backward kernel. The other losses have
//! decompositions.

pub mod attrs;
pub mod cross_entropy;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_operand;
use Domain::{Index, Real, Unit};
use attrs::{CrossEntropyAttrs, CrossEntropyGradientAttrs, Reduction, ReductionAttrs, SquaredErrorAttrs};

const fn loss_op(name: &'static str, doc: &'static str, arity: usize, attrs: &'static [Field], deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::ViaDecompose,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| 5 * cx.arg(0),
        cases: &[],
    }
}

/// Checks logits `[N, C]`, labels `[N]` and the attributes, and gives N.
fn check_cross_entropy_rows(cx: &Infer<'_>) -> Result<usize, String> {
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
fn loss_over_columns<'g>(v: Var<'g>, like: Var<'g>) -> Var<'g> {
    v.reshape([v.numel(), 1]).broadcast(like.dims())
}

/// Whether each row counts.
fn loss_row_counts<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.args[1].not_equal(CrossEntropyAttrs::of(&s.attrs).ignore_index as f64)
}

/// (1 − ε)(lse − x[label]) + ε(lse − mean x), 0 in ignored rows; and lse.
fn decompose_cross_entropy<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, labels, smooth) = (s.args[0], s.args[1], CrossEntropyAttrs::of(&s.attrs).label_smoothing);
    let lse = x.logsumexp(1);
    let counted = loss_row_counts(s);
    // An ignored label may be any number: it must not reach the gather.
    let safe = counted.select(labels, labels.full_like(0.0)).reshape([labels.numel(), 1]);
    let picked = x.take_along_axis(safe, 1).reshape(labels.dims());
    let mut loss = lse - picked;
    if smooth > 0.0 {
        loss = loss * (1.0 - smooth) + (lse - x.mean(1)) * smooth;
    }
    vec![counted.select(loss, loss.full_like(0.0)), lse]
}

fn cross_entropy_backward_op<'g>(s: &Site<'_, 'g>, lse: Var<'g>, dloss: Var<'g>) -> Var<'g> {
    let attrs = CrossEntropyAttrs::of(&s.attrs);
    s.g.emit1(Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, &[s.args[0], s.args[1], lse, dloss], &attrs.list())
}

fn cross_entropy_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let loss = t[0].map(|t| {
        let lse = s.outs[1];
        (cross_entropy_backward_op(s, lse, lse.full_like(1.0)) * t).sum(1)
    });
    vec![loss, None]
}

/// Cross entropy of each row of logits, with its log-sum-exp.
pub const SOFTMAX_CROSS_ENTROPY: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STATS),
    infer: |cx| {
        let n = check_cross_entropy_rows(cx)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[n])?;
        cx.result(dtype, &[n])
    },
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(decompose_cross_entropy),
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
    lower: Lower::Kernel(lower::lower_cross_entropy),
    ..loss_op(
        "softmax_cross_entropy",
        "loss = −Σ target·ln softmax(x) for each row, target = (1 − ε)·onehot(label) + ε/C, 0 where label = ignore_index; lse = ln Σ eˣ",
        2,
        CrossEntropyAttrs::FIELDS,
        Deriv::Rules(cross_entropy_jvp, |s, ct, _| {
            vec![ct[0].map(|g| cross_entropy_backward_op(s, s.outs[1], g)), None]
        }),
    )
};

/// (e^(x − lse) − target)·dloss, 0 in ignored rows.
fn decompose_cross_entropy_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, labels, lse, dloss) = (s.args[0], s.args[1], s.args[2], s.args[3]);
    let (smooth, classes) = (CrossEntropyAttrs::of(&s.attrs).label_smoothing, x.dims().get(1).copied().unwrap_or(1));
    let hot = labels.one_hot(classes, x.dtype());
    let target = if smooth > 0.0 { hot * (1.0 - smooth) + smooth / classes as f64 } else { hot };
    let dx = ((x - loss_over_columns(lse, x)).exp() - target) * loss_over_columns(dloss, x);
    // A select, not a product with 0: infinite logits of an ignored row have no gradient either.
    vec![loss_over_columns(loss_row_counts(s), x).select(dx, x.full_like(0.0))]
}

/// The cotangent of the logits of [`SOFTMAX_CROSS_ENTROPY`].
pub const SOFTMAX_CROSS_ENTROPY_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let n = check_cross_entropy_rows(cx)?;
        for (i, what) in [(2, "lse"), (3, "dloss")] {
            cx.same_dtype(0, i)?;
            cx.expect_dims(i, what, &[n])?;
        }
        cx.same_as(0)
    },
    batch: Batch::Rule(|s| s.merged()),
    decompose: Some(decompose_cross_entropy_backward),
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
    lower: Lower::Kernel(lower::lower_cross_entropy_backward),
    ..loss_op(
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
        let n = check_cross_entropy_rows(cx)?;
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
            all.push(cross_entropy_backward_op(s, lse, lse.full_like(weight)));
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
    lower: Lower::Kernel(lower::lower_cross_entropy_gradient),
    ..loss_op(
        "cross_entropy_gradient",
        "loss and lse of softmax_cross_entropy, and the gradient of weight·Σ loss in the logits",
        2,
        CrossEntropyGradientAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// The squared error of two tensors with its gradient, in one sweep.
pub const SQUARED_ERROR_GRADIENT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let dtype = cx.float(0)?;
        cx.same(0, 1)?;
        let SquaredErrorAttrs { mean, .. } = SquaredErrorAttrs::of(&cx.attrs);
        ensure!(!mean || cx.dims(0).numel() > 0, "the mean error of no element does not exist");
        cx.result(dtype, &[])?;
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let d = s.args[0] - s.args[1];
        let SquaredErrorAttrs { mean, weight } = SquaredErrorAttrs::of(&s.attrs);
        let half = d * weight;
        vec![if mean { (d * d).mean(..) } else { (d * d).sum(..) }, half + half]
    }),
    cases: &[
        Case { args: "f[1,2] f[1,2]", attrs: "mean=true weight=0.5", domains: &[Real] },
        Case { args: "f[] f[]", attrs: "mean=true weight=1", domains: &[Real] },
        Case { args: "f[70,33] f[70,33]", attrs: "mean=false weight=1", domains: &[Real] },
        Case { args: "f[40000] f[40000]", attrs: "mean=true weight=0.000025", domains: &[Real] },
        Case { args: "f[0,3] f[0,3]", attrs: "mean=false weight=1", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::lower_squared_error_gradient),
    ..loss_op(
        "squared_error_gradient",
        "y = Σ (a − b)² or its mean, and weight·(a − b) + weight·(a − b)",
        2,
        SquaredErrorAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// Two operands of one float type; one result of their shape, or a scalar.
fn infer_loss_pair(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same(0, 1)?;
    match ReductionAttrs::of(&cx.attrs).reduction {
        Reduction::None => cx.same_as(0),
        Reduction::Mean | Reduction::Sum => cx.result(dtype, &[]),
    }
}

/// The losses of the elements, their mean or their sum.
fn reduced_loss<'g>(s: &Site<'_, 'g>, loss: Var<'g>) -> Vec<Var<'g>> {
    vec![match ReductionAttrs::of(&s.attrs).reduction {
        Reduction::None => loss,
        Reduction::Mean => loss.mean(..),
        Reduction::Sum => loss.sum(..),
    }]
}

/// The squared error of two tensors.
pub const MSE_LOSS: OpDef = OpDef {
    infer: infer_loss_pair,
    cost: cost_per_operand,
    decompose: Some(|s| {
        let d = s.args[0] - s.args[1];
        reduced_loss(s, d * d)
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real] },
    ],
    ..loss_op("mse_loss", "y = (a − b)², each, averaged or summed", 2, ReductionAttrs::FIELDS, Deriv::ViaDecompose)
};

/// Binary cross entropy of logits.
pub const BCE_WITH_LOGITS: OpDef = OpDef {
    infer: infer_loss_pair,
    cost: |cx| 10 * cx.arg(0),
    // The number in `doc`, in a form that is smooth at x = 0 (where the derivatives of max and |x| are
    // conventions, not σ(x) − y) and that loses nothing to cancellation where the loss is tiny.
    decompose: Some(|s| {
        let (x, y) = (s.args[0], s.args[1]);
        reduced_loss(s, (-x).softplus() * y + x.softplus() * (1.0 - y))
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real, Unit] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real, Unit] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real, Unit] },
    ],
    ..loss_op(
        "bce_with_logits",
        "−y·ln σ(x) − (1 − y)·ln(1 − σ(x)) = max(x, 0) − x·y + ln(1 + e^−|x|), each, averaged or summed",
        2,
        ReductionAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};
