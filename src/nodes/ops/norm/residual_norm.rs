//! A sum and its norm in one sweep, as between the blocks of a transformer.
//!
//! The sum is the second result: pre-norm networks and the derivatives read it. It is written only if it is read.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{NormAttrs, check_eps, check_normalised_size};
use Domain::Real;

/// Checks (x, res, \[bias,\] γ, β). The results are y, the sum, and `stats` numbers for each row.
fn infer_types(cx: &mut Infer<'_>, stats: usize) -> Result<(), String> {
    cx.same(0, 1)?;
    let gamma = cx.args.len() - 2;
    let d = cx.dims(0);
    let n = check_normalised_size(cx, 0, gamma)?;
    cx.expect_dims(gamma + 1, "beta", &[n])?;
    if gamma == 3 {
        cx.expect_dims(2, "the bias", &[n])?;
    }
    check_eps(NormAttrs::of(&cx.attrs).eps)?;
    cx.same_as(0)?;
    cx.same_as(0)?;
    let dtype = cx.dtype(0);
    (0..stats).try_for_each(|_| cx.result(dtype, &d[..d.len() - 1]))
}

/// The sum, then the norm of it.
fn decompose_node<'g>(s: &Site<'_, 'g>, norm: Op) -> Vec<Var<'g>> {
    let (x, res, gamma) = (s.args[0], s.args[1], s.args.len() - 2);
    let x = if gamma == 3 { x + s.args[2] } else { x };
    let sum = x + res;
    let args = [sum, s.args[gamma], s.args[gamma + 1]];
    let mut outs = Vec::from(s.g.emit(norm, &args, &NormAttrs::of(&s.attrs).list()));
    if !outs.is_empty() {
        outs.insert(1, sum);
    }
    outs
}

const CASES: &[Case] = &[
    Case { args: "f[3,5] f[3,5] f[5] f[5]", attrs: "eps=0.001", domains: &[Real] },
    Case { args: "f[2,3,40] f[2,3,40] f[40] f[40] f[40]", attrs: "eps=0.00001", domains: &[Real] },
    Case { args: "f[7] f[7] f[7] f[7]", attrs: "eps=0.1", domains: &[Real] },
    Case { args: "f[0,4] f[0,4] f[4] f[4]", attrs: "eps=0.1", domains: &[Real] },
    Case { args: "f[150,33] f[150,33] f[33] f[33] f[33]", attrs: "eps=0.00001", domains: &[Real] },
];

/// A sum and its layer normalisation.
pub const RESIDUAL_LAYER_NORM: OpDef = OpDef {
    name: "residual_layer_norm",
    doc: "y = layer_norm of s = (x + bias) + res, from (x, res[, bias], γ, β); also s, mean and rstd",
    arity: Arity::Between(4, 5),
    attrs: NormAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| infer_types(cx, 2),
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| decompose_node(s, Op::LAYER_NORM)),
    lower: Lower::Kernel(lower::emit_residual_layer_norm),
    cost: |cx| 9 * cx.arg(0),
    cases: CASES,
    ..OpDef::BLANK
};

/// A sum and its normalisation by the root mean square.
pub const RESIDUAL_RMS_NORM: OpDef = OpDef {
    name: "residual_rms_norm",
    doc: "y = rms_norm of s = (x + bias) + res, from (x, res[, bias], γ, β); also s and rstd",
    infer: |cx| infer_types(cx, 1),
    deriv: Deriv::ViaDecompose,
    decompose: Some(|s| decompose_node(s, Op::RMS_NORM)),
    lower: Lower::Kernel(lower::emit_residual_rms_norm),
    cost: |cx| 7 * cx.arg(0),
    ..RESIDUAL_LAYER_NORM
};
