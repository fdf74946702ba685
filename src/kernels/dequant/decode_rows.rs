//! Decodes some rows and columns of a matrix of codes.
//!
//! Invariant: element `(p, j)` is (number of its code − zero of column j)·(scale of column j). Codes of 4 bits are
//! packed without gaps between rows, so a row may begin in the middle of a byte.

use super::code_number::CodeNumber;
use crate::float::Float;
use crate::simd;

/// Most columns that are decoded together.
pub const CHUNK: usize = 128;

/// Where the codes are that [`decode_rows`] reads.
#[derive(Clone, Copy)]
pub struct CodeRows<'a> {
    /// All codes of the matrix.
    pub codes: &'a [u8],
    /// Whether two share a byte.
    pub packed: bool,
    /// The number of the first code.
    pub first: usize,
    /// Codes between rows.
    pub step: usize,
    /// Number of rows.
    pub rows: usize,
}

/// Codes of four bits, one in a byte.
#[inline(always)]
fn decode_row_of_nibbles(bytes: &[u8], first: usize, to: &mut [u8]) {
    let bytes = &bytes[first / 2..];
    let (head, to) = to.split_at_mut((first % 2).min(to.len()));
    if let Some(head) = head.first_mut() {
        *head = bytes[0] >> 4;
    }
    let bytes = &bytes[head.len()..];
    let (pairs, last) = to.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = [byte & 15, byte >> 4];
    }
    if let (Some(last), Some(byte)) = (last.first_mut(), bytes.get(pairs.len())) {
        *last = byte & 15;
    }
}

simd! {
    /// Decodes rows of `scale.len()` columns, at most [`CHUNK`], to `to[p * step ..]`. `low` reads a code that has a
    /// byte of its own.
    pub fn decode_rows[T: Float + From<f32>, N: CodeNumber](
        low: N,
        from: CodeRows<'_>,
        scale: &[T],
        zero: &[T],
        to: &mut [T],
        step: usize
    ) {
        let cols = scale.len();
        let mut unpacked = [0u8; CHUNK];
        for p in 0..from.rows {
            let first = from.first + p * from.step;
            let codes = if from.packed {
                decode_row_of_nibbles(from.codes, first, &mut unpacked[..cols]);
                &unpacked[..cols]
            } else {
                &from.codes[first..][..cols]
            };
            for (((to, code), scale), zero) in to[p * step..][..cols].iter_mut().zip(codes).zip(scale).zip(zero) {
                *to = (T::from(low.number(*code)) - *zero) * *scale;
            }
        }
    }
}
