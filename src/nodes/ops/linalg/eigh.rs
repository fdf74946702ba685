//! Eigenvalues and eigenvectors of symmetric matrices.

use super::{
    linalg_cubic_cost, linalg_op_rounding_noise, linalg_reciprocal_or_zero, linalg_square_dims, linalg_sum_of,
    linalg_symmetric_part, lower,
};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Distinct;

/// 1/(wⱼ − wᵢ) at [i, j]; 0 where rounding does not tell the eigenvalues apart, as on the diagonal.
fn eigh_inverse_gaps<'g>(w: Var<'g>) -> Var<'g> {
    let gaps = w.unsqueeze(-2) - w.unsqueeze(-1);
    if gaps.numel() == 0 {
        return gaps;
    }
    let largest = w.abs().reduce(Op::REDUCE_MAX, -1, true).unsqueeze(-1);
    linalg_reciprocal_or_zero(gaps, linalg_op_rounding_noise(largest))
}

/// With C = Uᵀ·sym(Ȧ)·U: ẇ = the diagonal of C, U̇ = U·(F∘C), F the inverse gaps.
fn eigh_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None, None] };
    let (w, u) = (s.outs[0], s.outs[1]);
    let c = u.matmul_t(linalg_symmetric_part(t).matmul(u), true, false);
    vec![Some(c.diagonal(0, -2, -1)), Some(u.matmul(eigh_inverse_gaps(w) * c))]
}

/// Ā = sym(U·(diag w̄ + F∘(UᵀŪ))·Uᵀ).
fn eigh_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (w, u) = (s.outs[0], s.outs[1]);
    let vectors = ct[1].map(|g| eigh_inverse_gaps(w) * u.matmul_t(g, true, false));
    let middle = linalg_sum_of([ct[0].map(|g| g.diag_embed(0, -2, -1)), vectors]);
    vec![middle.map(|m| linalg_symmetric_part(u.matmul(m).matmul_t(u, false, true)))]
}

/// Eigenvalues and eigenvectors of symmetric matrices.
pub const EIGH: OpDef = OpDef {
    name: "eigh",
    doc: "(A + Aᵀ)/2 = U·diag(w)·Uᵀ, w ascending, the largest magnitude of each column of U positive; \
          Ā = sym(U·(diag w̄ + F∘(UᵀŪ))·Uᵀ), Fᵢⱼ = 1/(wⱼ − wᵢ), 0 for equal eigenvalues, which is right for functions that do \
          not depend on the choice of their eigenvectors",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, n) = linalg_square_dims(cx, 0, "A")?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[&batch[..], &[n]].concat())?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(eigh_jvp, eigh_vjp),
    batch: Batch::Leading,
    decompose: None,
    lower: Lower::Kernel(lower::lower_eigh),
    cost: |cx| linalg_cubic_cost(cx, 27),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,4,4]", attrs: "", domains: &[Distinct] },
        Case { args: "f[1,1]", attrs: "", domains: &[Distinct] },
        Case { args: "f[20,20]", attrs: "", domains: &[Distinct] },
        Case { args: "f[0,3,3]", attrs: "", domains: &[Distinct] },
    ],
};
