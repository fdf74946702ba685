//! Weights that are stored as codes of 4 or 8 bits, as numbers and in products.

mod coded_weights;
pub mod dequant;
pub mod encode_weights;
pub mod int_attrs;
mod int_product;
pub mod int_var;
pub mod q_conv2d;
pub mod q_matmul;
pub mod weight_attrs;
pub mod weight_var;
