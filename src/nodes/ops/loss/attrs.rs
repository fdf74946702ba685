//! Attributes of losses.

use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;

choice! {
    /// How the losses of the elements are reduced.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Reduction {
        /// Not at all.
        None = "none",
        /// Their mean.
        #[default]
        Mean = "mean",
        /// Their sum.
        Sum = "sum",
    }
}

impl Reduction {
    /// These losses, reduced.
    #[track_caller]
    pub fn of<'g>(self, each: Var<'g>) -> Var<'g> {
        match self {
            Reduction::None => each,
            Reduction::Mean => each.mean(..),
            Reduction::Sum => each.sum(..),
        }
    }
}

attrs! {
    /// Attributes of a cross entropy and of its backward op.
    ///
    /// Invariant: those of `cross_entropy_gradient` begin with these, so [`CrossEntropyAttrs::of`] reads them from it
    /// too.
    pub struct CrossEntropyAttrs {
        /// The label of rows that have no loss.
        ignore_index: i64,
        /// ε: the target is (1 − ε)·onehot + ε/classes.
        label_smoothing: f64,
    }
}

attrs! {
    /// Attributes of `cross_entropy_gradient`.
    pub struct CrossEntropyGradientAttrs {
        /// As [`CrossEntropyAttrs::ignore_index`].
        ignore_index: i64,
        /// As [`CrossEntropyAttrs::label_smoothing`].
        label_smoothing: f64,
        /// The cotangent of the loss of every row.
        weight: f64,
    }
}

attrs! {
    /// Attributes of `squared_error_gradient`.
    pub struct SquaredErrorAttrs {
        /// Whether the error is the mean, not the sum.
        mean: bool,
        /// Half of the factor of a − b in the gradient.
        weight: f64,
    }
}

attrs! {
    /// Attributes of losses of two operands of one shape.
    pub struct ReductionAttrs {
        /// How the losses of the elements are reduced.
        reduction: Reduction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_begins_with_the_attributes_of_the_loss() {
        assert!(CrossEntropyGradientAttrs::FIELDS.starts_with(CrossEntropyAttrs::FIELDS));
    }
}
