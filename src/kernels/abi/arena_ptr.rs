//! The arena as a pointer that threads share.

/// The arena as the executor sees it during a step: a pointer and a length.
#[derive(Clone, Copy)]
pub struct ArenaPtr {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

// SAFETY: an `ArenaPtr` is a pointer and a length. Its bytes are reached only through `Args`, whose invariant (head of
// `abi/mod.rs`) is that concurrent calls touch disjoint bytes unless they only read.
#[allow(unsafe_code)]
unsafe impl Send for ArenaPtr {}
// SAFETY: as for `Send`; an `ArenaPtr` has no interior mutability.
#[allow(unsafe_code)]
unsafe impl Sync for ArenaPtr {}

impl ArenaPtr {
    /// Points to an arena's bytes. The caller keeps the arena alive and unborrowed while kernels run.
    pub fn new(bytes: &mut [u8]) -> ArenaPtr {
        ArenaPtr { base: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// Pointer and length, to pass to another thread.
    pub fn parts(self) -> (*mut u8, usize) {
        (self.base, self.len)
    }

    /// The inverse of [`ArenaPtr::parts`]. Calling it is harmless: only [`Args::new`](super::Args::new), which is
    /// unsafe, relies on the values.
    pub fn from_parts(base: *mut u8, len: usize) -> ArenaPtr {
        ArenaPtr { base, len }
    }
}
