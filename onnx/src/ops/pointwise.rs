//! Element by element: arithmetic, comparisons, activations, casts.

use super::{Entry, from_left, own, same};
use crate::import::{Cx, Out, computed_in, one};
use crate::tensor::dtype_of;
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    same("Abs", |c| one(if unsigned(c.dtype(0)?) { c.x(0)? } else { c.x(0)?.abs() })),
    same("Neg", |c| one(-c.x(0)?)),
    same("Exp", |c| one(c.x(0)?.exp())),
    same("Log", |c| one(c.x(0)?.log())),
    same("Sqrt", |c| one(c.x(0)?.sqrt())),
    same("Sin", |c| one(c.x(0)?.sin())),
    same("Cos", |c| one(c.x(0)?.cos())),
    same("Tan", |c| one(c.x(0)?.tan())),
    same("Asin", |c| one(c.x(0)?.asin())),
    same("Acos", |c| one(c.x(0)?.acos())),
    same("Atan", |c| one(c.x(0)?.atan())),
    same("Sinh", |c| one(c.x(0)?.sinh())),
    same("Cosh", |c| one(c.x(0)?.cosh())),
    same("Asinh", |c| one(c.x(0)?.asinh())),
    same("Acosh", |c| one(c.x(0)?.acosh())),
    same("Atanh", |c| one(c.x(0)?.atanh())),
    same("Tanh", |c| one(c.x(0)?.tanh())),
    same("Sigmoid", |c| one(c.x(0)?.sigmoid())),
    same("Erf", |c| one(c.x(0)?.erf())),
    same("Floor", |c| one(c.x(0)?.floor())),
    same("Ceil", |c| one(c.x(0)?.ceil())),
    same("Round", |c| one(c.x(0)?.round())),
    same("Reciprocal", |c| one(c.x(0)?.recip())),
    same("Sign", |c| one(c.x(0)?.sign())),
    same("Relu", |c| one(if c.x(0)?.dtype().is_float() { c.x(0)?.relu() } else { c.x(0)?.maximum(0.0) })),
    same("Softplus", |c| one(c.x(0)?.softplus())),
    same("Softsign", |c| one(c.x(0)?.softsign())),
    same("Mish", |c| one(c.x(0)?.mish())),
    same("HardSwish", |c| one(c.x(0)?.hardswish())),
    same("Elu", |c| one(c.x(0)?.elu(c.float("alpha", 1.0)))),
    same("Celu", |c| one(c.x(0)?.celu(c.float("alpha", 1.0)))),
    same("LeakyRelu", |c| one(c.x(0)?.leaky_relu(c.float("alpha", 0.01)))),
    same("ThresholdedRelu", |c| one(c.x(0)?.threshold(c.float("alpha", 1.0), 0.0))),
    same("Selu", selu),
    same("HardSigmoid", |c| one((c.x(0)? * c.float("alpha", 0.2) + c.float("beta", 0.5)).clamp(0.0, 1.0))),
    same("Gelu", |c| one(if c.text("approximate", "none") == "tanh" { c.x(0)?.gelu_tanh() } else { c.x(0)?.gelu() })),
    same("Swish", |c| one(swish(c.x(0)?, c.float("alpha", 1.0)))),
    same("SwiGLU", |c| one(swish(c.x(0)?, c.float("alpha", 1.0)) * c.x(1)?)),
    same("Shrink", shrink),
    same("PRelu", |c| {
        let x = c.x(0)?;
        let low = c.x(1)? * x;
        one(x.greater(0.0).select(x, low))
    }),
    same("Clip", clip),
    same("Add", |c| pair(c, |a, b| a + b)),
    same("Sub", |c| pair(c, |a, b| a - b)),
    same("Mul", |c| pair(c, |a, b| a * b)),
    same("Div", |c| pair(c, |a, b| a / b)),
    same("Pow", pow),
    same("Mod", |c| {
        let fmod = c.flag("fmod", false);
        pair(c, |a, b| if fmod { a.fmod(b) } else { a.remainder(b) })
    }),
    same("Max", |c| all(c, |a, b| a.maximum(b))),
    same("Min", |c| all(c, |a, b| a.minimum(b))),
    same("Sum", |c| all(c, |a, b| a + b)),
    same("Mean", |c| Ok(vec![all(c, |a, b| a + b)?[0] / c.args.len() as f64])),
    own("And", |c| pair(c, |a, b| a.logical_and(b))),
    own("Or", |c| pair(c, |a, b| a.logical_or(b))),
    own("Xor", |c| pair(c, |a, b| a.not_equal(b))),
    own("Not", |c| one(c.x(0)?.logical_not())),
    own("Equal", |c| pair(c, |a, b| a.equal(b))),
    own("Less", |c| pair(c, |a, b| a.less(b))),
    own("LessOrEqual", |c| pair(c, |a, b| a.less_equal(b))),
    own("Greater", |c| pair(c, |a, b| a.greater(b))),
    own("GreaterOrEqual", |c| pair(c, |a, b| a.greater_equal(b))),
    own("IsNaN", |c| one(c.x(0)?.isnan())),
    own("IsInf", |c| {
        let x = c.x(0)?;
        one(match (c.flag("detect_negative", true), c.flag("detect_positive", true)) {
            (true, true) => x.isinf(),
            (true, false) => x.equal(f64::NEG_INFINITY),
            (false, true) => x.equal(f64::INFINITY),
            (false, false) => x.not_equal(x).logical_and(x.equal(x)),
        })
    }),
    same("BitShift", |c| {
        let left = c.text("direction", "") == "LEFT";
        pair(c, |a, b| if left { a.bitwise_left_shift(b) } else { a.bitwise_right_shift(b) })
    }),
    same("BitwiseAnd", |c| pair(c, |a, b| a.bitwise_and(b))),
    same("BitwiseOr", |c| pair(c, |a, b| a.bitwise_or(b))),
    same("BitwiseXor", |c| pair(c, |a, b| a.bitwise_xor(b))),
    same("BitwiseNot", |c| one(c.x(0)?.bitwise_not())),
    own("Cast", |c| match dtype_of(c.int("to", 0) as i32) {
        Ok(to) => one(cast(c, to)?),
        Err(why) => c.refuse(why),
    }),
    own("CastLike", |c| one(cast(c, c.dtype(1)?)?)),
];

fn swish(x: Var<'_>, alpha: f64) -> Var<'_> {
    if alpha == 1.0 { x.silu() } else { x * (x * alpha).sigmoid() }
}

fn selu<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (alpha, gamma) = (c.float("alpha", 1.673_263_2), c.float("gamma", 1.050_701));
    one(c.x(0)?.elu(alpha) * gamma)
}

fn shrink<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, bias, lambda) = (c.x(0)?, c.float("bias", 0.0), c.float("lambd", 0.5));
    let high = x.greater(lambda).select(x - bias, x.full_like(0.0));
    one(x.less(-lambda).select(x + bias, high))
}

/// Two operands. Before version 7 the second one stands at an axis of the first.
fn pair<'g>(c: &Cx<'_, 'g>, f: impl Fn(Var<'g>, Var<'g>) -> Var<'g>) -> Out<'g> {
    let (a, b) = (c.x(0)?, c.x(1)?);
    let legacy = c.opset < 7 && c.flag("broadcast", false);
    let at = c.int("axis", a.rank() as i64 - b.rank() as i64);
    one(f(a, if legacy { from_left(b, at.max(0) as usize, a.rank()) } else { b }))
}

fn all<'g>(c: &Cx<'_, 'g>, f: impl Fn(Var<'g>, Var<'g>) -> Var<'g>) -> Out<'g> {
    match c.xs()?.into_iter().reduce(f) {
        Some(y) => one(y),
        None => c.wrong("it has no operands"),
    }
}

/// Both bounds may be missing, and before version 11 they are attributes.
fn clip<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let mut x = c.x(0)?;
    if c.opset < 11 {
        let (lo, hi) = (c.float("min", f64::NEG_INFINITY), c.float("max", f64::INFINITY));
        return one(x.clamp(lo, hi));
    }
    let bound = |i: usize| c.has(i) && c.val(i).is_ok_and(|v| v.is_known());
    if x.dtype().is_float() && bound(1) && bound(2) {
        let (lo, hi) = (c.number(1)?, c.number(2)?);
        return one(x.clamp(lo.min(hi), hi));
    }
    if let Some(lo) = c.opt(1)? {
        x = x.maximum(lo.reshape([]));
    }
    if let Some(hi) = c.opt(2)? {
        x = x.minimum(hi.reshape([]));
    }
    one(x)
}

/// The result has the dtype of the base.
fn pow<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (a, b) = (c.x(0)?, c.x(1)?);
    let base = a.dtype();
    match (base.is_float(), b.dtype().is_float()) {
        (false, true) => one(a.cast(DType::F64).pow(b.cast(DType::F64)).cast(base)),
        _ if c.opset < 7 => pair(c, |a, b| a.pow(b)),
        _ => one(a.pow(b.cast(base))),
    }
}

/// A cast. Integers that the new type does not hold lose their high bits; floats that it does not hold are saturated.
pub fn cast<'g>(c: &Cx<'_, 'g>, to: DType) -> Result<Var<'g>, crate::Error> {
    let (from, x) = (c.dtype(0)?, c.stored(0)?);
    let integer = |d: DType| !d.is_real_float() && !d.is_complex() && d != DType::Bool;
    let fits = from.size() < to.size() && (unsigned(from) || !unsigned(to)) || from == to;
    if !integer(from) || !integer(to) || fits {
        return Ok(x.cast(to));
    }
    Ok(narrowed(x.cast(computed_in(from)), to))
}

/// Integers without the high bits that `to` does not hold; floats in `to`. `u64` has no wrapping: what it does not hold
/// is saturated.
pub fn narrowed<'g>(x: Var<'g>, to: DType) -> Var<'g> {
    if to.is_real_float() || to.size() == 8 {
        return x.cast(to);
    }
    let (wide, bits) = (x.cast(DType::I64), to.size() as i32 * 8);
    let low = wide.bitwise_and(f64::from(2f32.powi(bits)) - 1.0);
    let half = f64::from(2f32.powi(bits - 1));
    if unsigned(to) { low.cast(to) } else { (low.bitwise_xor(half) - half).cast(to) }
}

/// Whether a dtype has no negative numbers.
fn unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool)
}
