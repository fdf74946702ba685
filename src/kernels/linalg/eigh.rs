//! Eigenvalues, ascending, and orthonormal eigenvectors of symmetric matrices: (A + Aᵀ)/2 = U·diag(w)·Uᵀ.
//!
//! Reflectors make the matrix tridiagonal, then implicit QL steps make it diagonal (Wilkinson and Reinsch, 1971). Rows
//! of scratch hold the eigenvectors, so that a rotation is a loop over two rows. In each eigenvector, the element of
//! largest magnitude is positive; of several, the first one is. A matrix with a NaN or an infinity has NaN as result.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`eigh_kernel`] | A: `T[count, n, n]` | w: `T[count, n]`, U: `T[count, n, n]`, scratch | [`Eigh`] |

use super::batch_map;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{
    add_scaled_matrix_row, dot_rows, largest_of_matrix_row, matrix_row_epsilon, matrix_row_reflector, rotate_rows,
    two_rows_mut,
};
use crate::params::params;
use crate::scratch::scratch;
use crate::simd;

/// QL steps for one eigenvalue. About two are usual.
const MOST_STEPS: usize = 60;

params! {
    /// Params of [`eigh_kernel`].
    pub struct Eigh {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows and columns.
        pub n: usize,
    }
}

impl Eigh {
    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        EighScratch::len(self.n)
    }
}

scratch! {
    /// The scratch of one matrix.
    struct EighScratch(n: usize) {
        /// The matrix, which becomes tridiagonal.
        s: n * n,
        /// The eigenvectors.
        z: n * n,
        /// The diagonal.
        d: n,
        /// The numbers below it.
        e: n,
        /// The factors of the reflectors.
        tau: n,
        row: n,
    }
}

/// Makes the symmetric matrix `s` tridiagonal: its diagonal goes to `d`, the numbers below it to `e`. Row `j` of `s`
/// keeps the reflector of step `j`, `tau` its factor.
#[inline(always)]
fn make_tridiagonal<T: Float>(n: usize, s: &mut [T], d: &mut [T], e: &mut [T], tau: &mut [T], p: &mut [T]) {
    for j in 0..n {
        let (head, below) = s.split_at_mut((j + 1) * n);
        let row = &mut head[j * n..];
        d[j] = row[j];
        let v = &mut row[j + 1..];
        let (factor, beta) = matrix_row_reflector(v);
        (tau[j], e[j]) = (factor, beta);
        if factor == T::ZERO {
            continue;
        }
        let p = &mut p[..v.len()];
        p.fill(T::ZERO);
        for (v, row) in v.iter().zip(below.chunks_exact(n)) {
            add_scaled_matrix_row(factor * *v, &row[j + 1..], p);
        }
        let half = -T::HALF * factor * dot_rows(p, v);
        add_scaled_matrix_row(half, v, p);
        for ((v_i, w_i), row) in v.iter().zip(p.iter()).zip(below.chunks_exact_mut(n)) {
            add_scaled_matrix_row(-*v_i, p, &mut row[j + 1..]);
            add_scaled_matrix_row(-*w_i, v, &mut row[j + 1..]);
        }
    }
}

/// The transpose of the product of the reflectors in the rows of `s`.
#[inline(always)]
fn multiply_reflectors<T: Float>(n: usize, s: &[T], tau: &[T], z: &mut [T]) {
    z.fill(T::ZERO);
    for i in 0..n {
        z[i * n + i] = T::ONE;
    }
    for j in (0..n).rev() {
        if tau[j] == T::ZERO {
            continue;
        }
        let v = &s[j * n + j + 1..(j + 1) * n];
        for row in z[(j + 1) * n..].chunks_exact_mut(n) {
            let factor = -tau[j] * dot_rows(&row[j + 1..], v);
            add_scaled_matrix_row(factor, v, &mut row[j + 1..]);
        }
    }
}

/// √(a² + b²) of numbers of at most about 1.
#[inline(always)]
fn hypotenuse<T: Float>(a: T, b: T) -> T {
    a.mul_add(a, b * b).sqrt()
}

/// One implicit QL step on the rows `l..=m` of a tridiagonal matrix.
#[inline(always)]
fn step_ql<T: Float>(n: usize, l: usize, m: usize, d: &mut [T], e: &mut [T], z: &mut [T]) {
    let half_gap = (d[l + 1] - d[l]) / (T::TWO * e[l]);
    let root = if half_gap.abs() > T::ONE {
        let inverse = T::ONE / half_gap;
        half_gap.abs() * hypotenuse(inverse, T::ONE)
    } else {
        hypotenuse(half_gap, T::ONE)
    };
    let mut g = d[m] - d[l] + e[l] / (half_gap + if half_gap < T::ZERO { -root } else { root });
    let (mut s, mut c, mut p) = (T::ONE, T::ONE, T::ZERO);
    for i in (l..m).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let r = hypotenuse(f, g);
        e[i + 1] = r;
        if r == T::ZERO {
            d[i + 1] -= p;
            e[m] = T::ZERO;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - p;
        let next = (d[i] - g).mul_add(s, T::TWO * c * b);
        p = s * next;
        d[i + 1] = g + p;
        g = c.mul_add(next, -b);
        let (x, y) = two_rows_mut(z, n, i, i + 1);
        rotate_rows(c, s, x, y);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = T::ZERO;
}

/// Makes a tridiagonal matrix diagonal: `d` becomes its eigenvalues. False if it takes too many steps.
#[inline(always)]
fn make_diagonal<T: Float>(n: usize, d: &mut [T], e: &mut [T], z: &mut [T]) -> bool {
    let epsilon = matrix_row_epsilon::<T>();
    for l in 0..n {
        let mut steps = 0;
        loop {
            let mut m = l;
            // The matrix is scaled to magnitudes of at most 1, so the square of epsilon is nothing.
            while m + 1 < n && e[m].abs() > epsilon * (d[m].abs() + d[m + 1].abs() + epsilon) {
                m += 1;
            }
            if m == l {
                break;
            }
            if steps == MOST_STEPS {
                return false;
            }
            steps += 1;
            step_ql(n, l, m, d, e, z);
        }
    }
    true
}

/// The number of values that are less than value `i`, or equal and before it.
#[inline(always)]
fn rank_value<T: Float>(i: usize, d: &[T]) -> usize {
    let before = d[..i].iter().filter(|x| **x <= d[i]).count();
    before + d[i + 1..].iter().filter(|x| **x < d[i]).count()
}

/// −1 if the largest magnitude of `x`, the first of equals, is negative; else 1.
#[inline(always)]
pub fn sign_of_largest<T: Float>(x: &[T]) -> T {
    let mut most = T::ZERO;
    for x in x {
        most = if x.abs() > most.abs() { *x } else { most };
    }
    if most < T::ZERO { -T::ONE } else { T::ONE }
}

simd! {
    /// Writes w and U of one matrix.
    fn eigh_of_matrix[T: Float](n: usize, a: &[T], w: &mut [T], u: &mut [T], scratch: &mut [T]) {
        let scale = largest_of_matrix_row(a);
        if scale.is_nan() || scale == T::INFINITY {
            w.fill(T::NAN);
            u.fill(T::NAN);
            return;
        }
        let scale = if scale < T::MIN_POSITIVE { T::ONE } else { scale };
        let EighScratch { s, z, d, e, tau, row } = EighScratch::cut(n, scratch);
        for i in 0..n {
            for j in 0..n {
                s[i * n + j] = T::HALF * (a[i * n + j] / scale) + T::HALF * (a[j * n + i] / scale);
            }
        }
        make_tridiagonal(n, s, d, e, tau, row);
        multiply_reflectors(n, s, tau, z);
        if !make_diagonal(n, d, e, z) {
            w.fill(T::NAN);
            u.fill(T::NAN);
            return;
        }
        for i in 0..n {
            let (to, vector) = (rank_value(i, d), &z[i * n..][..n]);
            let sign = sign_of_largest(vector);
            w[to] = d[i] * scale;
            for (r, x) in vector.iter().enumerate() {
                u[r * n + to] = *x * sign;
            }
        }
    }
}

/// Eigenvalues and eigenvectors of the symmetric part of each matrix.
///
/// Reads A: `T[count, n, n]`; writes w: `T[count, n]`, U: `T[count, n, n]`, and scratch
/// ([`Eigh::scratch`]); params [`Eigh`].
pub fn eigh_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Eigh::from_words(args.params());
    let (units, a, size) = (args.units(), args.read::<T>(0), p.n * p.n);
    let (w, u, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<T>(2));
    for ((unit, w), u) in units.zip(w.chunks_exact_mut(p.n.max(1))).zip(u.chunks_exact_mut(size.max(1))) {
        eigh_of_matrix(p.n, &a[batch_map::matrix_range(unit, size)], w, u, &mut scratch[..p.scratch()]);
    }
}

by_dtype!(eigh_for = eigh_kernel::<floats>);
