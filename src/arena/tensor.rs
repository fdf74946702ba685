//! The tensor arena: one zeroed block of 64-byte cache lines.
//!
//! Invariant: a buffer that starts at a line is aligned for every dtype and every vector width, because a line is
//! aligned to 64 bytes. All memory that a step touches is in one such block.

use crate::HAS_SYSTEM;
use memmap2::MmapMut;

/// Bytes of a line. Buffers of a plan start at multiples of it.
pub const LINE: usize = 64;

/// One cache line.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; LINE]);

/// Bytes of a huge page. Arenas of at least this size are mapped from the system.
const HUGE: usize = 1 << 21;

/// A zeroed, line-aligned block of memory.
///
/// A large block is mapped, and the system zeroes pages on first touch, so creating it costs nothing. It asks for huge
/// pages, because programs walk over all of it, and TLB misses would dominate. Its last part, smaller than a huge page,
/// has small pages, so that no more memory is used than `len`.
pub struct TensorArena {
    memory: Memory,
    len: usize,
}

enum Memory {
    Lines(Box<[Line]>),
    Pages(MmapMut),
}

/// An arena without a byte.
impl Default for TensorArena {
    fn default() -> TensorArena {
        TensorArena { memory: Memory::Lines(Box::default()), len: 0 }
    }
}

impl TensorArena {
    /// A zeroed arena of at least `bytes` bytes, or `None` where the system refuses.
    pub fn new(bytes: usize) -> Option<TensorArena> {
        let len = bytes.checked_next_multiple_of(LINE)?;
        let memory = match len < HUGE || cfg!(miri) || !HAS_SYSTEM {
            true => Memory::Lines(bytemuck::allocation::try_zeroed_slice_box(len / LINE).ok()?),
            false => Memory::Pages(map_pages(len)?),
        };
        Some(TensorArena { memory, len })
    }

    /// Size in bytes: a multiple of [`LINE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the arena holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The arena's bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Lines(lines) => bytemuck::cast_slice(lines),
            Memory::Pages(pages) => &pages[..self.len],
        }
    }

    /// The arena's bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Memory::Pages(pages) => &mut pages[..self.len],
        }
    }
}

/// At least `len` bytes of fresh pages; `None` if the system refuses.
fn map_pages(len: usize) -> Option<MmapMut> {
    // A mapping whose size is a multiple of a huge page is aligned to huge pages. Bytes behind `len` are never touched.
    let pages = MmapMut::map_anon(len.checked_next_multiple_of(HUGE)?).ok()?;
    #[cfg(target_os = "linux")]
    {
        // Only advice: without huge pages, small ones serve.
        let _ = pages.advise_range(memmap2::Advice::HugePage, 0, len / HUGE * HUGE);
    }
    pages.as_ptr().cast::<Line>().is_aligned().then_some(pages)
}

#[cfg(test)]
mod tests {
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
