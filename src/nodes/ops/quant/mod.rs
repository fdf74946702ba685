//! Quantised numbers: codes and their scales, rounding with a derivative, learned scales; weights that are stored as
//! codes of 4 or 8 bits, as numbers and in products.
//!
//! A code q stands for the real number s·(q − z), with scale s and zero point z. Its tangent and cotangent are those of
//! that number (see [`Flags::QUANT`](crate::nodes::ir::opdef::Flags::QUANT)). Scales and zero points are scalars, or
//! have an element for each position of an axis. Invariant: a scale that an op reads and that is no normal number above
//! 0 ends the step, by [`POSITIVE_SCALE`]. Only the scales of coded weights (`dequant`, `dequant_matmul`) may be any
//! numbers.

pub mod attrs;
mod coded_weights;
pub mod codes;
pub mod dequant;
pub mod encode_weights;
pub mod fake;
pub mod int_attrs;
mod int_product;
pub mod int_var;
pub mod lsq;
pub mod q_conv2d;
pub mod q_matmul;
pub mod running_scale;
pub mod scale;
pub mod var;
pub mod weight_attrs;
pub mod weight_var;

pub use codes::{DEQUANTIZE, QUANTIZE};
pub use fake::FAKE_QUANTIZE;
pub use lsq::{LSQ, LSQ_BACKWARD};
pub use scale::POSITIVE_SCALE;
