//! Thin singular value decompositions.

use super::PACK;
use super::spectral_quotient::{QuotientBy, spectral_quotient};
use super::{check_matrix_dims, cubic_cost, lower, sum_present};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Distinct;

/// What the rules read of a node.
struct SvdFactors<'g> {
    u: Var<'g>,
    vt: Var<'g>,
    /// Singular values.
    values: Var<'g>,
    /// The same as a row.
    s: Var<'g>,
}

impl<'g> SvdFactors<'g> {
    fn of(site: &Site<'_, 'g>) -> SvdFactors<'g> {
        let (u, values, vt) = (site.outs[0], site.outs[1], site.outs[2]);
        SvdFactors { u, vt, values, s: values.unsqueeze(-2) }
    }

    /// x\[i, j\]/(sⱼ² − sᵢ²), not by the difference of squares, which would lose digits.
    fn over_gaps(&self, x: Var<'g>) -> Var<'g> {
        spectral_quotient(spectral_quotient(x, self.values, QuotientBy::Gap), self.values, QuotientBy::Sum)
    }

    /// The columns of `x` without their part in the span of the columns of `u`, each divided by its singular value.
    fn outside(&self, u: Var<'g>, x: Var<'g>) -> Var<'g> {
        let rest = x - u.matmul(u.matmul_t(x, true, false));
        spectral_quotient(rest, self.values, QuotientBy::Column)
    }

    /// Whether A has columns outside of the span of U.
    fn is_tall(&self) -> bool {
        self.u.rank() >= 2 && self.u.dims()[self.u.rank() - 2] > self.s.dims()[self.s.rank() - 1]
    }

    /// Whether A has rows outside of the span of Vᵀ.
    fn is_wide(&self) -> bool {
        self.vt.rank() >= 2 && self.vt.dims()[self.vt.rank() - 1] > self.s.dims()[self.s.rank() - 1]
    }
}

/// With P = Uᵀ·Ȧ·V: ṡ = the diagonal of P, U̇ = U·(F∘(P·S + S·Pᵀ)) + (1 − UUᵀ)·Ȧ·V·S⁻¹,
/// V̇ = V·(F∘(S·P + Pᵀ·S)) + (1 − VVᵀ)·Ȧᵀ·U·S⁻¹.
fn push_tangents<'g>(site: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None; 3] };
    let f = SvdFactors::of(site);
    let (av, au) = (t.matmul_t(f.vt, false, true), t.matmul_t(f.u, true, false));
    let p = f.u.matmul_t(av, true, false);
    let (right, left) = (p * f.s, p * f.s.t());
    let mut du = f.u.matmul(f.over_gaps(right + right.t()));
    if f.is_tall() {
        du = du + f.outside(f.u, av);
    }
    let mut dv = f.vt.t().matmul(f.over_gaps(left + left.t()));
    if f.is_wide() {
        dv = dv + f.outside(f.vt.t(), au);
    }
    vec![Some(du), Some(p.diagonal(0, -2, -1)), Some(dv.t())]
}

/// Ā = U·(diag s̄ + (J + Jᵀ)·S + S·(K + Kᵀ))·Vᵀ + (1 − UUᵀ)·Ū·S⁻¹·Vᵀ + U·S⁻¹·V̄ᵀ·(1 − VVᵀ), with J = F∘(UᵀŪ) and
/// K = F∘(VᵀV̄).
fn pull_cotangents<'g>(site: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let f = SvdFactors::of(site);
    let v = f.vt.t();
    let twice = |x: Var<'g>| x + x.t();
    let from_u = ct[0].map(|g| twice(f.over_gaps(f.u.matmul_t(g, true, false))) * f.s);
    let from_v = ct[2].map(|g| twice(f.over_gaps(f.vt.matmul_t(g, false, true))) * f.s.t());
    let middle = sum_present([ct[1].map(|g| g.diag_embed(0, -2, -1)), from_u, from_v]);
    let inside = middle.map(|m| f.u.matmul(m).matmul(f.vt));
    let tall = ct[0].filter(|_| f.is_tall()).map(|g| f.outside(f.u, g).matmul(f.vt));
    let wide = ct[2].filter(|_| f.is_wide()).map(|g| f.u.matmul_t(f.outside(v, g.t()), false, true));
    vec![sum_present([inside, tall, wide])]
}

/// Thin singular value decompositions.
pub const SVD: OpDef = OpDef {
    name: "svd",
    doc: "A = U·diag(s)·Vᵀ with k = min(m, n) singular values, descending, the largest magnitude of each column of U \
          positive; results U, s, Vᵀ; where rounding does not tell two singular values apart, or one from 0, a part of \
          UᵀŪ or V̄ᵀV between their vectors that is not 0 makes Ā NaN",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, m, n) = check_matrix_dims(cx, 0, "A")?;
        let (dtype, k) = (cx.dtype(0), m.min(n));
        cx.result(dtype, &[&batch[..], &[m, k]].concat())?;
        cx.result(dtype, &[&batch[..], &[k]].concat())?;
        cx.result(dtype, &[&batch[..], &[k, n]].concat())
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_svd),
    cost: |cx| cubic_cost(cx, 120),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,4,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,5]", attrs: "", domains: &[Distinct] },
        Case { args: "f[1,1]", attrs: "", domains: &[Distinct] },
        Case { args: "f[20,4]", attrs: "", domains: &[Distinct] },
        Case { args: "f[0,3]", attrs: "", domains: &[Distinct] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
