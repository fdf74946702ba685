//! Squared error of two tensors and its gradient in one sweep over memory.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`squared_error_kernel`] | a, b: `T[len]` | Σ (a − b)² of each unit, the gradient: `T[len]` | [`SquaredError`] |
//!
//! Invariant: with d = a − b, the sums have the bits of the reduction of squares of d in [`reduce`](super), and
//! the gradient has those of w·d + w·d, where w is [`SquaredError::weight`]. Used by the lowering of
//! `squared_error_gradient`.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::reduce::pairwise;
use crate::simd;

params! {
    /// Params of [`squared_error_kernel`].
    pub struct SquaredError {
        /// Number of elements.
        pub len: usize,
        /// Elements in a unit.
        pub chunk: usize,
        /// Divisor of the sums; 0 for none.
        pub divisor: usize,
        /// Half of the factor between difference and gradient.
        pub weight: f64,
    }
}

impl SquaredError {
    /// Number of units; 1 for an empty tensor.
    pub fn units(&self) -> usize {
        self.len.div_ceil(self.chunk.max(1)).max(1)
    }
}

simd! {
    fn squared_error_differences[T: Float](a: &[T], b: &[T], d: &mut [T]) {
        for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
            *d = *a - *b;
        }
    }
}

simd! {
    /// `d` holds a and becomes a − b.
    fn sweep_squared_error_over_a[T: Float](b: &[T], d: &mut [T]) {
        for (d, b) in d.iter_mut().zip(b) {
            *d -= *b;
        }
    }
}

simd! {
    /// `d` holds b and becomes a − b.
    fn sweep_squared_error_over_b[T: Float](a: &[T], d: &mut [T]) {
        for (d, a) in d.iter_mut().zip(a) {
            *d = *a - *d;
        }
    }
}

simd! {
    fn scale_squared_error_grad[T: Float](weight: T, d: &mut [T]) {
        for d in d {
            let half = weight * *d;
            *d = half + half;
        }
    }
}

/// Σ (a − b)² of each unit, divided by the divisor if it is not 0; and the gradient weight·(a − b) + weight·(a − b).
///
/// Reads a, b: `T[len]`; writes the sums: `T[units]`, one in a unit, and the gradient: `T[len]`,
/// [`SquaredError::chunk`], in place of a or of b or not; params [`SquaredError`].
pub fn squared_error_kernel<T: Float>(args: &mut Args<'_>) {
    let p = SquaredError::from_words(args.params());
    let lo = args.units().start * p.chunk;
    let operand = |i: usize| args.inplace(i).is_none().then(|| args.read::<T>(i));
    let (a, b) = (operand(0), operand(1));
    let (sums, mut rest) = (args.write::<T>(0), args.write::<T>(1));
    let mut at = lo;
    for sum in sums {
        let (d, later) = rest.split_at_mut(p.chunk.min(rest.len()));
        rest = later;
        let part = |x: &'_ [T]| -> std::ops::Range<usize> { at.min(x.len())..(at + d.len()).min(x.len()) };
        match (a, b) {
            (Some(a), Some(b)) => squared_error_differences(&a[part(a)], &b[part(b)], d),
            (None, Some(b)) => sweep_squared_error_over_a(&b[part(b)], d),
            (Some(a), None) => sweep_squared_error_over_b(&a[part(a)], d),
            // a and b are the same operand: 0, or NaN where it is not finite.
            (None, None) => d.iter_mut().for_each(|x| *x -= *x),
        }
        at += d.len();
        *sum = pairwise::reduce_row(pairwise::Squares, d);
        if p.divisor > 0 {
            *sum = *sum / T::from_f64(p.divisor as f64);
        }
        scale_squared_error_grad(T::from_f64(p.weight), d);
    }
}

by_dtype!(squared_error_kernel_for = squared_error_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, noise32, run_in_ranges, written_elements};

    #[test]
    fn bits_are_those_of_separate_sweeps() {
        for (len, chunk) in [(1, 1), (2, 2), (1000, 1000), (9000, 4096), (8192, 4096)] {
            for divisor in [0, len] {
                let p = SquaredError { len, chunk, divisor, weight: 0.3 };
                assert_eq!(SquaredError::from_words(&p.to_words()), p);
                let (a, b) = (noise32(len, 1), noise32(len, 2));
                let d: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
                let by = |sum: f32| if divisor > 0 { sum / divisor as f32 } else { sum };
                let sums: Vec<f32> = d.chunks(chunk).map(|d| by(pairwise::reduce_row(pairwise::Squares, d))).collect();
                let grad: Vec<f32> = d.iter().map(|d| 0.3f32 * d + 0.3f32 * d).collect();
                let outs = [Out::of::<f32>(p.units(), 1), Out::of::<f32>(len, chunk)];
                for reads in
                    [[In::of(&a), In::of(&b)], [In::of(&a).over(1), In::of(&b)], [In::of(&a), In::of(&b).over(1)]]
                {
                    let got = run_in_ranges(squared_error_kernel::<f32>, &p.to_words(), &reads, &outs, p.units());
                    assert_eq!(
                        (written_elements::<f32>(&got, 0), written_elements::<f32>(&got, 1)),
                        (sums.clone(), grad.clone())
                    );
                }
            }
        }
    }
}
