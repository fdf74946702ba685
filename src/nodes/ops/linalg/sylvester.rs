//! Sylvester equations with a symmetric matrix: what derivatives of matrix roots and polar factors solve.
//!
//! Invariant: derivatives pass through H and never through its eigenvectors, so they are right where eigenvalues are
//! equal, in every order.

use super::PACK;
use super::spectral_quotient::{QuotientBy, spectral_quotient};
use super::{check_matrix_dims, check_square_dims, cubic_cost, sum_present, symmetric_part, unary_results};
use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Dominant, Real};

attrs! {
    /// Attributes of [`SYLVESTER`].
    pub struct SylvesterAttrs {
        /// Whether X·H = K is solved; else H·X + X·H = K.
        right: bool,
    }
}

/// X for `k` and the symmetric `h`.
pub(super) fn sylvester<'g>(k: Var<'g>, h: Var<'g>, right: bool) -> Var<'g> {
    k.g.emit1(Op::SYLVESTER, &[k, h], &SylvesterAttrs { right }.list())
}

/// In the basis V of eigenvectors of H: X = V·((Vᵀ·K·V)ᵢⱼ/(sᵢ + sⱼ))·Vᵀ, or X = ((K·V)ᵢⱼ/sⱼ)·Vᵀ.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (k, right) = (s.args[0], SylvesterAttrs::of(&s.attrs).right);
    let [values, v] = unary_results(s.args[1], Op::EIGH);
    let x = match right {
        true => spectral_quotient(k.matmul(v), values, QuotientBy::Column),
        false => v.matmul(spectral_quotient(v.matmul_t(k.matmul(v), true, false), values, QuotientBy::Sum)),
    };
    vec![x.matmul_t(v, false, true)]
}

/// Ẋ solves the same equation for K̇ − Ḣ·X − X·Ḣ.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, right) = (s.outs[0], SylvesterAttrs::of(&s.attrs).right);
    let moved = t[1].map(symmetric_part).map(|h| match right {
        true => -x.matmul(h),
        false => -(h.matmul(x) + x.matmul(h)),
    });
    vec![sum_present([t[0], moved]).map(|k| sylvester(k, s.args[1], right))]
}

/// K̄ solves the same equation for X̄; H̄ = −sym(Xᵀ·K̄ + K̄·Xᵀ), or −sym(Xᵀ·K̄).
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None, None] };
    let (x, right) = (s.outs[0], SylvesterAttrs::of(&s.attrs).right);
    let k = sylvester(g, s.args[1], right);
    let h = want[1].then(|| {
        let first = x.matmul_t(k, true, false);
        -symmetric_part(if right { first } else { first + k.matmul_t(x, false, true) })
    });
    vec![Some(k), h]
}

/// Solves Sylvester equations.
pub const SYLVESTER: OpDef = OpDef {
    name: "sylvester",
    doc: "X with H·X + X·H = K, or X·H = K if `right`, for the symmetric part of H; where two eigenvalues of H add to 0, or \
          one is 0, X is NaN unless K has no part there; K̄ = X for X̄, H̄ = −sym(Xᵀ·K̄ + K̄·Xᵀ), or −sym(Xᵀ·K̄)",
    arity: Arity::Exactly(2),
    attrs: SylvesterAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let right = SylvesterAttrs::of(&cx.attrs).right;
        let (batch, m, n) = check_matrix_dims(cx, 0, "K")?;
        let (other, size) = check_square_dims(cx, 1, "H")?;
        cx.same_dtype(0, 1)?;
        let fits = batch == other && n == size && (right || m == n);
        ensure!(fits, "K has shape {} and H has shape {}; they do not fit", cx.dims(0), cx.dims(1));
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| cubic_cost(cx, 40),
    cases: &[
        Case { args: "f[3,3] f[3,3]", attrs: "right=false", domains: &[Real, Dominant] },
        Case { args: "f[2,4,4] f[2,4,4]", attrs: "right=false", domains: &[Real, Dominant] },
        Case { args: "f[5,3] f[3,3]", attrs: "right=true", domains: &[Real, Dominant] },
        Case { args: "f[1,1] f[1,1]", attrs: "right=false", domains: &[Real, Dominant] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
