//! The product of one row with coded weights: weights are decoded in registers, and each byte is read once.
//!
//! Invariant: an element is the chain `sum = fma(x[p], w[p], sum)` with `p` ascending, from 0, as in the general
//! product.

use super::code_number::{CodeNumber, with_code_numbers};
use super::coded_weights::CodedWeights;
use crate::float::Float;
use crate::simd;
use std::ops::Range;

/// Columns whose sums stay in L1, beside their scales and zeros.
const STRIP: usize = 1024;
/// Rows that are added together: their codes are read side by side, and sums are loaded once.
const TOGETHER: usize = 4;
/// How many rows ahead codes are prefetched. A strip of a row is too short for hardware prefetchers.
const AHEAD: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Elements of scratch: sums, scales and zeros of a strip.
pub const ROW_SCRATCH: usize = 3 * STRIP;

simd! {
    /// sums += x[0]·w[0] + … + x[3]·w[3], one after the other, for four rows of codes.
    fn add_four_coded_rows[T: Float + From<f32>, N: CodeNumber](
        number: N,
        x: &[T; TOGETHER],
        rows: [&[u8]; TOGETHER],
        scale: &[T],
        zero: &[T],
        sums: &mut [T]
    ) {
        let (&[x0, x1, x2, x3], n) = (x, sums.len());
        let [w0, w1, w2, w3] = rows.map(|row| &row[..n]);
        let (scale, zero) = (&scale[..n], &zero[..n]);
        for i in 0..n {
            let weight = |code: u8| (T::from(number.number(code)) - zero[i]) * scale[i];
            let sum = x0.mul_add(weight(w0[i]), sums[i]);
            let sum = x1.mul_add(weight(w1[i]), sum);
            let sum = x2.mul_add(weight(w2[i]), sum);
            sums[i] = x3.mul_add(weight(w3[i]), sum);
        }
    }
}

simd! {
    /// sums += x·w for one row of codes.
    fn add_coded_row[T: Float + From<f32>, N: CodeNumber](
        number: N,
        x: T,
        row: &[u8],
        scale: &[T],
        zero: &[T],
        sums: &mut [T]
    ) {
        for (((sum, code), scale), zero) in sums.iter_mut().zip(row).zip(scale).zip(zero) {
            *sum = x.mul_add((T::from(number.number(*code)) - *zero) * *scale, *sum);
        }
    }
}

/// Scales, zeros and sums of the columns of a strip whose codes are in the same half of a byte.
struct CodedHalf<'s, T> {
    scale: &'s [T],
    zero: &'s [T],
    sums: &'s mut [T],
}

impl<T: Float + From<f32>> CodedHalf<'_, T> {
    /// Adds rows of one block, whose codes begin at `first` and are `step` bytes apart.
    fn add(&mut self, number: impl CodeNumber, x: &[T], codes: &[u8], first: usize, step: usize) {
        let len = self.sums.len();
        let row = |p: usize| &codes[first + p * step..][..len];
        let (fours, rest) = x.as_chunks::<TOGETHER>();
        for (q, x) in fours.iter().enumerate() {
            let p = TOGETHER * q;
            prefetch_codes(&codes[first..], p + AHEAD, step, len);
            add_four_coded_rows(
                number,
                x,
                [row(p), row(p + 1), row(p + 2), row(p + 3)],
                self.scale,
                self.zero,
                self.sums,
            );
        }
        for (i, x) in rest.iter().enumerate() {
            add_coded_row(number, *x, row(TOGETHER * fours.len() + i), self.scale, self.zero, self.sums);
        }
    }
}

/// Prefetches the first `len` bytes of rows `p ..` of codes, which are `step` bytes apart.
#[inline]
fn prefetch_codes(codes: &[u8], p: usize, step: usize, len: usize) {
    for row in p..p + TOGETHER {
        let Some(row) = codes.get(row * step..) else { return };
        for line in (0..len).step_by(LINE) {
            simd::prefetch_l2(row.as_ptr().addr() + line);
        }
    }
}

/// Puts elements of even places before those of odd places.
fn split_coded_halves<T: Copy>(from: &[T], to: &mut [T]) {
    let (even, odd) = to.split_at_mut(from.len() / 2);
    for ((pair, even), odd) in from.as_chunks::<2>().0.iter().zip(even).zip(odd) {
        (*even, *odd) = (pair[0], pair[1]);
    }
}

impl<T: Float + From<f32>> CodedWeights<'_, T> {
    /// Whether [`coded_row_product`](CodedWeights::coded_row_product) computes products with these weights: rows begin
    /// at bytes.
    pub fn coded_row_product_fits(&self) -> bool {
        !self.scheme.is_packed() || self.n.is_multiple_of(2)
    }

    /// Columns `cols` of x·w, for weights whose [rows begin at bytes](CodedWeights::coded_row_product_fits). The first
    /// column is even. `scratch` has [`ROW_SCRATCH`] elements.
    pub fn coded_row_product(&self, x: &[T], cols: Range<usize>, y: &mut [T], scratch: &mut [T]) {
        for (from, y) in cols.step_by(STRIP).zip(y.chunks_mut(STRIP)) {
            with_code_numbers!(self.scheme, (low, high) => self.coded_row_product_strip((low, high), x, from, y, scratch));
        }
    }

    /// A strip of the product.
    fn coded_row_product_strip<L: CodeNumber, H: CodeNumber>(
        &self,
        (low, high): (L, H),
        x: &[T],
        from: usize,
        y: &mut [T],
        scratch: &mut [T],
    ) {
        let (packed, len) = (self.scheme.is_packed(), y.len());
        let (scale, rest) = scratch.split_at_mut(STRIP);
        let (zero, sums) = rest.split_at_mut(STRIP);
        let (scale, zero, sums) = (&mut scale[..len], &mut zero[..len], &mut sums[..len]);
        sums.fill(T::ZERO);
        let (first, step) = if packed { (from / 2, self.n / 2) } else { (from, self.n) };
        for (block, x) in x.chunks(self.block).enumerate() {
            let first = first + block * self.block * step;
            if !packed {
                self.copy_scales(block, from, scale);
                self.copy_zeros(block, from, zero);
                CodedHalf { scale, zero, sums }.add(low, x, self.codes, first, step);
                continue;
            }
            // `y` is free until the end.
            self.copy_scales(block, from, y);
            split_coded_halves(y, scale);
            self.copy_zeros(block, from, y);
            split_coded_halves(y, zero);
            let ((s0, s1), (z0, z1)) = (scale.split_at(len / 2), zero.split_at(len / 2));
            let (even, odd) = sums.split_at_mut(len / 2);
            CodedHalf { scale: s0, zero: z0, sums: even }.add(low, x, self.codes, first, step);
            CodedHalf { scale: s1, zero: z1, sums: odd }.add(high, x, self.codes, first, step);
        }
        match packed {
            false => y.copy_from_slice(sums),
            true => {
                let (even, odd) = sums.split_at(len / 2);
                for ((pair, even), odd) in y.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
                    *pair = [*even, *odd];
                }
            }
        }
    }
}
