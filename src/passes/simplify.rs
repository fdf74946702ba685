//! Algebraic simplification. Invariant: a rule holds for every input, NaN, infinities, −0 and empty tensors included.
//! So there is no `x·0 → 0` and no `x − x → 0`, because of NaN, and no `x + 0 → x`, because −0 + 0 is +0.
//!
//! A rule looks at one node and at the definitions of its operands in the new graph. Its hits are counted by name.

use super::last_of_stack::last_of_stack;
use super::rebuild::{RebuildVisit, rebuild};
use crate::arena::Value;
use crate::error::Result;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::layout::attrs::{FlipAttrs, TransposeAttrs};
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{Graph, Op, Var};
use bumpalo::Bump;
use std::collections::BTreeMap;

/// Number of hits of each named rule.
pub type Hits = BTreeMap<&'static str, usize>;

/// The replacement of a node's only result; `None` if the rule does not apply.
type Rewrite = for<'x, 'g> fn(&RebuildVisit<'x, 'g>) -> Option<Var<'g>>;

/// A rewrite rule.
struct Rule {
    name: &'static str,
    /// The ops that the rule looks at.
    roots: &'static [Op],
    rewrite: Rewrite,
}

const fn define_rule(name: &'static str, roots: &'static [Op], rewrite: Rewrite) -> Rule {
    Rule { name, roots, rewrite }
}

/// The rules. Those for one root are tried in this order.
const RULES: &[Rule] = &[
    define_rule("mul-one", &[Op::MUL], |v| other_operand(v, 1.0)),
    define_rule("div-one", &[Op::DIV], |v| (fill_value(v.args[1]) == Some(1.0)).then_some(v.args[0])),
    define_rule("sub-zero", &[Op::SUB], |v| is_filled_with(v.args[1], 0.0).then_some(v.args[0])),
    define_rule("add-minus-zero", &[Op::ADD], remove_minus_zero),
    define_rule("mul-minus-one", &[Op::MUL], |v| other_operand(v, -1.0).filter(|x| x.dtype().is_float()).map(|x| -x)),
    define_rule("neg-neg", &[Op::NEG], |v| inner_operand(v, Op::NEG)),
    define_rule("add-neg", &[Op::ADD], |v| {
        let [a, b] = [v.args[0], v.args[1]];
        strip_negation(b).map(|b| a - b).or_else(|| strip_negation(a).map(|a| b - a))
    }),
    define_rule("sub-neg", &[Op::SUB], |v| strip_negation(v.args[1]).map(|b| v.args[0] + b)),
    // To the outside, where a sum takes it. A negative that others read stays for them.
    define_rule("mul-neg", &[Op::MUL], |v| cancel_signs(v, |a, b| a * b)),
    define_rule("div-neg", &[Op::DIV], |v| cancel_signs(v, |a, b| a / b)),
    define_rule("not-not", &[Op::NOT], |v| inner_operand(v, Op::NOT)),
    define_rule("select-same", &[Op::SELECT], |v| (v.args[1].v == v.args[2].v).then_some(v.args[1])),
    define_rule("select-and", &[Op::SELECT], split_selection),
    define_rule("cast-same", &[Op::CAST], operand_of_same_type),
    define_rule("reshape-same", &[Op::RESHAPE], operand_of_same_type),
    define_rule("reshape-reshape", &[Op::RESHAPE], |v| {
        inner_operand(v, Op::RESHAPE).map(|x| x.reshape(result_dims(v)))
    }),
    define_rule("reshape-full", &[Op::RESHAPE, Op::BROADCAST], |v| {
        fill_value(v.args[0]).map(|x| v.g.full(x, result_dims(v), v.args[0].dtype()))
    }),
    define_rule("broadcast-same", &[Op::BROADCAST], operand_of_same_type),
    define_rule("broadcast-broadcast", &[Op::BROADCAST], |v| {
        inner_operand(v, Op::BROADCAST).map(|x| x.broadcast(result_dims(v)))
    }),
    define_rule("transpose-transpose", &[Op::TRANSPOSE], merge_transposes),
    define_rule("transpose-reshape", &[Op::TRANSPOSE], reshape_idle_transpose),
    define_rule(
        "reduce-nothing",
        &[Op::REDUCE_SUM, Op::REDUCE_MEAN, Op::REDUCE_MAX, Op::REDUCE_MIN, Op::REDUCE_PROD],
        |v| {
            let axes = ReduceAttrs::of(&v.src.attrs(v.node)).axes;
            // Only reductions over no axis are dropped: a sum over one element turns −0 into +0.
            axes.is_empty().then_some(v.args[0])
        },
    ),
    // A slice of as many elements along each axis has all of them: its steps are 1 where an axis has two or more.
    define_rule("slice-all", &[Op::SLICE], operand_of_same_type),
    define_rule("slice-last", &[Op::SLICE], last_of_stack),
    define_rule("pad-nothing", &[Op::PAD], operand_of_same_type),
    define_rule("flip-nothing", &[Op::FLIP], |v| {
        FlipAttrs::of(&v.src.attrs(v.node)).axes.is_empty().then_some(v.args[0])
    }),
    define_rule("concat-one", &[Op::CONCAT], |v| (v.args.len() == 1).then_some(v.args[0])),
    define_rule("real-of-complex", &[Op::REAL], |v| joined_part(v.args[0], 0)),
    define_rule("imag-of-complex", &[Op::IMAG], |v| joined_part(v.args[0], 1)),
    define_rule("complex-of-parts", &[Op::COMPLEX], |v| {
        let z = operand_of_op(v.args[0], Op::REAL)?;
        operand_of_op(v.args[1], Op::IMAG).filter(|other| other.v == z.v)
    }),
    define_rule("part-of-move", &[Op::REAL, Op::IMAG], move_part),
    define_rule("stop-gradient", &[Op::STOP_GRADIENT], |v| Some(v.args[0])),
    define_rule("matmul-transpose", &[Op::MATMUL], flag_transposed_operand),
];

/// Dimensions of the node's result.
fn result_dims(v: &RebuildVisit<'_, '_>) -> crate::arena::dims::Dims {
    v.src.dims(v.src.out(v.node))
}

/// The value that `x` is filled with, if it is a `full`.
fn fill_value(x: Var<'_>) -> Option<f64> {
    x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::FULL, attrs, .. } => Some(FullAttrs::of(&attrs).value),
        _ => None,
    })
}

/// True if `x` is filled with the bits of `value`.
fn is_filled_with(x: Var<'_>, value: f64) -> bool {
    fill_value(x).is_some_and(|f| f.to_bits() == value.to_bits())
}

/// The other operand, if one operand is filled with `value`.
fn other_operand<'g>(v: &RebuildVisit<'_, 'g>, value: f64) -> Option<Var<'g>> {
    let [a, b] = [v.args[0], v.args[1]];
    if fill_value(b) == Some(value) {
        return Some(a);
    }
    (fill_value(a) == Some(value)).then_some(b)
}

/// The float whose negative `x` is.
fn strip_negation(x: Var<'_>) -> Option<Var<'_>> {
    operand_of_op(x, Op::NEG).filter(|x| x.dtype().is_float())
}

/// A product or a quotient whose operands give up their signs.
fn cancel_signs<'g>(v: &RebuildVisit<'_, 'g>, op: fn(Var<'g>, Var<'g>) -> Var<'g>) -> Option<Var<'g>> {
    let [a, b] = [v.args[0], v.args[1]];
    match (strip_negation(a), strip_negation(b)) {
        (Some(a), Some(b)) => Some(op(a, b)),
        (Some(a), None) => Some(-op(a, b)),
        (None, Some(b)) => Some(-op(a, b)),
        (None, None) => None,
    }
}

/// A selection by two comparisons, with a constant where one does not hold, is two selections. A loop computes a
/// comparison and a selection at once.
fn split_selection<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let [both, x, y] = [v.args[0], v.args[1], v.args[2]];
    fill_value(y)?;
    let compares = |p: Value| {
        let op = both.g.with(|e| e.def(p).map(|def| def.op));
        op.is_some_and(|op| [Op::EQ, Op::NE, Op::LT, Op::LE, Op::GT, Op::GE].contains(&op))
    };
    let [p, q] = both.g.with(|e| match e.def(both.v)? {
        Definition { op: Op::AND, args, .. } => <[Value; 2]>::try_from(args).ok(),
        _ => None,
    })?;
    (compares(p) && compares(q)).then(|| both.g.var(p).select(both.g.var(q).select(x, y), y))
}

/// `x + −0` is `x` for every float, −0 included.
fn remove_minus_zero<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let [a, b] = [v.args[0], v.args[1]];
    if !a.dtype().is_float() {
        return None;
    }
    if is_filled_with(b, -0.0) {
        return Some(a);
    }
    is_filled_with(a, -0.0).then_some(b)
}

/// The operand of the operand, if that is an `op`.
fn inner_operand<'g>(v: &RebuildVisit<'_, 'g>, op: Op) -> Option<Var<'g>> {
    operand_of_op(v.args[0], op)
}

/// The first operand of `x`, if `x` is an `op`.
fn operand_of_op<'g>(x: Var<'g>, op: Op) -> Option<Var<'g>> {
    let of: Value = x.g.with(|e| match e.def(x.v)? {
        def if def.op == op => def.args.first().copied(),
        _ => None,
    })?;
    Some(x.g.var(of))
}

/// Part `part` of `z`, if `z` is joined of parts.
fn joined_part<'g>(z: Var<'g>, part: usize) -> Option<Var<'g>> {
    let of =
        z.g.with(|e| e.def(z.v).filter(|def| def.op == Op::COMPLEX).and_then(|def| def.args.get(part).copied()))?;
    Some(z.g.var(of))
}

/// The part of a moved complex value is the moved part, if the value is joined of parts.
fn move_part<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    moved_part(v.args[0], usize::from(v.op() == Op::IMAG), MOVES)
}

/// The most moves between the join of a complex value and its part.
const MOVES: usize = 8;

/// Part `part` of `z`, if `z` is joined of parts and moved at most `most` times.
fn moved_part<'g>(z: Var<'g>, part: usize, most: usize) -> Option<Var<'g>> {
    let moves = [Op::RESHAPE, Op::BROADCAST, Op::TRANSPOSE, Op::SLICE, Op::FLIP];
    let Some((op, attrs, of)) = z.g.with(|e| {
        let def = e.def(z.v).filter(|def| most > 0 && moves.contains(&def.op))?;
        Some((def.op, def.attrs.iter().map(|(_, a)| a).collect::<Vec<_>>(), *def.args.first()?))
    }) else {
        return joined_part(z, part);
    };
    let moved = moved_part(z.g.var(of), part, most - 1)?;
    let attrs: Vec<_> = attrs.iter().map(|a| a.as_attr()).collect();
    Some(z.g.emit1(op, &[moved], &attrs))
}

/// The operand, if it has the type of the result.
fn operand_of_same_type<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let ty = v.src.ty(v.src.out(v.node));
    (v.args[0].dtype() == ty.dtype && v.args[0].dims() == result_dims(v)).then_some(v.args[0])
}

/// The permutation of `x`, if `x` is a transpose.
fn transpose_perm(x: Var<'_>) -> Option<Vec<usize>> {
    x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::TRANSPOSE, attrs, .. } => Some(to_size_attrs(&TransposeAttrs::of(&attrs).perm)),
        _ => None,
    })
}

/// Two transposes are one.
fn merge_transposes<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let first = transpose_perm(v.args[0])?;
    let second = to_size_attrs(&TransposeAttrs::of(&v.src.attrs(v.node)).perm);
    let both: Vec<usize> = second.iter().map(|&i| first[i]).collect();
    inner_operand(v, Op::TRANSPOSE).map(|x| x.permute(&both))
}

/// A transpose that keeps the order of all axes longer than 1 is a reshape: no element moves.
fn reshape_idle_transpose<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let perm = to_size_attrs(&TransposeAttrs::of(&v.src.attrs(v.node)).perm);
    let d = v.args[0].dims();
    let long: Vec<usize> = perm.into_iter().filter(|&p| d[p] != 1).collect();
    long.is_sorted().then(|| v.args[0].reshape(result_dims(v)))
}

/// A transpose of the last two axes of an operand becomes a flag of the product.
fn flag_transposed_operand<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&v.src.attrs(v.node));
    let mut flags = [ta, tb];
    let mut args = [v.args[0], v.args[1]];
    let mut hit = false;
    for (arg, flag) in args.iter_mut().zip(&mut flags) {
        if let (Some(perm), Some(x)) = (transpose_perm(*arg), operand_of_op(*arg, Op::TRANSPOSE)) {
            let mut swap: Vec<usize> = (0..perm.len()).collect();
            swap[perm.len().saturating_sub(2)..].reverse();
            if perm == swap {
                (*arg, *flag, hit) = (x, !*flag, true);
            }
        }
    }
    hit.then(|| args[0].matmul_t(args[1], flags[0], flags[1]))
}

/// One round of simplification of `g`. Counts the rules that fire in `hits`.
pub fn simplify<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        let op = v.op();
        let mut rules = RULES.iter().filter(|rule| rule.roots.contains(&op));
        let (name, new) = rules.find_map(|rule| Some((rule.name, (rule.rewrite)(v)?)))?;
        *hits.entry(name).or_default() += 1;
        Some(vec![new])
    })
}
