//! Norms and dropout.

use super::{Entry, from_left, own, same};
use crate::import::{Cx, Out, one};
use arenagrad::graph::{DType, Var};
use arenagrad::op::Op;

pub const OPS: &[Entry] = &[
    same("BatchNormalization", batch_norm),
    same("InstanceNormalization", |c| {
        let x = c.x(0)?;
        let channels = x.dims().get(1).copied().unwrap_or(0);
        one(x.group_norm(channels, c.x(1)?, c.x(2)?, c.float("epsilon", 1e-5)))
    }),
    same("GroupNormalization", |c| {
        let (x, groups) = (c.x(0)?, c.int("num_groups", 1).max(1) as usize);
        let channels = x.dims().get(1).copied().unwrap_or(0);
        // Up to version 20, scale and bias are those of groups.
        let each = if c.opset < 21 { channels / groups } else { 1 };
        let (gamma, beta) = (c.x(1)?.repeat_interleave(each, 0), c.x(2)?.repeat_interleave(each, 0));
        one(x.group_norm(groups, gamma, beta, c.float("epsilon", 1e-5)))
    }),
    own("LayerNormalization", layer_norm),
    same("RMSNormalization", |c| {
        let (x, gamma) = (c.x(0)?, c.x(1)?);
        let axis = c.axis(c.int("axis", -1), x.rank())?;
        let axes: Vec<i64> = (axis as i64..x.rank() as i64).collect();
        let eps = c.float("epsilon", 1e-5);
        if *gamma.dims() == x.dims()[axis..] {
            return one(x.rms_norm(gamma, gamma.full_like(0.0), eps));
        }
        let mean = (x * x).reduce(Op::REDUCE_MEAN, axes.as_slice(), true);
        one(x * (mean + eps).rsqrt() * gamma)
    }),
    same("LRN", |c| {
        let size = c.int("size", 1).max(1) as usize;
        // The window of the library begins one element later if its size is even.
        if size.is_multiple_of(2) || size > 1 << 10 {
            return c.refuse(format!("the size {size} is not supported: it must be odd and below 1024"));
        }
        let (alpha, beta, bias) = (c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1.0));
        one(c.x(0)?.local_response_norm(size, alpha, beta, bias))
    }),
    same("LpNormalization", |c| {
        let (x, p, axis) = (c.x(0)?, c.int("p", 2), c.int("axis", -1));
        let norm = x.norm_keep(p as f64, axis);
        let zero = norm.equal(0.0);
        one(zero.broadcast(x.dims()).select(x.full_like(0.0), x / zero.select(norm.full_like(1.0), norm)))
    }),
    same("MeanVarianceNormalization", |c| {
        let x = c.x(0)?;
        let axes = c.list("axes").unwrap_or_else(|| vec![0, 2, 3]);
        let mean = x.reduce(Op::REDUCE_MEAN, axes.as_slice(), true);
        one((x - mean) / (x.var(axes.as_slice(), 0, true).sqrt() + 1e-9))
    }),
    Entry { name: "Dropout", types: super::Types::Same, random: true, rule: dropout },
];

fn batch_norm<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, gamma, beta, eps) = (c.x(0)?, c.x(1)?, c.x(2)?, c.float("epsilon", 1e-5));
    let (mean, var) = (c.frozen(3)?, c.frozen(4)?);
    let legacy_training = c.opset < 14 && c.node.output.len() > 1;
    let rank = x.rank();
    let wide = if rank < 2 { return c.wrong("it needs a batch axis and channels") } else { x };
    if !c.flag("training_mode", false) && !legacy_training {
        return one(wide.batch_norm_inference(gamma, beta, [mean, var], 1, eps));
    }
    let momentum = c.float("momentum", 0.9);
    let [y, m, v] = wide.batch_norm(gamma, beta, eps);
    let kept = |old: Var<'g>, new: Var<'g>| old * momentum + new * (1.0 - momentum);
    Ok(vec![y, kept(mean, m), kept(var, v)])
}

/// The norm over the last axes, with mean and 1/deviation.
fn layer_norm<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, gamma, stored) = (c.x(0)?, c.x(1)?, c.dtype(0)?);
    let axis = c.axis(c.int("axis", -1), x.rank())?;
    let (d, eps) = (x.dims(), c.float("epsilon", 1e-5));
    let beta = c.opt(2)?.unwrap_or(gamma.full_like(0.0));
    let axes: Vec<i64> = (axis as i64..d.len() as i64).collect();
    let full = |v: Var<'g>| v.broadcast(&d[axis..]);
    let (gamma, beta) = (full(gamma), full(beta));
    let y = x.layer_norm(gamma, beta, eps).cast(stored);
    if !c.wants(1) && !c.wants(2) {
        return one(y);
    }
    let mean = x.reduce(Op::REDUCE_MEAN, axes.as_slice(), true);
    Ok(vec![y, mean, (x.var(axes.as_slice(), 0, true) + eps).rsqrt()])
}

/// Dropout drops while a graph is trained on: when the model says so, or in old versions never.
fn dropout<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let x = c.x(0)?;
    let training = c.opset >= 12 && c.has(2) && c.integer(2)? != 0;
    let ratio = match c.has(1) && c.opset >= 12 {
        true if training => c.number(1)?,
        _ => 0.5,
    };
    if !training || ratio == 0.0 {
        let mask = c.g.full(1.0, x.dims(), DType::Bool);
        return Ok(vec![x, mask]);
    }
    if c.wants(1) {
        let kept = c.g.bernoulli(x.dims(), 1.0 - ratio).cast(DType::Bool);
        return Ok(vec![kept.select(x / (1.0 - ratio), x.full_like(0.0)), kept]);
    }
    one(x.dropout(ratio))
}

/// A value for each channel, which broadcasts over a shape of rank `rank`.
pub fn per_channel<'g>(v: Var<'g>, rank: usize) -> Var<'g> {
    from_left(v, 1, rank)
}
