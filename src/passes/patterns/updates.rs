//! Optimiser steps: a step goes into the epilogue of the product that is its gradient, a scale of the gradient goes
//! into the step, and the steps of several small params become one.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::optim::{fused_form_of_step, step_layout};
use crate::nodes::{Op, Var};

/// The most elements of a small param. Its step costs more for the call than for the work.
const SMALL: usize = 1024;
/// The most params of one step. All their gradients are alive until the last of them is computed.
const MAX_PARAMS: usize = 16;
/// Readers of one learning rate that are searched together, so that the search time is linear in the number of params.
const CHUNK: usize = 4 * MAX_PARAMS;

/// True if `op` is an optimiser step.
pub fn can_match_update(op: Op) -> bool {
    step_layout(op).is_some()
}

/// The operands of a step of one param whose gradient is not scaled yet, and the number of those that are tensors.
fn match_single_update<'x>(f: &PatternFacts<'x>, n: Node) -> Option<(&'x [Value], usize)> {
    let (tensors, scalars) = step_layout(f.g.op[n.at()])?;
    let args = f.args(n);
    (args.len() == tensors + scalars).then_some((args, tensors))
}

/// The attributes of a node, to write it again with other operands.
fn matched_update_attributes(f: &PatternFacts<'_>, n: Node) -> Vec<Owned> {
    f.attrs(n).iter().map(|(_, a)| a).collect()
}

/// A match that writes the step of `root` with other operands.
fn match_update(
    f: &PatternFacts<'_>,
    root: Node,
    args: Vec<Value>,
    gives: Vec<(Value, usize)>,
    inner: Vec<Node>,
) -> Found {
    let (op, attrs) = (f.g.op[root.at()], matched_update_attributes(f, root));
    Found::Fired(Match::new(args, gives, inner, move |g, a: &[Var<'_>]| {
        let attrs: Vec<_> = attrs.iter().map(Owned::as_attr).collect();
        g.emit(op, a, &attrs).into()
    }))
}

/// A step of one param whose gradient is a product: a fused weight update. The gradient never leaves the cache.
pub fn match_update_behind_product(f: &PatternFacts<'_>, root: Node) -> Found {
    let (op, args) = (f.g.op[root.at()], f.args(root));
    let (Some((tensors, scalars)), Some(behind)) = (step_layout(op), fused_form_of_step(op)) else {
        return Found::No;
    };
    let Some(product) = f.is(args[1], Op::MATMUL).filter(|_| args.len() <= tensors + scalars + 1) else {
        return Found::No;
    };
    if !f.alone(args[1]) {
        return Found::Missed(f.reads_of("the gradient", args[1]));
    }
    // The operands of the product stay alive until the param's last reader, instead of the gradient: they must not be
    // larger. Plain SGD is exempt: it has a cheaper kernel where the sums are not split, and its lowering keeps the
    // gradient otherwise.
    let kept = f.args(product).iter().map(|&v| f.g.numel(v)).max().unwrap_or(0);
    if op != Op::SGD && kept > f.g.numel(args[1]) {
        return Found::Missed(format!("{kept} elements would be kept for the step instead of the gradient"));
    }
    let attrs: Vec<Owned> =
        matched_update_attributes(f, product).into_iter().chain(matched_update_attributes(f, root)).collect();
    let operands = [f.args(product), &args[..1], &args[2..]].concat();
    let gives = f.g.outs_of(root).zip(0..).collect();
    Found::Fired(Match::new(operands, gives, vec![product], move |g, a: &[Var<'_>]| {
        let attrs: Vec<_> = attrs.iter().map(Owned::as_attr).collect();
        g.emit(behind, a, &attrs).into()
    }))
}

/// A gradient times a scalar.
struct ScaledGradient {
    /// The multiplication.
    node: Node,
    gradient: Value,
    scalar: Value,
}

/// The parts of `g`, if `g` is a gradient times a scalar.
fn match_scaled_update(f: &PatternFacts<'_>, g: Value) -> Option<ScaledGradient> {
    let n = f.is(g, Op::MUL)?;
    let a = f.args(n);
    [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let scalar = f.repeated(a[j]).filter(|&s| f.dims(s).is_empty())?;
        Some(ScaledGradient { node: n, gradient: a[i], scalar })
    })
}

/// A step by a gradient times a scalar that only the step reads: clipping by global norm, or an unscaled loss.
pub fn match_update_scale(f: &PatternFacts<'_>, root: Node) -> Found {
    let Some((args, _)) = match_single_update(f, root) else { return Found::No };
    let Some(by) = match_scaled_update(f, args[1]) else { return Found::No };
    if !f.alone(args[1]) {
        return Found::Missed(f.reads_of("the scaled gradient", args[1]));
    }
    let mut operands = args.to_vec();
    operands[1] = by.gradient;
    operands.push(by.scalar);
    let gives = f.g.outs_of(root).zip(0..).collect();
    match_update(f, root, operands, gives, vec![by.node])
}

/// True if the step `n` of one param may join a step of several: its param is a small vector, its gradient is not
/// scaled, and its scalars and attributes are `scalars` and `like`.
///
/// Matrices do not join: their step is worth a call, and may go into the product that is their gradient.
fn can_join_steps(f: &PatternFacts<'_>, n: Node, scalars: &[Value], like: &[Owned]) -> bool {
    let args = f.args(n);
    let (Some((tensors, _)), d) = (step_layout(f.g.op[n.at()]), f.dims(args[0])) else { return false };
    let small = d.len() <= 1 && d.numel() <= SMALL;
    small
        && args[tensors..] == *scalars
        && match_scaled_update(f, args[1]).is_none()
        && matched_update_attributes(f, n) == like
}

/// Steps of small params with the same learning rate and attributes become one step.
pub fn match_small_steps(f: &PatternFacts<'_>, root: Node) -> Found {
    let (op, args) = (f.g.op[root.at()], f.args(root));
    let Some((tensors, _)) = step_layout(op) else { return Found::No };
    let (scalars, like) = (&args[tensors..], matched_update_attributes(f, root));
    if scalars.len() > tensors || !can_join_steps(f, root, scalars, &like) {
        return Found::No;
    }
    // Only the last step of each set is a root.
    let readers = f.readers(scalars[0]);
    let Some(near) = readers.chunks(CHUNK).find(|c| c.last() >= Some(&root)) else { return Found::No };
    let mut all = near.to_vec();
    all.dedup();
    all.retain(|&n| f.g.op[n.at()] == op && can_join_steps(f, n, scalars, &like));
    let Some(at) = all.iter().position(|&n| n == root) else { return Found::No };
    let set = &all[at / MAX_PARAMS * MAX_PARAMS..=at];
    if set.len() < 2 || (set.len() < MAX_PARAMS && at + 1 < all.len()) {
        return Found::No;
    }
    let mut operands: Vec<Value> = set.iter().flat_map(|&n| &f.args(n)[..tensors]).copied().collect();
    operands.extend(scalars);
    let gives = set.iter().flat_map(|&n| f.g.outs_of(n)).zip(0..).collect();
    match_update(f, root, operands, gives, Vec::new())
}
