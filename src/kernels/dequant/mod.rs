//! Weights that are stored as codes of 4 or 8 bits: how they are decoded, and products with them.
//!
//! A weight is (code − zero)·scale. Scale and zero belong to a block of rows of one column. A product decodes the
//! weights while it packs them, see [`gemm::PanelDecoder`](crate::gemm::PanelDecoder).
//!
//! * `fp8_fp4`: numbers of 8 and 4 bits.
//! * `code_scheme`: the schemes. `code_number`: converts the bits of a code to a number. `decode_rows`: decodes some
//!   rows and columns.
//! * `coded_weights`: weights as a matrix that a product decodes. `coded_row_product`: products of one row.
//! * `dequant_kernels`: the kernels that lowerings use.

mod code_number;
mod code_scheme;
mod coded_row_product;
mod coded_weights;
mod decode_rows;
mod dequant_kernels;
pub mod fp8_fp4;
#[cfg(test)]
mod tests;

pub use code_scheme::CodeScheme;
pub use coded_weights::CodedWeights;
pub use dequant_kernels::{DequantMatmul, dequant_kernel_for, dequant_matmul_kernel_for};
