//! All elements of a matrix of blocks, as `f32`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gguf_dequant_kernel`] | blocks: `u8` | `f32`, [`GgufDequant::per_unit`] | [`GgufDequant`] |
//!
//! Invariant: an element is `scale·code − min`, product and difference rounded one after the other.

use super::block_codec::{BlockCodec, GROUP, Group};
use super::block_type::{BlockType, with_block_codec};
use crate::abi::Args;
use crate::params::params;
use crate::simd;
use bytemuck::Pod;

/// Elements in a unit: whole blocks of every type.
const UNIT: usize = 8192;

params! {
    /// Params of [`gguf_dequant_kernel`].
    pub struct GgufDequant {
        /// Place of the block type in [`BlockType::ALL`].
        pub block_type: usize,
        /// Elements of all blocks.
        pub len: usize,
    }
}

impl GgufDequant {
    /// Elements of the result in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Writes the elements of a group to `to`.
#[inline(always)]
pub fn write_group<T: From<f32>>(group: Group, to: &mut [T; GROUP]) {
    for (to, code) in to.iter_mut().zip(group.codes) {
        *to = T::from(group.scale * f32::from(code) - group.min);
    }
}

simd! {
    /// Writes the elements of whole blocks.
    fn gguf_dequant_whole_blocks[C: BlockCodec, T: Pod + From<f32>](codec: C, blocks: &[u8], to: &mut [T]) {
        for (block, to) in blocks.chunks_exact(C::BYTES).zip(to.chunks_exact_mut(C::ELEMENTS)) {
            for (g, to) in to.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                write_group(codec.group(block, g), to);
            }
        }
    }
}

/// Decodes blocks of a type into `to`, as many as fill it.
///
/// # Panics
/// If there are fewer blocks.
pub fn decode_gguf_blocks(block_type: BlockType, blocks: &[u8], to: &mut [f32]) {
    let count = to.len() / block_type.elements();
    let blocks = &blocks[..count * block_type.bytes()];
    with_block_codec!(block_type, codec => gguf_dequant_whole_blocks(codec, blocks, to));
}

/// Reads blocks; writes their elements, [`GgufDequant::per_unit`]; params [`GgufDequant`].
pub fn gguf_dequant_kernel(args: &mut Args<'_>) {
    let p = GgufDequant::from_words(args.params());
    let block_type = BlockType::ALL[p.block_type];
    let first = args.units().start * UNIT / block_type.elements() * block_type.bytes();
    let (blocks, to) = (args.read::<u8>(0), args.write::<f32>(0));
    decode_gguf_blocks(block_type, &blocks[first..], to);
}
