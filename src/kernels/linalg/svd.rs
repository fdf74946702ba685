//! Thin singular value decompositions: A = U·diag(s)·Vᵀ with k = min(m, n) singular values, descending.
//!
//! One-sided Jacobi (Hestenes, 1958): rotations make the k rows of A, or of Aᵀ if A has more rows than columns,
//! orthogonal. Their lengths are the singular values. The reduced QR factor of the sorted rows makes them orthonormal,
//! even where a singular value is 0. In each column of U, the element of largest magnitude is positive; of several, the
//! first one is. A matrix with a NaN or an infinity has NaN as result.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`svd_kernel`] | A: `T[count, m, n]` | U: `T[count, m, k]`, s: `T[count, k]`, Vᵀ: `T[count, k, n]`, scratch | [`Svd`] |

use super::batch_map;
use super::eigh;
use super::qr::{Qr, factor_q_and_r};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{dot_rows, largest_of_matrix_row, matrix_row_epsilon, rotate_rows, two_rows_mut};
use crate::params::params;
use crate::scratch::scratch;
use crate::simd;

/// Sweeps over all pairs of rows. Six to ten are usual.
const MOST_SWEEPS: usize = 40;

params! {
    /// Params of [`svd_kernel`].
    pub struct Svd {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows.
        pub m: usize,
        /// Columns.
        pub n: usize,
    }
}

impl Svd {
    /// Number of singular values.
    pub fn rank(&self) -> usize {
        self.m.min(self.n)
    }

    /// Elements of a row that is rotated.
    fn len(&self) -> usize {
        self.m.max(self.n)
    }

    /// The factor of the sorted rows, as columns.
    fn qr(&self) -> Qr {
        Qr { count: 1, m: self.len(), n: self.rank() }
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        SvdScratch::len(self.rank(), self.len()) + self.qr().scratch()
    }
}

scratch! {
    /// The scratch of one matrix whose `k` rows, the shorter axis, have `len` elements.
    struct SvdScratch(k: usize, len: usize) {
        /// The rows, which become orthogonal.
        w: k * len,
        /// They as columns, sorted by length.
        sorted: k * len,
        q: k * len,
        /// The rotations.
        j: k * k,
        r: k * k,
        lengths: k,
        column: len,
        ..qr
    }
}

simd! {
    /// Makes the `k` rows of `w` orthogonal, and applies the same rotations to the rows of `j`.
    fn svd_orthogonalise_rows[T: Float](k: usize, len: usize, w: &mut [T], j: &mut [T]) {
        let least = matrix_row_epsilon::<T>() * T::from_f64(len as f64).sqrt();
        for _ in 0..MOST_SWEEPS {
            let mut rotated = false;
            for q in 1..k {
                for p in 0..q {
                    let (x, y) = two_rows_mut(w, len, p, q);
                    let (a, b, both) = (dot_rows(x, x), dot_rows(y, y), dot_rows(x, y));
                    if both.abs() <= least * a.sqrt() * b.sqrt() {
                        continue;
                    }
                    let zeta = (b - a) / (T::TWO * both);
                    // The smaller root; zeta may be infinite, and its square may overflow.
                    let size = zeta.abs();
                    let root = if size > T::ONE { size * (T::ONE + T::ONE / size / size).sqrt() } else { zeta.mul_add(zeta, T::ONE).sqrt() };
                    let t = T::ONE / (size + root);
                    let t = if zeta < T::ZERO { -t } else { t };
                    if t == T::ZERO {
                        continue;
                    }
                    rotated = true;
                    let c = T::ONE / t.mul_add(t, T::ONE).sqrt();
                    rotate_rows(c, c * t, x, y);
                    let (x, y) = two_rows_mut(j, k, p, q);
                    rotate_rows(c, c * t, x, y);
                }
            }
            if !rotated {
                break;
            }
        }
    }
}

/// The number of lengths that are greater than length `i`, or equal and before it.
fn place_by_length<T: Float>(i: usize, lengths: &[T]) -> usize {
    let before = lengths[..i].iter().filter(|x| **x >= lengths[i]).count();
    before + lengths[i + 1..].iter().filter(|x| **x > lengths[i]).count()
}

/// Writes U, s and Vᵀ of one matrix.
fn decompose_matrix<T: Float>(p: &Svd, a: &[T], u: &mut [T], s: &mut [T], vt: &mut [T], scratch: &mut [T]) {
    let (m, n, k, len, tall) = (p.m, p.n, p.rank(), p.len(), p.m >= p.n);
    let scale = largest_of_matrix_row(a);
    if scale.is_nan() || scale == T::INFINITY {
        [u, s, vt].into_iter().for_each(|x| x.fill(T::NAN));
        return;
    }
    let scale = if scale < T::MIN_POSITIVE { T::ONE } else { scale };
    let SvdScratch { w, sorted, q, j, r, lengths, column, qr } = SvdScratch::cut(k, len, scratch);
    for row in 0..k {
        for i in 0..len {
            w[row * len + i] = if tall { a[i * n + row] } else { a[row * n + i] } / scale;
        }
    }
    j.fill(T::ZERO);
    (0..k).for_each(|i| j[i * k + i] = T::ONE);
    svd_orthogonalise_rows(k, len, w, j);
    for (length, row) in lengths.iter_mut().zip(w.chunks_exact(len)) {
        *length = dot_rows(row, row).sqrt();
    }
    for i in 0..k {
        let to = place_by_length(i, lengths);
        s[to] = lengths[i] * scale;
        for (at, x) in w[i * len..][..len].iter().enumerate() {
            sorted[at * k + to] = *x;
        }
    }
    // Column `to` of Q is row `i` of w, made orthonormal.
    factor_q_and_r(&p.qr(), sorted, q, r, qr);
    for i in 0..k {
        let to = place_by_length(i, lengths);
        for at in 0..len {
            column[at] = q[at * k + to];
        }
        let rotation = &j[i * k..][..k];
        let (left, right) = if tall { (&column[..m], rotation) } else { (rotation, &column[..n]) };
        let sign = eigh::sign_of_largest(left);
        left.iter().enumerate().for_each(|(at, x)| u[at * k + to] = *x * sign);
        right.iter().enumerate().for_each(|(at, x)| vt[to * n + at] = *x * sign);
    }
}

/// Singular values and vectors of each matrix.
///
/// Reads A: `T[count, m, n]`; writes U: `T[count, m, k]`, s: `T[count, k]`, Vᵀ: `T[count, k, n]`, and scratch
/// ([`Svd::scratch`]); params [`Svd`].
pub fn svd_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Svd::from_words(args.params());
    let (units, a, k) = (args.units(), args.read::<T>(0), p.rank());
    let (u, s, vt, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2), args.write::<T>(3));
    let results = u.chunks_exact_mut((p.m * k).max(1)).zip(s.chunks_exact_mut(k.max(1)));
    for ((unit, (u, s)), vt) in units.zip(results).zip(vt.chunks_exact_mut((k * p.n).max(1))) {
        decompose_matrix(&p, &a[batch_map::matrix_range(unit, p.m * p.n)], u, s, vt, &mut scratch[..p.scratch()]);
    }
}

by_dtype!(svd_for = svd_kernel::<floats>);
