//! Elementary functions and activations, on `f32` and `f64`.

use crate::kernels::tile::TileOp;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::pointwise::attrs::{EluAttrs, LeakyReluAttrs};
use crate::nodes::ops::pointwise::no_immediates;
use Domain::{Positive, Real, Unit};

pub(super) fn infer_float(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    cx.same_as(0)
}

pub(super) const REALS: &[Case] = &[
    Case { args: "f[3,5]", attrs: "", domains: &[Real] },
    Case { args: "f[]", attrs: "", domains: &[Real] },
    Case { args: "f[1100]", attrs: "", domains: &[Real] },
];
pub(super) const POSITIVES: &[Case] = &[
    Case { args: "f[3,5]", attrs: "", domains: &[Positive] },
    Case { args: "f[1100]", attrs: "", domains: &[Positive] },
];
pub(super) const UNITS: &[Case] =
    &[Case { args: "f[3,5]", attrs: "", domains: &[Unit] }, Case { args: "f[1100]", attrs: "", domains: &[Unit] }];

pub(super) const fn define_op(
    name: &'static str,
    doc: &'static str,
    op: TileOp,
    cases: &'static [Case],
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: &[],
        flags: Flags::PURE.and(Flags::EXPENSIVE),
        infer: infer_float,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Tile(op, no_immediates),
        cost: cost_per_result,
        cases,
        ..OpDef::BLANK
    }
}

pub(super) fn operand_x<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.args[0]
}

pub(super) fn result_y<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.outs[0]
}

/// `a` where x > 0, `b` elsewhere.
fn select_positive<'g>(s: &Site<'_, 'g>, a: Var<'g>, b: Var<'g>) -> Var<'g> {
    operand_x(s).greater(0.0).select(a, b)
}

/// The exponential function.
pub const EXP: OpDef = define_op("exp", "y = eˣ", TileOp::Exp, REALS, Deriv::Pointwise(|s, _| Some(result_y(s))));

/// The exponential function minus 1, accurate near 0.
pub const EXPM1: OpDef =
    define_op("expm1", "y = eˣ − 1", TileOp::Expm1, REALS, Deriv::Pointwise(|s, _| Some(result_y(s) + 1.0)));

/// The natural logarithm.
pub const LOG: OpDef =
    define_op("log", "y = ln x", TileOp::Log, POSITIVES, Deriv::Pointwise(|s, _| Some(operand_x(s).recip())));

/// The natural logarithm of 1 + x, accurate near 0.
pub const LOG1P: OpDef = define_op(
    "log1p",
    "y = ln(1 + x)",
    TileOp::Log1p,
    UNITS,
    Deriv::Pointwise(|s, _| Some((operand_x(s) + 1.0).recip())),
);

/// The square root.
pub const SQRT: OpDef =
    define_op("sqrt", "y = √x", TileOp::Sqrt, POSITIVES, Deriv::Pointwise(|s, _| Some(0.5 / result_y(s))));

/// The reciprocal of the square root.
pub const RSQRT: OpDef = define_op(
    "rsqrt",
    "y = 1/√x",
    TileOp::Rsqrt,
    POSITIVES,
    Deriv::Pointwise(|s, _| {
        // From y alone: backward does not read x.
        Some(result_y(s) * result_y(s) * result_y(s) * -0.5)
    }),
);

/// The reciprocal.
pub const RECIP: OpDef = define_op(
    "recip",
    "y = 1/x",
    TileOp::Recip,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(-(result_y(s) * result_y(s)))),
);

/// The sine of an angle in radians.
pub const SIN: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::EXPENSIVE).and(Flags::EXACT),
    ..define_op("sin", "y = sin x", TileOp::Sin, REALS, Deriv::Pointwise(|s, _| Some(operand_x(s).cos())))
};

/// The cosine of an angle in radians.
pub const COS: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::EXPENSIVE).and(Flags::EXACT),
    ..define_op("cos", "y = cos x", TileOp::Cos, REALS, Deriv::Pointwise(|s, _| Some(-operand_x(s).sin())))
};

/// The tangent of an angle in radians.
pub const TAN: OpDef =
    define_op("tan", "y = tan x", TileOp::Tan, UNITS, Deriv::Pointwise(|s, _| Some(result_y(s) * result_y(s) + 1.0)));

/// The arc tangent, in radians.
pub const ATAN: OpDef = define_op(
    "atan",
    "y = arctan x",
    TileOp::Atan,
    REALS,
    Deriv::Pointwise(|s, _| Some((operand_x(s) * operand_x(s) + 1.0).recip())),
);

/// The hyperbolic tangent.
pub const TANH: OpDef = define_op(
    "tanh",
    "y = tanh x",
    TileOp::Tanh,
    REALS,
    Deriv::Pointwise(|s, _| Some(1.0 - result_y(s) * result_y(s))),
);

/// The logistic function σ.
pub const SIGMOID: OpDef = define_op(
    "sigmoid",
    "y = 1/(1 + e⁻ˣ)",
    TileOp::Sigmoid,
    REALS,
    Deriv::Pointwise(|s, _| Some(result_y(s) * (1.0 - result_y(s)))),
);

/// The error function.
pub const ERF: OpDef = define_op(
    "erf",
    "y = 2/√π ∫₀ˣ e^(−t²) dt",
    TileOp::Erf,
    REALS,
    Deriv::Pointwise(|s, _| Some((-(operand_x(s) * operand_x(s))).exp() * std::f64::consts::FRAC_2_SQRT_PI)),
);

/// `t` where y > 0, else an exact 0, even if `t` is infinite. It reads y, so that x need not be kept.
fn gate_by_result<'g>(s: &Site<'_, 'g>, t: Option<Var<'g>>) -> Vec<Option<Var<'g>>> {
    vec![t.map(|t| result_y(s).greater(0.0).select(t, t.full_like(0.0)))]
}

/// The rectified linear unit.
pub const RELU: OpDef = OpDef {
    flags: Flags::PURE,
    ..define_op(
        "relu",
        "y = max(x, 0); y'(0) = 0",
        TileOp::Relu,
        REALS,
        Deriv::Rules(|s, t| gate_by_result(s, t[0]), |s, ct, _| gate_by_result(s, ct[0])),
    )
};

/// The rectified linear unit with a slope for negative elements.
pub const LEAKY_RELU: OpDef = OpDef {
    attrs: LeakyReluAttrs::FIELDS,
    flags: Flags::PURE,
    lower: Lower::Tile(TileOp::LeakyRelu, |a| [LeakyReluAttrs::of(a).slope, 0.0]),
    cases: &[
        Case { args: "f[3,5]", attrs: "slope=0.1", domains: &[Real] },
        Case { args: "f[3,5]", attrs: "slope=-0.5", domains: &[Real] },
    ],
    ..define_op(
        "leaky_relu",
        "y = x for x > 0, slope·x elsewhere",
        TileOp::LeakyRelu,
        REALS,
        Deriv::Pointwise(|s, _| {
            let slope = LeakyReluAttrs::of(&s.attrs).slope;
            // y has the sign of x unless the slope is negative. Where it has, backward does not read x.
            let sign = if slope >= 0.0 { result_y(s) } else { operand_x(s) };
            Some(sign.greater(0.0).select(sign.full_like(1.0), sign.full_like(slope)))
        }),
    )
};

/// The exponential linear unit.
pub const ELU: OpDef = OpDef {
    attrs: EluAttrs::FIELDS,
    lower: Lower::Tile(TileOp::Elu, |a| [EluAttrs::of(a).alpha, 0.0]),
    cases: &[Case { args: "f[3,5]", attrs: "alpha=1.3", domains: &[Real] }],
    ..define_op(
        "elu",
        "y = x for x > 0, alpha·(eˣ − 1) elsewhere",
        TileOp::Elu,
        REALS,
        Deriv::Pointwise(|s, _| {
            let below = (operand_x(s).minimum(0.0)).exp() * EluAttrs::of(&s.attrs).alpha;
            Some(select_positive(s, operand_x(s).full_like(1.0), below))
        }),
    )
};

/// The Gaussian error linear unit, with the error function.
pub const GELU: OpDef = define_op(
    "gelu",
    "y = ½x(1 + erf(x/√2)); y' = Φ(x) + x·φ(x)",
    TileOp::Gelu,
    REALS,
    Deriv::Pointwise(|s, _| Some(operand_x(s).gelu_grad())),
);

/// The derivative of [`GELU`].
pub const GELU_GRAD: OpDef = define_op(
    "gelu_grad",
    "y = Φ(x) + x·φ(x), the derivative of gelu; y' = φ(x)(2 − x²)",
    TileOp::GeluGrad,
    REALS,
    Deriv::Pointwise(|s, _| {
        let xx = operand_x(s) * operand_x(s);
        Some((xx * -0.5).exp() * 0.398_942_280_401_432_7 * (2.0 - xx))
    }),
);

/// The tanh approximation of the Gaussian error linear unit.
pub const GELU_TANH: OpDef = define_op(
    "gelu_tanh",
    "y = ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³)",
    TileOp::GeluTanh,
    REALS,
    Deriv::Pointwise(|s, _| Some(operand_x(s).gelu_tanh_grad())),
);

/// The derivative of [`GELU_TANH`].
pub const GELU_TANH_GRAD: OpDef = define_op(
    "gelu_tanh_grad",
    "y = σ + xσ(1 − σ)v', the derivative of gelu_tanh: σ = 1/(1 + e⁻ᵛ), v = √(8/π)(x + 0.044715x³); y' = σ(1 − σ)(2v' \
    + xv'' + xv'²(1 − 2σ))",
    TileOp::GeluTanhGrad,
    REALS,
    Deriv::Pointwise(|s, _| {
        let x = operand_x(s);
        let c = 1.595_769_121_605_730_8;
        let xx = x * x;
        let sig = (x * (xx * (0.044715 * c) + c)).sigmoid();
        let v = xx * (0.134145 * c) + c;
        let bend = xx * (0.26829 * c);
        Some(sig * (1.0 - sig) * (v * 2.0 + bend + x * (v * v) * (1.0 - sig * 2.0)))
    }),
);

/// The sigmoid linear unit (swish).
pub const SILU: OpDef = define_op(
    "silu",
    "y = x·σ(x); y' = σ(1 + x(1 − σ))",
    TileOp::Silu,
    REALS,
    Deriv::Pointwise(|s, _| Some(operand_x(s).silu_grad())),
);

/// The derivative of [`SILU`].
pub const SILU_GRAD: OpDef = define_op(
    "silu_grad",
    "y = σ(1 + x(1 − σ)), the derivative of silu; y' = σ(1 − σ)(2 + x(1 − 2σ))",
    TileOp::SiluGrad,
    REALS,
    Deriv::Pointwise(|s, _| {
        let sig = operand_x(s).sigmoid();
        Some(sig * (1.0 - sig) * (operand_x(s) * (1.0 - sig * 2.0) + 2.0))
    }),
);

/// A smooth form of [`RELU`].
pub const SOFTPLUS: OpDef = define_op(
    "softplus",
    "y = ln(1 + eˣ); y' = σ(x) = 1 − e⁻ʸ",
    TileOp::Softplus,
    REALS,
    Deriv::Pointwise(|s, _| Some(-(-result_y(s)).expm1())),
);
