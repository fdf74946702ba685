//! A matrix of blocks as the decoded operand of a product.
//!
//! Invariant: decoded elements have the bits of `gguf_dequant`.

use super::block_codec::{BlockCodec, GROUP};
use super::block_type::{BlockType, with_block_codec};
use super::gguf_dequant;
use crate::gemm::{GemmFloat, PanelDecoder};
use crate::simd;
use bytemuck::Pod;
use std::ops::Range;

/// A matrix `[n, k]` of blocks, row by row.
#[derive(Clone, Copy, Debug)]
pub struct CodedRows<'a> {
    /// The block type.
    pub block_type: BlockType,
    /// All blocks.
    pub blocks: &'a [u8],
    /// Elements of a row: whole blocks.
    pub k: usize,
}

impl CodedRows<'_> {
    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.k / self.block_type.elements() * self.block_type.bytes()
    }

    /// The blocks of row `j`.
    pub fn row(&self, j: usize) -> &[u8] {
        &self.blocks[j * self.row_bytes()..][..self.row_bytes()]
    }
}

simd! {
    /// Writes elements `cols` of each row, `step` apart in `to`.
    fn decode_parts_of_coded_rows[C: BlockCodec, T: Pod + From<f32>](
        codec: C,
        rows: &[u8],
        row_bytes: usize,
        cols: Range<usize>,
        to: &mut [T],
        step: usize,
    ) {
        let zero = T::from(0.0);
        for (row, to) in rows.chunks_exact(row_bytes).zip(to.chunks_mut(step)) {
            let mut at = cols.start;
            while at < cols.end {
                let (block, g) = (at / C::ELEMENTS * C::BYTES, at % C::ELEMENTS / GROUP);
                let group = codec.group(&row[block..block + C::BYTES], g);
                let (from, end) = (at % GROUP, cols.end.min(at - at % GROUP + GROUP));
                let to = &mut to[at - cols.start..][..end - at];
                if let Some(to) = to.first_chunk_mut() {
                    gguf_dequant::write_group(group, to);
                } else {
                    let mut whole = [zero; GROUP];
                    gguf_dequant::write_group(group, &mut whole);
                    to.copy_from_slice(&whole[from..from + to.len()]);
                }
                at = end;
            }
        }
    }
}

impl<T: GemmFloat + From<f32>> PanelDecoder<T> for CodedRows<'_> {
    fn depth(&self) -> usize {
        GROUP
    }

    fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [T], step: usize) {
        let row_bytes = self.row_bytes();
        let rows = &self.blocks[rows.start * row_bytes..rows.end * row_bytes];
        with_block_codec!(self.block_type, codec => decode_parts_of_coded_rows(codec, rows, row_bytes, cols, to, step));
    }
}
