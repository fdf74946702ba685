//! GGUF files: named tensors, most of them weights in blocks, with metadata.
//!
//! [`Gguf::open`] reads the head of a file and [`Gguf::read`] the bytes of a tensor, from their place in the file into
//! the place where they are wanted. [`Program::load_gguf`](crate::session::Program::load_gguf) fills leaves by name: a
//! `u8` leaf gets the blocks as they are, for [`Var::gguf_matmul`](crate::graph::Var::gguf_matmul). [`save`] writes a
//! file, [`encode`] writes numbers as blocks.
//!
//! Invariants: a file is hostile until proven good. Each length is compared with the rest of the file before memory is
//! taken for it, sizes are multiplied with checks, names and keys occur once, and each tensor lies in the file as a
//! whole, in bytes of its own. A tensor or a text that cannot be used does not keep the others from being read. Nothing
//! is mapped: a file may be cut or written anew while it is open. A written file is replaced as a whole or not at all,
//! and equal contents give equal bytes.

mod bounded_reader;
mod gguf_file;
mod load;
mod metadata;
mod tensor_type;
mod write;

pub use bounded_reader::HEADER_LIMIT;
pub use gguf_file::{Gguf, GgufTensor};
pub use metadata::{Meta, MetaArray};
pub use tensor_type::TensorType;
pub use write::{GgufEntry, encode_file, save};

use crate::error::{Error, Kind, Result};
use crate::kernels::gguf::{BlockType, decode_gguf_blocks, encode_q4_0, encode_q4_k, encode_q8_0};

/// An error of kind [`Kind::Data`].
fn bad_gguf(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}

/// `numbers` as blocks: of Q8_0, Q4_0 or Q4_K. A number moves by half a step of its block at most; in Q8_0 by 0.57 of a
/// step. The bytes of Q8_0 are those of ggml. Those of Q4_0 and Q4_K are not: ggml cuts the numbers of Q4_0 off that
/// lie farther out than seven steps on one side, and searches for the scales of Q4_K with the least squared error.
///
/// Errors: another type; numbers that are no whole blocks; a number that is not finite, or too large for the
/// half-precision scale of a block.
///
/// ```
/// use arenagrad::graph::quant::BlockType;
/// use arenagrad::train::gguf::{decode, encode};
/// # fn main() -> arenagrad::Result<()> {
/// let x: Vec<f32> = (0..256).map(|i| (i as f32 * 0.1).sin()).collect();
/// let blocks = encode(BlockType::Q4K, &x)?;
/// assert_eq!(blocks.len(), 144);
/// let y = decode(BlockType::Q4K, &blocks)?;
/// assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 0.1));
/// # Ok(())
/// # }
/// ```
pub fn encode(block_type: BlockType, numbers: &[f32]) -> Result<Vec<u8>> {
    let name = block_type.name();
    let whole =
        || bad_gguf(format!("{} numbers are no whole {name} blocks of {}", numbers.len(), block_type.elements()));
    let mut to = vec![0; block_type.bytes_of(numbers.len()).ok_or_else(whole)?];
    let done = match block_type {
        BlockType::Q8_0 => encode_q8_0(numbers, &mut to),
        BlockType::Q4_0 => encode_q4_0(numbers, &mut to),
        BlockType::Q4K => encode_q4_k(numbers, &mut to),
        _ => Err("there is no encoder; there are those of Q8_0, Q4_0 and Q4_K".into()),
    };
    done.map_err(|e| bad_gguf(format!("{name}: {e}")))?;
    Ok(to)
}

/// The numbers of blocks. Error: `blocks` ends within a block.
pub fn decode(block_type: BlockType, blocks: &[u8]) -> Result<Vec<f32>> {
    let (bytes, name) = (block_type.bytes(), block_type.name());
    if !blocks.len().is_multiple_of(bytes) {
        return Err(bad_gguf(format!("{} bytes are no whole {name} blocks of {bytes}", blocks.len())));
    }
    let mut numbers = vec![0.0; blocks.len() / bytes * block_type.elements()];
    decode_gguf_blocks(block_type, blocks, &mut numbers);
    Ok(numbers)
}
