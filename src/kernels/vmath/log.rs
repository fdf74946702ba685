//! Logarithms.
//!
//! x = 2ᵏm with √½ ≤ m < √2; with f = m − 1 and s = f / (2 + f), log m = f − f²/2 + s(f²/2 + s²p(s²)).

use super::real::Real;

/// k·ln 2 + log(1 + f).
#[inline(always)]
fn log_join<T: Real>(f: T, k: T) -> T {
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
    let y = log_join(m - T::ONE, k);
    let y = if x == T::INFINITY { x } else { y };
    let y = if x == T::ZERO { -T::INFINITY } else { y };
    if x >= T::ZERO { y } else { T::NAN }
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
    let y = log_join((m - T::ONE) + c * down, k);
    let y = if x == T::ZERO || x == T::INFINITY { x } else { y };
    let y = if x == -T::ONE { -T::INFINITY } else { y };
    if x >= -T::ONE { y } else { T::NAN }
}
