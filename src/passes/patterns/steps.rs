//! Optimiser steps: those by a product go behind it, what scales their gradients goes into them, and those of small
//! params become one.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ops::optim::fused_update::behind_product;
use crate::nodes::ops::optim::layout;
use crate::nodes::{Op, Var};

/// Elements of a param whose step costs a call more than work.
const SMALL: usize = 1024;
/// Params of one step: their gradients are all alive until the last of them is there.
const MOST: usize = 16;
/// Readers of a rate that are looked at together: what a step costs here does not grow with the number of params.
const NEAR: usize = 4 * MOST;

/// Whether `op` is a step.
pub fn is_step(op: Op) -> bool {
    layout(op).is_some()
}

/// The operands of a step of one param, and how many of them are tensors, if nothing scales its gradient yet.
fn single<'x>(f: &Facts<'x>, n: Node) -> Option<(&'x [Value], usize)> {
    let (tensors, scalars) = layout(f.g.op[n.at()])?;
    let args = f.args(n);
    (args.len() == tensors + scalars).then_some((args, tensors))
}

/// The attributes of a node, to write it again with other operands.
fn attributes(f: &Facts<'_>, n: Node) -> Vec<Owned> {
    f.attrs(n).iter().map(|(_, a)| a).collect()
}

/// The match that writes steps like that of `root` on `args`.
fn step(f: &Facts<'_>, root: Node, args: Vec<Value>, gives: Vec<(Value, usize)>, inner: Vec<Node>) -> Found {
    let (op, attrs) = (f.g.op[root.at()], attributes(f, root));
    Found::Fired(Match::new(args, gives, inner, move |g, a: &[Var<'_>]| {
        let attrs: Vec<_> = attrs.iter().map(Owned::borrow).collect();
        g.emit(op, a, &attrs).into()
    }))
}

/// A step of one param by a product: the gradient then never leaves the cache.
pub fn product(f: &Facts<'_>, root: Node) -> Found {
    let (op, args) = (f.g.op[root.at()], f.args(root));
    let (Some((tensors, scalars)), Some(behind)) = (layout(op), behind_product(op)) else { return Found::No };
    let Some(product) = f.is(args[1], Op::MATMUL).filter(|_| args.len() <= tensors + scalars + 1) else {
        return Found::No;
    };
    if !f.alone(args[1]) {
        return Found::Missed(f.reads_of("the gradient", args[1]));
    }
    // What the product reads waits for the param's last reader, instead of the gradient: neither may be the larger.
    // Plain SGD by sums that are not cut has a cheaper kernel; else its lowering keeps a gradient that is.
    let kept = f.args(product).iter().map(|&v| f.g.numel(v)).max().unwrap_or(0);
    if op != Op::SGD && kept > f.g.numel(args[1]) {
        return Found::Missed(format!("{kept} elements would be kept for the step instead of the gradient"));
    }
    let attrs: Vec<Owned> = attributes(f, product).into_iter().chain(attributes(f, root)).collect();
    let operands = [f.args(product), &args[..1], &args[2..]].concat();
    let gives = f.g.outs_of(root).zip(0..).collect();
    Found::Fired(Match::new(operands, gives, vec![product], move |g, a: &[Var<'_>]| {
        let attrs: Vec<_> = attrs.iter().map(Owned::borrow).collect();
        g.emit(behind, a, &attrs).into()
    }))
}

/// The product of a step's gradient and a scalar, the gradient, the scalar.
fn scaled(f: &Facts<'_>, g: Value) -> Option<(Node, Value, Value)> {
    let n = f.is(g, Op::MUL)?;
    let a = f.args(n);
    [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let s = f.repeated(a[j]).filter(|&s| f.dims(s).is_empty())?;
        Some((n, a[i], s))
    })
}

/// A step by a gradient that is multiplied by a scalar for the step alone: global-norm clipping, an unscaled loss.
pub fn scale(f: &Facts<'_>, root: Node) -> Found {
    let Some((args, _)) = single(f, root) else { return Found::No };
    let Some((product, g, by)) = scaled(f, args[1]) else { return Found::No };
    if !f.alone(args[1]) {
        return Found::Missed(f.reads_of("the scaled gradient", args[1]));
    }
    let mut operands = args.to_vec();
    operands[1] = g;
    operands.push(by);
    let gives = f.g.outs_of(root).zip(0..).collect();
    step(f, root, operands, gives, vec![product])
}

/// Whether a step of one param, scaled or not, is worth a place in one with others: a small vector, whose gradient no
/// rule takes in.
///
/// Vectors alone: a matrix' step is worth a call, and may stand behind the product that is its gradient.
fn joins(f: &Facts<'_>, n: Node, scalars: &[Value], like: &[Owned]) -> bool {
    let args = f.args(n);
    let (Some((tensors, _)), d) = (layout(f.g.op[n.at()]), f.dims(args[0])) else { return false };
    let small = d.len() <= 1 && d.numel() <= SMALL;
    small && args[tensors..] == *scalars && scaled(f, args[1]).is_none() && attributes(f, n) == like
}

/// Steps of small params with one rate and one set of numbers.
pub fn together(f: &Facts<'_>, root: Node) -> Found {
    let (op, args) = (f.g.op[root.at()], f.args(root));
    let Some((tensors, _)) = layout(op) else { return Found::No };
    let (scalars, like) = (&args[tensors..], attributes(f, root));
    if scalars.len() > tensors || !joins(f, root, scalars, &like) {
        return Found::No;
    }
    // The last of each set decides.
    let readers = f.readers(scalars[0]);
    let Some(near) = readers.chunks(NEAR).find(|c| c.last() >= Some(&root)) else { return Found::No };
    let mut all = near.to_vec();
    all.dedup();
    all.retain(|&n| f.g.op[n.at()] == op && joins(f, n, scalars, &like));
    let Some(at) = all.iter().position(|&n| n == root) else { return Found::No };
    let set = &all[at / MOST * MOST..=at];
    if set.len() < 2 || (set.len() < MOST && at + 1 < all.len()) {
        return Found::No;
    }
    let mut operands: Vec<Value> = set.iter().flat_map(|&n| &f.args(n)[..tensors]).copied().collect();
    operands.extend(scalars);
    let gives = set.iter().flat_map(|&n| f.g.outs_of(n)).zip(0..).collect();
    step(f, root, operands, gives, Vec::new())
}
