//! Ops on each element of one float tensor: a table of functions and of the engine's documented errors.
//!
//! The bound of a result is the change of the function over the operand's bound, plus the error of one evaluation.

use super::array::Array;
use super::rounding::{Rounding, nearest_element, spread_of_ends};
use super::special_fns as special;
use crate::nodes::ops::pointwise::attrs::{ClampAttrs, EluAttrs, LeakyReluAttrs, PolygammaAttrs};
use crate::nodes::{Attrs, DType, Op};

/// A function with the errors of its evaluation.
struct UnaryFn<'f> {
    at: Box<dyn Fn(f64) -> f64 + 'f>,
    /// Error of an f32 and of an f64 result in units in its last place.
    ulps: [f64; 2],
    /// Error in units in the last place of 1, for functions with roots.
    of_one: f64,
}

impl<'f> UnaryFn<'f> {
    fn new(at: impl Fn(f64) -> f64 + 'f, ulps: f64) -> UnaryFn<'f> {
        UnaryFn { at: Box::new(at), ulps: [ulps; 2], of_one: 0.0 }
    }

    /// A function that the engine computes within 2 ulp.
    fn few(at: impl Fn(f64) -> f64 + 'f) -> UnaryFn<'f> {
        UnaryFn { ulps: FEW, ..UnaryFn::new(at, 2.0) }
    }

    /// A function that the engine computes in `f64` for both types.
    fn wide(at: impl Fn(f64) -> f64 + 'f) -> UnaryFn<'f> {
        UnaryFn { ulps: [1.0, 500.0], ..UnaryFn::new(at, 1.0) }
    }

    fn with_roots(self, of_one: f64) -> UnaryFn<'f> {
        UnaryFn { of_one, ..self }
    }
}

/// No rounding at all.
const EXACT: f64 = 0.0;
/// Correctly rounded.
const HALF: f64 = 0.5;
/// Within 2 ulp; of an f64 result a little more, for the oracle's own function.
const FEW: [f64; 2] = [2.0, 4.0];

/// The function of an op, if it is one of one float.
fn unary_fn<'f>(op: Op, attrs: &Attrs<'_>, dtype: DType) -> Option<UnaryFn<'f>> {
    Some(match op {
        Op::NEG => UnaryFn::new(|x| -x, EXACT),
        Op::ABS => UnaryFn::new(f64::abs, EXACT),
        Op::SIGN => UnaryFn::new(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }, EXACT),
        Op::FLOOR => UnaryFn::new(f64::floor, EXACT),
        Op::CEIL => UnaryFn::new(f64::ceil, EXACT),
        Op::ROUND => UnaryFn::new(f64::round_ties_even, EXACT),
        Op::TRUNC => UnaryFn::new(f64::trunc, EXACT),
        Op::RELU => UnaryFn::new(|x| if x <= 0.0 { 0.0 } else { x }, EXACT),
        Op::CLAMP => {
            let ClampAttrs { lo, hi } = ClampAttrs::of(attrs);
            let (lo, hi) = (nearest_element(dtype, lo), nearest_element(dtype, hi));
            UnaryFn::new(
                move |x| {
                    if x < lo {
                        lo
                    } else if x > hi {
                        hi
                    } else {
                        x
                    }
                },
                EXACT,
            )
        }
        Op::LEAKY_RELU => {
            let slope = nearest_element(dtype, LeakyReluAttrs::of(attrs).slope);
            UnaryFn::new(move |x| if x > 0.0 { x } else { slope * x }, HALF)
        }
        Op::ELU => {
            let alpha = nearest_element(dtype, EluAttrs::of(attrs).alpha);
            UnaryFn::few(move |x| if x > 0.0 { x } else { alpha * libm::expm1(x) })
        }
        Op::SQRT => UnaryFn::new(f64::sqrt, HALF),
        Op::RECIP => UnaryFn::new(|x| 1.0 / x, HALF),
        Op::RSQRT => UnaryFn::few(|x| 1.0 / x.sqrt()),
        _ => return transcendental_unary_fn(op, attrs),
    })
}

fn transcendental_unary_fn<'f>(op: Op, attrs: &Attrs<'_>) -> Option<UnaryFn<'f>> {
    let few = |at: fn(f64) -> f64| UnaryFn::few(at);
    Some(match op {
        Op::EXP => few(libm::exp),
        Op::EXPM1 => few(libm::expm1),
        Op::LOG => few(libm::log),
        Op::LOG1P => few(libm::log1p),
        Op::SIN => few(libm::sin),
        Op::COS => few(libm::cos),
        Op::TAN => few(libm::tan),
        Op::ATAN => few(libm::atan),
        Op::TANH => few(libm::tanh),
        Op::SIGMOID => few(special::oracle_special_sigmoid),
        Op::ERF => few(libm::erf),
        Op::GELU => few(special::oracle_special_gelu),
        Op::GELU_TANH => few(special::oracle_special_gelu_tanh),
        Op::SILU => few(special::oracle_special_silu),
        Op::SOFTPLUS => few(special::oracle_special_softplus),
        Op::GELU_GRAD => few(special::oracle_special_gelu_grad).with_roots(FEW[1]),
        Op::GELU_TANH_GRAD => few(special::oracle_special_gelu_tanh_grad).with_roots(FEW[1]),
        Op::SILU_GRAD => few(special::oracle_special_silu_grad).with_roots(FEW[1]),
        Op::ASIN => UnaryFn::wide(libm::asin),
        Op::ACOS => UnaryFn::wide(libm::acos),
        Op::SINH => UnaryFn::wide(libm::sinh),
        Op::COSH => UnaryFn::wide(libm::cosh),
        Op::ASINH => UnaryFn::wide(libm::asinh),
        Op::ACOSH => UnaryFn::wide(libm::acosh),
        Op::ATANH => UnaryFn::wide(libm::atanh),
        Op::EXP2 => UnaryFn::wide(libm::exp2),
        Op::LOG2 => UnaryFn::wide(libm::log2),
        Op::LOG10 => UnaryFn::wide(libm::log10),
        Op::ERFC => UnaryFn::wide(libm::erfc),
        Op::ERFINV => UnaryFn::wide(special::oracle_special_erfinv),
        Op::ERFCINV => UnaryFn::wide(special::oracle_special_erfcinv).with_roots(2.0),
        Op::LGAMMA => {
            UnaryFn::wide(|x| if x == f64::NEG_INFINITY { f64::INFINITY } else { libm::lgamma(x) }).with_roots(8.0)
        }
        Op::DIGAMMA => UnaryFn::wide(special::oracle_special_digamma).with_roots(8.0),
        Op::POLYGAMMA => {
            let order = PolygammaAttrs::of(attrs).order as i32;
            UnaryFn::wide(move |x| special::oracle_special_polygamma(order, x)).with_roots(8.0)
        }
        _ => return None,
    })
}

/// Whether the sign of a zero decides the result, or a pole is near: the bound does not tell then.
fn is_fragile_unary(op: Op, x: f64, b: f64) -> bool {
    match op {
        Op::RECIP | Op::RSQRT => b > 0.0 && x.abs() <= b,
        Op::DIGAMMA | Op::POLYGAMMA | Op::LGAMMA => x - b <= 0.0 && ((x - b).ceil() <= x + b || x < -1e4),
        // Within a period there is at most one pole, which the order of the ends shows.
        Op::TAN => b > 0.0 && (b > 1.0 || libm::tan(x - b) > libm::tan(x) || libm::tan(x) > libm::tan(x + b)),
        _ => false,
    }
}

/// Where an activation that falls and rises is smallest; NaN for other ops.
fn lowest_of_unary_fn(op: Op) -> f64 {
    match op {
        Op::GELU => -0.7517916,
        Op::GELU_TANH => -0.7524614,
        Op::SILU => -1.2784645,
        _ => f64::NAN,
    }
}

/// Whether a finite number has an infinite result because it is large, not because of a pole.
fn unary_overflows(op: Op, x: f64, y: f64) -> bool {
    let grows = matches!(op, Op::EXP | Op::EXPM1 | Op::EXP2 | Op::SINH | Op::COSH | Op::ELU | Op::LEAKY_RELU);
    grows && x.is_finite() && y.is_infinite()
}

/// The result of an op on each element of a float tensor, if it is one that this file has.
pub(super) fn map_unary_fn(op: Op, attrs: &Attrs<'_>, x: &Array) -> Option<Array> {
    let f = unary_fn(op, attrs, x.dtype)?;
    let r = Rounding::of(x.dtype);
    let ulps = f.ulps[usize::from(x.dtype == DType::F64)];
    let exact = ulps == EXACT;
    let one = |(x, b): (f64, f64)| {
        let y = (f.at)(x);
        if b == f64::INFINITY || is_fragile_unary(op, x, b) || unary_overflows(op, x, y) {
            return (y, f64::INFINITY);
        }
        let moved = match b > 0.0 {
            false => 0.0,
            true if matches!(op, Op::SIN | Op::COS) => b.min(2.0),
            // Their slopes are below 1, and they rise and fall between −0.2 and 1.2.
            true if matches!(op, Op::GELU_GRAD | Op::GELU_TANH_GRAD | Op::SILU_GRAD) => b.min(1.4),
            true if (lowest_of_unary_fn(op) - x).abs() <= b => {
                spread_of_ends(y, &[(f.at)(x - b), (f.at)(lowest_of_unary_fn(op)), (f.at)(x + b)])
            }
            true => spread_of_ends(y, &[(f.at)(x - b), (f.at)(x + b)]),
        };
        // The engine rounds its own number, which is as large as the bound allows.
        let own = if exact { 0.0 } else { r.ulps(y.abs() + moved, ulps) + 2.0 * r.unit * f.of_one };
        r.settled(y, moved + own)
    };
    Some(Array::reals(x.dtype, &x.dims, x.each_real().map(one)))
}
