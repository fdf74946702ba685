//! Solves with general matrices. The node keeps the factors, and its derivative solves with them.

use super::PACK;
use super::attrs::{LuSolveAttrs, SolveAttrs};
use super::{check_matrix_dims, check_square_dims, cubic_cost, lower, sum_present, unary_results};
use crate::ensure;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::batch_site::repeat_for_batch_members;
use Domain::{Dominant, Real};

/// A⁻¹·b, or A⁻ᵀ·b, by factors that are known.
fn apply_factors<'g>(s: &Site<'_, 'g>, lu: Var<'g>, rows: Var<'g>, b: Var<'g>, transpose: bool) -> Var<'g> {
    let SolveAttrs { singular } = SolveAttrs::of(&s.attrs);
    s.g.emit1(Op::LU_SOLVE, &[lu, rows, b], &LuSolveAttrs { transpose, singular }.list())
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let [lu, rows] = unary_results(s.args[0], Op::LU);
    vec![apply_factors(s, lu, rows, s.args[1], false), lu, rows]
}

/// Ẋ = A⁻¹(Ḃ − ȦX).
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let moved = t[0].map(|t| -t.matmul(s.outs[0]));
    let side = sum_present([t[1].map(|t| t.broadcast(s.outs[0].dims())), moved]);
    vec![side.map(|b| apply_factors(s, s.outs[1], s.outs[2], b, false)), None, None]
}

/// B̄ = A⁻ᵀX̄, Ā = −B̄Xᵀ, each summed over axes that were broadcast.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], needed: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None, None] };
    let b = apply_factors(s, s.outs[1], s.outs[2], g, true);
    let a = needed[0].then(|| (-b.matmul_t(s.outs[0], false, true)).unbroadcast(&s.args[0].dims()));
    vec![a, Some(b.unbroadcast(&s.args[1].dims()))]
}

/// X as of a product's operands; the factors are those of each member's matrices.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let rank = s.rank(0).max(s.rank(1));
    let own = s.site.args[0].dims();
    let mut outs = s.site.rebuild_with(&[s.aligned(0, rank), s.aligned(1, rank)]);
    for (i, dims) in [(1, &own[..]), (2, &own[..own.len() - 1])] {
        let factor = outs.get_mut(i)?;
        *factor = if s.batched[0] { factor.reshape(dims) } else { repeat_for_batch_members(*factor, s.size) };
    }
    Some(outs)
}

/// Solves linear systems.
pub const SOLVE: OpDef = OpDef {
    name: "solve",
    doc: "X with A·X = B by LU factors, which are results too; batch axes broadcast; a zero or NaN pivot is a fault, or NaN \
          in X; B̄ = A⁻ᵀX̄, Ā = −B̄Xᵀ",
    arity: Arity::Exactly(2),
    attrs: SolveAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT).and(Flags::STATS),
    infer: |cx| {
        infer_linalg_solution(cx, "A", 1)?;
        let (batch, n) = check_square_dims(cx, 0, "A")?;
        cx.same_as(0)?;
        cx.result(DType::I32, &[&batch[..], &[n]].concat())
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower::emit_solve),
    cost: |cx| cubic_cost(cx, 2).saturating_add(substitution_cost(cx)),
    cases: &[
        Case { args: "f[3,3] f[3,2]", attrs: "singular=fault", domains: CASE },
        Case { args: "f[4,4] f[2,4,1]", attrs: "singular=nan", domains: &[Real] },
        Case { args: "f[2,1,3,3] f[3,3,2]", attrs: "singular=fault", domains: CASE },
        Case { args: "f[1,1] f[1,1]", attrs: "singular=fault", domains: CASE },
        Case { args: "f[40,40] f[40,3]", attrs: "singular=fault", domains: CASE },
        Case { args: "f[0,0] f[0,2]", attrs: "singular=fault", domains: CASE },
        Case { args: "f[2,2] f[2,0]", attrs: "singular=fault", domains: CASE },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

const CASE: &[Domain] = &[Dominant, Real];

/// The type of X for a square operand 0, called `what`, and right-hand sides in operand `b`; adds it as a result.
pub(super) fn infer_linalg_solution(cx: &mut Infer<'_>, what: &str, b: usize) -> Result<(), String> {
    let (batch_a, n) = check_square_dims(cx, 0, what)?;
    let (batch_b, rows, k) = check_matrix_dims(cx, b, "B")?;
    cx.same_dtype(0, b)?;
    let (da, db, dtype) = (cx.dims(0), cx.dims(b), cx.dtype(0));
    ensure!(rows == n, "{what} has shape {da} and B has shape {db}; B needs {n} rows");
    let batch = broadcast_dims(&batch_a, &batch_b)
        .ok_or_else(|| format!("the batch axes of {what}, {da}, and of B, {db}, do not broadcast"))?;
    cx.result(dtype, &[&batch[..], &[n, k]].concat())
}

/// Two operations for each number of X and each row of the matrix.
pub(super) fn substitution_cost(cx: &CostCx<'_>) -> u64 {
    let n = cx.graph.dims(cx.graph.args_of(cx.node)[0]).last().copied().unwrap_or(0) as u64;
    cx.out().saturating_mul(2 * n)
}
