//! Layer normalisation, with a backward op that computes all three gradients in one sweep.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{NormAttrs, batch_rows, check_eps, check_normalised_size, repeat_along_rows};
use Domain::{Positive, Real};

/// x − mean. A mean far from 0 is rounded by much of small deviations; what is left of their mean is taken off, too.
fn norm_deviations<'g>(x: Var<'g>, mean: Var<'g>) -> Var<'g> {
    let d = x - repeat_along_rows(mean, x);
    d - row_means(d)
}

/// The mean of each row, repeated along it.
fn row_means<'g>(x: Var<'g>) -> Var<'g> {
    repeat_along_rows(x.mean(-1), x)
}

fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, gamma, beta) = (s.args[0], s.args[1], s.args[2]);
    let mean = x.mean(-1);
    let d = norm_deviations(x, mean);
    let rstd = ((d * d).mean(-1) + NormAttrs::of(&s.attrs).eps).rsqrt();
    vec![d * repeat_along_rows(rstd, x) * gamma + beta, mean, rstd]
}

/// x̂ = (x − mean)·rstd, where the mean of x − mean is taken off, too.
fn normalise_rows<'g>(x: Var<'g>, mean: Var<'g>, rstd: Var<'g>) -> Var<'g> {
    norm_deviations(x, mean) * repeat_along_rows(rstd, x)
}

/// ẏ = γ·r·(ẋ − mean ẋ − x̂·mean(x̂⊙ẋ)) + γ̇·x̂ + β̇.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, gamma, rstd) = (s.args[0], s.args[1], s.outs[2]);
    let hat = normalise_rows(x, s.outs[1], rstd);
    let from_x = t[0].map(|t| (t - row_means(t) - hat * row_means(hat * t)) * repeat_along_rows(rstd, x) * gamma);
    let from_gamma = t[1].map(|t| hat * t);
    let from_beta = t[2].map(|t| t.broadcast(x.dims()));
    let parts = [from_x, from_gamma, from_beta];
    vec![parts.into_iter().flatten().reduce(|a, b| a + b), None, None]
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(dy) = ct[0] else { return vec![None; 3] };
    let args = [dy, s.args[0], s.args[1], s.outs[1], s.outs[2]];
    let all = s.g.emit(Op::LAYER_NORM_BACKWARD, &args, &[]);
    if all.is_empty() { vec![None; 3] } else { all.into_iter().map(Some).collect() }
}

/// Layer normalisation over the last axis, with its statistics.
pub const LAYER_NORM: OpDef = OpDef {
    name: "layer_norm",
    doc: "y = γ(x − mean)·rstd + β over the last axis, rstd = 1/√(var + eps) with the biased variance; also mean and \
        rstd",
    arity: Arity::Exactly(3),
    attrs: NormAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STATS),
    infer: |cx| {
        let n = check_normalised_size(cx, 0, 1)?;
        cx.expect_dims(2, "beta", &[n])?;
        check_eps(NormAttrs::of(&cx.attrs).eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        cx.same_as(0)?;
        cx.result(dtype, &d[..d.len() - 1])?;
        cx.result(dtype, &d[..d.len() - 1])
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_rows),
    decompose: Some(decompose_forward),
    lower: Lower::Kernel(lower::emit_layer_norm),
    cost: |cx| 8 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[5] f[5]", attrs: "eps=0.001", domains: &[Real] },
        Case { args: "f[2,3,40] f[40] f[40]", attrs: "eps=0.00001", domains: &[Real] },
        Case { args: "f[7] f[7] f[7]", attrs: "eps=0.1", domains: &[Real] },
        Case { args: "f[0,4] f[4] f[4]", attrs: "eps=0.1", domains: &[Real] },
        Case { args: "f[70,33] f[33] f[33]", attrs: "eps=0.00001", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// dx = r(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)), dγ = Σ dy⊙x̂, dβ = Σ dy.
fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (dy, x, gamma, rstd) = (s.args[0], s.args[1], s.args[2], s.args[4]);
    let hat = normalise_rows(x, s.args[3], rstd);
    let g = dy * gamma;
    let dx = (g - row_means(g) - hat * row_means(hat * g)) * repeat_along_rows(rstd, x);
    let n = gamma.dims();
    vec![dx, (dy * hat).unbroadcast(&n), dy.unbroadcast(&n)]
}

/// The cotangents of all operands of [`LAYER_NORM`].
pub const LAYER_NORM_BACKWARD: OpDef = OpDef {
    name: "layer_norm_backward",
    doc: "dx = rstd(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)), dγ = Σ dy⊙x̂, dβ = Σ dy, from (dy, x, γ, mean, rstd); x̂ = (d \
        − mean(d))·rstd, d = x − mean",
    arity: Arity::Exactly(5),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        check_normalised_size(cx, 1, 2)?;
        cx.same(0, 1)?;
        let d = cx.dims(1);
        cx.expect_dims(3, "mean", &d[..d.len() - 1])?;
        cx.expect_dims(4, "rstd", &d[..d.len() - 1])?;
        cx.same_as(1)?;
        cx.same_as(2)?;
        cx.same_as(2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower::emit_layer_norm_backward),
    cost: |cx| 12 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[3,5] f[5] f[3] f[3]", attrs: "", domains: &[Real, Real, Real, Real, Positive] },
        Case {
            args: "f[2,3,40] f[2,3,40] f[40] f[2,3] f[2,3]",
            attrs: "",
            domains: &[Real, Real, Real, Real, Positive],
        },
        Case { args: "f[7] f[7] f[7] f[] f[]", attrs: "", domains: &[Real, Real, Real, Real, Positive] },
        Case { args: "f[70,33] f[70,33] f[33] f[70] f[70]", attrs: "", domains: &[Real, Real, Real, Real, Positive] },
    ],
    ..OpDef::BLANK
};
