//! Powers. `f32` computes in `f64` (|y·log x| < 150, so the error is slightly above ½ ulp); `f64` calls std's `powf`
//! for each element.

use super::exp::exp;
use super::log::log;
use super::real_trait::Real;

/// xʸ with C's special cases.
#[inline(always)]
pub fn pow<T: Real>(x: T, y: T) -> T {
    T::pow(x, y)
}

#[inline(always)]
pub(super) fn raise_f32(x: f32, y: f32) -> f32 {
    let (x, y) = (x as f64, y as f64);
    let a = x.abs();
    let p = exp(y * log(a));
    let whole = y.trunc() == y;
    let half = 0.5 * y;
    let odd = whole && half.trunc() != half;
    let p = if odd { p.copysign(x) } else { p };
    // A finite negative base with a fractional exponent gives NaN; ±∞ counts as an even integer.
    let p = if x < 0.0 && a < f64::INFINITY && !whole { f64::NAN } else { p };
    let p = if a == 1.0 && y.abs() == f64::INFINITY { 1.0 } else { p };
    let p = if x == 1.0 || y == 0.0 { 1.0 } else { p };
    p as f32
}
