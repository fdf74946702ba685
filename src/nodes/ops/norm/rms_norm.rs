//! Normalisation by the root mean square of the last axis, with a backward op in one sweep.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{NormAttrs, batch_rows, check_eps, check_normalised_size, repeat_along_rows};
use Domain::{Positive, Real};

fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, gamma, beta) = (s.args[0], s.args[1], s.args[2]);
    let rstd = ((x * x).mean(-1) + NormAttrs::of(&s.attrs).eps).rsqrt();
    vec![x * repeat_along_rows(rstd, x) * gamma + beta, rstd]
}

/// ẏ = γ·r·(ẋ − x·r²·mean(x⊙ẋ)) + γ̇·x·r + β̇.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, gamma, r) = (s.args[0], s.args[1], repeat_along_rows(s.outs[1], s.args[0]));
    let from_x = t[0].map(|t| (t - x * r * r * repeat_along_rows((x * t).mean(-1), x)) * r * gamma);
    let parts = [from_x, t[1].map(|t| x * r * t), t[2].map(|t| t.broadcast(x.dims()))];
    vec![parts.into_iter().flatten().reduce(|a, b| a + b), None]
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(dy) = ct[0] else { return vec![None; 3] };
    let all = s.g.emit(Op::RMS_NORM_BACKWARD, &[dy, s.args[0], s.args[1], s.outs[1]], &[]);
    if all.is_empty() { vec![None; 3] } else { all.into_iter().map(Some).collect() }
}

/// Normalisation by the root mean square of the last axis.
pub const RMS_NORM: OpDef = OpDef {
    name: "rms_norm",
    doc: "y = γ·x·rstd + β over the last axis, rstd = 1/√(mean(x²) + eps); also rstd",
    arity: Arity::Exactly(3),
    attrs: NormAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STATS),
    infer: |cx| {
        let n = check_normalised_size(cx, 0, 1)?;
        cx.expect_dims(2, "beta", &[n])?;
        check_eps(NormAttrs::of(&cx.attrs).eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        cx.same_as(0)?;
        cx.result(dtype, &d[..d.len() - 1])
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_rows),
    decompose: Some(decompose_forward),
    lower: Lower::Kernel(lower::emit_rms_norm),
    cost: |cx| 6 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[5] f[5]", attrs: "eps=0.001", domains: &[Real] },
        Case { args: "f[2,3,40] f[40] f[40]", attrs: "eps=0.00001", domains: &[Real] },
        Case { args: "f[7] f[7] f[7]", attrs: "eps=0.1", domains: &[Real] },
        Case { args: "f[0,4] f[4] f[4]", attrs: "eps=0.1", domains: &[Real] },
        Case { args: "f[70,33] f[33] f[33]", attrs: "eps=0.00001", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// dx = r(γdy − x·r²·mean(x⊙γdy)), dγ = Σ dy⊙x·r, dβ = Σ dy.
fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (dy, x, gamma, r) = (s.args[0], s.args[1], s.args[2], repeat_along_rows(s.args[3], s.args[1]));
    let (g, n) = (dy * gamma, gamma.dims());
    let dx = (g - x * r * r * repeat_along_rows((x * g).mean(-1), x)) * r;
    vec![dx, (dy * x * r).unbroadcast(&n), dy.unbroadcast(&n)]
}

/// The cotangents of all operands of [`RMS_NORM`].
pub const RMS_NORM_BACKWARD: OpDef = OpDef {
    name: "rms_norm_backward",
    doc: "dx = r(γdy − x·r²·mean(x⊙γdy)), dγ = Σ dy⊙x·r, dβ = Σ dy, from (dy, x, γ, r)",
    arity: Arity::Exactly(4),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        check_normalised_size(cx, 1, 2)?;
        cx.same(0, 1)?;
        let d = cx.dims(1);
        cx.expect_dims(3, "rstd", &d[..d.len() - 1])?;
        cx.same_as(1)?;
        cx.same_as(2)?;
        cx.same_as(2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower::emit_rms_norm_backward),
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[3,5] f[5] f[3]", attrs: "", domains: &[Real, Real, Real, Positive] },
        Case { args: "f[2,3,40] f[2,3,40] f[40] f[2,3]", attrs: "", domains: &[Real, Real, Real, Positive] },
        Case { args: "f[7] f[7] f[7] f[]", attrs: "", domains: &[Real, Real, Real, Positive] },
        Case { args: "f[70,33] f[70,33] f[33] f[70]", attrs: "", domains: &[Real, Real, Real, Positive] },
    ],
    ..OpDef::BLANK
};
