//! Elementwise arithmetic, with the conventions at ties, kinks and zeros.

use crate::ensure;
use crate::kernels::tile::TileOp;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::pointwise::attrs::ClampAttrs;
use crate::nodes::ops::pointwise::no_immediates;
use Domain::{Distinct, Positive, Real};

/// Result of the operands' type; numbers only.
pub(super) fn infer_numbers(cx: &mut Infer<'_>) -> Result<(), String> {
    for i in 0..cx.args.len() {
        cx.real(i)?;
        let d = cx.dtype(i);
        ensure!(d.is_float() || d.is_int(), "no arithmetic in {d}; cast to f32 or f64");
        cx.same(0, i)?;
    }
    cx.same_as(0)
}

/// As [`infer_numbers`], for `f32` and `f64`.
pub(super) fn infer_real_floats(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    infer_numbers(cx)
}

const fn define_op(name: &'static str, doc: &'static str, arity: usize, op: TileOp, deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs: &[],
        flags: Flags::PURE,
        infer: infer_numbers,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Tile(op, no_immediates),
        cost: cost_per_result,
        cases: if arity == 1 { UNARY } else { BINARY },
        ..OpDef::BLANK
    }
}

const UNARY: &[Case] = &[
    Case { args: "f[3,5]", attrs: "", domains: &[Real] },
    Case { args: "f[]", attrs: "", domains: &[Real] },
    Case { args: "f[0,2]", attrs: "", domains: &[Real] },
    Case { args: "f[1100]", attrs: "", domains: &[Real] },
];
const BINARY: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Distinct] },
    Case { args: "f[] f[]", attrs: "", domains: &[Real] },
    Case { args: "f[0] f[0]", attrs: "", domains: &[Real] },
    Case { args: "f[1100] f[1100]", attrs: "", domains: &[Real, Distinct] },
    Case { args: "i32[7] i32[7]", attrs: "", domains: &[Domain::Index(9), Domain::Index(5)] },
];
const POSITIVE2: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Positive, Real] },
    Case { args: "f[1100] f[1100]", attrs: "", domains: &[Positive] },
    Case { args: "i32[7] i32[7]", attrs: "", domains: &[Domain::Index(9), Domain::Index(5)] },
];

/// The sum of two tensors.
pub const ADD: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op("add", "y = a + b", 2, TileOp::Add, Deriv::Linear(|_, _, g| Some(g)))
};

/// The difference of two tensors.
pub const SUB: OpDef =
    define_op("sub", "y = a − b", 2, TileOp::Sub, Deriv::Linear(|_, i, g| Some(if i == 0 { g } else { -g })));

/// The product of two tensors, element by element.
pub const MUL: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op("mul", "y = a·b", 2, TileOp::Mul, Deriv::Multilinear(|s, i, g| Some(g * s.args[1 - i])))
};

/// The quotient of two tensors, element by element.
pub const DIV: OpDef = OpDef {
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real, Positive] },
        Case { args: "f[1100] f[1100]", attrs: "", domains: &[Real, Positive] },
    ],
    ..define_op(
        "div",
        "y = a/b; integers truncate, and division of an integer by 0 is an error of the step",
        2,
        TileOp::Div,
        Deriv::Pointwise(|s, i| {
            let b = s.args[1];
            Some(if i == 0 { b.recip() } else { -(s.outs[0] / b) })
        }),
    )
};

/// The part of `t` that goes through operand `i`: all of it where that operand wins, half at a tie, an exact 0
/// elsewhere. The parts sum to `t`.
fn share_of_winner<'g>(s: &Site<'_, 'g>, i: usize, larger: bool, t: Var<'g>) -> Var<'g> {
    let (mine, other) = (s.args[i], s.args[1 - i]);
    let wins = if larger { mine.greater(other) } else { mine.less(other) };
    wins.select(t, mine.equal(other).select(t * 0.5, t.full_like(0.0)))
}

fn push_extreme<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>], larger: bool) -> Vec<Option<Var<'g>>> {
    let part = |i: usize| t[i].map(|t| share_of_winner(s, i, larger, t));
    vec![match (part(0), part(1)) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }]
}

fn pull_extreme<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool], larger: bool) -> Vec<Option<Var<'g>>> {
    (0..2).map(|i| ct[0].filter(|_| want[i]).map(|g| share_of_winner(s, i, larger, g))).collect()
}

/// The larger of two elements.
pub const MAX: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op(
        "max",
        "y = max(a, b), NaN if either is; a tie shares the gradient evenly",
        2,
        TileOp::Max,
        Deriv::Rules(|s, t| push_extreme(s, t, true), |s, ct, w| pull_extreme(s, ct, w, true)),
    )
};

/// The smaller of two elements.
pub const MIN: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op(
        "min",
        "y = min(a, b), NaN if either is; a tie shares the gradient evenly",
        2,
        TileOp::Min,
        Deriv::Rules(|s, t| push_extreme(s, t, false), |s, ct, w| pull_extreme(s, ct, w, false)),
    )
};

/// ∂a = b·aᵇ⁻¹, 0 where b = 0; ∂b = y·ln a for a > 0, 0 at a = 0 with b ≥ 0, NaN for a < 0.
fn differentiate_pow<'g>(s: &Site<'_, 'g>, i: usize) -> Option<Var<'g>> {
    let (a, b) = (s.args[0], s.args[1]);
    let zero = a.full_like(0.0);
    if i == 0 {
        let p = b * a.pow(b - 1.0);
        return Some(b.equal(0.0).select(zero, p));
    }
    let flat = a.equal(0.0).logical_and(b.greater_equal(0.0));
    // The logarithm sees 1 where its product is not taken, so that no 0·∞ reaches a second derivative.
    let safe = flat.select(a.full_like(1.0), a);
    Some(flat.select(zero, s.outs[0] * safe.log()))
}

/// A power with a tensor as exponent.
pub const POW: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::EXPENSIVE),
    cases: POSITIVE2,
    ..define_op(
        "pow",
        "y = aᵇ, as C's pow; integers wrap, and an exponent of an integer below 0 is an error of the step",
        2,
        TileOp::Pow,
        Deriv::Pointwise(differentiate_pow),
    )
};

/// The negative.
pub const NEG: OpDef = define_op("neg", "y = −x", 1, TileOp::Neg, Deriv::Linear(|_, _, g| Some(-g)));

/// The absolute value.
pub const ABS: OpDef =
    define_op("abs", "y = |x|; y'(0) = 0", 1, TileOp::Abs, Deriv::Pointwise(|s, _| Some(s.args[0].sign())));

/// `x` with 0 for subnormal numbers, in steps that a map has. NaN stays.
pub fn without_subnormals(x: Var<'_>) -> Var<'_> {
    let least = if x.dtype() == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    x.abs().less(least).select(x.full_like(0.0), x)
}

/// The number, and 0 in place of a subnormal one.
pub const FLUSH_SUBNORMALS: OpDef = OpDef {
    infer: infer_real_floats,
    lower: Lower::Expand,
    decompose: Some(|s| vec![without_subnormals(s.args[0])]),
    ..define_op(
        "flush_subnormals",
        "y = x, and +0 where |x| is below the smallest normal number of the type; y' = 1",
        1,
        TileOp::Copy,
        Deriv::Linear(|_, _, g| Some(g)),
    )
};

/// The flags of step functions.
const STEP: Flags = Flags::PURE.and(Flags::STEP);

/// The sign.
pub const SIGN: OpDef =
    OpDef { flags: STEP, ..define_op("sign", "y = −1, 0 or 1 (±0 and NaN stay)", 1, TileOp::Sign, Deriv::Zero) };

/// The largest integer not above the element.
pub const FLOOR: OpDef =
    OpDef { flags: STEP, infer: infer_real_floats, ..define_op("floor", "y = ⌊x⌋", 1, TileOp::Floor, Deriv::Zero) };

/// The smallest integer not below the element.
pub const CEIL: OpDef =
    OpDef { flags: STEP, infer: infer_real_floats, ..define_op("ceil", "y = ⌈x⌉", 1, TileOp::Ceil, Deriv::Zero) };

/// The nearest integer; halves go to the even one.
pub const ROUND: OpDef = OpDef {
    flags: STEP,
    infer: infer_real_floats,
    ..define_op("round", "y = the nearest integer, halves to even", 1, TileOp::Round, Deriv::Zero)
};

/// `t` strictly inside the bounds, an exact 0 elsewhere.
fn keep_inside_bounds<'g>(s: &Site<'_, 'g>, t: Option<Var<'g>>) -> Vec<Option<Var<'g>>> {
    let (x, ClampAttrs { lo, hi }) = (s.args[0], ClampAttrs::of(&s.attrs));
    let within = |t: Var<'g>| {
        let c = x.greater(lo).logical_and(x.less(hi));
        c.select(t, t.full_like(0.0))
    };
    vec![t.map(within)]
}

/// Elements limited to a range.
pub const CLAMP: OpDef = OpDef {
    attrs: ClampAttrs::FIELDS,
    infer: |cx| {
        let ClampAttrs { lo, hi } = ClampAttrs::of(&cx.attrs);
        ensure!(lo <= hi, "lo {lo} is above hi {hi}");
        // An infinite bound does not bound, integers neither.
        for bound in [(lo, f64::NEG_INFINITY), (hi, f64::INFINITY)].iter().filter(|b| b.0 != b.1) {
            cx.element(0, bound.0)?;
        }
        infer_numbers(cx)
    },
    lower: Lower::Tile(TileOp::Clamp, |a| {
        let ClampAttrs { lo, hi } = ClampAttrs::of(a);
        [lo, hi]
    }),
    cases: &[
        Case { args: "f[3,5]", attrs: "lo=-0.05 hi=1.05", domains: &[Real] },
        Case { args: "f[1100]", attrs: "lo=-inf hi=0", domains: &[Real] },
    ],
    ..define_op(
        "clamp",
        "y = max(lo, min(x, hi)); y' = 1 strictly inside, 0 at and outside the bounds",
        1,
        TileOp::Clamp,
        Deriv::Rules(|s, t| keep_inside_bounds(s, t[0]), |s, ct, _| keep_inside_bounds(s, ct[0])),
    )
};

/// The operand, differentiated as a constant.
pub const STOP_GRADIENT: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STOP),
    infer: |cx| cx.same_as(0),
    lower: Lower::Kernel(|cx| {
        cx.view(0, 0, 0);
        Ok(())
    }),
    cost: crate::nodes::ops::common::cost::cost_free,
    ..define_op("stop_gradient", "y = x, with a zero derivative", 1, TileOp::Copy, Deriv::Zero)
};
