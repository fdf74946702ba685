//! Products with an epilogue, applied to each block of the result while it is in cache: bias and activation, or the
//! derivative of an activation. Also products that are added to a matrix: y = c + a·b.

use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::matmul::activation::ActGrad;
use crate::nodes::ops::matmul::attrs::{MatmulAttrs, MatmulBiasActAttrs, MatmulDactAttrs};
use crate::nodes::ops::matmul::matmul_dims::matmul_operand_dims;
use crate::nodes::ops::matmul::product_flops;
use Domain::Real;

fn infer_bias_act(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    cx.same_dtype(0, 2)?;
    let dims = matmul_operand_dims(cx)?;
    let n = dims.last().copied().unwrap_or(0);
    ensure!(*cx.dims(2) == [n], "the bias has shape {}, not [{n}]", cx.dims(2));
    cx.result(dtype, &dims)
}

fn decompose_bias_act<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = MatmulBiasActAttrs::of(&s.attrs);
    vec![a.act.apply(s.args[0].matmul_t(s.args[1], a.ta, a.tb) + s.args[2])]
}

/// A matrix product with bias and activation in its epilogue.
pub const MATMUL_BIAS_ACT: OpDef = OpDef {
    name: "matmul_bias_act",
    doc: "y = act(a·b + bias), the bias along the last axis",
    arity: Arity::Exactly(3),
    attrs: MatmulBiasActAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::PRODUCT),
    infer: infer_bias_act,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_bias_act),
    lower: Lower::Kernel(lower::emit_matmul_bias_act),
    cost: product_flops,
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
    ..OpDef::BLANK
};

fn infer_sum(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    cx.same_dtype(0, 2)?;
    let dims = matmul_operand_dims(cx)?;
    ensure!(*cx.dims(2) == *dims, "what is added to has shape {}, not that of the product, {dims:?}", cx.dims(2));
    cx.result(dtype, &dims)
}

fn decompose_sum<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&s.attrs);
    vec![s.args[2] + s.args[0].matmul_t(s.args[1], ta, tb)]
}

/// A matrix product that is added to a sum.
pub const MATMUL_ADD: OpDef = OpDef {
    name: "matmul_add",
    doc: "y = c + a·b, from (a, b, c); each element's sum begins with that of c",
    arity: Arity::Exactly(3),
    attrs: MatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::PRODUCT),
    infer: infer_sum,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_sum),
    lower: Lower::Kernel(lower::emit_matmul_add),
    cost: product_flops,
    cases: &[
        Case { args: "f[3,4] f[4,5] f[3,5]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[8,60] f[8,70] f[60,70]", attrs: "ta=true tb=false", domains: &[Real] },
        Case { args: "f[2,3,4] f[2,5,4] f[2,3,5]", attrs: "ta=false tb=true", domains: &[Real] },
        Case { args: "f[1,40] f[33,40] f[1,33]", attrs: "ta=false tb=true", domains: &[Real] },
        Case { args: "f[7,1] f[1,5] f[7,5]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[3,0] f[0,5] f[3,5]", attrs: "ta=false tb=false", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

fn infer_dact(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    cx.same_dtype(0, 2)?;
    let dims = matmul_operand_dims(cx)?;
    ensure!(*cx.dims(2) == *dims, "the gate has shape {}, not that of the product, {dims:?}", cx.dims(2));
    cx.result(dtype, &dims)?;
    cx.result(dtype, &dims[dims.len() - 1..])
}

fn decompose_dact<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = MatmulDactAttrs::of(&s.attrs);
    let (y, r) = (s.args[0].matmul_t(s.args[1], a.ta, a.tb), s.args[2]);
    let y = match a.by {
        ActGrad::Relu => r.greater(0.0).select(y, y.full_like(0.0)),
        ActGrad::Tanh => y * (1.0 - r * r),
        ActGrad::Sigmoid => y * (r * (1.0 - r)),
        ActGrad::Mul => y * r,
    };
    let n = y.dims();
    vec![y, y.unbroadcast(&n[n.len() - 1..])]
}

/// A matrix product times the derivative of an activation, and a bias gradient.
pub const MATMUL_DACT: OpDef = OpDef {
    name: "matmul_dact",
    doc: "y = (a·b)·act'(x), from (a, b, r) with r = act(x): act' is 1 where r > 0 for relu, 1 − r² for tanh, r(1 − \
        r) for sigmoid; `mul`: y = (a·b)·r; also the sum of y over all axes but the last",
    arity: Arity::Exactly(3),
    attrs: MatmulDactAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::PRODUCT),
    infer: infer_dact,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_dact),
    lower: Lower::Kernel(lower::emit_matmul_dact),
    cost: product_flops,
    cases: &[
        Case { args: "f[3,4] f[4,5] f[3,5]", attrs: "ta=false tb=false by=relu", domains: &[Real] },
        Case { args: "f[3,4] f[5,4] f[3,5]", attrs: "ta=false tb=true by=tanh", domains: &[Real] },
        Case { args: "f[2,3,4] f[2,4,5] f[2,3,5]", attrs: "ta=false tb=false by=sigmoid", domains: &[Real] },
        Case { args: "f[4,6] f[4,7] f[6,7]", attrs: "ta=true tb=false by=mul", domains: &[Real] },
        Case { args: "f[61,9] f[9,70] f[61,70]", attrs: "ta=false tb=false by=tanh", domains: &[Real] },
        Case { args: "f[1,40] f[33,40] f[1,33]", attrs: "ta=false tb=true by=tanh", domains: &[Real] },
        Case { args: "f[7,1] f[1,5] f[7,5]", attrs: "ta=false tb=false by=mul", domains: &[Real] },
        Case { args: "f[9,64] f[64,1] f[9,1]", attrs: "ta=false tb=false by=relu", domains: &[Real] },
    ],
    ..OpDef::BLANK
};
