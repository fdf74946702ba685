//! What is fetched while tiles are computed: rows in different pages, which no hardware foresees, line by line, as
//! many at once would wait for one another.
//!
//! Invariant: fetching has no effect that a program can see, so addresses are numbers that nothing checks. `blocked`
//! and the sinks of `sink` say what comes next; the loops of `tile` ask for it.

use super::tuning::LINE;
use crate::kernels::simd::prefetch_l2;

/// Most blocks that are fetched together: a parameter and its states.
const BLOCKS: usize = 3;

/// The cache lines of some blocks of one shape that are left to be fetched, row by row.
#[derive(Debug, Default)]
pub struct PrefetchQueue {
    /// Where the current row of each block begins.
    at: [usize; BLOCKS],
    blocks: usize,
    /// Rows that are left.
    rows: usize,
    /// Bytes from one row to the next.
    step: usize,
    /// Bytes of a row.
    width: usize,
    /// How far the current row has been fetched, in bytes.
    done: usize,
    /// Lines of each block that one visit fetches.
    lines: usize,
    /// Terms of a tile's sums from one visit to the next.
    pub terms: usize,
}

impl PrefetchQueue {
    /// Blocks of `rows` rows of `cols` elements, `step` elements apart, that the slices begin with. They are set in
    /// place: this is done for each tile, and reading a copy of what has just been written takes longer than all the
    /// rest.
    #[inline]
    pub fn set<'a, T: 'a>(&mut self, blocks: impl Iterator<Item = &'a [T]>, rows: usize, cols: usize, step: usize) {
        self.blocks = 0;
        for (to, block) in self.at.iter_mut().zip(blocks) {
            *to = block.as_ptr().addr();
            self.blocks += 1;
        }
        (self.rows, self.step, self.width, self.done) = (rows, step * size_of::<T>(), cols * size_of::<T>(), 0);
        // A row that begins within a line ends in one more.
        if !self.step.is_multiple_of(LINE) || self.at[..self.blocks].iter().any(|at| !at.is_multiple_of(LINE)) {
            self.width += LINE - 1;
        }
        (self.lines, self.terms) = (0, usize::MAX);
    }

    /// Spreads what there is over `tiles` tiles whose sums have `k` terms.
    #[inline]
    pub fn spread(&mut self, tiles: usize, k: usize) {
        let each = (self.rows * self.width.div_ceil(LINE)).div_ceil(tiles).max(1);
        self.lines = each.div_ceil(k);
        self.terms = (k * self.lines / each).max(1);
    }

    /// Fetches nothing.
    #[inline]
    pub fn clear(&mut self) {
        self.rows = 0;
    }

    /// Itself, if there is something to fetch.
    #[inline(always)]
    pub fn any(&mut self) -> Option<&mut PrefetchQueue> {
        if self.rows > 0 { Some(self) } else { None }
    }

    /// Fetches the next few.
    #[inline(always)]
    pub fn visit(&mut self) {
        for _ in 0..self.lines {
            if self.rows == 0 {
                return;
            }
            self.at[..self.blocks].iter().for_each(|at| prefetch_l2(at.wrapping_add(self.done)));
            self.done += LINE;
            if self.done >= self.width {
                self.done = 0;
                self.rows -= 1;
                self.at.iter_mut().for_each(|at| *at = at.wrapping_add(self.step));
            }
        }
    }
}
