//! The frozen form of an interner, in a bump arena: slices of items, each found by its id.

use bumpalo::Bump;

/// A frozen pool of runs: run `i` is `items[at[i]..at[i + 1]]`.
#[derive(Clone, Copy, Debug)]
pub struct RunPool<'a, T> {
    pub(super) at: &'a [u32],
    pub(super) items: &'a [T],
}

impl<'a, T> RunPool<'a, T> {
    /// Run `i`.
    #[inline]
    pub fn run(&self, i: usize) -> &'a [T] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }

    /// A copy in `bump`, with the same ids.
    pub fn copied_to<'b>(&self, bump: &'b Bump) -> RunPool<'b, T>
    where
        T: Copy,
    {
        RunPool { at: bump.alloc_slice_copy(self.at), items: bump.alloc_slice_copy(self.items) }
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.at.len() - 1
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> usize {
        size_of_val(self.at) + size_of_val(self.items)
    }
}
