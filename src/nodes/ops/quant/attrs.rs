//! Attributes of ops on quantised numbers.

use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;

choice! {
    /// The derivative of a rounded number with respect to the number before rounding. Rounding itself has the
    /// derivative 0, so another function stands for it.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum CodeSte {
        /// 1 where the code is inside the range, 0 where it is cut off: as in torch's fake quantisation.
        #[default]
        Clip = "clip",
        /// 1 everywhere.
        Identity = "identity",
    }
}

attrs! {
    /// Attributes of `quantize`.
    pub struct QuantizeAttrs {
        /// The axis whose elements have a scale each; without one there is one scale.
        axis: Option<i64>,
        /// The dtype of the codes, `i8` or `u8`.
        to: DType,
        /// The lowest code.
        lo: i64,
        /// The highest code.
        hi: i64,
        /// The derivative with respect to x.
        ste: CodeSte,
    }
}

choice! {
    /// The derivative of a fake-quantised number with respect to the number. `hi` is the highest code and s the scale.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum FakeSte {
        /// 1 everywhere.
        Identity = "identity",
        /// 1 where x is between the lowest and the highest real number, 0 elsewhere.
        #[default]
        Clipped = "clipped",
        /// 1 − tanh²(x / (hi·s)). The range is symmetric.
        Tanh = "tanh",
        /// max(0, 1 − |x| / (hi·s)). The range is symmetric.
        Hardtanh = "hardtanh",
        /// 1 where the code is not cut off, 0 elsewhere: as in torch's fake quantisation. Up to half a step outside of
        /// the lowest and the highest real number it is 1, too.
        Saturated = "saturated",
    }
}

choice! {
    /// The factor of the gradient of a learned scale.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum LsqFactor {
        /// 1.
        #[default]
        One = "one",
        /// 1/√(n·hi), with n elements for each scale and the highest code hi, as the paper has it.
        Paper = "paper",
    }
}

attrs! {
    /// Attributes of `fake_quantize`.
    pub struct FakeQuantizeAttrs {
        /// The axis whose elements have a scale each; without one there is one scale.
        axis: Option<i64>,
        /// The lowest code.
        lo: i64,
        /// The highest code.
        hi: i64,
        /// The derivative with respect to x.
        ste: FakeSte,
    }
}

attrs! {
    /// Attributes of `lsq` and `lsq_backward`.
    pub struct LsqAttrs {
        /// The axis whose elements have a scale each; without one there is one scale.
        axis: Option<i64>,
        /// The lowest code.
        lo: i64,
        /// The highest code.
        hi: i64,
        /// The factor of the gradient of a scale.
        factor: LsqFactor,
    }
}

attrs! {
    /// Attributes of `dequantize`.
    pub struct DequantizeAttrs {
        /// The axis whose elements have a scale each; without one there is one scale.
        axis: Option<i64>,
    }
}
