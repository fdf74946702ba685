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

pub use block_operand::block_operand;

use crate::ensure;
use crate::kernels::gguf::BlockType;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;

/// Operations that decoding an element costs in a product, about.
const DECODING: u64 = 16;

/// Requires that operand `i` is the blocks of a matrix of `rows` rows of `k` elements.
fn check_gguf_blocks(cx: &Infer<'_>, i: usize, block_type: BlockType, rows: usize, k: usize) -> Result<(), String> {
    let (name, elements) = (block_type.name(), block_type.elements());
    ensure!(cx.dtype(i) == DType::U8, "the blocks are {}; they must be u8", cx.dtype(i));
    ensure!(k.is_multiple_of(elements), "rows of {k} elements are no whole {name} blocks, which have {elements}");
    let bytes = block_type.bytes_of(k).and_then(|row| row.checked_mul(rows));
    let bytes = bytes.ok_or_else(|| format!("{rows} rows of {k} elements are too many"))?;
    let held = cx.rank(i, "the blocks", 1)?[0];
    ensure!(held == bytes, "the blocks have {held} bytes; {rows} rows of {k} elements of {name} have {bytes}");
    Ok(())
}
