//! Activations with their derivatives: what a training step makes of an activation whose operand it needs for nothing
//! but the derivative. The slope then stays in the operand's place, and the way back is one product.

use super::lower;
use crate::nodes::ir::attrs::{Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use Domain::Real;

/// Activations of [`ACT_WITH_GRAD`] and their derivatives, by the choice in attribute `act`.
pub const CURVES: &[(Op, Op)] =
    &[(Op::GELU, Op::GELU_GRAD), (Op::GELU_TANH, Op::GELU_TANH_GRAD), (Op::SILU, Op::SILU_GRAD)];

/// See `doc`.
pub const ACT_WITH_GRAD: OpDef = OpDef {
    name: "act_with_grad",
    doc: "y = act(x) and act'(x), with one exponential for both",
    arity: Arity::Exactly(1),
    attrs: &[Field::new("act", Kind::Choice(&["gelu", "gelu_tanh", "silu"]))],
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        cx.float(0)?;
        cx.same_as(0)?;
        cx.same_as(0)
    },
    deriv: Deriv::ViaDecompose,
    decompose: Some(|s| {
        let (act, slope) = CURVES[s.attrs.choice(0) as usize];
        let one = |op| -> Var<'_> { s.g.emit1(op, s.args, &[]) };
        vec![one(act), one(slope)]
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
