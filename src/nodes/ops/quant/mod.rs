//! Weights that are stored as codes of 4 or 8 bits, as numbers and in products.

mod coded_weights;
pub mod dequant;
pub mod encode_weights;
pub mod weight_attrs;
pub mod weight_var;
