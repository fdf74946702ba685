//! Cholesky factors: L with positive diagonal and L·Lᵀ = (A + Aᵀ)/2.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`cholesky_kernel`] | A: `T[count, n, n]` | L: `T[count, n, n]`, scratch | [`Cholesky`] |

use super::batch_map;
use super::cholesky_panels::{self, cholesky_by_panels};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::matrix_rows::dot_rows;
use crate::params::params;
use crate::simd;

/// A matrix that is not positive definite; the element is its number in the batch.
pub static NOT_POSITIVE_DEFINITE: Cause = Cause {
    name: "not positive definite",
    text: |bad, f| write!(f, "matrix {} is not positive definite", bad.element),
};

params! {
    /// Params of [`cholesky_kernel`].
    pub struct Cholesky {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows and columns.
        pub n: usize,
    }
}

simd! {
    /// Writes the factor; false if the matrix is not positive definite.
    fn cholesky_by_rows[T: Float](n: usize, a: &[T], l: &mut [T]) -> bool {
        for i in 0..n {
            let (done, rest) = l.split_at_mut(i * n);
            let row = &mut rest[..n];
            for j in 0..i {
                let mean = (a[i * n + j] + a[j * n + i]) * T::HALF;
                let above = &done[j * n..][..n];
                row[j] = (mean - dot_rows(&row[..j], &above[..j])) / above[j];
            }
            let pivot = a[i * n + i] - dot_rows(&row[..i], &row[..i]);
            if pivot <= T::ZERO || pivot.is_nan() || pivot == T::INFINITY {
                return false;
            }
            row[i] = pivot.sqrt();
            row[i + 1..].fill(T::ZERO);
        }
        true
    }
}

impl Cholesky {
    /// Elements of scratch for elements of `size` bytes: for each thread, or once if there is one matrix.
    pub fn scratch(&self, size: usize) -> usize {
        if cholesky_panels::handles_size(self.n) { cholesky_panels::scratch_len(size, self.n, self.alone()) } else { 0 }
    }

    /// Whether there is one matrix.
    fn alone(&self) -> bool {
        self.count == 1
    }
}

/// The lower Cholesky factor of the symmetric part of each matrix. A matrix that is not positive definite is a fault.
///
/// Reads A: `T[count, n, n]`; writes L: the same, and scratch ([`Cholesky::scratch`]); params [`Cholesky`].
pub fn cholesky_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = Cholesky::from_words(args.params());
    let (a, size) = (args.read::<T>(0), p.n * p.n);
    let (units, l, scratch) = (args.units(), args.write::<T>(0), args.write::<T>(1));
    for (m, l) in units.zip(l.chunks_exact_mut(size.max(1))) {
        let a = &a[batch_map::matrix_range(m, size)];
        let done = match cholesky_panels::handles_size(p.n) {
            true => cholesky_by_panels(p.n, p.alone(), a, l, scratch),
            false => cholesky_by_rows(p.n, a, l),
        };
        if !done {
            l.fill(T::NAN);
            args.report(&NOT_POSITIVE_DEFINITE, m, None);
        }
    }
}

by_dtype!(cholesky_for = cholesky_kernel::<floats>);
