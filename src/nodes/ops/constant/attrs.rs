//! Attributes of constants, fills and counters.

use crate::arena::Shape;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::dtype::DType;

attrs! {
    /// Attributes of a constant.
    pub struct ConstantAttrs {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
        /// Little-endian bytes in row-major order.
        data: Vec<u8>,
    }
}

attrs! {
    /// The first attributes of a constant: its type, without a copy of its data.
    pub struct ConstantType {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
    }
}

attrs! {
    /// Attributes of a fill.
    pub struct FullAttrs {
        /// The value of every element.
        value: f64,
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
    }
}

attrs! {
    /// Attributes of a counter.
    pub struct IotaAttrs {
        /// The axis to count along.
        axis: i64,
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Shape,
    }
}

impl ConstantAttrs {
    /// The number of bytes of data, without a copy of them: the word after those of the type.
    pub fn data_len(attrs: &Attrs<'_>) -> usize {
        attrs.words.get(ConstantType::FIELDS.len()).map_or(0, |&n| n as usize)
    }
}
