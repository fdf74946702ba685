//! Cholesky factors.

use super::PACK;
use super::triangular::LOWER;
use super::{check_square_dims, cubic_cost, halve_triangle, lower, symmetric_part};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Dominant;

/// L̇ = L·Φ(L⁻¹·Ȧ·L⁻ᵀ) for the symmetric part of Ȧ; Φ takes the lower triangle and halves its diagonal.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let l = s.outs[0];
    let factor = t[0].map(|t| {
        let left = LOWER.solve(l, symmetric_part(t), false);
        l.matmul(halve_triangle(LOWER.solve_right(l, left, true)))
    });
    vec![factor]
}

/// Ā = the symmetric part of L⁻ᵀ·Φ(Lᵀ·L̄)·L⁻¹.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let l = s.outs[0];
    let a = ct[0].map(|g| {
        let middle = halve_triangle(l.matmul_t(g.tril(0), true, false));
        symmetric_part(LOWER.solve_right(l, LOWER.solve(l, middle, true), false))
    });
    vec![a]
}

/// Cholesky factors of symmetric positive definite matrices.
pub const CHOLESKY: OpDef = OpDef {
    name: "cholesky",
    doc: "L, lower, with L·Lᵀ = (A + Aᵀ)/2 and a positive diagonal; a matrix that is not positive definite is a fault; \
          Ā = sym(L⁻ᵀ·Φ(Lᵀ·L̄)·L⁻¹), Φ = the lower triangle with a halved diagonal",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        check_square_dims(cx, 0, "A")?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_cholesky),
    cost: |cx| cubic_cost(cx, 1),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Dominant] },
        Case { args: "f[2,4,4]", attrs: "", domains: &[Dominant] },
        Case { args: "f[1,1]", attrs: "", domains: &[Dominant] },
        Case { args: "f[40,40]", attrs: "", domains: &[Dominant] },
        Case { args: "f[2,0,0]", attrs: "", domains: &[Dominant] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
