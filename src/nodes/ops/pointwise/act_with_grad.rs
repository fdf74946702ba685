//! Activations with their derivatives. A training step uses them where only the derivative needs the operand: the
//! derivative overwrites the operand, and the backward half multiplies once.

use super::lower;
use crate::nodes::ir::attr_types::choice;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ops::pointwise::attrs::ActWithGradAttrs;
use Domain::Real;

choice! {
    /// An activation that [`ACT_WITH_GRAD`] computes.
    pub enum Curve {
        /// With the error function.
        Gelu = "gelu",
        /// With the hyperbolic tangent.
        GeluTanh = "gelu_tanh",
        /// x·σ(x).
        Silu = "silu",
    }
}

impl Curve {
    /// All of them.
    pub const ALL: [Curve; 3] = [Curve::Gelu, Curve::GeluTanh, Curve::Silu];

    /// The op of the activation.
    pub fn act_op(self) -> Op {
        match self {
            Curve::Gelu => Op::GELU,
            Curve::GeluTanh => Op::GELU_TANH,
            Curve::Silu => Op::SILU,
        }
    }

    /// The op of its derivative.
    pub fn act_grad_op(self) -> Op {
        match self {
            Curve::Gelu => Op::GELU_GRAD,
            Curve::GeluTanh => Op::GELU_TANH_GRAD,
            Curve::Silu => Op::SILU_GRAD,
        }
    }
}

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
    decompose: Some(|s| {
        let curve = ActWithGradAttrs::of(&s.attrs).act;
        let one = |op| -> Var<'_> { s.g.emit1(op, s.args, &[]) };
        vec![one(curve.act_op()), one(curve.act_grad_op())]
    }),
    lower: Lower::Kernel(lower::act_with_grad),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[3,5]", attrs: "act=gelu", domains: &[Real] },
        Case { args: "f[3,5]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[2,4100]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[]", attrs: "act=silu", domains: &[Real] },
        Case { args: "f[70]", attrs: "act=silu", domains: &[Real] },
    ],
};
