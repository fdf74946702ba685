//! Inverse and hyperbolic functions, other bases, error functions, the gamma family, and tests for NaN and ∞, on `f32`
//! and `f64`.

use super::math::{POSITIVES, REALS, UNITS, base, real, x, y};
use crate::ensure;
use crate::kernels::tile::TileOp;
use crate::kernels::vmath;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef, Site};
use crate::nodes::ops::each;
use crate::nodes::ops::pointwise::attrs::PolygammaAttrs;
use Domain::{Beyond, Distinct, Positive, Real, Unit};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E, LOG10_E};

/// 1/√((1 − x)(1 + x)), in factors that neither overflow nor cancel.
fn arc_partial<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    (1.0 - x(s)).rsqrt() * (x(s) + 1.0).rsqrt()
}

/// The arc sine.
pub const ASIN: OpDef = base(
    "asin",
    "y = arcsin x, NaN outside [−1, 1]; y' = 1/√(1 − x²)",
    TileOp::Asin,
    UNITS,
    Deriv::Pointwise(|s, _| Some(arc_partial(s))),
);

/// The arc cosine.
pub const ACOS: OpDef = base(
    "acos",
    "y = arccos x, NaN outside [−1, 1]; y' = −1/√(1 − x²)",
    TileOp::Acos,
    UNITS,
    Deriv::Pointwise(|s, _| Some(-arc_partial(s))),
);

/// The hyperbolic sine.
pub const SINH: OpDef =
    base("sinh", "y = ½(eˣ − e⁻ˣ)", TileOp::Sinh, REALS, Deriv::Pointwise(|s, _| Some(x(s).cosh())));

/// The hyperbolic cosine.
pub const COSH: OpDef =
    base("cosh", "y = ½(eˣ + e⁻ˣ)", TileOp::Cosh, REALS, Deriv::Pointwise(|s, _| Some(x(s).sinh())));

/// The inverse hyperbolic sine.
pub const ASINH: OpDef = base(
    "asinh",
    "y = ln(x + √(x² + 1)); y' = 1/√(x² + 1)",
    TileOp::Asinh,
    REALS,
    Deriv::Pointwise(|s, _| Some(x(s).hypot(1.0).recip())),
);

/// The inverse hyperbolic cosine.
pub const ACOSH: OpDef = base(
    "acosh",
    "y = ln(x + √(x² − 1)), NaN below 1; y' = 1/√(x² − 1)",
    TileOp::Acosh,
    &[
        Case { args: "f[3,5]", attrs: "", domains: &[Beyond] },
        Case { args: "f[]", attrs: "", domains: &[Beyond] },
        Case { args: "f[1100]", attrs: "", domains: &[Beyond] },
    ],
    Deriv::Pointwise(|s, _| Some((x(s) - 1.0).rsqrt() * (x(s) + 1.0).rsqrt())),
);

/// The inverse hyperbolic tangent.
pub const ATANH: OpDef = base(
    "atanh",
    "y = ½ ln((1 + x)/(1 − x)), ±∞ at ±1, NaN beyond; y' = 1/(1 − x²)",
    TileOp::Atanh,
    UNITS,
    Deriv::Pointwise(|s, _| Some(((1.0 - x(s)) * (x(s) + 1.0)).recip())),
);

/// The exponential function of base 2.
pub const EXP2: OpDef =
    base("exp2", "y = 2ˣ; y' = y·ln 2", TileOp::Exp2, REALS, Deriv::Pointwise(|s, _| Some(y(s) * LN_2)));

/// The logarithm of base 2.
pub const LOG2: OpDef = base(
    "log2",
    "y = log₂ x; y' = 1/(x·ln 2)",
    TileOp::Log2,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(x(s).recip() * LOG2_E)),
);

/// The logarithm of base 10.
pub const LOG10: OpDef = base(
    "log10",
    "y = log₁₀ x; y' = 1/(x·ln 10)",
    TileOp::Log10,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(x(s).recip() * LOG10_E)),
);

/// The complementary error function.
pub const ERFC: OpDef = base(
    "erfc",
    "y = 1 − erf x, accurate for large x; y' = −2/√π e^(−x²)",
    TileOp::Erfc,
    REALS,
    Deriv::Pointwise(|s, _| Some((-(x(s) * x(s))).exp() * -FRAC_2_SQRT_PI)),
);

/// The inverse of the error function.
pub const ERFINV: OpDef = base(
    "erfinv",
    "the y with erf y = x, ±∞ at ±1, NaN beyond; y' = ½√π e^(y²)",
    TileOp::Erfinv,
    UNITS,
    Deriv::Pointwise(|s, _| Some((y(s) * y(s)).exp() * (1.0 / FRAC_2_SQRT_PI))),
);

/// The inverse of the complementary error function.
pub const ERFCINV: OpDef = base(
    "erfcinv",
    "the y with 1 − erf y = x, ∞ at 0, −∞ at 2, NaN beyond; y' = −½√π e^(y²)",
    TileOp::Erfcinv,
    &[
        Case { args: "f[3,5]", attrs: "", domains: &[Domain::Chance] },
        Case { args: "f[1100]", attrs: "", domains: &[Domain::Chance] },
    ],
    Deriv::Pointwise(|s, _| Some((y(s) * y(s)).exp() * (-1.0 / FRAC_2_SQRT_PI))),
);

/// The logarithm of the magnitude of the gamma function.
pub const LGAMMA: OpDef = base(
    "lgamma",
    "y = ln |Γ(x)|, ∞ at 0, −1, −2 …; y' = ψ(x)",
    TileOp::Lgamma,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(x(s).digamma())),
);

/// The derivative of [`LGAMMA`].
pub const DIGAMMA: OpDef = base(
    "digamma",
    "y = ψ(x) = Γ'(x)/Γ(x), ∓∞ at ±0, NaN at −1, −2 …; y' = ψ⁽¹⁾(x)",
    TileOp::Digamma,
    POSITIVES,
    Deriv::Pointwise(|s, _| Some(x(s).polygamma(1))),
);

/// The derivatives of [`DIGAMMA`].
pub const POLYGAMMA: OpDef = OpDef {
    attrs: PolygammaAttrs::FIELDS,
    infer: |cx| {
        let order = PolygammaAttrs::of(&cx.attrs).order;
        ensure!((1..=vmath::MAX_ORDER as i64).contains(&order), "order is {order}; it must be in 1..={}", vmath::MAX_ORDER);
        real(cx)
    },
    lower: Lower::Tile(TileOp::Polygamma, |a| [PolygammaAttrs::of(a).order as f64, 0.0]),
    cases: &[
        Case { args: "f[3,5]", attrs: "order=1", domains: &[Positive] },
        Case { args: "f[7]", attrs: "order=2", domains: &[Beyond] },
        Case { args: "f[1100]", attrs: "order=1", domains: &[Beyond] },
    ],
    ..base(
        "polygamma",
        "y = ψ⁽ⁿ⁾(x) with n = order, the n-th derivative of digamma; y' = ψ⁽ⁿ⁺¹⁾(x)",
        TileOp::Polygamma,
        &[],
        Deriv::Pointwise(|s, _| Some(x(s).polygamma(PolygammaAttrs::of(&s.attrs).order + 1))),
    )
};

/// The integer part.
pub const TRUNC: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STEP),
    ..base("trunc", "y = x rounded toward 0", TileOp::Trunc, REALS, Deriv::Zero)
};

/// The definition of a test of floats; each has a formula of its own.
const TEST: OpDef = OpDef {
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
    decompose: None,
    lower: Lower::Expand,
    cost: each,
    cases: &[
        Case { args: "f[3,5]", attrs: "", domains: &[Real] },
        Case { args: "f[]", attrs: "", domains: &[Unit] },
        Case { args: "f[1100]", attrs: "", domains: &[Distinct] },
    ],
};

/// Whether an element is NaN.
pub const ISNAN: OpDef = OpDef {
    name: "isnan",
    doc: "y = (x ≠ x), which holds for NaN alone",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![x(s).not_equal(x(s))]),
    ..TEST
};

/// Whether an element is infinite.
pub const ISINF: OpDef = OpDef {
    name: "isinf",
    doc: "y = (|x| = ∞)",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![x(s).abs().equal(f64::INFINITY)]),
    ..TEST
};

/// Whether an element is a number: neither infinite nor NaN.
pub const ISFINITE: OpDef = OpDef {
    name: "isfinite",
    doc: "y = (|x| < ∞), which is false for NaN",
    deriv: Deriv::Zero,
    decompose: Some(|s| vec![x(s).abs().less(f64::INFINITY)]),
    ..TEST
};
