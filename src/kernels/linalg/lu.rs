//! LU factors with partial pivoting, `A[rows] = L·U`, and solves with them.
//!
//! Right-looking, in panels of [`PANEL`] columns; a row behind a panel takes all of the panel's updates at once, which
//! changes no bit. The pivot is the first of the largest magnitudes. A zero pivot leaves its column; nothing is divided
//! by it. So every matrix has factors, and a singular one has a zero on the diagonal of U.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`lu_kernel`] | A: `T[count, n, n]` | LU: `T[count, n, n]`, rows: `i32[count, n]`, sign: `T[count]` | [`LuFactor`] |
//! | [`lu_solve_kernel`] | LU: `T[.., n, n]`, rows: `i32[.., n]`, B: `T[.., n, k]` | X: `T[count, n, k]`, scratch | [`LuSolve`], `BatchMap` |

use super::batch_map::{BatchMap, batch_map_range};
use super::rows::{subtract_rows, two_rows};
use super::triangular::{Triangle, is_singular_triangle, solve_triangle};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;

/// Columns of a panel.
const PANEL: usize = 32;

params! {
    /// Params of [`lu_kernel`].
    pub struct LuFactor {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows and columns.
        pub n: usize,
    }
}

params! {
    /// Params of [`lu_solve_kernel`].
    pub struct LuSolve {
        /// Number of matrices X, each a unit.
        pub count: usize,
        /// Rows and columns of A.
        pub n: usize,
        /// Columns of B.
        pub k: usize,
        /// Solve with the transpose of A.
        pub transpose: bool,
        /// X of a singular matrix is NaN; else the matrix is a fault.
        pub nan: bool,
    }
}

impl LuSolve {
    /// Number of words.
    const WORDS: usize = 5;

    /// Elements of scratch for each thread.
    pub fn scratch(&self) -> usize {
        if self.transpose { self.n * self.k } else { 0 }
    }
}

/// The row of the pivot of column `j`: the first of the largest magnitudes, the first NaN if there is one.
#[inline(always)]
fn lu_pivot_row<T: Float>(n: usize, j: usize, a: &[T]) -> usize {
    let (mut at, mut most) = (j, a[j * n + j].abs());
    for i in j + 1..n {
        let size = a[i * n + j].abs();
        if !most.is_nan() && (size > most || size.is_nan()) {
            (at, most) = (i, size);
        }
    }
    at
}

/// Factors the columns `from..to` of the rows from `from` on. Gives true if the number of exchanged rows is odd.
#[inline(always)]
fn lu_factor_panel<T: Float>(n: usize, from: usize, to: usize, a: &mut [T], rows: &mut [i32]) -> bool {
    let mut odd = false;
    for j in from..to {
        let pivot_row = lu_pivot_row(n, j, a);
        if pivot_row != j {
            let (x, y) = two_rows(a, n, j, pivot_row);
            x.swap_with_slice(y);
            rows.swap(j, pivot_row);
            odd = !odd;
        }
        let (head, below) = a.split_at_mut((j + 1) * n);
        let pivots = &head[j * n..];
        let pivot = pivots[j];
        if pivot == T::ZERO {
            continue;
        }
        for row in below.chunks_exact_mut(n) {
            row[j] = row[j] / pivot;
            let m = [row[j]];
            subtract_rows(&m, pivots, n, j + 1, &mut row[j + 1..to]);
        }
    }
    odd
}

simd! {
    /// Factors a matrix in place. Gives the sign of the permutation.
    fn lu_of_matrix[T: Float](n: usize, a: &mut [T], rows: &mut [i32]) -> T {
        let mut odd = false;
        for (i, row) in rows.iter_mut().enumerate() {
            *row = i as i32;
        }
        for from in (0..n).step_by(PANEL) {
            let to = (from + PANEL).min(n);
            odd ^= lu_factor_panel(n, from, to, a, rows);
            for i in from + 1..if to < n { n } else { 0 } {
                let (head, tail) = a.split_at_mut(i * n);
                let (left, right) = tail[..n].split_at_mut(to);
                let updates = &left[from..i.min(to)];
                subtract_rows(updates, &head[from * n..], n, to, right);
            }
        }
        if odd { -T::ONE } else { T::ONE }
    }
}

/// LU factors of each matrix: L below the diagonal (its own diagonal is 1), U from the diagonal on; row `i` of L·U is
/// row
/// `rows[i]` of A; `sign` is that of the permutation.
///
/// Reads A: `T[count, n, n]`; writes LU: the same, in place of A or not, rows: `i32[count, n]`, sign: `T[count]`;
/// params [`LuFactor`].
pub fn lu_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LuFactor::from_words(args.params());
    let from = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (first, size) = (args.units().start, p.n * p.n);
    let (factors, rows, signs) = (args.write::<T>(0), args.write::<i32>(1), args.write::<T>(2));
    if let Some(a) = from {
        factors.copy_from_slice(&a[first * size..][..factors.len()]);
    }
    for (m, sign) in signs.iter_mut().enumerate() {
        *sign = lu_of_matrix(p.n, &mut factors[batch_map_range(m, size)], &mut rows[batch_map_range(m, p.n)]);
    }
}

by_dtype!(lu_factor_for = lu_kernel::<floats>);

/// One system. All `rows` are in 0..n; they need not be a permutation.
fn lu_solve_one<T: Float>(p: &LuSolve, lu: &[T], rows: &[i32], b: &[T], x: &mut [T], scratch: &mut [T]) {
    let (n, k) = (p.n, p.k);
    let lower = Triangle { n, k, upper: false, transpose: p.transpose, unit: true };
    let upper = Triangle { n, k, upper: true, transpose: p.transpose, unit: false };
    let row_of = |i: usize| rows[i] as usize;
    if p.transpose {
        scratch.copy_from_slice(b);
        solve_triangle(&upper, lu, scratch);
        solve_triangle(&lower, lu, scratch);
        x.fill(T::ZERO);
        for i in 0..n {
            for (x, z) in x[batch_map_range(row_of(i), k)].iter_mut().zip(&scratch[batch_map_range(i, k)]) {
                *x += *z;
            }
        }
    } else {
        for i in 0..n {
            x[batch_map_range(i, k)].copy_from_slice(&b[batch_map_range(row_of(i), k)]);
        }
        solve_triangle(&lower, lu, x);
        solve_triangle(&upper, lu, x);
    }
}

/// X with A·X = B, or Aᵀ·X = B, from the factors of A. A matrix with a zero or a NaN on the diagonal of U is a fault,
/// or its X is NaN. A row outside of 0..n is a fault.
///
/// Reads LU: `T[.., n, n]`, rows: `i32[.., n]`, B: `T[.., n, k]`; writes X: `T[count, n, k]` and scratch
/// (`Split::PerThread`, [`LuSolve::scratch`]); params [`LuSolve`], then a [`BatchMap`].
pub fn lu_solve_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LuSolve::from_words(args.params());
    let map = BatchMap::from_words(&args.params()[LuSolve::WORDS..]);
    let (lu, rows, b) = (args.read::<T>(0), args.read::<i32>(1), args.read::<T>(2));
    let (first, x, scratch) = (args.units().start, args.write::<T>(0), args.write::<T>(1));
    for (u, x) in x.chunks_exact_mut((p.n * p.k).max(1)).enumerate() {
        let (a, from) = map.matrices(first + u);
        let lu = &lu[batch_map_range(a, p.n * p.n)];
        if is_singular_triangle(p.n, lu) {
            x.fill(T::NAN);
            if !p.nan {
                args.fault_matrix(a, crate::fault::Cause::Singular);
            }
            continue;
        }
        let (rows, b) = (&rows[batch_map_range(a, p.n)], &b[batch_map_range(from, p.n * p.k)]);
        if let Some(i) = rows.iter().position(|r| !(0..p.n as i64).contains(&i64::from(*r))) {
            args.fault_index(a * p.n + i, i64::from(rows[i]), p.n);
            continue;
        }
        lu_solve_one(&p, lu, rows, b, x, &mut scratch[..p.scratch()]);
    }
}

by_dtype!(lu_solve_for = lu_solve_kernel::<floats>);
