//! Attributes of ops with integer indices.

use super::scatter::Scatter;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::typed::attrs;

attrs! {
    /// Of `gather` and `take_along_axis`.
    pub struct GatherAttrs {
        /// The axis that the indices count along.
        axis: i64,
    }
}

attrs! {
    /// Of `scatter_add` and `scatter_along_axis`.
    pub struct ScatterAddAttrs {
        /// The axis that the indices count along.
        axis: i64,
        /// Its length in the result.
        size: i64,
    }
}

attrs! {
    /// Of `scatter`.
    pub struct ScatterAttrs {
        /// The axis that the indices count along.
        axis: i64,
        /// How updates join the elements.
        mode: Scatter,
        /// Whether each update has an index of its own; else each slice has one.
        own: bool,
    }
}

attrs! {
    /// Of `ravel_index`.
    pub struct RavelIndexAttrs {
        /// The lengths of the axes that the coordinates count along.
        sizes: Vec<i64>,
    }
}

attrs! {
    /// Of `one_hot`.
    pub struct OneHotAttrs {
        /// The length of the new axis.
        depth: i64,
        /// The type of the result.
        dtype: DType,
    }
}

attrs! {
    /// Of `histogram`.
    pub struct HistogramAttrs {
        /// The number of parts.
        bins: i64,
    }
}
