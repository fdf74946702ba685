//! The SGD epilogue: C is a param, and the product is its gradient.
//!
//! Invariant: operations and their order are those of the SGD kernel.

use crate::float::Float;

/// A step of plain SGD.
#[derive(Clone, Copy)]
pub struct SgdEpilogue<T> {
    /// The learning rate.
    pub lr: T,
    /// The weight decay.
    pub decay: T,
}

impl<T: Float> SgdEpilogue<T> {
    /// The param after a step by gradient `g`: p − lr·(g + decay·p), without the decay term if `decay` is 0.
    #[inline(always)]
    pub fn apply(self, p: T, g: T) -> T {
        let g = if self.decay == T::ZERO { g } else { g + p * self.decay };
        p - self.lr * g
    }
}
