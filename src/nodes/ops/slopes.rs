//! Activations with their derivatives: what a training step makes of an activation whose operand it needs for nothing
//! but the derivative. The slope then stays in the operand's place, and the way back is one product.

use super::lowering::train;
use crate::nodes::attrs::{Field, Kind};
use crate::nodes::builder::Var;
use crate::nodes::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};

use Domain::Real;

/// Activations of [`ACT_SLOPE`] and their derivatives, by the choice in attribute `act`.
pub const CURVES: &[(Op, Op)] =
    &[(Op::GELU, Op::GELU_SLOPE), (Op::GELU_TANH, Op::GELU_TANH_SLOPE), (Op::SILU, Op::SILU_SLOPE)];

/// See `doc`.
pub const ACT_SLOPE: OpDef = OpDef {
    name: "act_slope",
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
    lower: Lower::Kernel(train::act_slope),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[3,5]", attrs: "act=gelu", domains: &[Real] },
        Case { args: "f[3,5]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[2,4100]", attrs: "act=gelu_tanh", domains: &[Real] },
        Case { args: "f[]", attrs: "act=silu", domains: &[Real] },
        Case { args: "f[70]", attrs: "act=silu", domains: &[Real] },
    ],
};
