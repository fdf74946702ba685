//! Algebraic simplification, with rules that hold for every input: NaN, infinities, −0 and empty tensors included.
//! So there is no `x·0 → 0`, no `x − x → 0`, no `x + 0 → x` (which turns −0 into +0).
//!
//! Each rule looks at one node and the definitions of its operands in the graph that is written, and has a name under
//! which its hits are counted.

use super::rebuild::{Visit, rebuild};
use crate::arena::Value;
use crate::error::Result;
use crate::nodes::build::axes::to_sizes;
use crate::nodes::ops::constant::FullAttrs;
use crate::nodes::ops::layout::attrs::FlipAttrs;
use crate::nodes::ops::layout::attrs::SliceAttrs;
use crate::nodes::ops::layout::attrs::TransposeAttrs;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{Graph, Op, Var};
use bumpalo::Bump;
use std::collections::BTreeMap;

/// How often each named rule fired.
pub type Hits = BTreeMap<&'static str, usize>;

/// One rule: the replacement of a node's only result.
type Rewrite = for<'x, 'g> fn(&Visit<'x, 'g>) -> Option<Var<'g>>;

/// The rules, by root op; each is tried in order.
const RULES: &[(&str, &[Op], Rewrite)] = &[
    ("mul-one", &[Op::MUL], |v| either(v, 1.0)),
    ("div-one", &[Op::DIV], |v| (full(v.args[1]) == Some(1.0)).then_some(v.args[0])),
    ("sub-zero", &[Op::SUB], |v| is_bits(v.args[1], 0.0).then_some(v.args[0])),
    ("add-minus-zero", &[Op::ADD], |v| {
        v.args[0].dtype().is_float().then_some(())?;
        let pick = |i: usize| is_bits(v.args[1 - i], -0.0).then_some(v.args[i]);
        pick(0).or_else(|| pick(1))
    }),
    ("mul-minus-one", &[Op::MUL], |v| either(v, -1.0).filter(|x| x.dtype().is_float()).map(|x| -x)),
    ("neg-neg", &[Op::NEG], |v| inner(v, Op::NEG)),
    ("not-not", &[Op::NOT], |v| inner(v, Op::NOT)),
    ("select-same", &[Op::SELECT], |v| (v.args[1].v == v.args[2].v).then_some(v.args[1])),
    ("cast-same", &[Op::CAST], same_type),
    ("reshape-same", &[Op::RESHAPE], same_type),
    ("reshape-reshape", &[Op::RESHAPE], |v| inner(v, Op::RESHAPE).map(|x| x.reshape(target(v)))),
    ("reshape-full", &[Op::RESHAPE, Op::BROADCAST], |v| {
        full(v.args[0]).map(|x| v.g.full(x, target(v), v.args[0].dtype()))
    }),
    ("broadcast-same", &[Op::BROADCAST], same_type),
    ("broadcast-broadcast", &[Op::BROADCAST], |v| inner(v, Op::BROADCAST).map(|x| x.broadcast(target(v)))),
    ("transpose-transpose", &[Op::TRANSPOSE], transpose_transpose),
    ("transpose-reshape", &[Op::TRANSPOSE], transpose_moves_nothing),
    ("reduce-nothing", &[Op::REDUCE_SUM, Op::REDUCE_MEAN, Op::REDUCE_MAX, Op::REDUCE_MIN, Op::REDUCE_PROD], |v| {
        let axes = ReduceAttrs::of(&v.src.attrs(v.node)).axes;
        let d = v.args[0].dims();
        // A sum over one element is that element, except that it would turn −0 into +0: only empty sets are dropped.
        (axes.is_empty() && d.len() == target(v).len()).then_some(v.args[0])
    }),
    ("slice-all", &[Op::SLICE], |v| {
        let steps = SliceAttrs::of(&v.src.attrs(v.node)).steps;
        (steps.iter().all(|&p| p == 1) && v.args[0].dims() == target(v)).then_some(v.args[0])
    }),
    ("pad-nothing", &[Op::PAD], same_type),
    ("flip-nothing", &[Op::FLIP], |v| FlipAttrs::of(&v.src.attrs(v.node)).axes.is_empty().then_some(v.args[0])),
    ("concat-one", &[Op::CONCAT], |v| (v.args.len() == 1).then_some(v.args[0])),
    ("stop-gradient", &[Op::STOP_GRADIENT], |v| Some(v.args[0])),
    ("matmul-transpose", &[Op::MATMUL], fold_transposes),
];

/// Dimensions of the node's result.
fn target(v: &Visit<'_, '_>) -> crate::arena::intern::Dims {
    v.src.dims(v.src.out(v.node))
}

/// The value that `x` is filled with, if it is a `full`.
fn full(x: Var<'_>) -> Option<f64> {
    x.g.with(|e| match e.def(x.v)? {
        (Op::FULL, _, attrs) => Some(FullAttrs::of(&attrs).value),
        _ => None,
    })
}

fn is_bits(x: Var<'_>, value: f64) -> bool {
    full(x).is_some_and(|f| f.to_bits() == value.to_bits())
}

/// The other operand, if one is filled with `value`.
fn either<'g>(v: &Visit<'_, 'g>, value: f64) -> Option<Var<'g>> {
    let pick = |i: usize| (full(v.args[1 - i]) == Some(value)).then_some(v.args[i]);
    pick(0).or_else(|| pick(1))
}

/// The operand of the operand, if that is an `op`.
fn inner<'g>(v: &Visit<'_, 'g>, op: Op) -> Option<Var<'g>> {
    operand(v.args[0], op)
}

fn operand<'g>(x: Var<'g>, op: Op) -> Option<Var<'g>> {
    let of: Value = x.g.with(|e| match e.def(x.v)? {
        (o, args, _) if o == op => args.first().copied(),
        _ => None,
    })?;
    Some(x.g.var(of))
}

fn same_type<'g>(v: &Visit<'_, 'g>) -> Option<Var<'g>> {
    let ty = v.src.ty(v.src.out(v.node));
    (v.args[0].dtype() == ty.dtype && v.args[0].dims() == target(v)).then_some(v.args[0])
}

fn perm_of(x: Var<'_>) -> Option<Vec<usize>> {
    x.g.with(|e| match e.def(x.v)? {
        (Op::TRANSPOSE, _, attrs) => Some(to_sizes(&TransposeAttrs::of(&attrs).perm)),
        _ => None,
    })
}

fn transpose_transpose<'g>(v: &Visit<'_, 'g>) -> Option<Var<'g>> {
    let first = perm_of(v.args[0])?;
    let second = to_sizes(&TransposeAttrs::of(&v.src.attrs(v.node)).perm);
    let both: Vec<usize> = second.iter().map(|&i| first[i]).collect();
    inner(v, Op::TRANSPOSE).map(|x| x.transpose(&both))
}

/// A permutation that keeps the order of all axes longer than 1 moves no element.
fn transpose_moves_nothing<'g>(v: &Visit<'_, 'g>) -> Option<Var<'g>> {
    let perm = to_sizes(&TransposeAttrs::of(&v.src.attrs(v.node)).perm);
    let d = v.args[0].dims();
    let long: Vec<usize> = perm.into_iter().filter(|&p| d[p] != 1).collect();
    long.is_sorted().then(|| v.args[0].reshape(target(v)))
}

/// A transpose of the last two axes under a product is a flag of the product.
fn fold_transposes<'g>(v: &Visit<'_, 'g>) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&v.src.attrs(v.node));
    let mut flags = [ta, tb];
    let mut args = [v.args[0], v.args[1]];
    let mut hit = false;
    for (arg, flag) in args.iter_mut().zip(&mut flags) {
        if let (Some(perm), Some(x)) = (perm_of(*arg), operand(*arg, Op::TRANSPOSE)) {
            let r = perm.len();
            let mut swap: Vec<usize> = (0..r).collect();
            if r >= 2 {
                swap.swap(r - 2, r - 1);
            }
            if perm == swap {
                (*arg, *flag, hit) = (x, !*flag, true);
            }
        }
    }
    hit.then(|| args[0].matmul_t(args[1], flags[0], flags[1]))
}

/// Simplifies `g`, counting into `hits`.
pub fn simplify<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        let op = v.op();
        let mut roots = RULES.iter().filter(|(_, roots, _)| roots.contains(&op));
        let (name, new) = roots.find_map(|(name, _, rule)| rule(v).map(|new| (*name, new)))?;
        *hits.entry(name).or_default() += 1;
        Some(vec![new])
    })
}
