//! The constants of the templates: those of the engine's functions, and those of a type.

use arenagrad::tools::kernels::vmath::Real;

/// The constant called `name` of the type with tag `f`, as C; `None` if the type has none.
pub fn constant(name: &str, f: &str) -> Option<String> {
    match f {
        "f32" => float_constant::<f32>(name, literal_f32).or_else(|| bits_of_float(name, f, 23, 127, 24)),
        "f64" => float_constant::<f64>(name, literal_f64).or_else(|| bits_of_float(name, f, 52, 1023, 53)),
        "i32" => integer_constant(name, "INT32_MIN", "INT32_MAX", "(int32_t)((uint32_t)a", "(uint32_t)b)"),
        "i64" => integer_constant(name, "INT64_MIN", "INT64_MAX", "(int64_t)((uint64_t)a", "(uint64_t)b)"),
        _ => None,
    }
}

/// An `f32` as C.
pub fn literal_f32(x: f32) -> String {
    if x.is_finite() { format!("{x:?}f") } else { format!("ag_number_f32(0x{:x}u)", x.to_bits()) }
}

/// An `f64` as C.
pub fn literal_f64(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { format!("ag_number_f64(UINT64_C(0x{:x}))", x.to_bits()) }
}

/// A constant that [`Real`] has, as `literal` writes it.
fn float_constant<T: Real>(name: &str, literal: fn(T) -> String) -> Option<String> {
    use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};
    let x = match name {
        "ONE" | "START_prod" => T::ONE,
        "HALF" => T::HALF,
        "TWO" => T::TWO,
        "START_sum" | "START_squares" | "START_deviations" | "START_variance" | "START_exp" => T::ZERO,
        "START_min" | "INFINITY" => T::INFINITY,
        "START_max" => -T::INFINITY,
        "NAN" => T::NAN,
        "ROUND" => T::ROUND,
        "LOG2E" => T::LOG2E,
        "LN2_HI" => T::LN2_HI,
        "LN2_LO" => T::LN2_LO,
        "EXP_LOW" => T::EXP_RANGE.0,
        "EXP_HIGH" => T::EXP_RANGE.1,
        "LIFT" => T::LIFT.0,
        "LIFT_DOWN" => T::LIFT.1,
        "EXPM1_LOW" => T::EXPM1_LOW,
        "TANH_HIGH" => T::TANH_HIGH,
        "ERF_HIGH" => T::ERF_HIGH,
        "PHI_HIGH" => T::PHI_HIGH,
        "INV_SQRT_2PI" => T::INV_SQRT_2PI,
        "SQRT_2" => T::SQRT_2,
        "GELU_LINEAR" => T::GELU_LINEAR.0,
        "GELU_LINEAR_LOW" => T::GELU_LINEAR.1,
        "GELU_CUBIC" => T::GELU_CUBIC.0,
        "GELU_CUBIC_LOW" => T::GELU_CUBIC.1,
        "GELU_TANH_HIGH" => T::GELU_TANH_HIGH,
        "LOGISTIC_HIGH" => T::LOGISTIC_HIGH,
        "MILLS_B" => T::MILLS_B,
        "MILLS_C" => T::MILLS_C,
        "MILLS_0" => T::MILLS_0.0,
        "MILLS_0_LOW" => T::MILLS_0.1,
        "PI_2" => T::PI_2.0,
        "PI_2_LOW" => T::PI_2.1,
        "MIN_POSITIVE" => T::MIN_POSITIVE,
        "FRAC_2_PI" => return Some(literal_f64(FRAC_2_PI)),
        "FRAC_PI_2" => return Some(literal_f64(FRAC_PI_2)),
        "IS_NAN" => return Some("x != x".into()),
        "ADD" => return Some("a + b".into()),
        "MULTIPLY" => return Some("a * b".into()),
        "LANES" => return Some((64 / size_of::<T>()).to_string()),
        _ => return None,
    };
    Some(literal(x))
}

/// A constant that follows from the layout of a float: bits of mantissa, bias of the exponent, and by how much a
/// subnormal number is lifted.
fn bits_of_float(name: &str, f: &str, mantissa: u32, bias: u64, tiny: u64) -> Option<String> {
    let one = bias << mantissa;
    let root = if f == "f32" {
        u64::from((std::f64::consts::FRAC_1_SQRT_2 as f32).to_bits())
    } else {
        std::f64::consts::FRAC_1_SQRT_2.to_bits()
    };
    let word = |x: u64| if f == "f32" { format!("0x{x:x}u") } else { format!("UINT64_C(0x{x:x})") };
    let float = |x: u64| if f == "f32" { format!("{x}.0f") } else { format!("{x}.0") };
    Some(match name {
        "MANTISSA" => mantissa.to_string(),
        "TOP" => (if f == "f32" { 31 } else { 63 }).to_string(),
        "BIAS" => word(bias),
        "ONE_BITS" => word(one),
        "ROOT_BITS" => word(root),
        "MANTISSA_MASK" => word((1 << mantissa) - 1),
        // The float 2^mantissa, whose low bits are those of an integer.
        "INT_BITS" => word((bias + u64::from(mantissa)) << mantissa),
        "INT_BIAS" => float((1 << mantissa) + bias),
        "LOW_UP" => float(1 << tiny),
        "LOW_SHIFT" => float(tiny),
        _ => return None,
    })
}

fn integer_constant(name: &str, least: &str, most: &str, a: &str, b: &str) -> Option<String> {
    Some(match name {
        "START_sum" => "0".into(),
        "START_prod" => "1".into(),
        "START_max" => least.into(),
        "START_min" => most.into(),
        "IS_NAN" => "((void)x, 0)".into(),
        "ADD" => format!("{a} + {b}"),
        "MULTIPLY" => format!("{a} * {b}"),
        _ => return None,
    })
}
