//! Softmax and its logarithm, each with a backward op of one sweep.

pub mod attrs;
pub mod lower;
pub mod var;

use crate::nodes::arguments::axes::check_axis;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerFn;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::softmax::attrs::SoftmaxAttrs;
use Domain::{Real, Unit};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    for i in 1..cx.args.len() {
        cx.same(0, i)?;
    }
    let rank = cx.dims(0).len();
    check_axis(SoftmaxAttrs::of(&cx.attrs).axis, rank)?;
    cx.same_as(0)
}

/// The op along an axis of each member.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let SoftmaxAttrs { axis } = SoftmaxAttrs::of(&s.site.attrs);
    s.emit(&s.all(), &SoftmaxAttrs { axis: axis + 1 }.list())
}

const fn define_op(name: &'static str, doc: &'static str, arity: usize, lower: LowerFn, deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs: SoftmaxAttrs::FIELDS,
        flags: Flags::PURE,
        infer: infer_types,
        deriv,
        batch: Batch::Rule(batch_node),
        lower: Lower::Kernel(lower),
        cost: |cx| 4 * cost_per_result(cx),
        cases: if arity == 1 { ONE } else { TWO },
        ..OpDef::BLANK
    }
}

const ONE: &[Case] = &[
    Case { args: "f[3,5]", attrs: "axis=1", domains: &[Real] },
    Case { args: "f[3,5,2]", attrs: "axis=1", domains: &[Real] },
    Case { args: "f[4,3]", attrs: "axis=0", domains: &[Real] },
    Case { args: "f[2,300]", attrs: "axis=1", domains: &[Real] },
];
const TWO: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "axis=1", domains: &[Unit, Real] },
    Case { args: "f[3,5,2] f[3,5,2]", attrs: "axis=1", domains: &[Unit, Real] },
];

/// `op` of (y, t) along this node's axis.
fn apply_backward_op<'g>(s: &Site<'_, 'g>, op: Op, y: Var<'g>, t: Var<'g>) -> Var<'g> {
    s.g.emit1(op, &[y, t], &SoftmaxAttrs::of(&s.attrs).list())
}

/// Σ along this node's axis, broadcast to the shape of `x`.
fn sum_along_axis<'g>(s: &Site<'_, 'g>, x: Var<'g>) -> Var<'g> {
    x.reduce(Op::REDUCE_SUM, SoftmaxAttrs::of(&s.attrs).axis, true).broadcast(x.dims())
}

/// Softmax along an axis.
pub const SOFTMAX: OpDef = define_op(
    "softmax",
    "yᵢ = e^xᵢ / Σ e^xⱼ along `axis`; its Jacobian is symmetric, so ẏ and x̄ are the same y⊙(t − Σ y⊙t)",
    1,
    lower::emit_softmax,
    Deriv::Rules(
        |s, t| vec![t[0].map(|t| apply_backward_op(s, Op::SOFTMAX_BACKWARD, s.outs[0], t))],
        |s, ct, _| vec![ct[0].map(|g| apply_backward_op(s, Op::SOFTMAX_BACKWARD, s.outs[0], g))],
    ),
);

/// The cotangent, and the tangent, of [`SOFTMAX`].
pub const SOFTMAX_BACKWARD: OpDef = OpDef {
    decompose: Some(|s| vec![s.args[0] * (s.args[1] - sum_along_axis(s, s.args[0] * s.args[1]))]),
    ..define_op("softmax_backward", "y⊙(g − Σ y⊙g) along `axis`", 2, lower::emit_softmax_backward, Deriv::ViaDecompose)
};

/// The logarithm of softmax along an axis.
pub const LOG_SOFTMAX: OpDef = define_op(
    "log_softmax",
    "yᵢ = xᵢ − ln Σ e^xⱼ along `axis`; x̄ = g − e^y·Σ g; ẏ = ẋ − Σ e^y⊙ẋ",
    1,
    lower::emit_log_softmax,
    Deriv::Rules(
        |s, t| vec![t[0].map(|t| t - sum_along_axis(s, s.outs[0].exp() * t))],
        |s, ct, _| vec![ct[0].map(|g| apply_backward_op(s, Op::LOG_SOFTMAX_BACKWARD, s.outs[0], g))],
    ),
);

/// The cotangent of [`LOG_SOFTMAX`].
pub const LOG_SOFTMAX_BACKWARD: OpDef = OpDef {
    decompose: Some(|s| vec![s.args[1] - s.args[0].exp() * sum_along_axis(s, s.args[1])]),
    ..define_op(
        "log_softmax_backward",
        "g − e^y·Σ g along `axis`",
        2,
        lower::emit_log_softmax_backward,
        Deriv::ViaDecompose,
    )
};
