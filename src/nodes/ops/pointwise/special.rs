//! Inverse and hyperbolic functions, other bases, error functions, the gamma family, and tests for NaN and ∞, on `f32`
//! and `f64`.

use super::math::{self, POSITIVES, REALS, UNITS, operand_x, result_y};
use crate::ensure;
use crate::kernels::tile::TileOp;
use crate::kernels::vmath;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::pointwise::attrs::PolygammaAttrs;
use Domain::{Beyond, Distinct, Positive, Real, Unit};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E, LOG10_E};

/// 1/√((1 − x)(1 + x)), in factors that neither overflow nor cancel.
fn differentiate_asin<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    (1.0 - operand_x(s)).rsqrt() * (operand_x(s) + 1.0).rsqrt()
}

/// The arc sine.
pub const ASIN: OpDef = math::define_op(
    "asin",
    "y = arcsin x, NaN outside [−1, 1]; y' = 1/√(1 − x²)",
    TileOp::Asin,
    UNITS,
    Deriv::Pointwise(|s, _| Some(differentiate_asin(s))),
);

/// The arc cosine.
pub const ACOS: OpDef = math::define_op(
    "acos",
    "y = arccos x, NaN outside [−1, 1]; y' = −1/√(1 − x²)",
    TileOp::Acos,
    UNITS,
    Deriv::Pointwise(|s, _| Some(-differentiate_asin(s))),
);

/// The hyperbolic sine.
pub const SINH: OpDef =
    math::define_op("sinh", "y = ½(eˣ − e⁻ˣ)", TileOp::Sinh, REALS, Deriv::Pointwise(|s, _| Some(operand_x(s).cosh())));

/// The hyperbolic cosine.
pub const COSH: OpDef =
    math::define_op("cosh", "y = ½(eˣ + e⁻ˣ)", TileOp::Cosh, REALS, Deriv::Pointwise(|s, _| Some(operand_x(s).sinh())));

/// The inverse hyperbolic sine.
pub const ASINH: OpDef = math::define_op(
    "asinh",
    "y = ln(x + √(x² + 1)); y' = 1/√(x² + 1)",
    TileOp::Asinh,
    REALS,
    Deriv::Pointwise(|s, _| Some(operand_x(s).hypot(1.0).recip())),
);

/// The inverse hyperbolic cosine.
pub const ACOSH: OpDef = math::define_op(
    "acosh",
    "y = ln(x + √(x² − 1)), NaN below 1; y' = 1/√(x² − 1)",
    TileOp::Acosh,
    &[
        Case { args: "f[3,5]", attrs: "", domains: &[Beyond] },
        Case { args: "f[]", attrs: "", domains: &[Beyond] },
        Case { args: "f[1100]", attrs: "", domains: &[Beyond] },
    ],
    Deriv::Pointwise(|s, _| Some((operand_x(s) - 1.0).rsqrt() * (operand_x(s) + 1.0).rsqrt())),
);

/// The inverse hyperbolic tangent.
pub const ATANH: OpDef = math::define_op(
    "atanh",
    "y = ½ ln((1 + x)/(1 − x)), ±∞ at ±1, NaN beyond; y' = 1/(1 − x²)",
    TileOp::Atanh,
    UNITS,
    Deriv::Pointwise(|s, _| Some(((1.0 - operand_x(s)) * (operand_x(s) + 1.0)).recip())),
);

/// The exponential function of base 2.
pub const EXP2: OpDef = math::define_op(
    "exp2",
    "y = 2ˣ; y' = y·ln 2",
    TileOp::Exp2,
    REALS,
    Deriv::Pointwise(|s, _| Some(result_y(s) * LN_2)),
);

/// The logarithm of base 2.
pub const LOG2: OpDef = math::define_op(
    "log2",
    "y = log₂ x; y' = 1/(x·ln 2)",
    TileOp::Log2,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(operand_x(s).recip() * LOG2_E)),
);

/// The logarithm of base 10.
pub const LOG10: OpDef = math::define_op(
    "log10",
    "y = log₁₀ x; y' = 1/(x·ln 10)",
    TileOp::Log10,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(operand_x(s).recip() * LOG10_E)),
);

/// The complementary error function.
pub const ERFC: OpDef = math::define_op(
    "erfc",
    "y = 1 − erf x, accurate for large x; y' = −2/√π e^(−x²)",
    TileOp::Erfc,
    REALS,
    Deriv::Pointwise(|s, _| Some((-(operand_x(s) * operand_x(s))).exp() * -FRAC_2_SQRT_PI)),
);

/// The inverse of the error function.
pub const ERFINV: OpDef = math::define_op(
    "erfinv",
    "the y with erf y = x, ±∞ at ±1, NaN beyond; y' = ½√π e^(y²)",
    TileOp::Erfinv,
    UNITS,
    Deriv::Pointwise(|s, _| Some((result_y(s) * result_y(s)).exp() * (1.0 / FRAC_2_SQRT_PI))),
);

/// The inverse of the complementary error function.
pub const ERFCINV: OpDef = math::define_op(
    "erfcinv",
    "the y with 1 − erf y = x, ∞ at 0, −∞ at 2, NaN beyond; y' = −½√π e^(y²)",
    TileOp::Erfcinv,
    &[
        Case { args: "f[3,5]", attrs: "", domains: &[Domain::Chance] },
        Case { args: "f[1100]", attrs: "", domains: &[Domain::Chance] },
    ],
    Deriv::Pointwise(|s, _| Some((result_y(s) * result_y(s)).exp() * (-1.0 / FRAC_2_SQRT_PI))),
);

/// The logarithm of the magnitude of the gamma function.
pub const LGAMMA: OpDef = math::define_op(
    "lgamma",
    "y = ln |Γ(x)|, ∞ at 0, −1, −2 …; y' = ψ(x)",
    TileOp::Lgamma,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(operand_x(s).digamma())),
);

/// The derivative of [`LGAMMA`].
pub const DIGAMMA: OpDef = math::define_op(
    "digamma",
    "y = ψ(x) = Γ'(x)/Γ(x), ∓∞ at ±0, NaN at −1, −2 …; y' = ψ⁽¹⁾(x)",
    TileOp::Digamma,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(operand_x(s).polygamma(1))),
);

/// The derivatives of [`DIGAMMA`].
pub const POLYGAMMA: OpDef = OpDef {
    attrs: PolygammaAttrs::FIELDS,
    infer: |cx| {
        let order = PolygammaAttrs::of(&cx.attrs).order;
        ensure!(
            (1..=vmath::MAX_ORDER as i64).contains(&order),
            "order is {order}; it must be in 1..={}",
            vmath::MAX_ORDER
        );
        math::infer_float(cx)
    },
    lower: Lower::Tile(TileOp::Polygamma, |a| [PolygammaAttrs::of(a).order as f64, 0.0]),
    cases: &[
        Case { args: "f[3,5]", attrs: "order=1", domains: &[Positive] },
        Case { args: "f[7]", attrs: "order=2", domains: &[Beyond] },
        Case { args: "f[1100]", attrs: "order=1", domains: &[Beyond] },
    ],
    ..math::define_op(
        "polygamma",
        "y = ψ⁽ⁿ⁾(x) with n = order, the n-th derivative of digamma; y' = ψ⁽ⁿ⁺¹⁾(x)",
        TileOp::Polygamma,
        &[],
        Deriv::Pointwise(|s, _| Some(operand_x(s).polygamma(PolygammaAttrs::of(&s.attrs).order + 1))),
    )
};

/// The integer part.
pub const TRUNC: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STEP),
    ..math::define_op("trunc", "y = x rounded toward 0", TileOp::Trunc, REALS, Deriv::Zero)
};

/// The definition of a test of floats; each has a formula of its own.
const FLOAT_TEST: OpDef = OpDef {
    name: "test",
    doc: "test",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        cx.float(0)?;
        let dims = cx.dims(0);
        cx.result(DType::Bool, &dims)
    },
    deriv: Deriv::Zero,
    batch: Batch::Leading,
    lower: Lower::Expand,
    cost: cost_per_result,
    cases: &[
        Case { args: "f[3,5]", attrs: "", domains: &[Real] },
        Case { args: "f[]", attrs: "", domains: &[Unit] },
        Case { args: "f[1100]", attrs: "", domains: &[Distinct] },
    ],
    ..OpDef::BLANK
};

/// Whether an element is NaN.
pub const ISNAN: OpDef = OpDef {
    name: "isnan",
    doc: "y = (x ≠ x), which holds for NaN alone",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![operand_x(s).not_equal(operand_x(s))]),
    ..FLOAT_TEST
};

/// Whether an element is infinite.
pub const ISINF: OpDef = OpDef {
    name: "isinf",
    doc: "y = (|x| = ∞)",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![operand_x(s).abs().equal(f64::INFINITY)]),
    ..FLOAT_TEST
};

/// Whether an element is a number: neither infinite nor NaN.
pub const ISFINITE: OpDef = OpDef {
    name: "isfinite",
    doc: "y = (|x| < ∞), which is false for NaN",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![operand_x(s).abs().less(f64::INFINITY)]),
    ..FLOAT_TEST
};
