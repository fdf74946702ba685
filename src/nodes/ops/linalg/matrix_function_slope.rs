//! Derivatives of e^A and ln A for symmetric A: U·(Γ∘(UᵀEU))·Uᵀ with the divided differences Γ of f (Daleckii and
//! Krein, 1965).
//!
//! Invariant: the derivative of a derivative is made of second divided differences, which are defined at equal
//! eigenvalues, and passes through no eigenvector. That of a second derivative passes through them, so it is NaN at
//! equal eigenvalues.

use super::PACK;
use super::matrix_function::{MatrixFunction, MatrixFunctionAttrs, matrix_function_slope};
use super::{check_square_dims, cubic_cost, sum_present, symmetric_part, unary_results};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Dominant, Real};

/// Second divided differences of exp have a series where the three numbers are closer than this.
const NEAR: f64 = 0.5;
/// Terms of the series: the next one is below the rounding of f64.
const TERMS: usize = 13;

/// (1 − e⁻ᵈ)/d for d ≥ 0; a series near 0, where the quotient's derivative would lose digits.
fn decayed_share(d: Var<'_>) -> Var<'_> {
    let small = d.less(0.05);
    let near = (2..=9).rev().fold(d.full_like(1.0), |sum, k| 1.0 - d * sum / f64::from(k));
    let far = small.select(1.0, d);
    small.select(near, -(-far).expm1() / far)
}

/// The divided differences of exp at pairs of `x` and `y`: e^larger·(1 − e⁻ᵈ)/d, d their distance.
fn exp_difference<'g>(x: Var<'g>, y: Var<'g>) -> Var<'g> {
    x.maximum(y).exp() * decayed_share((x - y).abs())
}

/// The divided differences at all pairs of `w`. Those of ln are the inverse ones of exp at ln w.
fn first_differences<'g>(w: Var<'g>, f: MatrixFunction) -> Var<'g> {
    let of_exp = |x: Var<'g>| exp_difference(x.unsqueeze(-2), x.unsqueeze(-1));
    if f == MatrixFunction::Log { 1.0 / of_exp(w.log()) } else { of_exp(w) }
}

/// e^c·Σ hₙ/(n + 2)!, hₙ the complete homogeneous polynomials of the distances from `c`: the second divided differences
/// of exp at three near numbers.
fn exp_series<'g>(xs: [Var<'g>; 3], c: Var<'g>, near: Var<'g>) -> Var<'g> {
    let [x, y, z] = xs.map(|x| near.select(x - c, 0.0));
    let (e1, e2, e3) = (x + y + z, x * y + y * z + x * z, x * y * z);
    let one = e1.full_like(1.0);
    let (mut last, mut sum, mut share) = ([one, one * 0.0, one * 0.0], one * 0.5, 0.5);
    for n in 1..TERMS {
        let h = e1 * last[0] - e2 * last[1] + e3 * last[2];
        share /= n as f64 + 2.0;
        (last, sum) = ([h, last[0], last[1]], sum + h * share);
    }
    c.exp() * sum
}

/// The second divided differences of exp at all triples of `x`, `[.., i, k, j]`.
fn exp_second_differences(x: Var<'_>) -> Var<'_> {
    let (i, k, j) = (x.unsqueeze(-1).unsqueeze(-1), x.unsqueeze(-2).unsqueeze(-1), x.unsqueeze(-2).unsqueeze(-2));
    let (low, high) = (i.minimum(j), i.maximum(j));
    let (least, greatest) = (low.minimum(k), high.maximum(k));
    let middle = low.maximum(high.minimum(k));
    let near = (greatest - least).less(NEAR);
    let rise = exp_difference(greatest, middle) - exp_difference(middle, least);
    let far = rise / near.select(1.0, greatest - least);
    near.select(exp_series([least, middle, greatest], (least + greatest) * 0.5, near), far)
}

/// The second divided differences at all triples of `w`. Those of ln follow from those of its inverse at ln w.
fn second_differences(w: Var<'_>, f: MatrixFunction) -> Var<'_> {
    if f != MatrixFunction::Log {
        return exp_second_differences(w);
    }
    let pairs = first_differences(w, f);
    -exp_second_differences(w.log()) * pairs.unsqueeze(-1) * pairs.unsqueeze(-3) * pairs.unsqueeze(-2)
}

/// The second derivative of f(A) in the directions `e` and `h`:
/// U·(Σₖ f\[wᵢ, wₖ, wⱼ\]·(ÊᵢₖĤₖⱼ + ĤᵢₖÊₖⱼ))·Uᵀ, Ê = UᵀEU.
fn matrix_function_bend<'g>(s: &Site<'_, 'g>, e: Var<'g>, h: Var<'g>) -> Var<'g> {
    let [w, u] = unary_results(s.args[0], Op::EIGH);
    if w.numel() == 0 {
        return e * 0.0;
    }
    let inside = |m: Var<'g>| u.matmul_t(symmetric_part(m).matmul(u), true, false);
    let (e, h) = (inside(e), inside(h));
    let product = e.unsqueeze(-1) * h.unsqueeze(-3);
    let half = (second_differences(w, MatrixFunctionAttrs::of(&s.attrs).function) * product).sum(-2);
    u.matmul(half + half.t()).matmul_t(u, false, true)
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let [w, u] = unary_results(s.args[0], Op::EIGH);
    let inside = u.matmul_t(symmetric_part(s.args[1]).matmul(u), true, false);
    let scaled = inside * first_differences(w, MatrixFunctionAttrs::of(&s.attrs).function);
    vec![symmetric_part(u.matmul(scaled).matmul_t(u, false, true))]
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let along = t[1].map(|t| matrix_function_slope(s.args[0], t, MatrixFunctionAttrs::of(&s.attrs).function));
    vec![sum_present([t[0].map(|t| matrix_function_bend(s, s.args[1], t)), along])]
}

/// Both derivatives are symmetric in all their directions.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None, None] };
    let function = MatrixFunctionAttrs::of(&s.attrs).function;
    let of_a = want[0].then(|| matrix_function_bend(s, s.args[1], g));
    vec![of_a, want[1].then(|| matrix_function_slope(s.args[0], g, function))]
}

/// Derivatives of functions of symmetric matrices.
pub const MATRIX_FUNCTION_SLOPE: OpDef = OpDef {
    name: "matrix_function_slope",
    doc: "U·(Γ∘(Uᵀ·sym E·U))·Uᵀ, the derivative in the direction E of f((A + Aᵀ)/2), which is U·diag(f(w))·Uᵀ, for exp \
          and log; Γᵢⱼ = (f(wᵢ) − f(wⱼ))/(wᵢ − wⱼ), f'(wᵢ) at equal values",
    arity: Arity::Exactly(2),
    attrs: MatrixFunctionAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        check_square_dims(cx, 0, "A")?;
        cx.same(0, 1)?;
        let function = MatrixFunctionAttrs::of(&cx.attrs).function;
        let known = matches!(function, MatrixFunction::Exp | MatrixFunction::Log);
        crate::ensure!(known, "the roots have derivatives of their own; exp or log is needed");
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| cubic_cost(cx, 33),
    cases: &[
        Case { args: "f[3,3] f[3,3]", attrs: "function=exp", domains: &[Dominant, Real] },
        Case { args: "f[2,3,3] f[2,3,3]", attrs: "function=log", domains: &[Dominant, Real] },
        Case { args: "f[1,1] f[1,1]", attrs: "function=exp", domains: &[Dominant, Real] },
        Case { args: "f[0,3,3] f[0,3,3]", attrs: "function=log", domains: &[Dominant, Real] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
