//! A zeroed block of 64-byte cache lines, in memory of the allocator or in pages of the system.

use crate::HAS_SYSTEM;
use memmap2::MmapMut;
use std::io;

/// Bytes of a line. Buffers of a plan start at multiples of it.
pub const LINE: usize = 64;

/// One cache line.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; LINE]);

/// Bytes of a huge page. Arenas of at least this size are mapped from the system.
pub(super) const HUGE: usize = 1 << 21;

/// A zeroed block.
pub(super) enum Memory {
    Lines(Box<[Line]>),
    Pages(MmapMut),
}

impl Memory {
    /// A zeroed block of at least `len` bytes, which are whole lines; `None` where the system refuses.
    pub(super) fn zeroed(len: usize) -> Option<Memory> {
        Some(match len < HUGE || cfg!(miri) || !HAS_SYSTEM {
            true => Memory::Lines(bytemuck::allocation::try_zeroed_slice_box(len / LINE).ok()?),
            false => Memory::Pages(map_pages(len)?),
        })
    }

    /// The bytes; those of pages may be more than were asked for.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Lines(lines) => bytemuck::cast_slice(lines),
            Memory::Pages(pages) => pages,
        }
    }

    /// The bytes, mutable.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Memory::Pages(pages) => pages,
        }
    }
}

impl Memory {
    /// Keeps the bytes in memory: the system may not write them to a swap area. Bytes of the allocator move to pages of
    /// their own first. Brings in all pages.
    pub(super) fn lock(&mut self) -> io::Result<()> {
        if let Memory::Lines(lines) = self
            && !lines.is_empty()
        {
            let bytes: &[u8] = bytemuck::cast_slice(lines);
            let mut pages = MmapMut::map_anon(bytes.len())?;
            pages.copy_from_slice(bytes);
            *self = Memory::Pages(pages);
        }
        match self {
            Memory::Pages(pages) => lock_pages(pages),
            Memory::Lines(_) => Ok(()),
        }
    }
}

/// Keeps `pages` in memory.
pub(super) fn lock_pages(pages: &MmapMut) -> io::Result<()> {
    #[cfg(unix)]
    return pages.lock();
    #[cfg(not(unix))]
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{} bytes: this system locks no memory", pages.len())))
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
