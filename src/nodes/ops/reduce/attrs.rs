//! Attributes of reductions and running totals.

use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::dtype::DType;

attrs! {
    /// Attributes of reductions over a set of axes.
    pub struct ReduceAttrs {
        /// The axes, in order.
        axes: Vec<i64>,
        /// Whether they stay, with size 1.
        keep: bool,
    }
}

attrs! {
    /// Attributes of `var`.
    pub struct VarAttrs {
        /// The axes, in order.
        axes: Vec<i64>,
        /// Whether they stay, with size 1.
        keep: bool,
        /// The divisor is the number of elements minus this.
        correction: i64,
    }
}

attrs! {
    /// Attributes of `sum_squares`.
    pub struct SumSquaresAttrs {
        /// Whether the sum is divided by the number of elements.
        mean: bool,
    }
}

attrs! {
    /// Attributes of `arg_max` and `arg_min`.
    pub struct ArgExtremeAttrs {
        /// The axis, which is removed.
        axis: i64,
        /// The type of the positions.
        dtype: DType,
    }
}

attrs! {
    /// Attributes of `cumsum` and `cumprod`.
    pub struct RunningAttrs {
        /// The axis.
        axis: i64,
        /// Whether the element itself is left out.
        exclusive: bool,
        /// Whether the total runs from the end.
        reverse: bool,
    }
}

impl VarAttrs {
    /// The axes alone.
    pub fn reduce_attrs(self) -> ReduceAttrs {
        ReduceAttrs { axes: self.axes, keep: self.keep }
    }
}
