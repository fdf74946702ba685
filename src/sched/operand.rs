//! Operands of instructions: a buffer, a byte offset in it, a length, an element size and a split.

use crate::arena::tensor::LINE;
use crate::kernels::abi::Split;

/// A contiguous part of a buffer, as elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The buffer.
    pub buf: u32,
    /// Byte offset in the buffer.
    pub off: usize,
    /// Number of elements.
    pub len: usize,
    /// Bytes of one element.
    pub size: usize,
    /// How units, or threads, divide it.
    pub split: Split,
}

impl Operand {
    /// Size in bytes. Never overflows: buffers are made with checked sizes and operands lie inside them.
    pub fn bytes(&self) -> usize {
        self.len * self.size
    }

    /// The alignment of its elements in bytes, at most [`LINE`].
    pub fn align(&self) -> usize {
        (self.size & self.size.wrapping_neg()).clamp(1, LINE)
    }

    /// The `len` bytes of `buf` from byte `off` on.
    pub fn of_bytes(buf: u32, off: usize, len: usize, split: Split) -> Operand {
        Operand { buf, off, len, size: 1, split }
    }
}
