//! Losses. The cross entropy of integer labels has a forward and a backward kernel. The other losses have
//! decompositions.

pub mod attrs;
pub mod cross_entropy;
pub mod cross_entropy_options;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::error::Kind;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_operand;
use Domain::{Real, Unit};
use attrs::{Reduction, ReductionAttrs, SquaredErrorAttrs};

const fn define_loss(
    name: &'static str,
    doc: &'static str,
    arity: usize,
    attrs: &'static [Field],
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::ViaDecompose,
        lower: Lower::Expand,
        cost: |cx| 5 * cx.arg(0),
        cases: &[],
        ..OpDef::BLANK
    }
}

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
    lower: Lower::Kernel(lower::emit_squared_error_gradient),
    ..define_loss(
        "squared_error_gradient",
        "y = Σ (a − b)² or its mean, and weight·(a − b) + weight·(a − b)",
        2,
        SquaredErrorAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// The error of the loss `name` for operands of different shapes, if they are: `what` and `with` say what they are. A
/// loss never broadcasts, because `[n, 1]` against `[n]` would be the loss of n² pairs.
#[track_caller]
pub(crate) fn refuse_unequal_shapes<'g>(
    name: &str,
    (what, a): (&str, Var<'g>),
    (with, b): (&str, Var<'g>),
) -> Option<Var<'g>> {
    if !a.g.owns(name, &[b]) || !a.is_some() || !b.is_some() || a.dims() == b.dims() {
        return None;
    }
    let [a_ty, b_ty] = [a, b].map(|x| format!("{}{}", x.dtype(), x.dims()));
    Some(a.g.fail(Kind::Shape, format!("{name}: {what} of {a_ty} do not fit {with} of {b_ty}; they need one shape")))
}

/// Two operands of one float type; one result of their shape, or a scalar.
fn infer_pair(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same(0, 1)?;
    match ReductionAttrs::of(&cx.attrs).reduction {
        Reduction::None => cx.same_as(0),
        Reduction::Mean | Reduction::Sum => cx.result(dtype, &[]),
    }
}

/// The losses of the elements, their mean or their sum.
fn reduce_elements<'g>(s: &Site<'_, 'g>, loss: Var<'g>) -> Vec<Var<'g>> {
    vec![match ReductionAttrs::of(&s.attrs).reduction {
        Reduction::None => loss,
        Reduction::Mean => loss.mean(..),
        Reduction::Sum => loss.sum(..),
    }]
}

/// The squared error of two tensors.
pub const MSE_LOSS: OpDef = OpDef {
    infer: infer_pair,
    cost: cost_per_operand,
    decompose: Some(|s| {
        let d = s.args[0] - s.args[1];
        reduce_elements(s, d * d)
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real] },
    ],
    ..define_loss("mse_loss", "y = (a − b)², each, averaged or summed", 2, ReductionAttrs::FIELDS, Deriv::ViaDecompose)
};

/// Binary cross entropy of logits.
pub const BCE_WITH_LOGITS: OpDef = OpDef {
    infer: infer_pair,
    cost: |cx| 10 * cx.arg(0),
    // The number in `doc`, in a form that is smooth at x = 0 (where the derivatives of max and |x| are
    // conventions, not σ(x) − y) and that loses nothing to cancellation where the loss is tiny.
    decompose: Some(|s| {
        let (x, y) = (s.args[0], s.args[1]);
        reduce_elements(s, (-x).softplus() * y + x.softplus() * (1.0 - y))
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=none", domains: &[Real, Unit] },
        Case { args: "f[3,5] f[3,5]", attrs: "reduction=mean", domains: &[Real, Unit] },
        Case { args: "f[1100] f[1100]", attrs: "reduction=sum", domains: &[Real, Unit] },
    ],
    ..define_loss(
        "bce_with_logits",
        "−y·ln σ(x) − (1 − y)·ln(1 − σ(x)) = max(x, 0) − x·y + ln(1 + e^−|x|), each, averaged or summed",
        2,
        ReductionAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// max(ln p, −100), whose derivative is 1/max(p, 1e-12).
fn bounded_log<'g>(p: Var<'g>) -> Var<'g> {
    let least = 1e-12;
    let tiny = p.less(least);
    // The value is constant there; the term beside it has value 0 and the slope 1/least.
    let edge = p.log().maximum(-100.0).stop_gradient() + (p - p.stop_gradient()) * (1.0 / least);
    tiny.select(edge, tiny.select(1.0, p).log())
}
