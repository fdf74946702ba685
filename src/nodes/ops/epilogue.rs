//! Products with what follows them: bias and activation applied to each block of the result while it is in cache.

use super::lowering::dense;
use super::product::{flops, product_dims};
use crate::ensure;
use crate::kernels::gemm::Act;
use crate::nodes::attrs::{Field, Kind};
use crate::nodes::builder::Var;
use crate::nodes::infer::Infer;
use crate::nodes::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};

use Domain::Real;

/// Activations that a product may apply, by the choice in attribute `act`: op, kernel.
pub const ACTS: &[(Option<Op>, Act)] = &[
    (None, Act::None),
    (Some(Op::RELU), Act::Relu),
    (Some(Op::GELU), Act::Gelu),
    (Some(Op::GELU_TANH), Act::GeluTanh),
    (Some(Op::SILU), Act::Silu),
    (Some(Op::TANH), Act::Tanh),
    (Some(Op::SIGMOID), Act::Sigmoid),
];
/// Their names.
pub const ACT_NAMES: Kind = Kind::Choice(&["none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"]);

/// Activation `choice` of `y`.
pub fn activate(y: Var<'_>, choice: u32) -> Var<'_> {
    match ACTS[choice as usize].0 {
        Some(op) => y.g.emit1(op, &[y], &[]),
        None => y,
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    cx.same_dtype(0, 2)?;
    let dims = product_dims(&cx.dims(0), &cx.dims(1), cx.attrs.bool(0), cx.attrs.bool(1))?;
    let n = dims.last().copied().unwrap_or(0);
    ensure!(*cx.dims(2) == [n], "the bias has shape {}, not [{n}]", cx.dims(2));
    cx.result(dtype, &dims)
}

fn expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let y = s.args[0].matmul_t(s.args[1], s.attrs.bool(0), s.attrs.bool(1)) + s.args[2];
    vec![activate(y, s.attrs.choice(2))]
}

/// See `doc`.
pub const MATMUL_BIAS_ACT: OpDef = OpDef {
    name: "matmul_bias_act",
    doc: "y = act(a·b + bias), the bias along the last axis",
    arity: Arity::Exactly(3),
    attrs: &[Field::new("ta", Kind::Bool), Field::new("tb", Kind::Bool), Field::new("act", ACT_NAMES)],
    flags: Flags::PURE.and(Flags::FUSED),
    infer,
    deriv: Deriv::ViaDecompose,
    decompose: Some(expand),
    lower: Lower::Kernel(dense::matmul_bias_act),
    cost: flops,
    cases: &[
        Case { args: "f[3,4] f[4,5] f[5]", attrs: "ta=false tb=false act=none", domains: &[Real] },
        Case { args: "f[3,4] f[5,4] f[5]", attrs: "ta=false tb=true act=relu", domains: &[Real] },
        Case { args: "f[2,3,4] f[2,4,5] f[5]", attrs: "ta=false tb=false act=relu", domains: &[Real] },
        Case { args: "f[4,6] f[4,7] f[7]", attrs: "ta=true tb=false act=gelu", domains: &[Real] },
        Case { args: "f[19,9] f[9,70] f[70]", attrs: "ta=false tb=false act=gelu_tanh", domains: &[Real] },
        Case { args: "f[2,5,4] f[4,3] f[3]", attrs: "ta=false tb=false act=silu", domains: &[Real] },
        Case { args: "f[3,4] f[4,5] f[5]", attrs: "ta=false tb=false act=tanh", domains: &[Real] },
        Case { args: "f[1,4] f[4,5] f[5]", attrs: "ta=false tb=false act=sigmoid", domains: &[Real] },
        Case { args: "f[1,40] f[33,40] f[33]", attrs: "ta=false tb=true act=relu", domains: &[Real] },
    ],
};
