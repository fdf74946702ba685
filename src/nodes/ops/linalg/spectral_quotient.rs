//! Quotients by differences and sums of eigenvalues or singular values, which are what derivatives of decompositions
//! divide by.
//!
//! Invariant: no finite number stands for a quotient that is not defined. Where rounding does not tell the divisor
//! from 0, the result is 0 if the dividend is 0 to rounding, too, and NaN otherwise. The derivative of the quotient is
//! a quotient, so the same holds for derivatives of any order.

use super::PACK;
use super::{check_matrix_dims, rounding_noise};
use crate::ensure;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Positive, Real};

choice! {
    /// What stands below x\[i, j\].
    #[derive(Default)]
    pub enum QuotientBy {
        /// wⱼ − wᵢ. The quotient on the diagonal is 0.
        #[default]
        Gap = "gap",
        /// wᵢ + wⱼ.
        Sum = "sum",
        /// wⱼ.
        Column = "column",
    }
}

attrs! {
    /// Attributes of [`SPECTRAL_QUOTIENT`].
    pub struct SpectralQuotientAttrs {
        /// The divisor.
        by: QuotientBy,
    }
}

/// x divided by what `by` makes of the values `w`.
pub(super) fn spectral_quotient<'g>(x: Var<'g>, w: Var<'g>, by: QuotientBy) -> Var<'g> {
    x.g.emit1(Op::SPECTRAL_QUOTIENT, &[x, w], &SpectralQuotientAttrs { by }.list())
}

/// The divisors for the values `w`, linear in them: a matrix, or one row for `Column`.
fn spectral_divisors<'g>(w: Var<'g>, by: QuotientBy) -> Var<'g> {
    match by {
        QuotientBy::Gap => w.unsqueeze(-2) - w.unsqueeze(-1),
        QuotientBy::Sum => w.unsqueeze(-2) + w.unsqueeze(-1),
        QuotientBy::Column => w.unsqueeze(-2),
    }
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w, by) = (s.args[0], s.args[1], SpectralQuotientAttrs::of(&s.attrs).by);
    if x.numel() == 0 {
        return vec![x];
    }
    let d = x.dims();
    let longest = d[d.len() - 2].max(d[d.len() - 1]) as f64;
    let largest = |x: Var<'g>| x.abs().reduce(Op::REDUCE_MAX, -1, true);
    let divisor = spectral_divisors(w, by);
    let zero = divisor.abs().less_equal(rounding_noise(largest(w)).unsqueeze(-1)).broadcast(d);
    // A dividend is a sum of products; its rounding grows with the root of their number.
    let size = largest(largest(x).squeeze(-1)).unsqueeze(-1);
    let nothing = x.abs().less_equal(rounding_noise(size) * longest.sqrt());
    let undefined = nothing.select(0.0, x.full_like(f64::NAN));
    let y = zero.select(undefined, x / zero.select(1.0, divisor.broadcast(d)));
    vec![if by == QuotientBy::Gap { y.tril(-1) + y.triu(1) } else { y }]
}

/// Ẏ = (Ẋ − Y∘Ḋ)/D, where D are the divisors.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let by = SpectralQuotientAttrs::of(&s.attrs).by;
    let of_w = t[1].map(|t| -(s.outs[0] * spectral_divisors(t, by)));
    vec![super::sum_present([t[0], of_w]).map(|x| spectral_quotient(x, s.args[1], by))]
}

/// X̄ = Ȳ/D; D̄ = −(Ȳ∘Y)/D, summed to the values that each divisor is made of.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let (Some(g), by) = (ct[0], SpectralQuotientAttrs::of(&s.attrs).by) else { return vec![None, None] };
    let of_w = want[1].then(|| {
        let d = -spectral_quotient(g * s.outs[0], s.args[1], by);
        match by {
            QuotientBy::Gap => d.sum(-2) - d.sum(-1),
            QuotientBy::Sum => d.sum(-2) + d.sum(-1),
            QuotientBy::Column => d.sum(-2),
        }
    });
    vec![want[0].then(|| spectral_quotient(g, s.args[1], by)), of_w]
}

/// Quotients by differences and sums of values.
pub const SPECTRAL_QUOTIENT: OpDef = OpDef {
    name: "spectral_quotient",
    doc: "yᵢⱼ = xᵢⱼ/(wⱼ − wᵢ), 0 for i = j; or xᵢⱼ/(wᵢ + wⱼ), or xᵢⱼ/wⱼ. Where |divisor| ≤ 16·ε·max|w|: 0 if \
          |xᵢⱼ| ≤ 16·ε·√n·max|x|, else NaN",
    arity: Arity::Exactly(2),
    attrs: SpectralQuotientAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let (mut dims, m, n) = check_matrix_dims(cx, 0, "x")?;
        let by = SpectralQuotientAttrs::of(&cx.attrs).by;
        cx.same_dtype(0, 1)?;
        ensure!(by == QuotientBy::Column || m == n, "x has shape {}; its matrices must be square", cx.dims(0));
        dims = crate::arena::dims::Dims::new(&[&dims[..], &[n]].concat()).unwrap_or_default();
        ensure!(cx.dims(1) == dims, "w has shape {}; {dims} is needed", cx.dims(1));
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| 8 * cx.out(),
    cases: &[
        Case { args: "f[3,3] f[3]", attrs: "by=gap", domains: &[Real, Domain::Distinct] },
        Case { args: "f[2,4,4] f[2,4]", attrs: "by=sum", domains: &[Real, Positive] },
        Case { args: "f[5,3] f[3]", attrs: "by=column", domains: &[Real, Positive] },
        Case { args: "f[0,3,3] f[0,3]", attrs: "by=gap", domains: &[Real, Domain::Distinct] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
