//! Exact products of matrices of 8-bit integers, and convolutions as such products.
//!
//! An operand is read as code − zero, which fits 16 bits. Adjacent terms of a sum are packed as pairs, and one
//! instruction multiplies and adds a pair in each lane ([`simd::PairProducts`](crate::simd::PairProducts)). So zero
//! points cost nothing, and sums need no correction. With AVX-512 VNNI, products of matrices multiply four bytes at a
//! time instead, and zero points are subtracted from the sums (`int_quads`).
//!
//! * `int_gemm_desc`: the descriptor, units, scratch.
//! * `int_codes`: codes as 16-bit integers. `int_rows`, `int_columns`: packing of A and of B. `int_windows`: packing of
//!   B from the windows of an image.
//! * `int_tile`: the innermost loop, for each instruction set.
//! * `int_product`: cache blocks. `int_quads`: those of four terms at a time. `int_gemm_kernel`, `int_conv_kernel`: the
//!   kernels.
//! * `requantise`: turns sums into codes or numbers.
//!
//! Invariant: results are exact modulo 2³², so they depend on the operands alone.

mod int_codes;
mod int_columns;
mod int_conv_kernel;
mod int_gemm_desc;
mod int_gemm_kernel;
pub mod int_matmul;
mod int_product;
mod int_quads;
mod int_rows;
mod int_tile;
mod int_windows;
mod requantise;
#[cfg(test)]
mod tests;

pub use int_conv_kernel::{IntConv, int_conv_kernel, int_conv_zeros_kernel};
pub use int_gemm_desc::IntGemm;
pub use int_gemm_kernel::{int_gemm_kernel, int_gemm_zeros_kernel};
pub use requantise::{Requantise, output_kernel_for};
