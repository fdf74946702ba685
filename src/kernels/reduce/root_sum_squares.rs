//! The Euclidean norm √Σx² over several tensors.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`root_sum_squares_kernel`] | Σx²: `T[1]`, the tensors | √Σx²: `f64[1]` | [`Parts`] |
//!
//! Invariant: if the given sum neither overflowed nor underflowed, the result is its root rounded to `T`, and the
//! tensors are not read.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;

params! {
    /// Params of [`root_sum_squares_kernel`].
    pub struct Parts {
        /// Number of tensors.
        pub tensors: usize,
        /// Elements of all tensors together.
        pub len: usize,
    }
}

/// √Σx², from the sum, or from the elements if the sum is out of range.
///
/// Reads Σx²: `T[1]` and the tensors; writes `f64[1]`; params [`Parts`].
pub fn root_sum_squares_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Parts::from_words(args.params());
    let sum = args.read::<T>(0)[0];
    // Squares that underflowed sum to less than one rounding of a sum this large.
    let rounding = if size_of::<T>() == size_of::<f32>() { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let enough = T::MIN_POSITIVE.to_f64() / rounding * p.len as f64;
    let fine = sum.to_f64() >= enough && sum.to_f64() < f64::INFINITY;
    let root = match fine || sum.to_f64().is_nan() {
        true => T::from_f64(sum.to_f64().sqrt()).to_f64(),
        false => scaled_norm::<T>(args, p.tensors),
    };
    args.write::<f64>(0).fill(root);
}

by_dtype!(root_sum_squares_kernel_for = root_sum_squares_kernel::<F32 f32, F64 f64>);

/// The norm of the elements divided by the largest magnitude, times that magnitude.
#[cold]
fn scaled_norm<T: Float>(args: &Args<'_>, tensors: usize) -> f64 {
    let each = |f: &mut dyn FnMut(f64)| {
        (1..=tensors).for_each(|i| args.read::<T>(i).iter().for_each(|x| f(x.to_f64())));
    };
    let mut most = 0.0f64;
    each(&mut |x| most = most.max(x.abs()));
    if most == 0.0 || most == f64::INFINITY {
        return most;
    }
    let mut sum = 0.0;
    each(&mut |x| sum += (x / most) * (x / most));
    most * sum.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    fn of<T: Float>(sum: T, parts: &[Vec<T>]) -> f64 {
        let p = Parts { tensors: parts.len(), len: parts.iter().map(Vec::len).sum() };
        let reads: Vec<In> = std::iter::once(In::of(&[sum])).chain(parts.iter().map(|x| In::of(x))).collect();
        let out = run_in_ranges(root_sum_squares_kernel::<T>, &p.to_words(), &reads, &[Out::of::<f64>(1, 1)], 1);
        written_elements::<f64>(&out, 0)[0]
    }

    #[test]
    fn sums_that_left_the_range_are_made_anew() {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b;
        assert_eq!(of(2.0f32, &[vec![9.0; 4]]), f64::from(2f32.sqrt()), "the sum is right: the parts are not read");
        assert!(near(of(f32::INFINITY, &[vec![3e20; 3], vec![4e20]]), (27f64 + 16.0).sqrt() * 1e20));
        assert!(near(of(0.0f32, &[vec![3e-30, -4e-30]]), 5e-30));
        assert!(near(of(f32::INFINITY, &[vec![f32::MAX; 4]]), 2.0 * f64::from(f32::MAX)));
        assert!(near(of(f64::INFINITY, &[vec![3e200, 4e200]]), 5e200));
        assert_eq!(of(0.0f32, &[vec![0.0; 5]]), 0.0);
        assert_eq!(of(f32::INFINITY, &[vec![1.0, f32::NEG_INFINITY]]), f64::INFINITY);
        assert!(of(f32::NAN, &[vec![f32::NAN]]).is_nan());
    }
}
