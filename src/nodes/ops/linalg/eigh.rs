//! Eigenvalues and eigenvectors of symmetric matrices.

use super::PACK;
use super::spectral_quotient::{QuotientBy, spectral_quotient};
use super::{check_square_dims, cubic_cost, lower, sum_present, symmetric_part};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Distinct;

/// With C = Uᵀ·sym(Ȧ)·U: ẇ = the diagonal of C, U̇ = U·(C/gaps).
pub(super) fn spectral_tangents<'g>(w: Var<'g>, u: Var<'g>, t: Var<'g>) -> [Var<'g>; 2] {
    let c = u.matmul_t(symmetric_part(t).matmul(u), true, false);
    [c.diagonal(0, -2, -1), u.matmul(spectral_quotient(c, w, QuotientBy::Gap))]
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None, None] };
    spectral_tangents(s.outs[0], s.outs[1], t).map(Some).to_vec()
}

/// Ā = sym(U·(diag w̄ + (UᵀŪ)/gaps)·Uᵀ).
pub(super) fn spectral_cotangent<'g>(
    w: Var<'g>,
    u: Var<'g>,
    dw: Option<Var<'g>>,
    du: Option<Var<'g>>,
) -> Option<Var<'g>> {
    let vectors = du.map(|g| spectral_quotient(u.matmul_t(g, true, false), w, QuotientBy::Gap));
    let middle = sum_present([dw.map(|g| g.diag_embed(0, -2, -1)), vectors]);
    middle.map(|m| symmetric_part(u.matmul(m).matmul_t(u, false, true)))
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    vec![spectral_cotangent(s.outs[0], s.outs[1], ct[0], ct[1])]
}

/// Eigenvalues and eigenvectors of symmetric matrices.
pub const EIGH: OpDef = OpDef {
    name: "eigh",
    doc: "(A + Aᵀ)/2 = U·diag(w)·Uᵀ, w ascending, the largest magnitude of each column of U positive; \
          Ā = sym(U·(diag w̄ + F∘(UᵀŪ))·Uᵀ), Fᵢⱼ = 1/(wⱼ − wᵢ), Fᵢᵢ = 0; where rounding does not tell two eigenvalues \
          apart, a \
          part of UᵀŪ between their vectors that is not 0 makes Ā NaN",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, n) = check_square_dims(cx, 0, "A")?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[&batch[..], &[n]].concat())?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_eigh),
    cost: |cx| cubic_cost(cx, 27),
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
