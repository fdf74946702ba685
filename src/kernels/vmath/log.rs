//! Logarithms. Those of the bases 2 and 10 compute in `f64`, and are exact for powers of two in the base 2.
//!
//! x = 2ᵏm with √½ ≤ m < √2; with f = m − 1 and s = f / (2 + f), log m = f − f²/2 + s(f²/2 + s²p(s²)).

use super::real_trait::Real;
use std::f64::consts::{LOG2_E, LOG10_2, LOG10_E};

/// log₂ e − [`LOG2_E`].
const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
/// log₁₀ e − [`LOG10_E`].
const LOG10_E_LOW: f64 = 1.098_319_650_216_765e-17;
/// log₁₀ 2 − [`LOG10_2`].
const LOG10_2_LOW: f64 = -2.803_728_127_785_170_4e-18;

/// k·ln 2 + log(1 + f).
#[inline(always)]
fn add_exponent<T: Real>(f: T, k: T) -> T {
    let s = f / (T::TWO + f);
    let z = s * s;
    let half = T::HALF * f * f;
    let low = s.mul_add(z.mul_add(T::log_tail(z), half), k * T::LN2_LO);
    k.mul_add(T::LN2_HI, f - (half - low))
}

/// The natural logarithm: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log<T: Real>(x: T) -> T {
    let (m, k, _) = T::split(x);
    let y = add_exponent(m - T::ONE, k);
    let y = if x == T::INFINITY { x } else { y };
    let y = if x == T::ZERO { -T::INFINITY } else { y };
    if x >= T::ZERO { y } else { T::NAN }
}

/// log x for a positive normal number, with the bits of [`log`] in fewer steps.
#[inline(always)]
pub fn ln_of_normal<T: Real>(x: T) -> T {
    let (m, k, _) = T::split_normal(x);
    add_exponent(m - T::ONE, k)
}

/// log(1 + x): −∞ at −1, NaN below.
#[inline(always)]
pub fn log1p<T: Real>(x: T) -> T {
    let u = T::ONE + x;
    // 1 + x − u, exactly.
    let b = u - T::ONE;
    let c = (T::ONE - (u - b)) + (x - b);
    let (m, k, down) = T::split(u);
    // For k = 0 this sum is x itself.
    let y = add_exponent((m - T::ONE) + c * down, k);
    let y = if x == T::ZERO || x == T::INFINITY { x } else { y };
    let y = if x == -T::ONE { -T::INFINITY } else { y };
    if x >= -T::ONE { y } else { T::NAN }
}

/// log of the mantissa of x, and the exponent; [`log`] has the special cases.
#[inline(always)]
fn ln_mantissa_and_exponent(x: f64) -> (f64, f64) {
    let (m, k, _) = f64::split(x);
    (log(m), k)
}

/// `y`, but what [`log`] gives at 0, at ∞, below 0 and for NaN.
#[inline(always)]
fn replace_at_limits(x: f64, y: f64) -> f64 {
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { -f64::INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// The logarithm of base 2: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (l, k) = ln_mantissa_and_exponent(x);
    replace_at_limits(x, l.mul_add(LOG2_E, l.mul_add(LOG2_E_LOW, k)))
}

/// The logarithm of base 10: −∞ at ±0, NaN below.
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    let (l, k) = ln_mantissa_and_exponent(x);
    let low = k.mul_add(LOG10_2_LOW, l * LOG10_E_LOW);
    replace_at_limits(x, k.mul_add(LOG10_2, l.mul_add(LOG10_E, low)))
}

/// Methods of [`Real`] that split a number for its logarithm.
macro_rules! log_methods {
    ($t:ident, $u:ident, $mant:literal, $bias:literal, $tiny:literal) => {
        #[inline(always)]
        fn split(x: $t) -> ($t, $t, $t) {
            let low = x < $t::MIN_POSITIVE;
            let (m, k, down) = Self::split_normal(if low { x * (1u64 << $tiny) as $t } else { x });
            let shift: $t = if low { $tiny as $t } else { 0.0 };
            (m, k - shift, down)
        }
        #[inline(always)]
        fn split_normal(x: $t) -> ($t, $t, $t) {
            const ROOT: $u = (std::f64::consts::FRAC_1_SQRT_2 as $t).to_bits();
            const ONE: $u = (1.0 as $t).to_bits();
            const MASK: $u = (1 << $mant) - 1;
            // A float with the integer in its low mantissa bits: converts without a conversion instruction.
            const INT: $t = (1u64 << $mant) as $t;
            let bits = x.to_bits().wrapping_add(ONE - ROOT);
            let e = bits >> $mant;
            let m = $t::from_bits((bits & MASK) + ROOT);
            let k = $t::from_bits(e | INT.to_bits()) - (INT + $bias as $t);
            let e = if e < 2 * $bias { e } else { 2 * $bias - 1 };
            (m, k, $t::from_bits((2 * $bias - e) << $mant))
        }
    };
}
pub(super) use log_methods;
