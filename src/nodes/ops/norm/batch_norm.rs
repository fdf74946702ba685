//! Normalisation of each channel by the statistics of the batch, with a backward op that computes all three gradients
//! in one sweep.
//!
//! Channels are axis 1, as in torch. The forward op decomposes into reductions, which fuse.

use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{
    NormAttrs, STATISTICS, add_cotangents, check_backward_channels, check_channels, check_eps, shape_channel_values,
    sum_to_channels,
};
use Domain::Real;

fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&a| a != 1).collect();
    // A mean far from 0 is rounded by much of small deviations, so means are of the distances from a near number.
    let near = x.narrow(0, 0, 1).mean(&axes[..]).stop_gradient();
    let x = x - shape_channel_values(near, x);
    let mean = x.mean(&axes[..]);
    let d = x - shape_channel_values(mean, x);
    let var = (d * d).mean(&axes[..]);
    let scale = (var + NormAttrs::of(&s.attrs).eps).rsqrt() * s.args[1];
    vec![d * shape_channel_values(scale, x) + shape_channel_values(s.args[2], x), near + mean, var]
}

/// The mean of each channel over the batch, shaped to broadcast over x.
fn channel_means(x: Var<'_>) -> Var<'_> {
    let n = x.numel() / x.dims()[1].max(1);
    shape_channel_values(sum_to_channels(x) / n as f64, x)
}

/// x − mean. A mean far from 0 is rounded by much of small deviations; what is left of their mean is taken off, too.
fn subtract_mean<'g>(x: Var<'g>, mean: Var<'g>) -> Var<'g> {
    let d = x - shape_channel_values(mean, x);
    d - channel_means(d)
}

/// x − mean, 1/√(var + eps) and x̂ at a batch norm; the second is shaped to broadcast over x.
struct BatchNormParts<'g> {
    centred: Var<'g>,
    rstd: Var<'g>,
    hat: Var<'g>,
}

fn compute_parts<'g>(s: &Site<'_, 'g>) -> BatchNormParts<'g> {
    let x = s.args[0];
    let centred = subtract_mean(x, s.outs[1]);
    let rstd = shape_channel_values((s.outs[2] + NormAttrs::of(&s.attrs).eps).rsqrt(), x);
    BatchNormParts { centred, rstd, hat: centred * rstd }
}

/// ẏ = γ·r·(ẋ − mean ẋ − x̂·mean(x̂⊙ẋ)) + γ̇·x̂ + β̇; the mean has mean ẋ, and var has 2·mean((x − mean)⊙ẋ).
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, gamma) = (s.args[0], s.args[1]);
    let BatchNormParts { centred, rstd, hat } = compute_parts(s);
    let means = t[0].map(|t| [channel_means(t), channel_means(centred * t)]);
    let from_x = t[0]
        .zip(means)
        .map(|(t, [a, b])| (t - a - centred * (b * rstd * rstd)) * (rstd * shape_channel_values(gamma, x)));
    let from_gamma = t[1].map(|t| hat * shape_channel_values(t, x));
    let from_beta = t[2].map(|t| shape_channel_values(t, x).broadcast(x.dims()));
    let y = [from_x, from_gamma, from_beta].into_iter().flatten().reduce(|a, b| a + b);
    vec![y, means.map(|m| m[0].reshape(gamma.dims())), means.map(|m| (m[1] * 2.0).reshape(gamma.dims()))]
}

/// The backward op for y. The cotangent of the mean adds m̄/n to dx, and that of var 2·v̄·(x − mean)/n.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (x, gamma, mean, var) = (s.args[0], s.args[1], s.outs[1], s.outs[2]);
    let n = x.numel() as f64 / mean.numel().max(1) as f64;
    let from_mean = ct[1].map(|ct| shape_channel_values(ct / n, x).broadcast(x.dims()));
    let from_var = ct[2].map(|ct| subtract_mean(x, mean) * shape_channel_values(ct * (2.0 / n), x));
    let all = ct[0].map(|dy| {
        let rstd = (var + NormAttrs::of(&s.attrs).eps).rsqrt();
        s.g.emit(Op::BATCH_NORM_BACKWARD, &[dy, x, gamma, mean, rstd], &[])
    });
    add_cotangents(all.as_deref(), [from_mean, from_var])
}

/// Normalisation of each channel over the batch, with its statistics.
pub const BATCH_NORM: OpDef = OpDef {
    name: "batch_norm",
    doc: "y = γ(x − mean)/√(var + eps) + β with the mean and the biased variance of each channel over all other axes; \
        also both statistics",
    arity: Arity::Exactly(3),
    attrs: NormAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let c = check_channels(cx)?;
        check_eps(NormAttrs::of(&cx.attrs).eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(d.iter().all(|&n| n > 0), "the batch {d} is empty");
        cx.same_as(0)?;
        cx.result(dtype, &[c])?;
        cx.result(dtype, &[c])
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_forward),
    lower: Lower::Expand,
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case { args: "f[3,2,4,3] f[2] f[2]", attrs: "eps=0.001", domains: &[Real] },
        Case { args: "f[7,5] f[5] f[5]", attrs: "eps=0.00001", domains: &[Real] },
        Case { args: "f[2,3,9] f[3] f[3]", attrs: "eps=0.1", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// dx = γr(dy − mean(dy) − x̂·mean(x̂⊙dy)), dγ = Σ dy⊙x̂, dβ = Σ dy.
fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (dy, x, gamma) = (s.args[0], s.args[1], s.args[2]);
    let rstd = shape_channel_values(s.args[4], x);
    let hat = subtract_mean(x, s.args[3]) * rstd;
    let dx = (dy - channel_means(dy) - hat * channel_means(hat * dy)) * (rstd * shape_channel_values(gamma, x));
    vec![dx, sum_to_channels(dy * hat), sum_to_channels(dy)]
}

/// The cotangents of all operands of [`BATCH_NORM`].
pub const BATCH_NORM_BACKWARD: OpDef = OpDef {
    name: "batch_norm_backward",
    doc: "dx = γ·rstd(dy − mean(dy) − x̂·mean(x̂⊙dy)) with the means over each channel, dγ = Σ dy⊙x̂, dβ = Σ dy, from \
        (dy, x, γ, mean, rstd), statistics [C]; x̂ = (d − mean(d))·rstd, d = x − mean",
    arity: Arity::Exactly(5),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        let c = check_backward_channels(cx)?;
        cx.expect_dims(3, "mean", &[c])?;
        cx.expect_dims(4, "rstd", &[c])?;
        cx.same_as(1)?;
        cx.same_as(2)?;
        cx.same_as(2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower::emit_batch_norm_backward),
    cost: |cx| 12 * cx.arg(0),
    cases: &[
        Case { args: "f[3,2,4,3] f[3,2,4,3] f[2] f[2] f[2]", attrs: "", domains: STATISTICS },
        Case { args: "f[7,5] f[7,5] f[5] f[5] f[5]", attrs: "", domains: STATISTICS },
        Case { args: "f[2,3,9,11] f[2,3,9,11] f[3] f[3] f[3]", attrs: "", domains: STATISTICS },
        Case { args: "f[4,1,7] f[4,1,7] f[1] f[1] f[1]", attrs: "", domains: STATISTICS },
        Case { args: "f[0,3,2] f[0,3,2] f[3] f[3] f[3]", attrs: "", domains: STATISTICS },
        Case { args: "f[2,0,4] f[2,0,4] f[0] f[0] f[0]", attrs: "", domains: STATISTICS },
    ],
    ..OpDef::BLANK
};
