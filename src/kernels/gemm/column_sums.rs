//! Sums of the columns of C while they are in cache: the gradient of a bias.
//!
//! There is a row of sums for each block of rows. If there are several, [`reduce::sum`](crate::reduce::sum) adds them.
//! Invariant: the result has the bits of a reduction of C over all its rows.

use super::gemm_float::GemmFloat;
use crate::abi::MatrixMut;
use crate::reduce;
use crate::reduce::pairwise::{self, Sum};
use std::ops::Range;

/// Whether sums of `n` columns of `m` rows can have those bits. `alone`: one unit has all of C.
pub fn can_keep_bits(m: usize, n: usize, alone: bool) -> bool {
    are_by_blocks(n) || (alone && reduce::plan_steps(1, m, n).partial.is_none())
}

/// The number of rows of sums of `rows` rows of C.
pub fn count_blocks(rows: usize, n: usize) -> usize {
    if are_by_blocks(n) { rows.div_ceil(pairwise::ROWS) } else { 1 }
}

/// Whether `n` columns are summed block by block, by [`add_rows`]. Narrower rows are summed all at once.
pub fn are_by_blocks(n: usize) -> bool {
    n > pairwise::NARROW
}

/// Sums the columns of `c`, which is all rows of a call and, if not [`are_by_blocks`], all columns.
pub fn sum_all_rows<T: GemmFloat>(mut c: MatrixMut<'_, T>, n: usize, to: &mut MatrixMut<'_, T>) {
    if are_by_blocks(n) {
        add_rows(&c, 0..c.rows(), to);
    } else if let Some(c) = c.flat() {
        reduce::fold_columns(Sum, c, n, to.row(0));
    }
}

/// Adds `rows` of `c` to the sums `to`, of which row i is that of block i. Rows are added in ascending order. `c` has
/// all rows of a call.
pub fn add_rows<T: GemmFloat>(c: &MatrixMut<'_, T>, rows: Range<usize>, to: &mut MatrixMut<'_, T>) {
    // Rows of an incomplete group are added with the rest of the group.
    let grouped = |row: usize| if row < c.rows() { row / pairwise::GROUP * pairwise::GROUP } else { row };
    let (mut row, end) = (grouped(rows.start), grouped(rows.end));
    while row < end {
        let block = row / pairwise::ROWS;
        let stop = end.min((block + 1) * pairwise::ROWS);
        let to = to.row(block);
        if row.is_multiple_of(pairwise::ROWS) {
            to.fill(T::EMPTY_SUM);
        }
        add_column_sums_of_rows(c, row..stop, to);
        row = stop;
    }
}

crate::simd! {
    fn add_column_sums_of_rows[T: GemmFloat](c: &MatrixMut<'_, T>, rows: Range<usize>, to: &mut [T]) {
        let mut i = rows.start;
        while i + pairwise::GROUP <= rows.end {
            pairwise::join_group(Sum, [c.get(i), c.get(i + 1), c.get(i + 2), c.get(i + 3)], to);
            i += pairwise::GROUP;
        }
        (i..rows.end).for_each(|i| pairwise::join_row(Sum, c.get(i), to));
    }
}
