//! Observers of the tiles of a block: they say what is prefetched while each tile is computed.

use super::prefetch::PrefetchQueue;
use std::ops::Range;

/// An observer of the tiles of a block.
pub trait BlockedTileObserver<T> {
    /// Runs before a tile is computed, which is the block's rows and columns `rows` and `cols`. Fills `lines` with what
    /// to prefetch meanwhile.
    fn before_blocked_tile(&mut self, lines: &mut PrefetchQueue, rows: Range<usize>, cols: Range<usize>);
}

/// Observes nothing.
impl<T> BlockedTileObserver<T> for () {
    #[inline(always)]
    fn before_blocked_tile(&mut self, _: &mut PrefetchQueue, _: Range<usize>, _: Range<usize>) {}
}

/// Prefetches the rows of both operands for the next block of k, those of A during the first half of the tiles.
pub struct NextBlockedTerms<'a, T> {
    /// A and B: the elements from the next block on, the stride between rows, and the elements of a row.
    pub operands: [(&'a [T], usize, usize); 2],
    /// Rows of the next block.
    pub terms: usize,
    /// Terms of a tile's sums in this block.
    pub k: usize,
    /// Tiles of this block.
    pub tiles: usize,
    /// Tiles that have begun.
    pub at: usize,
}

impl<T> BlockedTileObserver<T> for NextBlockedTerms<'_, T> {
    #[inline(always)]
    fn before_blocked_tile(&mut self, lines: &mut PrefetchQueue, _: Range<usize>, _: Range<usize>) {
        let half = self.tiles.div_ceil(2);
        if self.at.is_multiple_of(half)
            && let Some((from, step, cols)) = self.operands.get(self.at / half)
        {
            lines.set(std::iter::once(*from), self.terms, *cols, *step);
            lines.spread(half, self.k);
        }
        self.at += 1;
    }
}
