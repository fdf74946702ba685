//! Attributes of ops with integer indices.

use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;

attrs! {
    /// Attributes of `gather` and `take_along_axis`.
    pub struct GatherAttrs {
        /// The axis that the indices count along.
        axis: i64,
    }
}

attrs! {
    /// Attributes of `scatter_add` and `scatter_along_axis`.
    pub struct ScatterAddAttrs {
        /// The axis that the indices count along.
        axis: i64,
        /// Its length in the result.
        size: i64,
    }
}

choice! {
    /// How updates are combined with the element at their index.
    #[non_exhaustive]
    pub enum Scatter {
        /// They replace it; of several, the last.
        Set = "set",
        /// They are added to it.
        Add = "add",
        /// It is multiplied by them. First derivatives hold everywhere, second ones where no update is exactly 0.
        Mul = "mul",
        /// The largest of all stays; NaN if any is.
        Max = "max",
        /// The smallest of all stays; NaN if any is.
        Min = "min",
    }
}

attrs! {
    /// Attributes of `scatter`.
    pub struct ScatterAttrs {
        /// The axis that the indices count along.
        axis: i64,
        /// How updates join the elements.
        mode: Scatter,
        /// Whether each update has its own index. Otherwise each slice has one.
        own: bool,
    }
}

attrs! {
    /// Attributes of `ravel_index`.
    pub struct RavelIndexAttrs {
        /// The lengths of the axes that the coordinates count along.
        sizes: Vec<i64>,
    }
}

attrs! {
    /// Attributes of `one_hot`.
    pub struct OneHotAttrs {
        /// The length of the new axis.
        depth: i64,
        /// The type of the result.
        dtype: DType,
    }
}

attrs! {
    /// Attributes of `histogram`.
    pub struct HistogramAttrs {
        /// The number of parts.
        bins: i64,
    }
}
