//! The arena as a pointer that threads share.

use arenagrad_arena::tensor::{ArenaParts, TensorArena};

/// The arena as the executor sees it during a step: pointers to its blocks, and their sizes.
#[derive(Clone, Copy)]
pub struct ArenaPtr(pub(super) ArenaParts);

// SAFETY: an `ArenaPtr` is pointers and sizes. Its bytes are reached only through `Args`, whose invariant (head of
// `abi/mod.rs`) is that concurrent calls touch disjoint bytes unless they only read.
#[allow(unsafe_code)]
unsafe impl Send for ArenaPtr {}
// SAFETY: as for `Send`; an `ArenaPtr` has no interior mutability.
#[allow(unsafe_code)]
unsafe impl Sync for ArenaPtr {}

impl ArenaPtr {
    /// Points to the bytes of an arena of one block. The caller keeps them alive and unborrowed while kernels run.
    pub fn new(bytes: &mut [u8]) -> ArenaPtr {
        ArenaPtr::from_parts(ArenaParts {
            front: std::ptr::null_mut(),
            split: 0,
            base: bytes.as_mut_ptr(),
            len: bytes.len(),
        })
    }

    /// Points to `arena`. The caller keeps it alive and unborrowed while kernels run.
    pub fn of(arena: &mut TensorArena) -> ArenaPtr {
        ArenaPtr(arena.parts())
    }

    /// Pointers and sizes, to pass to another thread.
    pub fn parts(self) -> ArenaParts {
        self.0
    }

    /// The inverse of [`ArenaPtr::parts`]. Calling it is harmless: only [`Args::new`](super::Args::new), which is
    /// unsafe, relies on the values.
    pub fn from_parts(parts: ArenaParts) -> ArenaPtr {
        ArenaPtr(parts)
    }

    /// The address of byte `off`, and one past the last offset of its block.
    #[inline(always)]
    pub(super) fn block_of(self, off: usize) -> (*mut u8, usize) {
        match off < self.0.split {
            true => (self.0.front.wrapping_add(off), self.0.split),
            false => (self.0.base.wrapping_add(off), self.0.len),
        }
    }
}
