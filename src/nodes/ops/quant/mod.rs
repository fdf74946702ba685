//! Quantised numbers: codes and their scales, rounding with a derivative, learned scales, and weights that are stored
//! as codes of 4 or 8 bits, with products that read them.
//!
//! A code q stands for the real number s·(q − z), with scale s and zero point z. Its tangent and cotangent are those of
//! that number (see [`Flags::QUANT`](crate::nodes::ir::opdef::Flags::QUANT)). Scales and zero points are scalars, or
//! have an element for each position of an axis. Invariant: a scale that is not a positive normal number ends the step
//! that reads it, by [`POSITIVE_SCALE`]. Only the scales of coded weights (`dequant`, `dequant_matmul`) may be any
//! numbers.

pub mod attrs;
pub mod code_product;
pub mod coded_weights;
pub mod dequant;
pub mod encode_weights;
pub mod fake_quantize;
pub mod int_attrs;
mod int_product;
pub mod lsq;
pub mod lsq_options;
pub mod q_conv2d;
pub mod q_matmul;
pub mod quantize_dequantize;
pub mod running_scale;
pub mod scale;
pub mod var;
pub mod weight_attrs;

pub use fake_quantize::FAKE_QUANTIZE;
pub use lsq::{LSQ, LSQ_BACKWARD};
pub use quantize_dequantize::{DEQUANTIZE, QUANTIZE};
pub use scale::POSITIVE_SCALE;
