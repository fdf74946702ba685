//! The tensor arena: a zeroed block of 64-byte cache lines, and perhaps a front block before it.
//!
//! Invariant: a buffer that starts at a line is aligned for every dtype and every vector width, because a line is
//! aligned to 64 bytes. All memory that a step touches is in one arena. A range of bytes that lies in both blocks is no
//! range of the arena: params and states that a file holds, or that several programs read, are the front block.

use super::block::Memory;
pub use super::block::{LINE, Line};
use super::front::Front;
use std::io;
use std::ops::Range;

/// Bytes of the smallest page of common systems.
const PAGE: usize = 4096;

/// An arena as pointers: the front block and its size, the block behind it, and the size of both together. The second
/// pointer is that of the arena's byte 0 as if there were one block, so bytes from `split` on are reached from it.
#[derive(Clone, Copy)]
pub struct ArenaParts {
    /// The first byte of the front block.
    pub front: *mut u8,
    /// Bytes of the front block.
    pub split: usize,
    /// The first byte of the other block, less `split`.
    pub base: *mut u8,
    /// Bytes of both.
    pub len: usize,
}

/// A zeroed, line-aligned block of memory.
///
/// A large block is mapped, and the system zeroes pages on first touch, so creating it costs nothing. It asks for huge
/// pages, because programs walk over all of it, and TLB misses would dominate. Its last part, smaller than a huge page,
/// has small pages, so that no more memory is used than `len`.
pub struct TensorArena {
    front: Front,
    memory: Memory,
    /// Bytes of both blocks.
    len: usize,
}

/// An arena without a byte.
impl Default for TensorArena {
    fn default() -> TensorArena {
        TensorArena { front: Front::default(), memory: Memory::Lines(Box::default()), len: 0 }
    }
}

impl TensorArena {
    /// A zeroed arena of at least `bytes` bytes, or `None` where the system refuses.
    pub fn new(bytes: usize) -> Option<TensorArena> {
        TensorArena::behind(Front::default(), bytes)
    }

    /// An arena of at least `bytes` bytes, whose first are those of `front` and whose others are zero; `None` where the
    /// system refuses, or if `front` is larger.
    pub fn behind(front: Front, bytes: usize) -> Option<TensorArena> {
        let len = bytes.checked_next_multiple_of(LINE)?;
        let memory = Memory::zeroed(len.checked_sub(front.len())?)?;
        Some(TensorArena { front, memory, len })
    }

    /// Size in bytes, with the front block: a multiple of [`LINE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the arena holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The front block; empty unless the arena was made [behind](TensorArena::behind) one.
    pub fn front(&self) -> &Front {
        &self.front
    }

    /// Replaces the front block by one of the same size. False, and nothing else, if the sizes differ.
    pub fn replace_front(&mut self, front: Front) -> bool {
        let fits = front.len() == self.front.len();
        if fits {
            self.front = front;
        }
        fits
    }

    /// The bytes behind the front block: all bytes of an arena without one.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.len - self.front.len()]
    }

    /// The bytes behind the front block, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let own = self.len - self.front.len();
        &mut self.memory.bytes_mut()[..own]
    }

    /// Bytes `r` of the arena; empty if they do not exist or lie in both blocks.
    pub fn slice(&self, r: Range<usize>) -> &[u8] {
        let split = self.front.len();
        let found = match r.start < split {
            true => self.front.bytes().get(r),
            false => self.bytes().get(r.start - split..r.end.saturating_sub(split)),
        };
        found.unwrap_or_default()
    }

    /// Bytes `r` of the arena, mutable; empty as for [`TensorArena::slice`]. Those of a front block that other arenas
    /// read are copied first: see [`Front::bytes_mut`].
    pub fn slice_mut(&mut self, r: Range<usize>) -> &mut [u8] {
        let split = self.front.len();
        let found = match r.start < split {
            true => self.front.bytes_mut().get_mut(r),
            false => self.bytes_mut().get_mut(r.start - split..r.end.saturating_sub(split)),
        };
        found.unwrap_or_default()
    }

    /// Touches each page, so that no step waits for one: pages of the arena are there, and those of a mapped file are
    /// read.
    pub fn prefault(&mut self) {
        for page in self.memory.bytes_mut().chunks_mut(PAGE) {
            // A write, because a page that is only read may be the system's page of zeros.
            page[0] = std::hint::black_box(page[0]);
        }
        self.front.bytes().chunks(PAGE).for_each(|page| _ = std::hint::black_box(page[0]));
    }

    /// Keeps the arena in memory: the system may not write it to a swap area. Brings in all pages. Errors: the system
    /// refuses, for example because its limit of locked memory is lower; other arenas read the front block.
    pub fn lock(&mut self) -> io::Result<()> {
        self.memory.lock()?;
        self.front.lock()
    }

    /// The arena as pointers. They are valid until the arena is used in another way. Bytes of a front block that other
    /// arenas [read](Front::is_shared), too, must not be written.
    pub fn parts(&mut self) -> ArenaParts {
        let (front, split, len) = (self.front.pointer(), self.front.len(), self.len);
        ArenaParts { front, split, base: self.memory.bytes_mut().as_mut_ptr().wrapping_sub(split), len }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::HUGE;
    use super::*;

    #[test]
    fn arenas_of_all_sizes_are_zeroed_lines() {
        let small = [0, 1, LINE, LINE + 1];
        let large = [HUGE - LINE, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE + 5 * LINE];
        // Miri maps no pages, and would read each byte of large ones for minutes.
        for bytes in small.into_iter().chain(large.into_iter().filter(|_| !cfg!(miri))) {
            let mut a = TensorArena::new(bytes).unwrap();
            assert_eq!(a.len(), bytes.next_multiple_of(LINE));
            assert_eq!((a.bytes().len(), a.bytes_mut().len()), (a.len(), a.len()));
            assert!(a.bytes().iter().all(|&b| b == 0));
            assert_eq!(a.bytes().as_ptr().align_offset(LINE), 0);
            a.bytes_mut().fill(7);
            assert!(a.bytes().iter().all(|&b| b == 7));
        }
        assert!(TensorArena::default().is_empty() && TensorArena::default().bytes().is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends at an allocation that the machine does not have")]
    fn what_no_system_has_is_refused() {
        assert!(TensorArena::new(usize::MAX).is_none());
        assert!(TensorArena::new(isize::MAX as usize).is_none());
        assert!(TensorArena::new(1 << 60).is_none());
    }
}
