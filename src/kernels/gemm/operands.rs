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
        last(k, self.a_col).is_some_and(|end| lines_fit(rows, self.a_row, end, 1, self.a.len()))
            && lines_fit(k, self.b_row, 0, cols, self.b.len())
    }
}

/// Where the last of `count` lines begins; `None` if there is none, or beyond `usize`.
#[inline(always)]
fn last(count: usize, step: usize) -> Option<usize> {
    count.checked_sub(1)?.checked_mul(step)
}

/// Whether elements `at .. at + len` of each of `count` lines are among `all`. False if there is no line.
#[inline(always)]
pub fn lines_fit(count: usize, step: usize, at: usize, len: usize, all: usize) -> bool {
    last(count, step).and_then(|end| end.checked_add(at)?.checked_add(len)).is_some_and(|end| end <= all)
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

impl<T> Dots<'_, T> {
    /// Whether every element of the rows is inside the slices, or there is no result.
    #[inline(always)]
    pub fn fits(&self) -> bool {
        let (rows, cols) = (self.out.rows(), self.out.cols());
        rows == 0
            || cols == 0
            || (lines_fit(rows, self.x_step, 0, self.k, self.x.len())
                && lines_fit(cols, self.step, 0, self.k, self.rows.len()))
    }
}
