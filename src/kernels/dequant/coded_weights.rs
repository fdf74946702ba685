//! Coded weights as a matrix that a product decodes.

use super::code_number::with_code_numbers;
use super::code_scheme::CodeScheme;
use super::decode_rows::{CHUNK, CodeRows, decode_rows};
use super::fp8_fp4::e4m3_to_f32;
use crate::float::Float;
use crate::gemm::PanelDecoder;
use std::ops::Range;

/// Rows that are decoded together.
pub const DEPTH: usize = 32;

/// Scales of blocks, `[⌈k / block⌉, n]`.
#[derive(Clone, Copy, Debug)]
pub enum Scales<'a, T> {
    /// As numbers.
    Numbers(&'a [T]),
    /// As E4M3 codes, times one number. The scale of a NaN code is 0.
    Codes(&'a [u8], T),
}

/// A matrix of coded weights, `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub struct CodedWeights<'a, T> {
    /// How weights are coded.
    pub scheme: CodeScheme,
    /// The codes, row by row.
    pub codes: &'a [u8],
    /// Rows.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Rows that share a scale, at least 1. The last block may have fewer.
    pub block: usize,
    /// The scales.
    pub scales: Scales<'a, T>,
    /// The zeros, `[⌈k / block⌉, n]`.
    pub zeros: Option<&'a [T]>,
}

impl<T: Float + From<f32>> CodedWeights<'_, T> {
    /// Writes the scales of a block from column `col` on.
    pub fn copy_scales(&self, block: usize, col: usize, to: &mut [T]) {
        let at = block * self.n + col;
        match self.scales {
            Scales::Numbers(scales) => to.copy_from_slice(&scales[at..at + to.len()]),
            Scales::Codes(codes, all_times) => {
                for (s, &code) in to.iter_mut().zip(&codes[at..]) {
                    let x = e4m3_to_f32(code);
                    *s = T::from(if x.is_nan() { 0.0 } else { x }) * all_times;
                }
            }
        }
    }

    /// Writes the zeros of a block from column `col` on.
    pub fn copy_zeros(&self, block: usize, col: usize, to: &mut [T]) {
        let at = block * self.n + col;
        match self.zeros {
            Some(zeros) => to.copy_from_slice(&zeros[at..at + to.len()]),
            None => to.fill(T::from_f64(self.scheme.default_zero())),
        }
    }
}

impl<T: Float + From<f32>> PanelDecoder<T> for CodedWeights<'_, T> {
    fn depth(&self) -> usize {
        DEPTH
    }

    fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [T], step: usize) {
        let (mut scale, mut zero) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
        let mut p = rows.start;
        while p < rows.end {
            let block = p / self.block;
            let end = rows.end.min((block + 1).saturating_mul(self.block));
            for col in cols.clone().step_by(CHUNK) {
                let count = CHUNK.min(cols.end - col);
                let (scale, zero) = (&mut scale[..count], &mut zero[..count]);
                self.copy_scales(block, col, scale);
                self.copy_zeros(block, col, zero);
                let from = CodeRows {
                    codes: self.codes,
                    packed: self.scheme.is_packed(),
                    first: p * self.n + col,
                    step: self.n,
                    rows: end - p,
                };
                let to = &mut to[(p - rows.start) * step + col - cols.start..];
                // Codes of four bits come one in a byte.
                with_code_numbers!(self.scheme, (low, _high) => decode_rows(low, from, scale, zero, to, step));
            }
            p = end;
        }
    }
}
