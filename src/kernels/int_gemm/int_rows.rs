//! Packing of rows of A: pairs of terms, one row after the other.
//!
//! Invariant: pair `p` of row `i` goes to `to[i * step + p]`. If the number of terms is odd, the last pair ends with 0.

use super::int_codes::{IntCodes, subtract_zero_points};
use crate::simd;
use std::ops::Range;

/// The matrix A.
#[derive(Clone, Copy)]
pub struct IntRows<'a> {
    /// The codes, from the first row on.
    pub data: &'a [u8],
    /// How they are read.
    pub codes: IntCodes,
    /// Stride between rows.
    pub row: usize,
    /// Stride between columns. One of the two strides is 1.
    pub col: usize,
    /// Terms of a sum: the columns of A.
    pub k: usize,
    /// A zero point for each row beside that of `codes`; empty if there are none.
    pub zeros: &'a [i8],
}

simd! {
    /// Packs adjacent terms of one row.
    fn pack_int_rows_adjacent(codes: IntCodes, from: &[u8], to: &mut [i32]) {
        let (pairs, rest) = from.as_chunks::<2>();
        for (to, &[first, second]) in to.iter_mut().zip(pairs) {
            *to = codes.pair(first, second);
        }
        if let (&[last], Some(to)) = (rest, to.get_mut(pairs.len())) {
            *to = codes.half_pair(last);
        }
    }
}

simd! {
    /// Packs one pair of each row: the terms of rows are adjacent.
    fn pack_int_rows_apart(codes: IntCodes, first: &[u8], second: Option<&[u8]>, to: &mut [i32], step: usize) {
        for (i, to) in to.iter_mut().step_by(step).enumerate().take(first.len()) {
            *to = match second {
                Some(second) => codes.pair(first[i], second[i]),
                None => codes.half_pair(first[i]),
            };
        }
    }
}

impl IntRows<'_> {
    /// Packs pairs `pairs` of rows `rows`.
    pub fn pack(&self, rows: Range<usize>, pairs: Range<usize>, to: &mut [i32], step: usize) {
        self.pack_codes(rows.clone(), pairs.clone(), to, step);
        for (line, &zero) in to.chunks_mut(step).zip(self.zeros.get(rows).unwrap_or_default()) {
            for (pair, packed) in pairs.clone().zip(line) {
                subtract_zero_points(std::slice::from_mut(packed), &[zero], 2 * pair + 1 == self.k);
            }
        }
    }

    fn pack_codes(&self, rows: Range<usize>, pairs: Range<usize>, to: &mut [i32], step: usize) {
        let terms = 2 * pairs.start..self.k.min(2 * pairs.end);
        if self.col == 1 {
            for (i, row) in rows.enumerate() {
                let from = &self.data[row * self.row..][terms.clone()];
                pack_int_rows_adjacent(self.codes, from, &mut to[i * step..][..pairs.len()]);
            }
            return;
        }
        let line = |k: usize| &self.data[k * self.col + rows.start * self.row..][..rows.len()];
        for (p, k) in terms.clone().step_by(2).enumerate() {
            let second = (k + 1 < self.k).then(|| line(k + 1));
            pack_int_rows_apart(self.codes, line(k), second, &mut to[p..], step);
        }
    }
}
