//! Solves with triangular matrices.

use super::PACK;
use super::attrs::{Singular, TriangularSolveAttrs};
use super::{lower, sum_present};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::linalg::solve::{infer_linalg_solution, substitution_cost};
use Domain::{Dominant, Real};

/// Solves in rules: a singular triangle gives NaN.
#[derive(Clone, Copy)]
pub(super) struct RuleSide {
    pub(super) upper: bool,
    pub(super) unit: bool,
}

/// L of packed LU factors.
pub(super) const UNIT_LOWER: RuleSide = RuleSide { upper: false, unit: true };
/// The lower triangle.
pub(super) const LOWER: RuleSide = RuleSide { upper: false, unit: false };
/// The upper triangle.
pub(super) const UPPER: RuleSide = RuleSide { upper: true, unit: false };

impl RuleSide {
    /// T⁻¹·b, or T⁻ᵀ·b, for the triangle T of `a`.
    pub(super) fn solve<'g>(self, a: Var<'g>, b: Var<'g>, transpose: bool) -> Var<'g> {
        let attrs = TriangularSolveAttrs { upper: self.upper, transpose, unit: self.unit, singular: Singular::Nan };
        a.g.emit1(Op::TRIANGULAR_SOLVE, &[a, b], &attrs.list())
    }

    /// b·T⁻¹, or b·T⁻ᵀ.
    pub(super) fn solve_right<'g>(self, a: Var<'g>, b: Var<'g>, transpose: bool) -> Var<'g> {
        self.solve(a, b.t(), !transpose).t()
    }
}

/// The part of `x` that belongs to the triangle.
fn keep_triangle<'g>(a: &TriangularSolveAttrs, x: Var<'g>) -> Var<'g> {
    match (a.upper, i64::from(a.unit)) {
        (true, strict) => x.triu(strict),
        (false, strict) => x.tril(-strict),
    }
}

/// X with the batch's axis before all axes that the operands broadcast.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let rank = s.rank(0).max(s.rank(1));
    Some(s.site.rebuild_with(&[s.aligned(0, rank), s.aligned(1, rank)]))
}

/// Ẋ = T⁻¹(Ḃ − ṪX).
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let attrs = TriangularSolveAttrs::of(&s.attrs);
    let moved = t[0].map(|t| -keep_triangle(&attrs, t).matmul_t(s.outs[0], attrs.transpose, false));
    let side = sum_present([t[1].map(|t| t.broadcast(s.outs[0].dims())), moved]);
    vec![side.and_then(|b| s.rebuild_with(&[s.args[0], b]).first().copied())]
}

/// B̄ = T⁻ᵀX̄; T̄ is the triangle of −B̄Xᵀ. Both are summed over axes that were broadcast.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], needed: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None, None] };
    let (attrs, x) = (TriangularSolveAttrs::of(&s.attrs), s.outs[0]);
    let back = TriangularSolveAttrs { transpose: !attrs.transpose, ..attrs };
    let b = s.g.emit1(s.op, &[s.args[0], g], &back.list());
    let a = needed[0].then(|| {
        let full = if attrs.transpose { x.matmul_t(b, false, true) } else { b.matmul_t(x, false, true) };
        -keep_triangle(&attrs, full.unbroadcast(&s.args[0].dims()))
    });
    vec![a, Some(b.unbroadcast(&s.args[1].dims()))]
}

/// Solves with triangular matrices.
pub const TRIANGULAR_SOLVE: OpDef = OpDef {
    name: "triangular_solve",
    doc: "X with T·X = B, or Tᵀ·X = B, for the triangle T of A; batch axes broadcast; a zero or NaN on the diagonal is a \
          fault, or NaN in X; B̄ = T⁻ᵀX̄, Ā = the triangle of −B̄Xᵀ",
    arity: Arity::Exactly(2),
    attrs: TriangularSolveAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| infer_linalg_solution(cx, "A", 1),
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_node),
    lower: Lower::Kernel(lower::emit_triangular_solve),
    cost: |cx| substitution_cost(cx) / 2,
    cases: &[
        Case { args: "f[3,3] f[3,2]", attrs: "upper=false transpose=false unit=false singular=fault", domains: CASE },
        Case { args: "f[4,4] f[4,1]", attrs: "upper=true transpose=true unit=false singular=nan", domains: CASE },
        Case { args: "f[3,3] f[2,3,2]", attrs: "upper=false transpose=true unit=true singular=fault", domains: CASE },
        Case { args: "f[2,1,3,3] f[3,3,2]", attrs: "upper=true transpose=false unit=true singular=nan", domains: CASE },
        Case { args: "f[40,40] f[40,9]", attrs: "upper=true transpose=false unit=false singular=fault", domains: CASE },
        Case { args: "f[0,0] f[0,2]", attrs: "upper=true transpose=false unit=false singular=fault", domains: CASE },
        Case { args: "f[2,2] f[2,0]", attrs: "upper=true transpose=false unit=false singular=fault", domains: CASE },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

const CASE: &[Domain] = &[Dominant, Real];
