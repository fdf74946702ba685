//! What the innermost loops take: a tile of C, or dot products of rows.
//!
//! Invariant: plain slices and distances, which the loops of `tile` check, and panels, which are right by themselves.
//! Only `tile` and its callers use this.

use super::prefetch::PrefetchQueue;
use super::sgd::SgdEpilogue;
use crate::kernels::abi::MatrixMut;

/// One tile of C and the operands it is computed from.
pub struct Tile<'a, T> {
    /// A, from the tile's first row.
    pub a: &'a [T],
    /// Distance between rows of A.
    pub a_row: usize,
    /// Distance between columns of A.
    pub a_col: usize,
    /// B, from the tile's first column; columns are adjacent.
    pub b: &'a [T],
    /// Distance between rows of B.
    pub b_row: usize,
    /// Length of the sums.
    pub k: usize,
    /// The tile of C.
    pub c: MatrixMut<'a, T>,
    /// Whether the sums start from C (else from 0).
    pub add: bool,
    /// Whether the rows of C below, which the next tile goes on from, are fetched meanwhile.
    pub ahead: bool,
    /// What else is fetched meanwhile.
    pub fetch: Option<&'a mut PrefetchQueue>,
    /// A step that C takes by the sums, which then start from 0, instead of becoming them.
    pub step: Option<SgdEpilogue<T>>,
}

impl<T> Tile<'_, T> {
    /// Whether every element of A and B that the tile names lies inside its slices.
    #[inline(always)]
    pub fn fits(&self) -> bool {
        let (rows, cols, k) = (self.c.rows(), self.c.cols(), self.k);
        let end = |n: usize, step: usize| n.checked_sub(1).and_then(|n| n.checked_mul(step));
        let inside = |x: Option<usize>, y: Option<usize>, more: usize, len: usize| match (x, y) {
            (Some(x), Some(y)) => x.checked_add(y).and_then(|e| e.checked_add(more)).is_some_and(|e| e <= len),
            _ => false,
        };
        inside(end(rows, self.a_row), end(k, self.a_col), 1, self.a.len())
            && inside(end(k, self.b_row), Some(0), cols, self.b.len())
    }
}

/// Dot products of adjacent rows of one matrix with adjacent rows of another; the columns of both are adjacent.
pub struct Dots<'a, T> {
    /// The first matrix, from its first row.
    pub x: &'a [T],
    /// Distance between its rows.
    pub x_step: usize,
    /// Length of the sums.
    pub k: usize,
    /// The second matrix, from its first row.
    pub rows: &'a [T],
    /// Distance between its rows.
    pub step: usize,
    /// The sums: a row for each row of the first matrix, a column for each row of the second.
    pub out: MatrixMut<'a, T>,
    /// Whether the sums are added to `out` (else they replace it).
    pub add: bool,
}
