//! The hyperbolic tangent of complex numbers by its parts. A derivative of the formula of the value would lose all
//! digits near the poles, so the op has its own: it keeps y and d = 1 − y², and y' = d, d' = −2·y·d.

use super::parts::{Parts, part_magnitude};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Real, Unit};

/// y = (u + it)/(1 + iut), where u = tanh Re z and t = tan Im z, so nothing overflows for a large real part; and
/// d = (1 − u²)·(1 + t²)/(1 + iut)², which no difference of close numbers is part of.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (re, im) = (s.args[0], s.args[1]);
    let (u, t) = (re.tanh(), im.tan());
    let q = (part_magnitude(re) * -2.0).exp();
    // 1 − u², without cancellation.
    let rest = q * 4.0 / (q + 1.0).square();
    let (turn, wide) = (u * t, t.square() + 1.0);
    let below = turn.square() + 1.0;
    let y = Parts { re: u * wide / below, im: t * rest / below };
    // 1/(1 + iut)² = ((1 − iut)/below)².
    let inverse = Parts { re: 1.0 / below, im: -turn / below };
    let d = inverse.times(inverse).each(|x| x * (rest * wide));
    vec![y.re, y.im, d.re, d.im]
}

/// y, d and d' of a node.
fn read_factors<'g>(s: &Site<'_, 'g>) -> [Parts<'g>; 2] {
    let (y, d) = (Parts { re: s.outs[0], im: s.outs[1] }, Parts { re: s.outs[2], im: s.outs[3] });
    [d, y.times(d).each(|x| x * -2.0)]
}

/// The pairs of parts that are there; zeros for one of two.
fn known_parts<'g>(re: Option<Var<'g>>, im: Option<Var<'g>>) -> Option<Parts<'g>> {
    let any = re.or(im)?;
    let zeros = || any.full_like(0.0);
    Some(Parts { re: re.unwrap_or_else(zeros), im: im.unwrap_or_else(zeros) })
}

/// Ẏ = d·Ż, Ḋ = −2·y·d·Ż.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = known_parts(t[0], t[1]) else { return vec![None; 4] };
    let [y, d] = read_factors(s).map(|factor| factor.times(t));
    [y.re, y.im, d.re, d.im].map(Some).to_vec()
}

/// Z̄ = conj(d)·Ȳ + conj(−2·y·d)·D̄.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let factors = read_factors(s);
    let terms = [known_parts(ct[0], ct[1]), known_parts(ct[2], ct[3])].into_iter().zip(factors);
    let sum =
        terms.filter_map(|(g, f)| Some(Parts { re: f.re, im: -f.im }.times(g?))).reduce(|a, b| a.both(b, |a, b| a + b));
    vec![sum.map(|z| z.re), sum.map(|z| z.im)]
}

/// The parts of tanh z, and of its derivative.
pub const TANH_PARTS: OpDef = OpDef {
    name: "tanh_parts",
    doc: "y = tanh(a + ib) and d = 1 − y²; results Re y, Im y, Re d, Im d; y' = d, d' = −2·y·d",
    arity: Arity::Exactly(2),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        cx.float(0)?;
        cx.same(0, 1)?;
        (0..4).try_for_each(|_| cx.same_as(0))
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| 40 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Unit] },
        Case { args: "f[] f[]", attrs: "", domains: &[Real, Unit] },
        Case { args: "f[0,3] f[0,3]", attrs: "", domains: &[Real, Unit] },
    ],
    ..OpDef::BLANK
};
