//! Functions of two numbers, with their conventions at zeros, ties and NaN.

use super::arith::{infer_numbers, infer_real_floats};
use crate::kernels::tile::TileOp;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::pointwise::no_immediates;
use Domain::{Beyond, Count, Distinct, Index, Positive, Real};

const PAIRS: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Distinct] },
    Case { args: "f[] f[]", attrs: "", domains: &[Real] },
    Case { args: "f[0] f[0]", attrs: "", domains: &[Real] },
    Case { args: "f[1100] f[1100]", attrs: "", domains: &[Real, Distinct] },
];

/// Dividends below their divisors, so that no difference crosses a jump; and integers.
const DIVISIONS: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Beyond] },
    Case { args: "f[] f[]", attrs: "", domains: &[Real, Beyond] },
    Case { args: "f[1100] f[1100]", attrs: "", domains: &[Real, Beyond] },
    Case { args: "i32[40] i32[40]", attrs: "", domains: &[Index(50), Count(7)] },
    Case { args: "i64[1100] i64[1100]", attrs: "", domains: &[Index(50), Count(7)] },
    Case { args: "u8[40] u8[40]", attrs: "", domains: &[Index(50), Count(7)] },
];

const fn pair_op(name: &'static str, doc: &'static str, op: TileOp, cases: &'static [Case], deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs: &[],
        flags: Flags::PURE.and(Flags::EXPENSIVE),
        infer: infer_real_floats,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Tile(op, no_immediates),
        cost: cost_per_result,
        cases,
        ..OpDef::BLANK
    }
}

/// `v`, but 1 where it is 0: a divisor of numbers that are 0 there too.
fn pair_one_where_zero<'g>(v: Var<'g>) -> Var<'g> {
    v.equal(0.0).select(v.full_like(1.0), v)
}

/// ∂a = b/(a² + b²), ∂b = −a/(a² + b²), both 0 at (0, 0); in quotients by the length, which do not overflow.
fn pair_atan2_partial<'g>(s: &Site<'_, 'g>, i: usize) -> Option<Var<'g>> {
    let (a, b) = (s.args[0], s.args[1]);
    let h = pair_one_where_zero(a.hypot(b));
    Some(if i == 0 { b / h / h } else { -(a / h / h) })
}

/// The angle of a point.
pub const ATAN2: OpDef = pair_op(
    "atan2",
    "y = the angle of the point (b, a) in (−π, π], with C's signs at zeros; the derivatives at (0, 0) are 0",
    TileOp::Atan2,
    PAIRS,
    Deriv::Pointwise(pair_atan2_partial),
);

/// The length of a vector of two elements.
pub const HYPOT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::EXPENSIVE).and(Flags::COMMUTES),
    ..pair_op(
        "hypot",
        "y = √(a² + b²) without overflow; the derivatives at (0, 0) are 0",
        TileOp::Hypot,
        PAIRS,
        Deriv::Pointwise(|s, i| Some(s.args[i] / pair_one_where_zero(s.outs[0]))),
    )
};

/// A magnitude with the sign of another number.
pub const COPYSIGN: OpDef = OpDef {
    flags: Flags::PURE,
    ..pair_op(
        "copysign",
        "y = |a| with the sign of b, that of −0 and NaN too; ∂a = ±1, 0 at a = 0; ∂b = 0",
        TileOp::Copysign,
        PAIRS,
        Deriv::Pointwise(|s, i| (i == 0).then(|| s.args[0].sign() * s.outs[0].sign())),
    )
};

/// The next number of the type.
pub const NEXTAFTER: OpDef = OpDef {
    flags: Flags::PURE,
    ..pair_op(
        "nextafter",
        "y = the next number of the type after a towards b; b where they are equal",
        TileOp::Nextafter,
        PAIRS,
        Deriv::Error("it moves by a bit, not by a distance; apply stop_gradient to its operands"),
    )
};

/// The rest of a division that is rounded toward 0.
pub const FMOD: OpDef = OpDef {
    infer: infer_numbers,
    // The quotient comes from the result, so that it is the one which the result belongs to.
    ..pair_op(
        "fmod",
        "y = a − trunc(a/b)·b, with the sign of a; ∂a = 1, ∂b = −trunc(a/b); an integer b = 0 is an error of the step",
        TileOp::Fmod,
        DIVISIONS,
        Deriv::Pointwise(|s, i| {
            let (a, b) = (s.args[0], s.args[1]);
            Some(if i == 0 { a.full_like(1.0) } else { ((s.outs[0] - a) / b).round() })
        }),
    )
};

/// The rest of a division that is rounded down.
pub const REMAINDER: OpDef = OpDef {
    infer: infer_numbers,
    ..pair_op(
        "remainder",
        "y = a − ⌊a/b⌋·b, with the sign of b; ∂a = 1, ∂b = −⌊a/b⌋; an integer b = 0 is an error of the step",
        TileOp::Remainder,
        DIVISIONS,
        Deriv::Pointwise(|s, i| {
            let (a, b) = (s.args[0], s.args[1]);
            Some(if i == 0 { a.full_like(1.0) } else { -a.floor_divide(b) })
        }),
    )
};

/// The quotient rounded down.
pub const FLOOR_DIVIDE: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STEP),
    infer: infer_numbers,
    ..pair_op(
        "floor_divide",
        "y = ⌊a/b⌋; an integer b = 0 is an error of the step",
        TileOp::FloorDivide,
        DIVISIONS,
        Deriv::Zero,
    )
};

/// `other` where `v` is NaN.
fn pair_pick_unless_nan<'g>(v: Var<'g>, other: Var<'g>) -> impl Fn(Var<'g>) -> Var<'g> {
    move |rest| v.isnan().select(other, rest)
}

/// The definition of a formula of two operands.
const fn pair_formula(name: &'static str, doc: &'static str, cases: &'static [Case], deriv: Deriv) -> OpDef {
    OpDef { flags: Flags::PURE, lower: Lower::Expand, ..pair_op(name, doc, TileOp::Copy, cases, deriv) }
}

/// The larger of two elements, NaN losing.
pub const FMAX: OpDef = OpDef {
    decompose: Some(|s| {
        let (a, b) = (s.args[0], s.args[1]);
        vec![pair_pick_unless_nan(a, b)(pair_pick_unless_nan(b, a)(a.maximum(b)))]
    }),
    cost: |cx| 5 * cx.out(),
    ..pair_formula(
        "fmax",
        "y = max(a, b), the other one if one is NaN; a tie shares the gradient evenly",
        PAIRS,
        Deriv::ViaDecompose,
    )
};

/// The smaller of two elements, NaN losing.
pub const FMIN: OpDef = OpDef {
    decompose: Some(|s| {
        let (a, b) = (s.args[0], s.args[1]);
        vec![pair_pick_unless_nan(a, b)(pair_pick_unless_nan(b, a)(a.minimum(b)))]
    }),
    cost: |cx| 5 * cx.out(),
    ..pair_formula(
        "fmin",
        "y = min(a, b), the other one if one is NaN; a tie shares the gradient evenly",
        PAIRS,
        Deriv::ViaDecompose,
    )
};

/// a − b, but 0 where they are equal, infinite ones too.
fn pair_logaddexp_difference<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    a.equal(b).select(a.full_like(0.0), a - b)
}

/// The logarithm of a sum of exponentials.
pub const LOGADDEXP: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    decompose: Some(|s| {
        let (a, b) = (s.args[0], s.args[1]);
        vec![a.maximum(b) + (-pair_logaddexp_difference(a, b).abs()).softplus()]
    }),
    cost: |cx| 6 * cx.out(),
    ..pair_formula(
        "logaddexp",
        "y = ln(eᵃ + eᵇ), as max(a, b) + ln(1 + e^(−|a − b|)); ∂a = σ(a − b), ∂b = σ(b − a), both 0 at a = b = −∞",
        PAIRS,
        Deriv::Pointwise(|s, i| {
            let d = pair_logaddexp_difference(s.args[i], s.args[1 - i]);
            let nothing = s.outs[0].equal(f64::NEG_INFINITY);
            Some(nothing.select(d.full_like(0.0), d.sigmoid()))
        }),
    )
};

/// Where a = 0 and b ≤ 0: a product with ln b, or a quotient by b, would not be 0 there.
fn pair_xlogy_vanishes<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    a.equal(0.0).logical_and(b.less_equal(0.0))
}

/// The product of an element with the logarithm of another.
pub const XLOGY: OpDef = OpDef {
    decompose: Some(|s| {
        let (a, b) = (s.args[0], s.args[1]);
        // Also 0 at b = ∞; a NaN stays.
        let zero = a.equal(0.0).logical_and(b.equal(b));
        vec![zero.select(a.full_like(0.0), a * b.log())]
    }),
    cost: |cx| 4 * cx.out(),
    ..pair_formula(
        "xlogy",
        "y = a·ln b, 0 where a = 0 (unless b is NaN); ∂a = ln b, ∂b = a/b, both 0 where a = 0 and b ≤ 0",
        &[
            Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Positive] },
            Case { args: "f[] f[]", attrs: "", domains: &[Real, Positive] },
            Case { args: "f[1100] f[1100]", attrs: "", domains: &[Real, Positive] },
        ],
        Deriv::Pointwise(|s, i| {
            let (a, b) = (s.args[0], s.args[1]);
            let flat = pair_xlogy_vanishes(a, b);
            let safe = flat.select(b.full_like(1.0), b);
            Some(if i == 0 { flat.select(a.full_like(0.0), safe.log()) } else { a / safe })
        }),
    )
};
