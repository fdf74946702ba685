//! Activations with their derivatives. A training step uses them where only the derivative needs the operand: the
//! derivative overwrites the operand, and the backward half multiplies once.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::pointwise::attrs::ActWithGradAttrs;
use Domain::Real;

/// An activation and its derivative.
pub const ACT_WITH_GRAD: OpDef = OpDef {
    name: "act_with_grad",
    doc: "y = act(x) and act'(x), with one exponential for both",
    arity: Arity::Exactly(1),
    attrs: ActWithGradAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        cx.float(0)?;
        cx.same_as(0)?;
        cx.same_as(0)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let curve = ActWithGradAttrs::of(&s.attrs).act;
        let one = |op| -> Var<'_> { s.g.emit1(op, s.args, &[]) };
        vec![one(curve.act_op()), one(curve.act_grad_op())]
    }),
    lower: Lower::Kernel(lower::emit_act_with_grad),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[3,5]", attrs: "act=gelu", domains: &[Real] },
        Case { args: "f[3,5]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[2,4100]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[]", attrs: "act=silu", domains: &[Real] },
        Case { args: "f[70]", attrs: "act=silu", domains: &[Real] },
    ],
    ..OpDef::BLANK
};
