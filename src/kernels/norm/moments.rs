//! The mean of a row or channel and what it takes to subtract it exactly.
//!
//! Invariant: the mean far from 0 is rounded by much of small deviations, so the mean of the deviations is taken off
//! them, too. Results and gradients then have the digits of the deviations, not those of the elements.

use crate::float::Float;
use crate::reduce::pairwise;

/// Mean and rstd = 1/√(variance + ε) of some elements.
#[derive(Clone, Copy, Debug)]
pub struct Moments<T> {
    /// The mean, rounded.
    pub mean: T,
    /// The mean of x − mean: the rounding of `mean`.
    pub rest: T,
    /// 1/√(variance + ε).
    pub rstd: T,
}

impl<T: Float> Moments<T> {
    /// Those of a row, with the biased variance.
    pub fn of_row(x: &[T], eps: T) -> Moments<T> {
        let n = T::from_f64(x.len() as f64);
        let mean = pairwise::reduce_row(pairwise::Sum, x) / n;
        let [sum, squares] = pairwise::shifted_moments(x, mean);
        let rest = sum / n;
        // Equal elements may leave a difference below 0.
        let variance = (squares / n - rest * rest).greater(T::ZERO);
        Moments { mean, rest, rstd: T::ONE / (variance + eps).sqrt() }
    }

    /// Those of a row whose mean and rstd are known.
    pub fn known(mean: T, rstd: T, x: &[T]) -> Moments<T> {
        let sum = pairwise::reduce_row(pairwise::DeviationsFrom(mean), x);
        Moments { mean, rest: sum / T::from_f64(x.len() as f64), rstd }
    }

    /// The mean 0 of a norm that takes none off.
    pub fn around_zero(rstd: T) -> Moments<T> {
        Moments { mean: T::ZERO, rest: T::ZERO, rstd }
    }

    /// x − mean. For use inside `simd!` loops.
    #[inline(always)]
    pub fn centred(self, x: T) -> T {
        (x - self.mean) - self.rest
    }
}
