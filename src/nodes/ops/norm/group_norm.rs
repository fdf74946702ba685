//! Normalisation by groups of channels, with a backward op that computes all three gradients in one sweep.
//!
//! Channels are axis 1, as in torch. The forward op decomposes into layer normalisation of one row for each group.

use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{
    GroupNormAttrs, NormAttrs, STATISTICS, add_cotangents, check_backward_channels, check_channels, check_eps,
    shape_channel_values, sum_to_channels,
};
use Domain::Real;

fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, d) = (s.args[0], s.args[0].dims());
    let GroupNormAttrs { groups, eps } = GroupNormAttrs::of(&s.attrs);
    let groups = groups as usize;
    let size = d[1..].iter().product::<usize>() / groups;
    let flat = x.reshape([d[0] * groups, size]);
    let (one, zero) = (s.g.full(1.0, [size], x.dtype()), s.g.full(0.0, [size], x.dtype()));
    let normed = s.g.emit(Op::LAYER_NORM, &[flat, one, zero], &NormAttrs { eps }.list());
    let [hat, mean, rstd] = *normed else { return Vec::new() };
    let y = hat.reshape(d) * shape_channel_values(s.args[1], x) + shape_channel_values(s.args[2], x);
    vec![y, mean.reshape([d[0], groups]), rstd.reshape([d[0], groups])]
}

/// A statistic `[N, groups]`, repeated over x.
fn repeat_statistic<'g>(stat: Var<'g>, x: Var<'g>) -> Var<'g> {
    let (d, s) = (x.dims(), stat.dims());
    let size = d[1..].iter().product::<usize>() / s[1];
    stat.reshape([s[0], s[1], 1]).broadcast([s[0], s[1], size]).reshape(d)
}

/// The mean over each of as many groups as `like` has, `[N, groups]`.
fn group_means<'g>(x: Var<'g>, like: Var<'g>) -> Var<'g> {
    let (d, s) = (x.dims(), like.dims());
    x.reshape([s[0], s[1], d[1..].iter().product::<usize>() / s[1]]).mean(-1)
}

/// x̂ = (x − mean)·rstd, where the mean of x − mean, its rounding, is taken off, too.
fn normalise_groups<'g>(x: Var<'g>, mean: Var<'g>, rstd: Var<'g>) -> Var<'g> {
    let d = x - repeat_statistic(mean, x);
    (d - repeat_statistic(group_means(d, mean), x)) * repeat_statistic(rstd, x)
}

/// ẏ = γ·r·(ẋ − mean ẋ − x̂·mean(x̂⊙ẋ)) + γ̇·x̂ + β̇; the mean has mean ẋ, and rstd has −r²·mean(x̂⊙ẋ).
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, gamma, mean, rstd) = (s.args[0], s.args[1], s.outs[1], s.outs[2]);
    let hat = normalise_groups(x, mean, rstd);
    let means = t[0].map(|t| [group_means(t, mean), group_means(hat * t, mean)]);
    let from_x = t[0].zip(means).map(|(t, [a, b])| {
        (t - repeat_statistic(a, x) - hat * repeat_statistic(b, x))
            * repeat_statistic(rstd, x)
            * shape_channel_values(gamma, x)
    });
    let from_gamma = t[1].map(|t| hat * shape_channel_values(t, x));
    let from_beta = t[2].map(|t| shape_channel_values(t, x).broadcast(x.dims()));
    let y = [from_x, from_gamma, from_beta].into_iter().flatten().reduce(|a, b| a + b);
    vec![y, means.map(|m| m[0]), means.map(|m| -(rstd * rstd * m[1]))]
}

/// The backward op for y. The cotangent of the mean adds m̄/n to dx, and that of rstd −r̄·r²·x̂/n.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (x, gamma, mean, rstd) = (s.args[0], s.args[1], s.outs[1], s.outs[2]);
    let n = x.numel() as f64 / mean.numel().max(1) as f64;
    let from_mean = ct[1].map(|ct| repeat_statistic(ct / n, x));
    let from_rstd = ct[2].map(|ct| -(repeat_statistic(ct * rstd * rstd / n, x) * normalise_groups(x, mean, rstd)));
    let all = ct[0].map(|dy| s.g.emit(Op::GROUP_NORM_BACKWARD, &[dy, x, gamma, mean, rstd], &[]));
    add_cotangents(all.as_deref(), [from_mean, from_rstd])
}

/// Normalisation of groups of channels of each sample.
pub const GROUP_NORM: OpDef = OpDef {
    name: "group_norm",
    doc: "y = γ(x − mean)·rstd + β with the statistics of each of `groups` runs of channels of each sample; also mean \
        and rstd, [N, groups]",
    arity: Arity::Exactly(3),
    attrs: GroupNormAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let (c, GroupNormAttrs { groups, eps }) = (check_channels(cx)?, GroupNormAttrs::of(&cx.attrs));
        ensure!(groups > 0 && c as i64 % groups == 0, "{c} channels do not divide into {groups} groups");
        check_eps(eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(d[1..].iter().all(|&n| n > 0), "a sample of {d} is empty");
        cx.same_as(0)?;
        cx.result(dtype, &[d[0], groups as usize])?;
        cx.result(dtype, &[d[0], groups as usize])
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_forward),
    lower: Lower::Kernel(lower::emit_group_norm),
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case { args: "f[2,6,3,2] f[6] f[6]", attrs: "groups=3 eps=0.001", domains: &[Real] },
        Case { args: "f[3,4,5] f[4] f[4]", attrs: "groups=4 eps=0.00001", domains: &[Real] },
        Case { args: "f[5,6] f[6] f[6]", attrs: "groups=1 eps=0.1", domains: &[Real] },
        Case { args: "f[0,4,3] f[4] f[4]", attrs: "groups=2 eps=0.1", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// dx = r(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)), dγ = Σ dy⊙x̂, dβ = Σ dy.
fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (dy, x, gamma, mean, rstd) = (s.args[0], s.args[1], s.args[2], s.args[3], s.args[4]);
    let hat = normalise_groups(x, mean, rstd);
    let g = dy * shape_channel_values(gamma, x);
    let over = |v: Var<'g>| repeat_statistic(group_means(v, mean), x);
    let dx = (g - over(g) - hat * over(hat * g)) * repeat_statistic(rstd, x);
    vec![dx, sum_to_channels(dy * hat), sum_to_channels(dy)]
}

/// The cotangents of all operands of [`GROUP_NORM`].
pub const GROUP_NORM_BACKWARD: OpDef = OpDef {
    name: "group_norm_backward",
    doc: "dx = rstd(γdy − mean(γdy) − x̂·mean(x̂⊙γdy)) with the means over each group, dγ = Σ dy⊙x̂, dβ = Σ dy, from \
        (dy, x, γ, mean, rstd), statistics [N, groups]; x̂ = (d − mean(d))·rstd, d = x − mean",
    arity: Arity::Exactly(5),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        let c = check_backward_channels(cx)?;
        let (d, groups) = (cx.dims(1), cx.rank(3, "mean", 2)?[1]);
        ensure!(groups > 0 && c.is_multiple_of(groups), "{c} channels do not divide into {groups} groups");
        ensure!(d[1..].iter().all(|&n| n > 0), "a sample of {d} is empty");
        cx.expect_dims(3, "mean", &[d[0], groups])?;
        cx.expect_dims(4, "rstd", &[d[0], groups])?;
        cx.same_as(1)?;
        cx.same_as(2)?;
        cx.same_as(2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower::emit_group_norm_backward),
    cost: |cx| 12 * cx.arg(0),
    cases: &[
        Case { args: "f[2,6,3,2] f[2,6,3,2] f[6] f[2,3] f[2,3]", attrs: "", domains: STATISTICS },
        Case { args: "f[3,4,5] f[3,4,5] f[4] f[3,4] f[3,4]", attrs: "", domains: STATISTICS },
        Case { args: "f[9,6] f[9,6] f[6] f[9,2] f[9,2]", attrs: "", domains: STATISTICS },
        Case { args: "f[3,1,41] f[3,1,41] f[1] f[3,1] f[3,1]", attrs: "", domains: STATISTICS },
        Case { args: "f[0,4,3] f[0,4,3] f[4] f[0,2] f[0,2]", attrs: "", domains: STATISTICS },
        Case { args: "f[2,6,7,11] f[2,6,7,11] f[6] f[2,1] f[2,1]", attrs: "", domains: STATISTICS },
    ],
    ..OpDef::BLANK
};
