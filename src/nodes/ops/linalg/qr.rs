//! Reduced QR factors.

use super::PACK;
use super::triangular::UPPER;
use super::{check_matrix_dims, cubic_cost, lower, sum_present};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Real;

/// The first `k` columns, and the rest if there is one.
fn split_columns<'g>(x: Var<'g>, k: usize) -> (Var<'g>, Option<Var<'g>>) {
    let n = x.dims().last().copied().unwrap_or(k);
    if n == k { (x, None) } else { (x.narrow(-1, 0, k), Some(x.narrow(-1, k, n - k))) }
}

/// The number of columns of Q.
fn count_q_columns(s: &Site<'_, '_>) -> usize {
    s.outs[0].dims().last().copied().unwrap_or(0)
}

/// With C = Qᵀ·Ȧ·R⁻¹ and W = C from the diagonal on, plus Cᵀ above it: Ṙ = W·R, Q̇ = Ȧ·R⁻¹ − Q·W. Columns of A beyond
/// the square have Ṙ = Q̇ᵀ·A + Qᵀ·Ȧ.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None, None] };
    let (q, k) = (s.outs[0], count_q_columns(s));
    let ((r, _), (t, t_rest), (_, a_rest)) =
        (split_columns(s.outs[1], k), split_columns(t, k), split_columns(s.args[0], k));
    let quotient = UPPER.solve_right(r, t, false);
    let c = q.matmul_t(quotient, true, false);
    let w = c.triu(0) + c.tril(-1).t();
    let (dq, dr) = (quotient - q.matmul(w), w.matmul(r));
    let rest = t_rest.zip(a_rest).map(|(t, a)| dq.matmul_t(a, true, false) + q.matmul_t(t, true, false));
    vec![Some(dq), Some(rest.map_or(dr, |rest| dr.concat(&[rest], -1)))]
}

/// With M = R·R̄ᵀ − Q̄ᵀ·Q: Ā = (Q̄ + Q·(the lower triangle of M, mirrored))·R⁻ᵀ. Columns of A beyond the square add
/// A·R̄ᵀ to Q̄ and have Ā = Q·R̄.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let (q, k) = (s.outs[0], count_q_columns(s));
    let ((r, _), (_, a_rest)) = (split_columns(s.outs[1], k), split_columns(s.args[0], k));
    let (gr, gr_rest) = ct[1].map_or((None, None), |g| {
        let (g, rest) = split_columns(g, k);
        (Some(g), rest)
    });
    let gq = sum_present([ct[0], gr_rest.zip(a_rest).map(|(g, a)| a.matmul_t(g, false, true))]);
    let Some(m) = sum_present([gr.map(|g| r.matmul_t(g, false, true)), gq.map(|g| -g.matmul_t(q, true, false))]) else {
        return vec![None];
    };
    let mirrored = q.matmul(m.tril(0) + m.tril(-1).t());
    let square = UPPER.solve_right(r, gq.map_or(mirrored, |g| g + mirrored), true);
    let rest = a_rest.map(|a| gr_rest.map_or(a.full_like(0.0), |g| q.matmul(g)));
    vec![Some(rest.map_or(square, |rest| square.concat(&[rest], -1)))]
}

/// Reduced QR factors.
pub const QR: OpDef = OpDef {
    name: "qr",
    doc: "A = Q·R, k = min(m, n) orthonormal columns in Q, R upper with no negative number on its diagonal; \
          Ā = (Q̄ + Q·M)·R⁻ᵀ, M = the lower triangle of R·R̄ᵀ − Q̄ᵀ·Q, mirrored; NaN if the first k columns are \
          dependent",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, m, n) = check_matrix_dims(cx, 0, "A")?;
        let (dtype, k) = (cx.dtype(0), m.min(n));
        cx.result(dtype, &[&batch[..], &[m, k]].concat())?;
        cx.result(dtype, &[&batch[..], &[k, n]].concat())
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_qr),
    cost: |cx| cubic_cost(cx, 12),
    cases: &[
        Case { args: "f[3,3]", attrs: "", domains: &[Real] },
        Case { args: "f[2,4,3]", attrs: "", domains: &[Real] },
        Case { args: "f[2,5]", attrs: "", domains: &[Real] },
        Case { args: "f[1,1]", attrs: "", domains: &[Real] },
        Case { args: "f[40,20]", attrs: "", domains: &[Real] },
        Case { args: "f[0,3]", attrs: "", domains: &[Real] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
