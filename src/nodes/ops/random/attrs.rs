//! Attributes of random ops.

use crate::arena::Shape;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::dtype::DType;

attrs! {
    /// Attributes of a draw.
    pub struct DrawAttrs {
        /// Tells the numbers of one draw from those of another under the same key.
        stream: i64,
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
    }
}

attrs! {
    /// Attributes of a draw of whole numbers.
    pub struct RandomIntAttrs {
        /// Tells the numbers of one draw from those of another under the same key.
        stream: i64,
        /// The least number.
        low: i64,
        /// The largest number plus 1.
        high: i64,
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
    }
}

attrs! {
    /// Attributes of dropout.
    pub struct DropoutAttrs {
        /// The probability that an element is dropped.
        p: f64,
        /// The stream of the draws.
        stream: i64,
    }
}

attrs! {
    /// Attributes of `sample`.
    pub struct SampleAttrs {
        /// Distinguishes the draws of one op from those of others.
        stream: i64,
        /// Divisor of the logits; 0 chooses the largest.
        temperature: f64,
        /// How many of the largest logits count; 0: all.
        top_k: i64,
        /// The probability that the tokens that count reach together.
        top_p: f64,
    }
}
