//! A plan: instructions, with offsets for their buffers. Nothing is proven of it; see [`checker`](super::checker).

use super::instructions::{Instructions, Operand};
use std::ops::Range;

/// A plan: instructions, offsets and in-place pairs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The instructions.
    pub code: Instructions,
    /// Byte offset of each buffer in the arena.
    pub offset: Vec<usize>,
    /// For each read, the write of its instruction that shares its bytes, or
    /// [`OUT_OF_PLACE`](super::instructions::OUT_OF_PLACE).
    pub inplace: Vec<u8>,
    /// Bytes of the arena.
    pub bytes: usize,
    /// Number of threads that per-thread scratch has parts for.
    pub threads: usize,
    /// Bytes of the arena that belong to other plans, by rising start: see [`areas`](super::areas).
    pub foreign: Vec<Range<usize>>,
}

impl Plan {
    /// The bytes of operand `o` in the arena.
    pub(super) fn arena_range(&self, o: &Operand) -> Range<usize> {
        let start = self.offset[o.buf as usize] + o.off;
        start..start + o.bytes()
    }
}
