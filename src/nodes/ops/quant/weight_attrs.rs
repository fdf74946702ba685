//! Attributes of ops on coded weights.

use crate::kernels::dequant::CodeScheme;
use crate::nodes::ir::attr_types::{attrs, choice};

choice! {
    /// How weights `[k, n]` are coded. A weight is (code − zero)·scale. In each column, each block of consecutive rows
    /// has one scale and one zero.
    #[non_exhaustive]
    pub enum WeightScheme {
        /// Signed integers of 8 bits: `i8[k, n]`.
        Int8 = "int8",
        /// Unsigned integers of 4 bits, two in a byte: `u8[⌈k·n/2⌉]`. Of two neighbours the first is the lower half.
        /// The zero is 8 if there is no other.
        Int4 = "int4",
        /// 8-bit floats with 4 bits of exponent, without infinities: `u8[k, n]`.
        Fp8E4m3 = "fp8_e4m3",
        /// 8-bit floats with 5 bits of exponent: `u8[k, n]`.
        Fp8E5m2 = "fp8_e5m2",
        /// 4-bit floats, two in a byte. Scales are 8-bit floats (as in `Fp8E4m3`, NaN counts as 0), times one number
        /// for all.
        Nvfp4 = "nvfp4",
    }
}

impl WeightScheme {
    /// The scheme as kernels know it.
    pub fn kernel(self) -> CodeScheme {
        match self {
            WeightScheme::Int8 => CodeScheme::Int8,
            WeightScheme::Int4 => CodeScheme::Int4,
            WeightScheme::Fp8E4m3 => CodeScheme::Fp8E4m3,
            WeightScheme::Fp8E5m2 => CodeScheme::Fp8E5m2,
            WeightScheme::Nvfp4 => CodeScheme::Nvfp4,
        }
    }
}

attrs! {
    /// Attributes of `dequant`. Those of `dequant_matmul` begin with them.
    pub struct DequantAttrs {
        /// How weights are coded.
        scheme: WeightScheme,
        /// Rows that share a scale.
        block: i64,
        /// Rows of the weights.
        k: i64,
    }
}

attrs! {
    /// Attributes of `dequant_matmul`.
    pub struct DequantMatmulAttrs {
        /// As in [`DequantAttrs`].
        scheme: WeightScheme,
        /// As in [`DequantAttrs`].
        block: i64,
        /// As in [`DequantAttrs`].
        k: i64,
        /// Whether the product is by the transpose of the weights.
        transposed: bool,
    }
}

impl From<DequantMatmulAttrs> for DequantAttrs {
    fn from(a: DequantMatmulAttrs) -> DequantAttrs {
        DequantAttrs { scheme: a.scheme, block: a.block, k: a.k }
    }
}
