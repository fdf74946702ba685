//! A step of plain SGD in the epilogue of a product.
//!
//! Invariant: the operations and their order are those of the SGD kernel.

use crate::kernels::float::Float;

/// A step of plain SGD.
#[derive(Clone, Copy)]
pub struct SgdEpilogue<T> {
    /// The learning rate.
    pub lr: T,
    /// The weight decay.
    pub decay: T,
}

impl<T: Float> SgdEpilogue<T> {
    /// p after a step by gradient `g`, in the order of the kernel of the step.
    #[inline(always)]
    pub fn apply(self, p: T, g: T) -> T {
        let g = if self.decay == T::ZERO { g } else { g + p * self.decay };
        p - self.lr * g
    }
}
