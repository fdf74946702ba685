//! The operands of a product and of its innermost loops.
//!
//! Invariant: A and B are plain slices and strides, which the innermost loops check. C is a [`MatrixMut`], whose bounds
//! hold by construction. Strides are in elements.

use super::prefetch::PrefetchQueue;
use super::sgd_epilogue::SgdEpilogue;
use crate::abi::MatrixMut;

/// The operands that a product reads.
#[derive(Clone, Copy)]
pub struct Operands<'a, T> {
    /// A.
    pub a: &'a [T],
    /// B.
    pub b: &'a [T],
    /// The bias `[n]`, or the operand of an act-grad epilogue, shaped as C.
    pub third: Option<&'a [T]>,
}

/// A block of an operand, packed or in place.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    /// The elements, from the block's first.
    pub data: &'a [T],
    /// Stride between rows.
    pub row: usize,
    /// Stride between columns.
    pub col: usize,
}

/// One register tile of C and the operands that it is computed from.
pub struct RegisterTileOperands<'a, T> {
    /// A, from the tile's first row.
    pub a: &'a [T],
    /// Stride between rows of A.
    pub a_row: usize,
    /// Stride between columns of A.
    pub a_col: usize,
    /// B, from the tile's first column. Columns are adjacent.
    pub b: &'a [T],
    /// Stride between rows of B.
    pub b_row: usize,
    /// Terms of a sum.
    pub k: usize,
    /// The tile of C.
    pub c: MatrixMut<'a, T>,
    /// Whether sums start from C, else from 0.
    pub add: bool,
    /// Whether the rows of C below the tile, which are those of the next tile, are prefetched meanwhile.
    pub prefetch_c: bool,
    /// Other lines to prefetch meanwhile.
    pub prefetch: Option<&'a mut PrefetchQueue>,
    /// The SGD step by which C is updated. The sums, which are its gradient, then start from 0 and are not stored.
    pub step: Option<SgdEpilogue<T>>,
}

impl<T> RegisterTileOperands<'_, T> {
    /// Whether every element of A and B that the tile reads is inside the slices.
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

/// The dot products of each row of one matrix with each row of another. Columns of both are adjacent.
pub struct Dots<'a, T> {
    /// The first matrix, from its first row.
    pub x: &'a [T],
    /// Stride between its rows.
    pub x_step: usize,
    /// Terms of a sum.
    pub k: usize,
    /// The second matrix, from its first row.
    pub rows: &'a [T],
    /// Stride between its rows.
    pub step: usize,
    /// The results: a row for each row of the first matrix, a column for each row of the second.
    pub out: MatrixMut<'a, T>,
    /// Whether the results are added to `out`, else they replace it.
    pub add: bool,
}
