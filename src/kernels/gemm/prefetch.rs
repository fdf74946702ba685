//! Prefetching while tiles are computed.
//!
//! Only rows in different pages are prefetched, because hardware prefetchers do not foresee those. Requests are sent a
//! few lines at a time while a tile is computed, because many requests at once would wait for one another. `blocked`
//! and the sinks fill a [`PrefetchQueue`]; the loops of `register_tile` send its requests.
//!
//! Invariant: a prefetch has no effect that a program can see, so addresses need no check.

use super::tuning::LINE;
use crate::simd;

/// Most blocks that are prefetched together: a param and its two moments.
const BLOCKS: usize = 3;

/// Cache lines that are still to be prefetched: those of up to three blocks of one shape, row by row.
#[derive(Debug, Default)]
pub struct PrefetchQueue {
    /// The address of the current row of each block.
    at: [usize; BLOCKS],
    /// Number of blocks.
    blocks: usize,
    /// Rows that are left.
    rows: usize,
    /// Bytes from one row to the next.
    step: usize,
    /// Bytes of a row.
    width: usize,
    /// Bytes of the current row that have been prefetched.
    done: usize,
    /// Lines of each block that one visit prefetches.
    lines: usize,
    /// Terms of a tile's sums between two visits.
    pub terms: usize,
}

impl PrefetchQueue {
    /// Sets the blocks: each begins where its slice begins, and has `rows` rows of `cols` elements, `step` elements
    /// apart. In place, because this runs for each tile, and reading a copy of what has just been written takes longer
    /// than all the rest.
    #[inline]
    pub fn set<'a, T: 'a>(&mut self, blocks: impl Iterator<Item = &'a [T]>, rows: usize, cols: usize, step: usize) {
        self.blocks = 0;
        for (to, block) in self.at.iter_mut().zip(blocks) {
            *to = block.as_ptr().addr();
            self.blocks += 1;
        }
        (self.rows, self.step, self.width, self.done) =
            (rows, step.wrapping_mul(size_of::<T>()), cols * size_of::<T>(), 0);
        // A row that begins inside a line may end in one more line.
        if !self.step.is_multiple_of(LINE) || self.at[..self.blocks].iter().any(|at| !at.is_multiple_of(LINE)) {
            self.width += LINE - 1;
        }
        (self.lines, self.terms) = (0, usize::MAX);
    }

    /// Spreads all lines over `tiles` tiles whose sums have `k` terms.
    #[inline]
    pub fn spread(&mut self, tiles: usize, k: usize) {
        let each = (self.rows * self.width.div_ceil(LINE)).div_ceil(tiles).max(1);
        self.lines = each.div_ceil(k);
        self.terms = (k * self.lines / each).max(1);
    }

    /// Removes all lines.
    #[inline]
    pub fn clear(&mut self) {
        self.rows = 0;
    }

    /// Itself, if lines are left.
    #[inline(always)]
    pub fn any(&mut self) -> Option<&mut PrefetchQueue> {
        if self.rows > 0 { Some(self) } else { None }
    }

    /// Prefetches the next few lines.
    #[inline(always)]
    pub fn visit(&mut self) {
        for _ in 0..self.lines {
            if self.rows == 0 {
                return;
            }
            self.at[..self.blocks].iter().for_each(|at| simd::prefetch_l2(at.wrapping_add(self.done)));
            self.done += LINE;
            if self.done >= self.width {
                self.done = 0;
                self.rows -= 1;
                self.at.iter_mut().for_each(|at| *at = at.wrapping_add(self.step));
            }
        }
    }
}
