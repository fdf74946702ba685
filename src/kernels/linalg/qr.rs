//! Reduced QR factors by Householder reflectors: A = Q·R with k = min(m, n) columns in Q and no negative number on the
//! diagonal of R. So a matrix of full rank has one result.
//!
//! Each matrix is scaled by its largest magnitude first, so that no square overflows.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`qr_kernel`] | A: `T[count, m, n]` | Q: `T[count, m, k]`, R: `T[count, k, n]`, scratch | [`Qr`] |

use super::batch_map;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{add_scaled_matrix_row, largest_of_matrix_row, matrix_row_reflector, scale_matrix_row};
use crate::params::params;
use crate::scratch::scratch;
use crate::simd;

params! {
    /// Params of [`qr_kernel`].
    pub struct Qr {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows.
        pub m: usize,
        /// Columns.
        pub n: usize,
    }
}

impl Qr {
    /// Columns of Q.
    pub fn rank(&self) -> usize {
        self.m.min(self.n)
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        QrScratch::len(self.m, self.n)
    }
}

scratch! {
    /// The scratch of one matrix.
    struct QrScratch(m: usize, n: usize) {
        /// R above the diagonal, reflectors below.
        work: m * n,
        /// A reflector.
        column: m,
        row: n,
        /// The factors of the reflectors.
        tau: m.min(n),
    }
}

/// Applies 1 − τ·v·vᵀ, v = (1, `below`), to the columns `from..` of rows of `width` elements.
#[inline(always)]
fn reflect_rows<T: Float>(tau: T, v: &[T], width: usize, from: usize, x: &mut [T], row: &mut [T]) {
    if tau == T::ZERO || from >= width {
        return;
    }
    let row = &mut row[..width - from];
    row.fill(T::ZERO);
    for (v, x) in v.iter().zip(x.chunks_exact(width)) {
        add_scaled_matrix_row(*v, &x[from..], row);
    }
    scale_matrix_row(-tau, row);
    for (v, x) in v.iter().zip(x.chunks_exact_mut(width)) {
        add_scaled_matrix_row(*v, row, &mut x[from..]);
    }
}

simd! {
    /// Writes Q and R of one matrix.
    fn qr_factor_rows[T: Float](m: usize, n: usize, a: &[T], q: &mut [T], r: &mut [T], scratch: &mut [T]) {
        let k = if m < n { m } else { n };
        let s = QrScratch::cut(m, n, scratch);
        let scale = largest_of_matrix_row(a);
        // The reciprocal of a subnormal number is infinite. Such a matrix is scaled no more than that allows.
        let scale = if scale < T::MIN_POSITIVE { T::ONE } else { scale };
        for (w, a) in s.work.iter_mut().zip(a) {
            *w = *a / scale;
        }
        for j in 0..k {
            for i in j..m {
                s.column[i - j] = s.work[i * n + j];
            }
            let v = &mut s.column[..m - j];
            let (tau, beta) = matrix_row_reflector(v);
            s.tau[j] = tau;
            reflect_rows(tau, v, n, j + 1, &mut s.work[j * n..], s.row);
            s.work[j * n + j] = beta;
            for i in j + 1..m {
                s.work[i * n + j] = v[i - j];
            }
        }
        for i in 0..k {
            let sign = if s.work[i * n + i] < T::ZERO { -scale } else { scale };
            r[i * n..][..i].fill(T::ZERO);
            for j in i..n {
                r[i * n + j] = s.work[i * n + j] * sign;
            }
        }
        q.fill(T::ZERO);
        for j in (0..k).rev() {
            // Column j of Q begins as that of the identity, with the sign of row j of R.
            q[j * k + j] = if s.work[j * n + j] < T::ZERO { -T::ONE } else { T::ONE };
            s.column[0] = T::ONE;
            for i in j + 1..m {
                s.column[i - j] = s.work[i * n + j];
            }
            reflect_rows(s.tau[j], &s.column[..m - j], k, j, &mut q[j * k..], s.row);
        }
    }
}

/// Q and R of one matrix, with [`Qr::scratch`] elements of scratch.
pub fn factor_q_and_r<T: Float>(p: &Qr, a: &[T], q: &mut [T], r: &mut [T], scratch: &mut [T]) {
    qr_factor_rows(p.m, p.n, a, q, r, &mut scratch[..p.scratch()]);
}

/// Q and R of each matrix.
///
/// Reads A: `T[count, m, n]`; writes Q: `T[count, m, k]`, R: `T[count, k, n]`, and scratch
/// ([`Qr::scratch`]); params [`Qr`].
pub fn qr_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Qr::from_words(args.params());
    let (units, a, k) = (args.units(), args.read::<T>(0), p.rank());
    let (q, r, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    for ((unit, q), r) in units.zip(q.chunks_exact_mut((p.m * k).max(1))).zip(r.chunks_exact_mut((k * p.n).max(1))) {
        factor_q_and_r(&p, &a[batch_map::matrix_range(unit, p.m * p.n)], q, r, scratch);
    }
}

by_dtype!(qr_for = qr_kernel::<floats>);
