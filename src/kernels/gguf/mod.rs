//! Weights in the blocks of GGUF files. A block holds 32 or 256 numbers as codes of a few bits each, which share a
//! scale.
//!
//! A matrix D `[n, k]` lies row by row, each row as `k / elements` blocks. Element `e` of a block is
//! `scale·code − min`, where 16 elements share scale and min: all types are read as such [groups](Group). So one loop
//! decodes all types, and one loop multiplies by them.
//!
//! * `block_type`: the types, their sizes and the numbers that stand for them in files. `block_codec`: the trait of a
//!   type.
//! * `blocks_of_32`, `blocks_of_256`, `q6_k`, `ternary_blocks`: the layouts.
//! * `gguf_dequant`: all elements of a matrix as `f32`.
//! * `coded_rows`: parts of a matrix for the panels of a product.
//! * `code_dots`: products of a few rows of x with codes. `byte_dots`: the same for Q8_0, straight from its blocks.
//!   `nibble_dots`: the same for codes of four bits, with rows of x that `nibble_x` rounds to integers;
//!   `nibble_bytes`: by AVX-512 VNNI; `nibble_codes`: what both read.
//! * `gguf_matmul`: the kernel of products. `gguf_grouped`: that of products of rows by the matrix of their group.
//! * `encode_q8_0`, `encode_q4_0`, `encode_q4_k`: encode numbers as blocks.
//!
//! Invariants: a decoded number has the bits that the format's own library gives (product and difference rounded to
//! `f32` one after the other). The decoded matrix never exists during a product.

mod block_codec;
mod block_type;
mod blocks_of_256;
mod blocks_of_32;
mod byte_dots;
mod code_dots;
mod coded_rows;
mod encode_q4_0;
mod encode_q4_k;
mod encode_q8_0;
mod gguf_dequant;
mod gguf_grouped;
mod gguf_matmul;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod nibble_bytes;
mod nibble_codes;
mod nibble_dots;
mod nibble_x;
mod q6_k;
mod ternary_blocks;
#[cfg(test)]
mod tests;

pub use block_codec::{BlockCodec, GROUP, Group};
pub use block_type::BlockType;
pub use encode_q4_0::encode_q4_0;
pub use encode_q4_k::encode_q4_k;
pub use encode_q8_0::encode_q8_0;
pub use gguf_dequant::{GgufDequant, decode_gguf_blocks, gguf_dequant_kernel};
pub use gguf_grouped::{GgufGrouped, gguf_grouped_kernel_for};
pub use gguf_matmul::{GgufMatmul, gguf_matmul_kernel_for};
