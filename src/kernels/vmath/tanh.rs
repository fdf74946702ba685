//! The hyperbolic tangent.

use super::exp::exp_middle;
use super::real_trait::Real;

/// tanh x: a polynomial for |x| < 0.625, else 1 − 2 / (e²ˣ + 1).
#[inline(always)]
pub fn tanh<T: Real>(x: T) -> T {
    let z = x * x;
    let small = (x * z).mul_add(T::tanh_tail(z), x);
    let a = x.abs();
    let cut = if a > T::TANH_HIGH { T::TANH_HIGH } else { a };
    let large = T::ONE - T::TWO / (exp_middle(cut + cut) + T::ONE);
    let y = if a < T::TANH_SMALL { small } else { large };
    y.with_sign(x)
}
