//! Weights in the blocks of GGUF files: decoding, and products that decode while they read.
//!
//! | file | holds |
//! |---|---|
//! | `attrs` | the attributes, of which the block type is one |
//! | `block_operand` | the operand of an op that holds blocks |
//! | `gguf_dequant` | all elements of a matrix of blocks |
//! | `gguf_matmul` | products with a matrix of blocks |
//! | `gguf_grouped` | products of rows by the matrix of their group; the matrices of all groups as numbers |
//! | `var` | all of them as methods |
//!
//! Invariant: blocks are a `u8` operand of rank 1 that holds a matrix row by row, each row as whole blocks. Its length
//! is checked; any bytes are valid.

pub mod attrs;
mod block_operand;
pub mod gguf_dequant;
pub mod gguf_grouped;
pub mod gguf_matmul;
pub mod var;

/// Operations that decoding an element costs in a product, about.
const DECODING: u64 = 16;
