//! Rows of tables: the gradient of a table that the loss reads by gathers alone is a row for each index.
//!
//! Such a gradient is a sum of scatters into zeros. A rule that leaves a row without gradient as it is takes the rows,
//! and the zeros are never written. Where the gradient is read before the step (clipping, a norm, the scale of the
//! loss), rows of equal indices are added up first, the sum in one row and zeros in the others: norms and limits of
//! these rows are those of the whole gradient.

use super::rule::Rule;
use super::{Optimiser, groups::Settings};
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ops::index::attrs::ScatterAddAttrs;
use crate::nodes::ops::optim::attrs::CoalesceAttrs;
use crate::nodes::ops::optim::rows::MOST_TABLE_ROWS;
use crate::nodes::{DType, Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::rebuild_buf;

/// The most gathers of a table that are followed. With more its gradient is dense.
const MOST_GATHERS: usize = 256;

/// What a value of a gradient is.
enum Part {
    /// The sum of two values.
    Sum([Value; 2]),
    /// Updates scattered into zeros along axis 0, and their indices.
    Scatter([Value; 2]),
}

/// What a node with this op makes, if it is a part of a gradient by rows.
fn part_of(op: Op, args: &[Value], attrs: &Attrs<'_>) -> Option<Part> {
    match (op, args) {
        (Op::ADD, &[a, b]) => Some(Part::Sum([a, b])),
        (Op::SCATTER_ADD, &[g, idx]) if ScatterAddAttrs::of(attrs).axis == 0 => Some(Part::Scatter([g, idx])),
        _ => None,
    }
}

/// The updates and indices of the scatters of which `grad` is the sum. `part` tells what a value is.
fn scatters_of(grad: Value, part: impl Fn(Value) -> Option<Part>) -> Option<Vec<[Value; 2]>> {
    let (mut left, mut found) = (vec![grad], Vec::new());
    while let Some(v) = left.pop() {
        match part(v)? {
            Part::Sum([a, b]) => left.extend([b, a]),
            Part::Scatter(scatter) => found.push(scatter),
        }
        if left.len() + found.len() > MOST_GATHERS {
            return None;
        }
    }
    Some(found)
}

/// The updates and indices of the scatters of which `grad` is the sum, if `rule` takes the rows of `steps`
/// micro-batches. `grad` is a value of the graph `g` of one of them.
pub(super) fn rows_of_micro_batch(g: Graph<'_>, grad: Value, rule: &Rule, steps: usize) -> Option<Vec<[Value; 2]>> {
    let part = |v: Value| {
        let n = g.def[v.at()];
        part_of(g.op[n.at()], g.args_of(n), &g.attrs(n))
    };
    let all = scatters_of(grad, part)?;
    let k: usize = all.iter().map(|[_, idx]| g.dims(*idx).numel()).sum();
    takes_rows(rule, k.saturating_mul(steps), *g.dims(grad).first()?).then_some(all)
}

/// For each of `params` whose gradient is taken by rows: the indices of the rows, `[k]`. Its gradient becomes
/// `[k, ..]`.
pub(super) fn take_rows<'g>(
    opt: &Optimiser,
    settings: &Settings,
    params: &[Var<'g>],
    grads: &mut [Var<'g>],
) -> Vec<Option<Var<'g>>> {
    let read_before = opt.clip_value.is_some() || opt.clip_norm.is_some() || opt.grad_norm || opt.loss_scale.is_some();
    let one = |((p, grad), kind): ((&Var<'g>, &mut Var<'g>), &usize)| {
        let parts = scatters_of(grad.v, |v| p.g.with(|e| e.def(v).and_then(|d| part_of(d.op, d.args, &d.attrs))))?;
        let parts: Vec<[Var<'g>; 2]> = parts.into_iter().map(|part| part.map(|v| p.g.var(v))).collect();
        let k = parts.iter().map(|[_, idx]| idx.numel()).sum();
        let n = *p.dims().first()?;
        if !takes_rows(&settings.kinds[*kind].rule, k, n) {
            return None;
        }
        let (g, idx) = join_rows(&parts, &p.dims()[1..]);
        *grad = if read_before { coalesce(g, idx, n) } else { g };
        Some(idx)
    };
    params.iter().zip(grads).zip(&settings.kind_of).map(one).collect()
}

/// True if `rule` leaves rows without gradient as they are, and a step on `k` rows of `n` is cheaper than one on all.
fn takes_rows(rule: &Rule, k: usize, n: usize) -> bool {
    let few = k <= n / 2;
    match *rule {
        _ if n > MOST_TABLE_ROWS as usize => false,
        Rule::SparseAdam { .. } => true,
        Rule::Sgd { momentum, weight_decay, .. } => few && momentum == 0.0 && weight_decay == 0.0,
        // An ε of 0 makes NaN of rows that never had a gradient; the start of the sum is added to all rows in step 1.
        Rule::Adagrad { initial_accumulator_value, eps, weight_decay, .. } => {
            few && initial_accumulator_value == 0.0 && weight_decay == 0.0 && eps > 0.0
        }
        _ => false,
    }
}

/// The step without the sums of scatters whose rows it takes, which nothing reads.
pub(super) fn without_unread_sums(step: GraphBuf) -> Result<GraphBuf> {
    let by_rows = |op: &Op| matches!(*op, Op::SGD_ROWS | Op::ADAGRAD_ROWS | Op::ADAM_ROWS);
    if step.view().op.iter().any(by_rows) { rebuild_buf(step.view(), &mut |_| None) } else { Ok(step) }
}

/// The rows of all `parts`, one after another, and their indices.
fn join_rows<'g>(parts: &[[Var<'g>; 2]], row: &[usize]) -> (Var<'g>, Var<'g>) {
    let same = parts.iter().all(|[_, idx]| idx.dtype() == parts[0][1].dtype());
    let flat = |[g, idx]: &[Var<'g>; 2]| {
        let k = idx.numel();
        let idx = idx.reshape([k]);
        (g.reshape([&[k], row].concat()), if same { idx } else { idx.cast(DType::I64) })
    };
    let (g, idx): (Vec<_>, Vec<_>) = parts.iter().map(flat).unzip();
    (g[0].concat(&g[1..], 0), idx[0].concat(&idx[1..], 0))
}

/// The rows `g`, of which the first of each index holds the sum, and the others zeros.
fn coalesce<'g>(g: Var<'g>, idx: Var<'g>, n: usize) -> Var<'g> {
    g.g.emit1(Op::COALESCE, &[g, idx], &CoalesceAttrs { size: n as i64 }.list())
}
