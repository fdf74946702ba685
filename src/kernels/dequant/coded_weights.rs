//! Coded weights as a matrix that a product decodes.

use super::code_reader::{CHUNK, E2m1Reader, E4m3Reader, E5m2Reader, Int4Reader, Int8Reader, decode_columns};
use super::code_scheme::CodeScheme;
use super::fp8::e4m3_to_f32;
use crate::float::Float;
use crate::gemm::PanelDecoder;
use std::ops::Range;

/// Rows that are decoded together.
const DEPTH: usize = 32;

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
    /// The scales of `cols` columns from element `at` on.
    fn scale(&self, at: usize, cols: usize) -> [T; CHUNK] {
        let mut all = [T::ZERO; CHUNK];
        match self.scales {
            Scales::Numbers(scales) => all[..cols].copy_from_slice(&scales[at..at + cols]),
            Scales::Codes(codes, all_times) => {
                for (s, &code) in all.iter_mut().zip(&codes[at..at + cols]) {
                    let x = e4m3_to_f32(code);
                    *s = T::from(if x.is_nan() { 0.0 } else { x }) * all_times;
                }
            }
        }
        all
    }

    /// The zeros of `cols` columns from element `at` on.
    fn zero(&self, at: usize, cols: usize) -> [T; CHUNK] {
        let mut all = [T::from_f64(self.scheme.default_zero()); CHUNK];
        if let Some(zeros) = self.zeros {
            all[..cols].copy_from_slice(&zeros[at..at + cols]);
        }
        all
    }

    /// Decodes rows of one block and up to sixteen columns.
    fn decode_part(&self, rows: Range<usize>, col: usize, cols: usize, to: &mut [T], step: usize) {
        let at = rows.start / self.block * self.n + col;
        let (scale, zero) = (self.scale(at, cols), self.zero(at, cols));
        let (from, n, rows) = (rows.start * self.n + col, self.n, rows.len());
        let (scale, zero) = (&scale, &zero);
        match self.scheme {
            CodeScheme::Int8 => decode_columns(Int8Reader(self.codes), from, n, rows, cols, scale, zero, to, step),
            CodeScheme::Int4 => decode_columns(Int4Reader(self.codes), from, n, rows, cols, scale, zero, to, step),
            CodeScheme::Fp8E4m3 => decode_columns(E4m3Reader(self.codes), from, n, rows, cols, scale, zero, to, step),
            CodeScheme::Fp8E5m2 => decode_columns(E5m2Reader(self.codes), from, n, rows, cols, scale, zero, to, step),
            CodeScheme::Nvfp4 => decode_columns(E2m1Reader(self.codes), from, n, rows, cols, scale, zero, to, step),
        }
    }
}

impl<T: Float + From<f32>> PanelDecoder<T> for CodedWeights<'_, T> {
    fn depth(&self) -> usize {
        DEPTH
    }

    fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [T], step: usize) {
        let mut p = rows.start;
        while p < rows.end {
            let end = rows.end.min((p / self.block + 1).saturating_mul(self.block));
            for col in cols.clone().step_by(CHUNK) {
                let to = &mut to[(p - rows.start) * step + col - cols.start..];
                self.decode_part(p..end, col, CHUNK.min(cols.end - col), to, step);
            }
            p = end;
        }
    }
}
