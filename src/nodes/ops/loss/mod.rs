//! Losses. The cross entropy of integer labels has a kernel each way; the others are blocks of simple ops.

pub mod lower;
pub mod var;

use super::each_arg;
use crate::ensure;
use crate::nodes::ir::attrs::{Attr, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use Domain::{Index, Real, Unit};

/// Fields of both cross-entropy ops: `ignore_index`, `label_smoothing`.
const LABELS: &[Field] = &[Field::new("ignore_index", Kind::Int), Field::new("label_smoothing", Kind::F64)];

/// The same, and what the loss of every row is multiplied by.
const WEIGHTED: &[Field] =
    &[Field::new("ignore_index", Kind::Int), Field::new("label_smoothing", Kind::F64), Field::new("weight", Kind::F64)];

/// Names of the reductions, in the order of [`crate::nodes::ops::loss::var::Reduction`].
const REDUCTION: &[Field] = &[Field::new("reduction", Kind::Choice(&["none", "mean", "sum"]))];

const fn row(name: &'static str, doc: &'static str, arity: usize, attrs: &'static [Field]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv: Deriv::ViaDecompose,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| 5 * cx.arg(0),
        cases: &[],
    }
}

/// Checks logits `[N, C]` and labels `[N]`: N.
fn rows(cx: &Infer<'_>) -> Result<usize, String> {
    cx.float(0)?;
    cx.index(1)?;
    let d = cx.rank(0, "logits", 2)?;
    ensure!(d[1] > 0, "logits of shape {d} have no class");
    cx.expect_dims(1, "labels", &d[..1])?;
    let e = cx.attrs.f64(1);
    ensure!((0.0..=1.0).contains(&e), "label_smoothing is {e}; it must lie in [0, 1]");
    // So that every label type, and the `f64` of a constant, can spell it.
    let ignored = cx.attrs.int(0);
    ensure!(i32::try_from(ignored).is_ok(), "ignore_index is {ignored}; it must fit i32");
    Ok(d[0])
}

/// `v[N]` as `[N, C]`.
fn columns<'g>(v: Var<'g>, like: Var<'g>) -> Var<'g> {
    v.reshape([v.numel(), 1]).broadcast(like.dims())
}

/// Which rows count.
fn counted<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.args[1].not_equal(s.attrs.int(0) as f64)
}

/// (1 − ε)(lse − x[label]) + ε(lse − mean x), 0 in ignored rows; and lse.
fn ce_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, labels, smooth) = (s.args[0], s.args[1], s.attrs.f64(1));
    let lse = x.logsumexp(1);
    let counted = counted(s);
    // An ignored label may be any number: it must not reach the gather.
    let safe = counted.select(labels, labels.full_like(0.0)).reshape([labels.numel(), 1]);
    let picked = x.take_along_axis(safe, 1).reshape(labels.dims());
    let mut loss = lse - picked;
    if smooth > 0.0 {
        loss = loss * (1.0 - smooth) + (lse - x.mean(1)) * smooth;
    }
    vec![counted.select(loss, loss.full_like(0.0)), lse]
}

fn ce_backward<'g>(s: &Site<'_, 'g>, lse: Var<'g>, dloss: Var<'g>) -> Var<'g> {
    let attrs = [Attr::Int(s.attrs.int(0)), Attr::F64(s.attrs.f64(1))];
    s.g.emit1(Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, &[s.args[0], s.args[1], lse, dloss], &attrs)
}

fn ce_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let loss = t[0].map(|t| {
        let lse = s.outs[1];
        (ce_backward(s, lse, lse.full_like(1.0)) * t).sum(1)
    });
    vec![loss, None]
}

/// See `doc`.
pub const SOFTMAX_CROSS_ENTROPY: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STATS),
    infer: |cx| {
        let n = rows(cx)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[n])?;
        cx.result(dtype, &[n])
    },
    deriv: Deriv::Rules(ce_jvp, |s, ct, _| vec![ct[0].map(|g| ce_backward(s, s.outs[1], g)), None]),
    decompose: Some(ce_expand),
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
    lower: Lower::Kernel(lower::cross_entropy),
    ..row(
        "softmax_cross_entropy",
        "loss = −Σ target·ln softmax(x) for each row, target = (1 − ε)·onehot(label) + ε/C, 0 where label = ignore_index; lse = ln Σ eˣ",
        2,
        LABELS,
    )
};

/// (e^(x − lse) − target)·dloss, 0 in ignored rows.
fn ce_backward_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, labels, lse, dloss) = (s.args[0], s.args[1], s.args[2], s.args[3]);
    let (smooth, classes) = (s.attrs.f64(1), x.dims().get(1).copied().unwrap_or(1));
    let hot = labels.one_hot(classes, x.dtype());
    let target = if smooth > 0.0 { hot * (1.0 - smooth) + smooth / classes as f64 } else { hot };
    let dx = ((x - columns(lse, x)).exp() - target) * columns(dloss, x);
    // A select, not a product with 0: infinite logits of an ignored row have no gradient either.
    vec![columns(counted(s), x).select(dx, x.full_like(0.0))]
}

/// See `doc`.
pub const SOFTMAX_CROSS_ENTROPY_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let n = rows(cx)?;
        for (i, what) in [(2, "lse"), (3, "dloss")] {
            cx.same_dtype(0, i)?;
            cx.expect_dims(i, what, &[n])?;
        }
        cx.same_as(0)
    },
    decompose: Some(ce_backward_expand),
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
    lower: Lower::Kernel(lower::cross_entropy_backward),
    ..row(
        "softmax_cross_entropy_backward",
        "dx = (e^(x − lse) − target)·dloss, with the target of softmax_cross_entropy; 0 in ignored rows",
        4,
        LABELS,
    )
};

/// See `doc`.
pub const CROSS_ENTROPY_GRADIENT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let n = rows(cx)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[n])?;
        cx.result(dtype, &[n])?;
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let attrs = [Attr::Int(s.attrs.int(0)), Attr::F64(s.attrs.f64(1))];
        let mut all = Vec::from(s.g.emit(Op::SOFTMAX_CROSS_ENTROPY, s.args, &attrs));
        if let Some(&lse) = all.get(1) {
            all.push(ce_backward(s, lse, lse.full_like(s.attrs.f64(2))));
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
    lower: Lower::Kernel(lower::cross_entropy_gradient),
    ..row(
        "cross_entropy_gradient",
        "loss and lse of softmax_cross_entropy, and the gradient of weight·Σ loss in the logits",
        2,
        WEIGHTED,
    )
};

/// See `doc`.
pub const SQUARED_ERROR_GRADIENT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let dtype = cx.float(0)?;
        cx.same(0, 1)?;
        ensure!(!cx.attrs.bool(0) || cx.dims(0).numel() > 0, "the mean error of no element does not exist");
        cx.result(dtype, &[])?;
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let d = s.args[0] - s.args[1];
        let half = d * s.attrs.f64(1);
        vec![if s.attrs.bool(0) { (d * d).mean(..) } else { (d * d).sum(..) }, half + half]
    }),
    cases: &[
        Case { args: "f[1,2] f[1,2]", attrs: "mean=true weight=0.5", domains: &[Real] },
        Case { args: "f[] f[]", attrs: "mean=true weight=1", domains: &[Real] },
        Case { args: "f[70,33] f[70,33]", attrs: "mean=false weight=1", domains: &[Real] },
        Case { args: "f[40000] f[40000]", attrs: "mean=true weight=0.000025", domains: &[Real] },
        Case { args: "f[0,3] f[0,3]", attrs: "mean=false weight=1", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::squared_error_gradient),
    ..row(
        "squared_error_gradient",
        "y = Σ (a − b)² or its mean, and weight·(a − b) + weight·(a − b)",
        2,
        &[Field::new("mean", Kind::Bool), Field::new("weight", Kind::F64)],
    )
};

/// Two operands of one float type; one result of their shape, or a scalar.
fn pair(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same(0, 1)?;
    if cx.attrs.choice(0) == 0 { cx.same_as(0) } else { cx.result(dtype, &[]) }
}

/// As the field `reduction` says: the elements, their mean or their sum.
fn reduced<'g>(s: &Site<'_, 'g>, loss: Var<'g>) -> Vec<Var<'g>> {
    vec![match s.attrs.choice(0) {
        0 => loss,
        1 => loss.mean(..),
        _ => loss.sum(..),
    }]
}

/// See `doc`.
pub const MSE_LOSS: OpDef = OpDef {
    infer: pair,
    cost: each_arg,
    decompose: Some(|s| {
        let d = s.args[0] - s.args[1];
        reduced(s, d * d)
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real] },
    ],
    ..row("mse_loss", "y = (a − b)², each, averaged or summed", 2, REDUCTION)
};

/// See `doc`.
pub const BCE_WITH_LOGITS: OpDef = OpDef {
    infer: pair,
    cost: |cx| 10 * cx.arg(0),
    // The same number as in `doc`, in a form that is smooth at x = 0 (where the derivatives of max and |x| are
    // conventions, not σ(x) − y) and that loses nothing to cancellation where the loss is tiny.
    decompose: Some(|s| {
        let (x, y) = (s.args[0], s.args[1]);
        reduced(s, (-x).softplus() * y + x.softplus() * (1.0 - y))
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real, Unit] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real, Unit] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real, Unit] },
    ],
    ..row(
        "bce_with_logits",
        "−y·ln σ(x) − (1 − y)·ln(1 − σ(x)) = max(x, 0) − x·y + ln(1 + e^−|x|), each, averaged or summed",
        2,
        REDUCTION,
    )
};
