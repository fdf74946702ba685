//! The tensor arena: one zeroed block of 64-byte lines.
//!
//! Alignment is a property of the line type, so a buffer at a line boundary is aligned for every dtype and every
//! vector width. Everything that a program touches while it steps lies in one such block.

/// Bytes in a line; buffers of a plan start at multiples of it.
pub const LINE: usize = 64;

/// One cache line.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; LINE]);

/// A zeroed, line-aligned block of memory.
pub struct TensorArena {
    lines: Box<[Line]>,
}

impl TensorArena {
    /// A zeroed arena of at least `bytes` bytes, or `None` where the allocator refuses.
    pub fn new(bytes: usize) -> Option<TensorArena> {
        let lines = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(LINE)).ok()?;
        Some(TensorArena { lines })
    }

    /// Size in bytes, a multiple of [`LINE`].
    pub fn len(&self) -> usize {
        self.lines.len() * LINE
    }

    /// Whether the arena holds no byte.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The arena's bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines)
    }

    /// The arena's bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}
