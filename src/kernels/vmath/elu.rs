//! The exponential linear unit.

use super::exp::expm1;
use super::real_trait::Real;

/// x where x > 0, else `alpha` · expm1(x).
#[inline(always)]
pub fn elu<T: Real>(x: T, alpha: T) -> T {
    let low = alpha * expm1(x);
    if x > T::ZERO { x } else { low }
}
