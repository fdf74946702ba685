//! LU factors with partial pivoting, and solves with them.

use super::PACK;
use super::attrs::{LuSolveAttrs, TriangularSolveAttrs};
use super::triangular::{UNIT_LOWER, UPPER};
use super::{check_square_dims, cubic_cost, lower};
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::attrs::ScatterAddAttrs;
use crate::nodes::ops::linalg::solve::{infer_linalg_solution, substitution_cost};
use Domain::{Dominant, Index, Real};

/// `rows` as positions along the rows of `x`, to which it broadcasts.
fn row_positions<'g>(rows: Var<'g>, x: Var<'g>) -> Var<'g> {
    rows.unsqueeze(-1).broadcast(x.dims())
}

/// P·x: row `i` of the result is row `rows[i]` of x.
fn permute_rows<'g>(x: Var<'g>, rows: Var<'g>) -> Var<'g> {
    x.take_along_axis(row_positions(rows, x), -2)
}

/// Pᵀ·x.
fn unpermute_rows<'g>(x: Var<'g>, rows: Var<'g>) -> Var<'g> {
    let (rank, d) = (x.rank(), x.dims());
    if rank < 2 {
        return x;
    }
    let attrs = ScatterAddAttrs { axis: size_attr_to_i64(rank) - 2, size: size_attr_to_i64(d[rank - 2]) };
    x.g.emit1(Op::SCATTER_ALONG_AXIS, &[x, row_positions(rows, x)], &attrs.list())
}

/// With K = L⁻¹·P·Ȧ·U⁻¹: L̇ = L·(K below the diagonal), U̇ = (K from the diagonal on)·U.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (lu, rows) = (s.outs[0], s.outs[1]);
    let factors = t[0].map(|t| {
        let left = UNIT_LOWER.solve(lu, permute_rows(t, rows), false);
        let k = UPPER.solve_right(lu, left, false);
        let below = k.tril(-1);
        below + lu.tril(-1).matmul(below) + k.triu(0).matmul(lu.triu(0))
    });
    vec![factors, None, None]
}

/// Ā = Pᵀ·L⁻ᵀ·M·U⁻ᵀ, where M is LᵀL̄ below the diagonal and ŪUᵀ from it on.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (lu, rows) = (s.outs[0], s.outs[1]);
    let a = ct[0].map(|g| {
        let below = g.tril(-1);
        let lower = (below + lu.tril(-1).matmul_t(below, true, false)).tril(-1);
        let middle = lower + g.triu(0).matmul_t(lu.triu(0), false, true).triu(0);
        unpermute_rows(UPPER.solve_right(lu, UNIT_LOWER.solve(lu, middle, true), true), rows)
    });
    vec![a]
}

/// LU factors with partial pivoting.
pub const LU: OpDef = OpDef {
    name: "lu",
    doc: "L·U = A[rows], packed: L below the diagonal (its own is 1), U from it on; rows (i32), and the sign of their \
          permutation; the pivot is the first of the largest magnitudes; the factors of a singular matrix have a zero \
          on \
          the diagonal, and NaN as derivative",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, n) = check_square_dims(cx, 0, "A")?;
        let dtype = cx.dtype(0);
        cx.same_as(0)?;
        cx.result(DType::I32, &[&batch[..], &[n]].concat())?;
        cx.result(dtype, &batch)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_lu),
    cost: |cx| cubic_cost(cx, 2),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Dominant] },
        Case { args: "f[2,4,4]", attrs: "", domains: &[Real] },
        Case { args: "f[1,1]", attrs: "", domains: &[Real] },
        Case { args: "f[40,40]", attrs: "", domains: &[Dominant] },
        Case { args: "f[2,0,0]", attrs: "", domains: &[Real] },
        Case { args: "f[0,3,3]", attrs: "", domains: &[Real] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// L⁻¹ and U⁻¹ one after the other, or their transposes in the other order.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let LuSolveAttrs { transpose, singular } = LuSolveAttrs::of(&s.attrs);
    let (lu, rows, b) = (s.args[0], s.args[1], s.args[2]);
    let solve = |upper: bool, b: Var<'g>| {
        let attrs = TriangularSolveAttrs { upper, transpose, unit: !upper, singular };
        s.g.emit1(Op::TRIANGULAR_SOLVE, &[lu, b], &attrs.list())
    };
    if transpose {
        return vec![unpermute_rows(solve(false, solve(true, b)), rows)];
    }
    let (d, own) = (b.dims(), rows.dims());
    let batch = broadcast_dims(&own[..own.len().saturating_sub(1)], &d[..d.len().saturating_sub(2)]);
    let b = b.broadcast([&batch.unwrap_or_default()[..], &d[d.len().saturating_sub(2)..]].concat());
    vec![solve(true, solve(false, permute_rows(b, rows)))]
}

/// The factors with one batch for both, and the batch's axis before all axes that the operands broadcast.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let rank = s.rank(0).max(s.rank(2));
    let b = s.aligned(2, rank);
    if !s.batched[0] && !s.batched[1] {
        return Some(s.site.rebuild_with(&[s.site.args[0], s.site.args[1], b]));
    }
    let aligned = |i: usize, rank: usize| {
        let x = s.arg(i);
        let mut dims = x.dims().to_vec();
        let ones = (rank + 1).saturating_sub(dims.len());
        dims.splice(1..1, std::iter::repeat_n(1, ones));
        x.reshape(&dims)
    };
    Some(s.site.rebuild_with(&[aligned(0, rank), aligned(1, rank - 1), b]))
}

/// Solves with LU factors.
pub const LU_SOLVE: OpDef = OpDef {
    name: "lu_solve",
    doc: "X with A·X = B, or Aᵀ·X = B, from the factors and the rows that `lu` gives for A; batch axes broadcast; a zero or \
          NaN on the diagonal of U is a fault, or NaN in X",
    arity: Arity::Exactly(3),
    attrs: LuSolveAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, n) = check_square_dims(cx, 0, "LU")?;
        cx.expect_dims(1, "rows", &[&batch[..], &[n]].concat())?;
        crate::ensure!(cx.dtype(1) == DType::I32, "rows are {}; i32 is needed", cx.dtype(1));
        infer_linalg_solution(cx, "LU", 2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower::emit_lu_solve),
    cost: substitution_cost,
    cases: &[
        Case { args: "f[3,3] i32[3] f[3,2]", attrs: "transpose=false singular=fault", domains: THREE },
        Case { args: "f[3,3] i32[3] f[3,2]", attrs: "transpose=true singular=nan", domains: THREE },
        Case { args: "f[2,3,3] i32[2,3] f[4,1,3,1]", attrs: "transpose=false singular=fault", domains: THREE },
        Case { args: "f[2,3,3] i32[2,3] f[3,2]", attrs: "transpose=true singular=fault", domains: THREE },
        Case { args: "f[40,40] i32[40] f[40,3]", attrs: "transpose=true singular=fault", domains: FORTY },
        Case { args: "f[2,2] i32[2] f[2,0]", attrs: "transpose=true singular=fault", domains: &[Dominant, Index(2)] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

const THREE: &[Domain] = &[Dominant, Index(3), Real];
const FORTY: &[Domain] = &[Dominant, Index(40), Real];
