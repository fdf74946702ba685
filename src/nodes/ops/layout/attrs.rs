//! Attributes of ops that move elements.

use crate::arena::Shape;
use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `reshape` and `broadcast`.
    pub struct ToShapeAttrs {
        /// The shape of the result.
        shape: Shape,
    }
}

attrs! {
    /// Attributes of `optimization_barrier`.
    pub struct BarrierAttrs {
        /// A number of the caller's choice. Barriers of one value with different numbers are not merged.
        apart: Option<i64>,
    }
}

attrs! {
    /// Attributes of `transpose`.
    pub struct TransposeAttrs {
        /// For each axis of the result, the axis of the operand.
        perm: Vec<i64>,
    }
}

attrs! {
    /// Attributes of `slice`: one entry an axis.
    pub struct SliceAttrs {
        /// The first element that is taken.
        starts: Vec<i64>,
        /// The end: no element from there on is taken.
        limits: Vec<i64>,
        /// The distance of two elements that are taken.
        steps: Vec<i64>,
    }
}

attrs! {
    /// Attributes of `concat`.
    pub struct ConcatAttrs {
        /// The axis along which the operands are joined.
        axis: i64,
    }
}

attrs! {
    /// Attributes of `pad`: one entry an axis.
    pub struct PadAttrs {
        /// Elements before the operand.
        low: Vec<i64>,
        /// Elements after the operand.
        high: Vec<i64>,
        /// The value of the border.
        value: f64,
    }
}

attrs! {
    /// Attributes of `flip`.
    pub struct FlipAttrs {
        /// The axes that are reversed.
        axes: Vec<i64>,
    }
}
