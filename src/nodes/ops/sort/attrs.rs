//! Attributes of ops that give positions in an order.

use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `arg_sort`.
    pub struct ArgSortAttrs {
        /// Whether the largest element is first.
        descending: bool,
    }
}

attrs! {
    /// Attributes of `top_k`.
    pub struct TopKAttrs {
        /// How many elements.
        k: i64,
    }
}

attrs! {
    /// Attributes of `cum_arg_max`.
    pub struct CumArgMaxAttrs {
        /// The axis.
        axis: i64,
        /// Whether the smallest element is sought.
        smallest: bool,
    }
}
