//! Codes as numbers, sixteen at a time.
//!
//! Invariant: element `i` of a chunk is the number of code `at + i`. Codes that share bytes are numbered through all of
//! the matrix, so a row may begin in the middle of a byte.

use super::fp8::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};
use crate::float::Float;
use crate::simd;

/// Columns that are decoded together.
pub const CHUNK: usize = 16;

/// A reader of the codes of one scheme.
pub trait CodeReader: Copy {
    /// The numbers of codes `at .. at + 16`.
    fn chunk<T: Float + From<f32>>(self, at: usize) -> [T; CHUNK];
    /// The number of code `at`.
    fn one<T: Float + From<f32>>(self, at: usize) -> T;
}

/// A reader of bytes by a function.
macro_rules! bytes {
    ($(#[$doc:meta])* $name:ident |$code:ident| $number:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(pub &'a [u8]);

        impl CodeReader for $name<'_> {
            #[inline(always)]
            fn chunk<T: Float + From<f32>>(self, at: usize) -> [T; CHUNK] {
                let mut numbers = [T::ZERO; CHUNK];
                for (x, &$code) in numbers.iter_mut().zip(&self.0[at..at + CHUNK]) {
                    *x = T::from($number);
                }
                numbers
            }
            #[inline(always)]
            fn one<T: Float + From<f32>>(self, at: usize) -> T {
                let $code = self.0[at];
                T::from($number)
            }
        }
    };
}

bytes! {
    /// Signed integers.
    Int8Reader |code| f32::from(code as i8)
}
bytes! {
    /// E4M3 numbers.
    E4m3Reader |code| e4m3_to_f32(code)
}
bytes! {
    /// E5M2 numbers.
    E5m2Reader |code| e5m2_to_f32(code)
}

/// The sixteen 4-bit codes from `at` on.
#[inline(always)]
fn sixteen_nibbles(bytes: &[u8], at: usize) -> [u8; CHUNK] {
    let mut codes = [0; CHUNK];
    let from = at / 2;
    if at.is_multiple_of(2) {
        for (pair, &byte) in codes.as_chunks_mut::<2>().0.iter_mut().zip(&bytes[from..from + CHUNK / 2]) {
            *pair = [byte & 15, byte >> 4];
        }
    } else {
        let bytes = &bytes[from..=from + CHUNK / 2];
        for (i, pair) in codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = [bytes[i] >> 4, bytes[i + 1] & 15];
        }
    }
    codes
}

/// A reader of 4-bit codes by a function.
macro_rules! nibbles {
    ($(#[$doc:meta])* $name:ident |$code:ident| $number:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(pub &'a [u8]);

        impl CodeReader for $name<'_> {
            #[inline(always)]
            fn chunk<T: Float + From<f32>>(self, at: usize) -> [T; CHUNK] {
                let mut numbers = [T::ZERO; CHUNK];
                for (x, $code) in numbers.iter_mut().zip(sixteen_nibbles(self.0, at)) {
                    *x = T::from($number);
                }
                numbers
            }
            #[inline(always)]
            fn one<T: Float + From<f32>>(self, at: usize) -> T {
                let $code = self.0[at / 2] >> (at % 2 * 4) & 15;
                T::from($number)
            }
        }
    };
}

nibbles! {
    /// Unsigned integers of 4 bits.
    Int4Reader |code| f32::from(code)
}
nibbles! {
    /// E2M1 numbers.
    E2m1Reader |code| e2m1_to_f32(code)
}

simd! {
    /// to[p·step + j] = (code − zero[j])·scale[j] for `rows` rows of sixteen columns, or of `cols` if that is less. The
    /// first code is `at`; rows are `n` codes apart.
    pub fn decode_columns[T: Float + From<f32>, R: CodeReader](
        codes: R,
        at: usize,
        n: usize,
        rows: usize,
        cols: usize,
        scale: &[T; CHUNK],
        zero: &[T; CHUNK],
        to: &mut [T],
        step: usize
    ) {
        for p in 0..rows {
            let (from, to) = (at + p * n, &mut to[p * step..]);
            match to.first_chunk_mut::<CHUNK>() {
                Some(to) if cols == CHUNK => {
                    let numbers = codes.chunk::<T>(from);
                    for i in 0..CHUNK {
                        to[i] = (numbers[i] - zero[i]) * scale[i];
                    }
                }
                _ => {
                    for (i, to) in to[..cols].iter_mut().enumerate() {
                        *to = (codes.one::<T>(from + i) - zero[i]) * scale[i];
                    }
                }
            }
        }
    }
}
