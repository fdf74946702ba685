//! log(1 + eˣ).

use super::exp::exp_below;
use super::log::log1p;
use super::real_trait::Real;

/// log(1 + eˣ) = max(x, 0) + log1p(e^−|x|).
#[inline(always)]
pub fn softplus<T: Real>(x: T) -> T {
    let top = if x > T::ZERO { x } else { T::ZERO };
    top + log1p(exp_below(-x.abs()))
}
