//! Attributes of grouped products.

use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `grouped_matmul`.
    pub struct GroupedMatmulAttrs {
        /// Whether the matrices are stored with their axes exchanged.
        tw: bool,
        /// Whether the third operand is the number of rows of each group, and rows are in the order of their groups.
        by_size: bool,
    }
}

attrs! {
    /// Attributes of `grouped_outer`.
    pub struct GroupedOuterAttrs {
        /// Number of groups.
        groups: i64,
        /// Whether the third operand is the number of rows of each group, and rows are in the order of their groups.
        by_size: bool,
    }
}
