//! Polar factors. Their derivative is a Sylvester equation (Higham, Functions of Matrices, 2008, 8.1), so equal
//! singular values are no special case.

use super::PACK;
use super::sylvester::sylvester;
use super::{check_matrix_dims, cubic_cost, sum_present, symmetric_part, unary_results};
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Distinct, Dominant};

/// Q = U·Vᵀ and H = V·diag(s)·Vᵀ.
fn decompose_node<'g>(site: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let [u, s, vt] = unary_results(site.args[0], Op::SVD);
    let h = vt.t().matmul(s.unsqueeze(-1) * vt);
    vec![u.matmul(vt), symmetric_part(h)]
}

/// Whether A has columns outside of the span of Q.
fn is_tall(q: Var<'_>) -> bool {
    q.axis_len(-2) > q.axis_len(-1)
}

/// `x` without its part in the span of the columns of `q`, times H⁻¹.
fn divide_outside<'g>(q: Var<'g>, h: Var<'g>, x: Var<'g>, inside: Var<'g>) -> Var<'g> {
    sylvester(x - q.matmul(inside), h, true)
}

/// With E = Qᵀ·Ȧ and Ω of H·Ω + Ω·H = E − Eᵀ: Q̇ = Q·Ω + (1 − QQᵀ)·Ȧ·H⁻¹, Ḣ = E − Ω·H.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None, None] };
    let (q, h) = (s.outs[0], s.outs[1]);
    let e = q.matmul_t(t, true, false);
    let turn = sylvester(e - e.t(), h, false);
    let outside = is_tall(q).then(|| divide_outside(q, h, t, e));
    vec![sum_present([Some(q.matmul(turn)), outside]), Some(e - turn.matmul(h))]
}

/// With Z of H·Z + Z·H = K − Kᵀ, K = QᵀQ̄ − H̄·H: Ā = Q·(Z + H̄) + (1 − QQᵀ)·Q̄·H⁻¹.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (q, h) = (s.outs[0], s.outs[1]);
    let along = ct[0].map(|g| q.matmul_t(g, true, false));
    // H is symmetric for every A.
    let of_h = ct[1].map(symmetric_part);
    let Some(k) = sum_present([along, of_h.map(|g| -g.matmul(h))]) else { return vec![None] };
    let inside = sum_present([Some(sylvester(k - k.t(), h, false)), of_h]).map(|e| q.matmul(e));
    let outside = ct[0].zip(along).filter(|_| is_tall(q)).map(|(g, e)| divide_outside(q, h, g, e));
    vec![sum_present([inside, outside])]
}

/// Polar factors.
pub const POLAR: OpDef = OpDef {
    name: "polar",
    doc: "A = Q·H for m ≥ n: Q with orthonormal columns, H = √(AᵀA); Ā = Q·(Z + H̄) + (1 − QQᵀ)·Q̄·H⁻¹, where \
          H·Z + Z·H = K − Kᵀ and K = QᵀQ̄ − H̄·H; right at equal singular values; where Q is not unique, NaN",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, m, n) = check_matrix_dims(cx, 0, "A")?;
        ensure!(m >= n, "A has shape {}; it needs at least as many rows as columns", cx.dims(0));
        ensure!(i32::try_from(n).is_ok(), "A has shape {}; its rows have no i32 positions", cx.dims(0));
        let dtype = cx.dtype(0);
        cx.same_as(0)?;
        cx.result(dtype, &[&batch[..], &[n, n]].concat())
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| cubic_cost(cx, 132),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Dominant] },
        Case { args: "f[2,4,4]", attrs: "", domains: &[Dominant] },
        Case { args: "f[5,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[1,1]", attrs: "", domains: &[Dominant] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
