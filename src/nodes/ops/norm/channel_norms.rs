//! Normalisation by groups of channels, and by batch.
//!
//! Channels are axis 1, as in torch. Group norm decomposes into layer normalisation of one row for each group; batch
//! norm into reductions, which fuse.

use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::norm::{NormAttrs, check_norm_eps};
use Domain::Real;

attrs! {
    /// Attributes of a group norm.
    pub struct GroupNormAttrs {
        /// The number of runs of channels.
        groups: i64,
        /// The term added to the variance.
        eps: f64,
    }
}

/// The number of channels of x, with γ and β of that size.
fn check_norm_channels(cx: &Infer<'_>) -> Result<usize, String> {
    cx.float(0)?;
    (1..3).try_for_each(|k| cx.same_dtype(0, k))?;
    let d = cx.dims(0);
    ensure!(d.len() >= 2, "x is {d}; it needs a batch axis and a channel axis");
    cx.expect_dims(1, "gamma", &[d[1]])?;
    cx.expect_dims(2, "beta", &[d[1]])?;
    Ok(d[1])
}

/// A value for each channel, shaped to broadcast over x.
fn norm_per_channel<'g>(v: Var<'g>, x: Var<'g>) -> Var<'g> {
    let mut d = vec![1; x.rank() - 1];
    d[0] = v.numel();
    v.reshape(d)
}

fn expand_group_norm<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, d) = (s.args[0], s.args[0].dims());
    let GroupNormAttrs { groups, eps } = GroupNormAttrs::of(&s.attrs);
    let groups = groups as usize;
    let size = d[1..].iter().product::<usize>() / groups;
    let flat = x.reshape([d[0] * groups, size]);
    let (one, zero) = (s.g.full(1.0, [size], x.dtype()), s.g.full(0.0, [size], x.dtype()));
    let normed = s.g.emit(Op::LAYER_NORM, &[flat, one, zero], &NormAttrs { eps }.list());
    let [hat, mean, rstd] = *normed else { return Vec::new() };
    let y = hat.reshape(d) * norm_per_channel(s.args[1], x) + norm_per_channel(s.args[2], x);
    vec![y, mean.reshape([d[0], groups]), rstd.reshape([d[0], groups])]
}

/// Normalisation of groups of channels of each sample.
pub const GROUP_NORM: OpDef = OpDef {
    name: "group_norm",
    doc: "y = γ(x − mean)·rstd + β with the statistics of each of `groups` runs of channels of each sample; also mean and rstd, [N, groups]",
    arity: Arity::Exactly(3),
    attrs: GroupNormAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let (c, GroupNormAttrs { groups, eps }) = (check_norm_channels(cx)?, GroupNormAttrs::of(&cx.attrs));
        ensure!(groups > 0 && c as i64 % groups == 0, "{c} channels do not divide into {groups} groups");
        check_norm_eps(eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(d[1..].iter().all(|&n| n > 0), "a sample of {d} is empty");
        cx.same_as(0)?;
        cx.result(dtype, &[d[0], groups as usize])?;
        cx.result(dtype, &[d[0], groups as usize])
    },
    deriv: Deriv::ViaDecompose,
    decompose: Some(expand_group_norm),
    lower: Lower::Expand,
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case { args: "f[2,6,3,2] f[6] f[6]", attrs: "groups=3 eps=0.001", domains: &[Real] },
        Case { args: "f[3,4,5] f[4] f[4]", attrs: "groups=4 eps=0.00001", domains: &[Real] },
        Case { args: "f[5,6] f[6] f[6]", attrs: "groups=1 eps=0.1", domains: &[Real] },
    ],
};

fn expand_batch_norm<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&a| a != 1).collect();
    let mean = x.mean(&axes[..]);
    let d = x - norm_per_channel(mean, x);
    let var = (d * d).mean(&axes[..]);
    let scale = (var + NormAttrs::of(&s.attrs).eps).rsqrt() * s.args[1];
    vec![d * norm_per_channel(scale, x) + norm_per_channel(s.args[2], x), mean, var]
}

/// Normalisation of each channel over the batch, with its statistics.
pub const BATCH_NORM: OpDef = OpDef {
    name: "batch_norm",
    doc: "y = γ(x − mean)/√(var + eps) + β with the mean and the biased variance of each channel over all other axes; also both statistics",
    arity: Arity::Exactly(3),
    attrs: NormAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let c = check_norm_channels(cx)?;
        check_norm_eps(NormAttrs::of(&cx.attrs).eps)?;
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(d.iter().all(|&n| n > 0), "the batch {d} is empty");
        cx.same_as(0)?;
        cx.result(dtype, &[c])?;
        cx.result(dtype, &[c])
    },
    deriv: Deriv::ViaDecompose,
    decompose: Some(expand_batch_norm),
    lower: Lower::Expand,
    cost: |cx| 10 * cx.arg(0),
    cases: &[
        Case { args: "f[3,2,4,3] f[2] f[2]", attrs: "eps=0.001", domains: &[Real] },
        Case { args: "f[7,5] f[5] f[5]", attrs: "eps=0.00001", domains: &[Real] },
        Case { args: "f[2,3,9] f[3] f[3]", attrs: "eps=0.1", domains: &[Real] },
    ],
};
