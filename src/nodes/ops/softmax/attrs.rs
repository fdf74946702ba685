//! Attributes of softmaxes.

use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of softmaxes and of their backward ops.
    pub struct SoftmaxAttrs {
        /// The axis, in 0..rank.
        axis: i64,
    }
}
