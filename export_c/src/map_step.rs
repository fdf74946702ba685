//! One step of a map as an expression of C.
//!
//! Invariant: an expression rounds as the step of the tile interpreter does.

use crate::c_text::{c_type, number};
use arenagrad::graph::DType;
use arenagrad_kernels::tile::{TileOp, TileStep};

/// The value of `s` for operands that are variables of C.
pub fn expression(s: &TileStep, [a, b, c]: [&str; 3]) -> Result<String, String> {
    use TileOp::*;
    let t = c_type(s.elem)?;
    let float = matches!(s.elem, DType::F32 | DType::F64);
    Ok(match s.op {
        Copy => a.into(),
        Fill => number(s.elem, s.imm[0], s.imm[1])?,
        Cast => cast(s.elem, s.out, a)?,
        Select => format!("{a} ? {b} : {c}"),
        Eq => format!("{a} == {b}"),
        Ne => format!("{a} != {b}"),
        Lt => format!("{a} < {b}"),
        Le => format!("{a} <= {b}"),
        Gt => format!("{a} > {b}"),
        Ge => format!("{a} >= {b}"),
        Not => format!("!{a}"),
        And => format!("{a} && {b}"),
        Or => format!("{a} || {b}"),
        _ if float => float_step(s, t.tag, [a, b])?,
        _ => integer_step(s, t.name, [a, b])?,
    })
}

/// A step on floats of type `f`.
fn float_step(s: &TileStep, f: &str, [a, b]: [&str; 2]) -> Result<String, String> {
    use TileOp::*;
    let suffix = if f == "f32" { "f" } else { "" };
    let imm = |i: usize| number(s.elem, s.imm[i], -0.0);
    let one = number(s.elem, 1.0, -0.0)?;
    let named = |name: &str| format!("ag_{name}_{f}({a})");
    Ok(match s.op {
        Neg => format!("-{a}"),
        Abs => format!("fabs{suffix}({a})"),
        Sign => named("sign"),
        Exp => named("exp"),
        Expm1 => named("expm1"),
        Log => named("log"),
        Log1p => named("log1p"),
        Sigmoid => named("sigmoid"),
        Silu => named("silu"),
        SiluGrad => named("silu_grad"),
        Softplus => named("softplus"),
        Sqrt => format!("sqrt{suffix}({a})"),
        Rsqrt => format!("{one} / sqrt{suffix}({a})"),
        Recip => format!("{one} / {a}"),
        Sin => named("sin"),
        Cos => named("cos"),
        Tan => named("tan"),
        Atan => named("atan"),
        Tanh => named("tanh"),
        Erf => named("erf"),
        Gelu => named("gelu"),
        GeluGrad => named("gelu_grad"),
        GeluTanh => named("gelu_tanh"),
        GeluTanhGrad => named("gelu_tanh_grad"),
        Floor => format!("floor{suffix}({a})"),
        Ceil => format!("ceil{suffix}({a})"),
        Round => format!("rint{suffix}({a})"),
        Trunc => format!("copysign{suffix}(floor{suffix}(fabs{suffix}({a})), {a})"),
        Relu => format!("{a} <= 0 ? 0 : {a}"),
        LeakyRelu => format!("{a} > 0 ? {a} : {} * {a}", imm(0)?),
        Elu => format!("{a} > 0 ? {a} : {} * ag_expm1_{f}({a})", imm(0)?),
        Add => format!("{a} + {b}"),
        Sub => format!("{a} - {b}"),
        Mul => format!("{a} * {b}"),
        Div => format!("{a} / {b}"),
        Max => format!("ag_larger_{f}({a}, {b})"),
        Min => format!("ag_smaller_{f}({a}, {b})"),
        Pow => format!("ag_pow_{f}({a}, {b})"),
        Copysign => format!("copysign{suffix}({a}, {b})"),
        Gate => format!("{a} > 0 ? {b} : 0"),
        TanhGrad => format!("{b} * ({one} - {a} * {a})"),
        SigmoidGrad => format!("{b} * ({a} * ({one} - {a}))"),
        Clamp => {
            let (low, high) = (imm(0)?, imm(1)?);
            format!("({a} < {low} ? {low} : {a}) > {high} ? {high} : ({a} < {low} ? {low} : {a})")
        }
        op => return Err(format!("C has no {op:?} of {f}; write it in other ops, or compute it outside of the step")),
    })
}

/// A step on integers whose type in C is `t`. They wrap.
fn integer_step(s: &TileStep, t: &str, [a, b]: [&str; 2]) -> Result<String, String> {
    use TileOp::*;
    let wide = if s.elem.size() == 8 { "uint64_t" } else { "uint32_t" };
    let wrapped = |op: &str| format!("({t})(({wide}){a} {op} ({wide}){b})");
    Ok(match s.op {
        Neg => format!("({t})(({wide})0 - ({wide}){a})"),
        Abs if t.starts_with('u') => a.into(),
        Abs => format!("{a} < 0 ? ({t})(({wide})0 - ({wide}){a}) : {a}"),
        Sign => format!("({t})(({a} > 0) - ({a} != 0 && !({a} > 0)))"),
        Add => wrapped("+"),
        Sub => wrapped("-"),
        Mul => wrapped("*"),
        Max => format!("{a} > {b} ? {a} : {b}"),
        Min => format!("{a} < {b} ? {a} : {b}"),
        BitNot => format!("({t})~{a}"),
        BitAnd => format!("({t})({a} & {b})"),
        BitOr => format!("({t})({a} | {b})"),
        BitXor => format!("({t})({a} ^ {b})"),
        Clamp => {
            let (low, high) = (number(s.elem, s.imm[0], 0.0)?, number(s.elem, s.imm[1], 0.0)?);
            if t.starts_with('u') && low.trim_end_matches('u') == "0" {
                return Ok(format!("{a} > {high} ? {high} : {a}"));
            }
            format!("({a} < {low} ? {low} : {a}) > {high} ? {high} : ({a} < {low} ? {low} : {a})")
        }
        op => return Err(format!("C has no {op:?} of integers; compute it outside of the step, or in f32")),
    })
}

/// The least and the largest number of an integer type, as `f64` bounds of C for conversions of floats: a number below
/// the first or not below the second is clamped.
fn bounds(to: DType) -> Option<[&'static str; 4]> {
    Some(match to {
        DType::I8 => ["-128.0", "128.0", "INT8_MIN", "INT8_MAX"],
        DType::U8 => ["0.0", "256.0", "0", "UINT8_MAX"],
        DType::I16 => ["-32768.0", "32768.0", "INT16_MIN", "INT16_MAX"],
        DType::U16 => ["0.0", "65536.0", "0", "UINT16_MAX"],
        DType::I32 => ["-2147483648.0", "2147483648.0", "INT32_MIN", "INT32_MAX"],
        DType::U32 => ["0.0", "4294967296.0", "0", "UINT32_MAX"],
        DType::I64 => ["-9223372036854775808.0", "9223372036854775808.0", "INT64_MIN", "INT64_MAX"],
        _ => return None,
    })
}

/// A conversion: floats truncate and saturate, integers saturate, NaN becomes 0.
fn cast(from: DType, to: DType, a: &str) -> Result<String, String> {
    let name = c_type(to)?.name;
    let float = |d: DType| matches!(d, DType::F32 | DType::F64);
    if from == DType::U64 || to == DType::U64 {
        return Err("C has no conversions of u64; use i64".into());
    }
    Ok(match (from, to) {
        (from, to) if from == to => a.into(),
        (_, DType::Bool) => format!("{a} != 0"),
        (DType::Bool, _) => format!("({name})({a} != 0)"),
        (_, to) if float(to) => format!("({name}){a}"),
        (from, to) => {
            let Some([low, high, least, most]) = bounds(to) else { return Err(format!("C has no cast to {to}")) };
            match float(from) {
                true => format!(
                    "{a} != {a} ? 0 : (double){a} < {low} ? {least} : (double){a} >= {high} ? {most} : ({name}){a}"
                ),
                // Every integer type fits 64 bits.
                false => format!("(int64_t){a} < {least} ? {least} : (int64_t){a} > {most} ? {most} : ({name}){a}"),
            }
        }
    })
}
