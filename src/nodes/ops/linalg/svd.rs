//! Thin singular value decompositions.

use super::{
    linalg_cubic_cost, linalg_matrix_dims, linalg_op_rounding_noise, linalg_reciprocal_or_zero, linalg_sum_of, lower,
};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Distinct;

/// What the rules read of a node.
struct SvdFactors<'g> {
    u: Var<'g>,
    vt: Var<'g>,
    /// Singular values as a row.
    s: Var<'g>,
    /// 1/s as a row; 0 for what rounding does not tell from 0.
    inverse: Var<'g>,
    /// 1/(sⱼ² − sᵢ²) at [i, j]; 0 where rounding does not tell them apart.
    gaps: Var<'g>,
}

impl<'g> SvdFactors<'g> {
    fn of(site: &Site<'_, 'g>) -> SvdFactors<'g> {
        let (u, s, vt) = (site.outs[0], site.outs[1].unsqueeze(-2), site.outs[2]);
        if s.numel() == 0 {
            return SvdFactors { u, vt, s, inverse: s, gaps: s - s.t() };
        }
        let noise = linalg_op_rounding_noise(s.reduce(Op::REDUCE_MAX, -1, true));
        let inverse = linalg_reciprocal_or_zero(s, noise);
        // Not the difference of squares, which would lose digits.
        let gaps = linalg_reciprocal_or_zero(s - s.t(), noise) * linalg_reciprocal_or_zero(s + s.t(), noise);
        SvdFactors { u, vt, s, inverse, gaps }
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

/// `x` without its part in the span of the columns of `u`.
fn svd_op_outside_columns<'g>(u: Var<'g>, x: Var<'g>) -> Var<'g> {
    x - u.matmul(u.matmul_t(x, true, false))
}

/// With P = Uᵀ·Ȧ·V: ṡ = the diagonal of P, U̇ = U·(F∘(P·S + S·Pᵀ)) + (1 − UUᵀ)·Ȧ·V·S⁻¹,
/// V̇ = V·(F∘(S·P + Pᵀ·S)) + (1 − VVᵀ)·Ȧᵀ·U·S⁻¹.
fn svd_jvp<'g>(site: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None; 3] };
    let f = SvdFactors::of(site);
    let (av, au) = (t.matmul_t(f.vt, false, true), t.matmul_t(f.u, true, false));
    let p = f.u.matmul_t(av, true, false);
    let (right, left) = (p * f.s, p * f.s.t());
    let mut du = f.u.matmul(f.gaps * (right + right.t()));
    if f.is_tall() {
        du = du + svd_op_outside_columns(f.u, av) * f.inverse;
    }
    let mut dv = f.vt.t().matmul(f.gaps * (left + left.t()));
    if f.is_wide() {
        dv = dv + svd_op_outside_columns(f.vt.t(), au) * f.inverse;
    }
    vec![Some(du), Some(p.diagonal(0, -2, -1)), Some(dv.t())]
}

/// Ā = U·(diag s̄ + (J + Jᵀ)·S + S·(K + Kᵀ))·Vᵀ + (1 − UUᵀ)·Ū·S⁻¹·Vᵀ + U·S⁻¹·V̄ᵀ·(1 − VVᵀ), with J = F∘(UᵀŪ) and
/// K = F∘(VᵀV̄).
fn svd_vjp<'g>(site: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let f = SvdFactors::of(site);
    let v = f.vt.t();
    let twice = |x: Var<'g>| x + x.t();
    let from_u = ct[0].map(|g| twice(f.gaps * f.u.matmul_t(g, true, false)) * f.s);
    let from_v = ct[2].map(|g| twice(f.gaps * f.vt.matmul_t(g, false, true)) * f.s.t());
    let middle = linalg_sum_of([ct[1].map(|g| g.diag_embed(0, -2, -1)), from_u, from_v]);
    let inside = middle.map(|m| f.u.matmul(m).matmul(f.vt));
    let tall = ct[0].filter(|_| f.is_tall()).map(|g| (svd_op_outside_columns(f.u, g) * f.inverse).matmul(f.vt));
    let wide =
        ct[2].filter(|_| f.is_wide()).map(|g| f.u.matmul_t(svd_op_outside_columns(v, g.t()) * f.inverse, false, true));
    vec![linalg_sum_of([inside, tall, wide])]
}

/// Thin singular value decompositions.
pub const SVD: OpDef = OpDef {
    name: "svd",
    doc: "A = U·diag(s)·Vᵀ with k = min(m, n) singular values, descending, the largest magnitude of each column of U \
          positive; results U, s, Vᵀ; the derivative has 0 for 1/(sⱼ² − sᵢ²) of equal singular values and for 1/s of zeros, \
          which is right for functions that do not depend on the choice of their vectors",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, m, n) = linalg_matrix_dims(cx, 0, "A")?;
        let (dtype, k) = (cx.dtype(0), m.min(n));
        cx.result(dtype, &[&batch[..], &[m, k]].concat())?;
        cx.result(dtype, &[&batch[..], &[k]].concat())?;
        cx.result(dtype, &[&batch[..], &[k, n]].concat())
    },
    deriv: Deriv::Rules(svd_jvp, svd_vjp),
    batch: Batch::Leading,
    decompose: None,
    lower: Lower::Kernel(lower::lower_svd),
    cost: |cx| linalg_cubic_cost(cx, 120),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,4,3]", attrs: "", domains: &[Distinct] },
        Case { args: "f[2,5]", attrs: "", domains: &[Distinct] },
        Case { args: "f[1,1]", attrs: "", domains: &[Distinct] },
        Case { args: "f[20,4]", attrs: "", domains: &[Distinct] },
        Case { args: "f[0,3]", attrs: "", domains: &[Distinct] },
    ],
};
