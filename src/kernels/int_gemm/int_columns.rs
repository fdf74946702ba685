//! Packing of columns of B: pairs of terms, in panels as wide as a tile.
//!
//! Invariant: pair `p` of column `j` of a panel goes to `to[p * width + j]`; columns beyond the last one, and a term
//! beyond the last one, are 0.

use super::int_codes::{IntCodes, subtract_zero_points};
use crate::simd;
use std::ops::Range;

/// A matrix B whose panels can be packed.
pub trait IntColumnPanels {
    /// Packs pairs `pairs` of columns `cols`, of which there are at most `width`, at most 64.
    fn pack(&self, pairs: Range<usize>, cols: Range<usize>, width: usize, to: &mut [i32]);
}

/// A matrix B in memory.
#[derive(Clone, Copy)]
pub struct IntColumns<'a> {
    /// The codes.
    pub data: &'a [u8],
    /// How they are read.
    pub codes: IntCodes,
    /// Stride between rows.
    pub row: usize,
    /// Stride between columns. One of the two strides is 1.
    pub col: usize,
    /// Terms of a sum: the rows of B.
    pub k: usize,
    /// A zero point for each column beside that of `codes`; empty if there are none.
    pub zeros: &'a [i8],
}

/// Columns that are packed together.
const TOGETHER: usize = 16;

simd! {
    /// Packs pairs of rows, `row` codes apart, whose columns are adjacent. `data` begins at the first.
    fn pack_int_columns_of_rows(
        codes: IntCodes,
        data: &[u8],
        row: usize,
        terms: usize,
        cols: usize,
        width: usize,
        to: &mut [i32]
    ) {
        for (p, to) in to.chunks_exact_mut(width).enumerate().take(terms.div_ceil(2)) {
            let (to, beyond) = to.split_at_mut(cols);
            let first = &data[2 * p * row..][..cols];
            if 2 * p + 1 < terms {
                let second = &data[(2 * p + 1) * row..][..cols];
                let (to16, to1) = to.as_chunks_mut::<TOGETHER>();
                let ((first16, first1), (second16, second1)) =
                    (first.as_chunks::<TOGETHER>(), second.as_chunks::<TOGETHER>());
                for ((to, first), second) in to16.iter_mut().zip(first16).zip(second16) {
                    for i in 0..TOGETHER {
                        to[i] = codes.pair(first[i], second[i]);
                    }
                }
                for ((to, first), second) in to1.iter_mut().zip(first1).zip(second1) {
                    *to = codes.pair(*first, *second);
                }
            } else {
                for (to, first) in to.iter_mut().zip(first) {
                    *to = codes.half_pair(*first);
                }
            }
            beyond.fill(0);
        }
    }
}

simd! {
    /// Packs one column, whose terms are adjacent, into every `width`th element.
    fn pack_int_column(codes: IntCodes, terms: &[u8], width: usize, to: &mut [i32]) {
        let (pairs, rest) = terms.as_chunks::<2>();
        for (to, &[first, second]) in to.iter_mut().step_by(width).zip(pairs) {
            *to = codes.pair(first, second);
        }
        if let (&[last], Some(to)) = (rest, to.get_mut(pairs.len() * width)) {
            *to = codes.half_pair(last);
        }
    }
}

impl IntColumnPanels for IntColumns<'_> {
    fn pack(&self, pairs: Range<usize>, cols: Range<usize>, width: usize, to: &mut [i32]) {
        let to = &mut to[..pairs.len() * width];
        self.pack_codes(pairs.clone(), cols.clone(), width, to);
        if self.zeros.is_empty() {
            return;
        }
        for (pair, line) in pairs.zip(to.chunks_exact_mut(width)) {
            subtract_zero_points(line, &self.zeros[cols.clone()], 2 * pair + 1 == self.k);
        }
    }
}

impl IntColumns<'_> {
    fn pack_codes(&self, pairs: Range<usize>, cols: Range<usize>, width: usize, to: &mut [i32]) {
        let terms = 2 * pairs.start..self.k.min(2 * pairs.end);
        if self.col == 1 {
            let data = &self.data[terms.start * self.row + cols.start..];
            return pack_int_columns_of_rows(self.codes, data, self.row, terms.len(), cols.len(), width, to);
        }
        if cols.len() < width {
            to.fill(0);
        }
        for (j, col) in cols.enumerate() {
            let from = &self.data[col * self.col..][terms.clone()];
            pack_int_column(self.codes, from, width, &mut to[j..]);
        }
    }
}
