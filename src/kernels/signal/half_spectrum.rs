//! Half spectra of real rows of even length, from transforms of half the length.
//!
//! A row of n numbers, read as n/2 complex ones, has the transform Z. With h = n/2 and W = e^(−2πi/n) its half spectrum
//! is X[k] = E + T and X[h − k] = conj(E − T), where E = ½(Z[k] + conj Z[h − k]) and
//! T = −½i·Wᵏ·(Z[k] − conj Z[h − k]).
//!
//! Invariant: a pair X[k], X[h − k] has the same bits whether it is computed in a chunk of eight or alone.

// Loops over indices of fixed arrays become vectors; closures would not be compiled for the instruction set.
#![allow(clippy::needless_range_loop)]

use crate::float::Float;
use crate::simd;

/// Pairs that are computed together.
const TOGETHER: usize = 8;

/// A complex number: its parts.
type Parts<T> = [T; 2];

/// cos and sin of 2πk/n for k = 1, 2, … below n/4.
pub struct HalfTwiddles<T> {
    cos: Vec<T>,
    sin: Vec<T>,
}

impl<T: Float> HalfTwiddles<T> {
    /// Those of rows of `n` numbers, an even number.
    pub fn new(n: usize) -> HalfTwiddles<T> {
        let angles = || (1..=(n / 2).saturating_sub(1) / 2).map(|k| std::f64::consts::TAU * k as f64 / n as f64);
        HalfTwiddles {
            cos: angles().map(|a| T::from_f64(a.cos())).collect(),
            sin: angles().map(|a| T::from_f64(a.sin())).collect(),
        }
    }

    /// Turns Z in all but the last element of `row` into the half spectrum, times `scale`.
    pub fn finish(&self, row: &mut [Parts<T>], scale: T) {
        let h = row.len() - 1;
        let [re, im] = row[0];
        (row[0], row[h]) = ([(re + im) * scale, T::ZERO], [(re - im) * scale, T::ZERO]);
        let pairs = self.cos.len();
        let (low, high) = row[1..h].split_at_mut(pairs);
        // The middle element, if there is one, is its own partner.
        let middle = high.len() - pairs;
        for [re, im] in &mut high[..middle] {
            (*re, *im) = (*re * scale, -*im * scale);
        }
        finish_half_pairs(low, &mut high[middle..], &self.cos, &self.sin, scale * T::HALF);
    }
}

/// X[k] and X[h − k] of Z[k], Z[h − k] and the cosine and the sine of k.
#[inline(always)]
fn finish_half_pair<T: Float>(a: Parts<T>, b: Parts<T>, cos: T, sin: T, half: T) -> (Parts<T>, Parts<T>) {
    let (even_re, even_im) = ((a[0] + b[0]) * half, (a[1] - b[1]) * half);
    let (odd_re, odd_im) = ((a[0] - b[0]) * half, (a[1] + b[1]) * half);
    let turned_re = cos.mul_add(odd_im, -(sin * odd_re));
    let turned_im = -cos.mul_add(odd_re, sin * odd_im);
    ([even_re + turned_re, even_im + turned_im], [even_re - turned_re, turned_im - even_im])
}

simd! {
    /// Pair `i` is `low[i]` and the element of `high` that is as far from its end.
    fn finish_half_pairs[T: Float](low: &mut [Parts<T>], high: &mut [Parts<T>], cos: &[T], sin: &[T], half: T) {
        let (lows, low) = low.as_chunks_mut::<TOGETHER>();
        let (high, highs) = high.as_rchunks_mut::<TOGETHER>();
        let ((coss, cos), (sins, sin)) = (cos.as_chunks::<TOGETHER>(), sin.as_chunks::<TOGETHER>());
        for (((low, high), cos), sin) in lows.iter_mut().zip(highs.iter_mut().rev()).zip(coss).zip(sins) {
            let (a, b) = (*low, *high);
            for i in 0..TOGETHER {
                (low[i], high[TOGETHER - 1 - i]) = finish_half_pair(a[i], b[TOGETHER - 1 - i], cos[i], sin[i], half);
            }
        }
        for (((low, high), cos), sin) in low.iter_mut().zip(high.iter_mut().rev()).zip(cos).zip(sin) {
            (*low, *high) = finish_half_pair(*low, *high, *cos, *sin, half);
        }
    }
}
