//! The front block of an arena: bytes that a file holds, or that several arenas read.
//!
//! Invariant: a block that several arenas hold is not written. Writing to it through one of them copies it first, so
//! the others keep what they read.

use super::block::{LINE, Memory, lock_pages};
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A front block: see the file's head. A clone is the same block.
#[derive(Clone, Default)]
pub struct Front {
    block: Option<Arc<Block>>,
    len: usize,
}

enum Block {
    Memory(Memory),
    /// A private mapping of a file: pages that are written are copied, and the file stays as it is.
    File(MmapMut),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            Block::Memory(memory) => memory.bytes(),
            Block::File(pages) => pages,
        }
    }
}

impl Front {
    /// A zeroed block of at least `bytes` bytes, in whole lines; `None` where the system refuses.
    pub fn zeroed(bytes: usize) -> Option<Front> {
        let len = bytes.checked_next_multiple_of(LINE)?;
        Some(Front { block: Some(Arc::new(Block::Memory(Memory::zeroed(len)?))), len })
    }

    /// Bytes `offset..offset + len` of `file`, which are read when they are first used, and copied page by page when
    /// they are written; the file stays as it is. `offset` is a multiple of the system's smallest page, and `len` of
    /// [`LINE`]; the file must have these bytes for as long as the block lives. Where another program cuts it, the
    /// system ends this one.
    ///
    /// # Errors
    /// The file is shorter; the bytes are not aligned; the system refuses.
    pub fn map(file: &File, offset: u64, len: usize) -> io::Result<Front> {
        if len == 0 {
            return Ok(Front::default());
        }
        let end = offset.checked_add(len as u64).filter(|&end| end <= file.metadata().map_or(0, |m| m.len()));
        if end.is_none() || !len.is_multiple_of(LINE) || !offset.is_multiple_of(LINE as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file does not have these bytes"));
        }
        // SAFETY: the mapping is private, so nothing else writes through it, and the file has its bytes. A program that
        // changes the file meanwhile changes numbers of tensors, of which every bit pattern is valid.
        #[allow(unsafe_code)]
        let pages = unsafe { MmapOptions::new().offset(offset).len(len).map_copy(file)? };
        if !pages.as_ptr().addr().is_multiple_of(LINE) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the bytes of the file are not aligned"));
        }
        Ok(Front { block: Some(Arc::new(Block::File(pages))), len })
    }

    /// Size in bytes: a multiple of [`LINE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the block holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes, whole lines, as a block; the same bytes, not a copy. `None` if there are fewer.
    pub fn prefix(&self, len: usize) -> Option<Front> {
        let fits = len <= self.len && len.is_multiple_of(LINE);
        fits.then(|| Front { block: self.block.clone(), len })
    }

    /// Whether another arena holds the block, too.
    pub fn is_shared(&self) -> bool {
        self.block.as_ref().is_some_and(|block| Arc::strong_count(block) > 1)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.bytes()[..self.len])
    }

    /// The bytes, mutable. A block that another arena holds is copied first; empty if the system has no memory for it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_shared()
            && let Some(copy) = self.copy()
        {
            *self = copy;
        }
        match self.block.as_mut().and_then(Arc::get_mut) {
            Some(Block::Memory(memory)) => &mut memory.bytes_mut()[..self.len],
            Some(Block::File(pages)) => &mut pages[..self.len],
            None => &mut [],
        }
    }

    /// Keeps the block in memory: see [`TensorArena::lock`](super::tensor::TensorArena::lock).
    pub(super) fn lock(&mut self) -> io::Result<()> {
        match self.block.as_mut().map(Arc::get_mut) {
            Some(Some(Block::Memory(memory))) => memory.lock(),
            Some(Some(Block::File(pages))) => lock_pages(pages),
            None => Ok(()),
            Some(None) => {
                let why = "its params are shared with other programs: lock them before the first `share`";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
        }
    }

    /// A block of its own with these bytes; `None` where the system refuses.
    pub fn copy(&self) -> Option<Front> {
        let mut copy = Front::zeroed(self.len)?;
        copy.bytes_mut().copy_from_slice(self.bytes());
        Some(copy)
    }

    /// The first byte.
    pub(super) fn pointer(&mut self) -> *mut u8 {
        match self.is_shared() {
            // Nothing writes it.
            true => self.bytes().as_ptr().cast_mut(),
            false => self.bytes_mut().as_mut_ptr(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorArena;

    fn filled(byte: u8) -> Front {
        let mut front = Front::zeroed(2 * LINE).unwrap();
        front.bytes_mut().fill(byte);
        front
    }

    #[test]
    fn an_arena_behind_a_block_has_the_bytes_of_both() {
        let mut a = TensorArena::behind(filled(3), 5 * LINE).unwrap();
        assert_eq!((a.len(), a.bytes().len(), a.front().len()), (5 * LINE, 3 * LINE, 2 * LINE));
        a.slice_mut(2 * LINE..3 * LINE).fill(4);
        assert_eq!((a.slice(0..LINE), a.slice(2 * LINE..3 * LINE)), (&[3; LINE][..], &[4; LINE][..]));
        // What lies in both, or nowhere, is no range of the arena.
        let nowhere = [LINE..3 * LINE, 4 * LINE..6 * LINE, 9 * LINE..9 * LINE];
        assert!(nowhere.into_iter().all(|r| a.slice(r.clone()).is_empty() && a.slice_mut(r).is_empty()));
        let parts = a.parts();
        assert_eq!((parts.split, parts.len), (2 * LINE, 5 * LINE));
        assert_eq!(parts.base.wrapping_add(parts.split).cast_const(), a.bytes().as_ptr());
        assert!(TensorArena::behind(filled(0), LINE).is_none());
        assert!(!a.replace_front(Front::zeroed(LINE).unwrap()) && a.replace_front(filled(5)));
        assert_eq!(a.slice(0..LINE), [5; LINE]);
    }

    #[test]
    fn a_block_of_several_arenas_is_copied_before_it_is_written() {
        let block = filled(1);
        let arena = |front: &Front| TensorArena::behind(front.clone(), 3 * LINE).unwrap();
        let (mut a, b) = (arena(&block), arena(&block));
        assert!(a.front().is_shared());
        a.slice_mut(0..LINE).fill(9);
        assert_eq!((a.slice(0..LINE), b.slice(0..LINE), block.bytes()[0]), (&[9; LINE][..], &[1; LINE][..], 1));
        assert!(!a.front().is_shared());
        let before = a.front().bytes().as_ptr();
        a.slice_mut(0..LINE).fill(8);
        assert_eq!(a.front().bytes().as_ptr(), before);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_mapped_file_is_read_late_and_never_written() {
        let path = std::env::temp_dir().join(format!("arenagrad-front-{}", std::process::id()));
        std::fs::write(&path, [7; 4096 + 2 * LINE]).unwrap();
        let file = File::open(&path).unwrap();
        let mut front = Front::map(&file, 4096, 2 * LINE).unwrap();
        assert_eq!(front.bytes(), [7; 2 * LINE]);
        front.bytes_mut()[3] = 1;
        assert_eq!((front.bytes()[3], std::fs::read(&path).unwrap()[4096 + 3]), (1, 7));
        for (at, len) in [(4096, 3 * LINE), (8192, LINE), (u64::MAX - 63, LINE), (1, LINE), (0, 1)] {
            assert!(Front::map(&file, at, len).is_err(), "{at} {len}");
        }
        assert!(Front::map(&file, 1 << 62, 0).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
