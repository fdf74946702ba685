//! Eigenvalues and eigenvectors of symmetric matrices.

use super::PACK;
use super::spectral_quotient::{QuotientBy, spectral_quotient};
use super::{linalg_cubic_cost, linalg_square_dims, linalg_sum_of, linalg_symmetric_part, lower};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Distinct;

/// With C = Uᵀ·sym(Ȧ)·U: ẇ = the diagonal of C, U̇ = U·(C/gaps).
pub(super) fn eigh_jvp_of<'g>(w: Var<'g>, u: Var<'g>, t: Var<'g>) -> [Var<'g>; 2] {
    let c = u.matmul_t(linalg_symmetric_part(t).matmul(u), true, false);
    [c.diagonal(0, -2, -1), u.matmul(spectral_quotient(c, w, QuotientBy::Gap))]
}

fn eigh_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None, None] };
    eigh_jvp_of(s.outs[0], s.outs[1], t).map(Some).to_vec()
}

/// Ā = sym(U·(diag w̄ + (UᵀŪ)/gaps)·Uᵀ).
pub(super) fn eigh_vjp_of<'g>(w: Var<'g>, u: Var<'g>, dw: Option<Var<'g>>, du: Option<Var<'g>>) -> Option<Var<'g>> {
    let vectors = du.map(|g| spectral_quotient(u.matmul_t(g, true, false), w, QuotientBy::Gap));
    let middle = linalg_sum_of([dw.map(|g| g.diag_embed(0, -2, -1)), vectors]);
    middle.map(|m| linalg_symmetric_part(u.matmul(m).matmul_t(u, false, true)))
}

fn eigh_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    vec![eigh_vjp_of(s.outs[0], s.outs[1], ct[0], ct[1])]
}

/// Eigenvalues and eigenvectors of symmetric matrices.
pub const EIGH: OpDef = OpDef {
    name: "eigh",
    doc: "(A + Aᵀ)/2 = U·diag(w)·Uᵀ, w ascending, the largest magnitude of each column of U positive; \
          Ā = sym(U·(diag w̄ + F∘(UᵀŪ))·Uᵀ), Fᵢⱼ = 1/(wⱼ − wᵢ), Fᵢᵢ = 0; where rounding does not tell two eigenvalues apart, a \
          part of UᵀŪ between their vectors that is not 0 makes Ā NaN",
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
    lower: Lower::Kernel(lower::lower_eigh),
    cost: |cx| linalg_cubic_cost(cx, 27),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,4,4]", attrs: "", domains: &[Distinct] },
        Case { args: "f[1,1]", attrs: "", domains: &[Distinct] },
        Case { args: "f[20,20]", attrs: "", domains: &[Distinct] },
        Case { args: "f[0,3,3]", attrs: "", domains: &[Distinct] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
