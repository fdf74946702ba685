//! Solves with triangular matrices. Only the named triangle is read.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`triangular_solve_kernel`] | A: `T[.., n, n]`, B: `T[.., n, k]` | X: `T[count, n, k]` | [`TriangularSolve`], `BatchMap` |

use super::batch_map::{self, BatchMap};
use super::lu_lanes::SMALL;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::float::Float;
use crate::matrix_rows::{add_scaled_matrix_row, dot_rows, subtract_scaled_rows};
use crate::params::params;
use crate::simd;

/// A singular matrix; the element is its number in the batch.
pub static SINGULAR: Cause =
    Cause { name: "singular matrix", text: |bad, f| write!(f, "matrix {} is singular", bad.element) };

/// A triangle of an `n × n` matrix, and right-hand sides of `k` columns.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    /// Rows and columns.
    pub n: usize,
    /// Columns of the right-hand side.
    pub k: usize,
    /// The triangle from the diagonal up.
    pub upper: bool,
    /// Solve with the transpose of the triangle.
    pub transpose: bool,
    /// The diagonal is 1 and is not read.
    pub unit: bool,
}

params! {
    /// Params of [`triangular_solve_kernel`].
    pub struct TriangularSolve {
        /// Number of matrices X, each a unit.
        pub count: usize,
        /// Rows and columns of A.
        pub n: usize,
        /// Columns of B.
        pub k: usize,
        /// A is the triangle from the diagonal up.
        pub upper: bool,
        /// Solve with the transpose of A.
        pub transpose: bool,
        /// The diagonal of A is 1 and is not read.
        pub unit: bool,
        /// X of a singular matrix is NaN; else the matrix is a fault.
        pub nan: bool,
    }
}

/// Whether the diagonal holds a zero or a NaN.
pub fn is_singular_triangle<T: Float>(n: usize, a: &[T]) -> bool {
    (0..n).any(|i| a[i * n + i] == T::ZERO || a[i * n + i].is_nan())
}

/// Divides row `i` of x by the diagonal.
#[inline(always)]
fn divide_triangle_row<T: Float>(t: &Triangle, i: usize, a: &[T], row: &mut [T]) {
    if !t.unit {
        let pivot = a[i * t.n + i];
        for x in row {
            *x = *x / pivot;
        }
    }
}

/// x[i] −= Σ a[i, j]·x[j] for the solved rows `j`, then the division.
#[inline(always)]
fn gather_triangle_row<T: Float>(t: &Triangle, i: usize, a: &[T], x: &mut [T]) {
    let (n, k) = (t.n, t.k);
    let (head, tail) = x.split_at_mut(i * k);
    let (row, tail) = tail.split_at_mut(k);
    let line = &a[i * n..][..n];
    let (m, solved) = if t.upper { (&line[i + 1..], &*tail) } else { (&line[..i], &*head) };
    // Few rows are one chain, as in a group of small matrices.
    if k == 1 && n > SMALL {
        row[0] -= dot_rows(m, solved);
    } else {
        subtract_scaled_rows(m, solved, k, 0, row);
    }
    divide_triangle_row(t, i, a, row);
}

/// The division, then x[j] −= a[i, j]·x[i] for the rows `j` that are still to be solved.
#[inline(always)]
fn scatter_triangle_row<T: Float>(t: &Triangle, i: usize, a: &[T], x: &mut [T]) {
    let (n, k) = (t.n, t.k);
    let (head, tail) = x.split_at_mut(i * k);
    let (row, tail) = tail.split_at_mut(k);
    divide_triangle_row(t, i, a, row);
    let line = &a[i * n..][..n];
    let (m, rest) = if t.upper { (&line[i + 1..], tail) } else { (&line[..i], head) };
    if k == 1 {
        add_scaled_matrix_row(-row[0], m, rest);
    } else {
        for (m, x) in m.iter().zip(rest.chunks_exact_mut(k)) {
            add_scaled_matrix_row(-*m, row, x);
        }
    }
}

simd! {
    /// Solves in place: x holds B, then X.
    pub fn solve_triangle[T: Float](t: &Triangle, a: &[T], x: &mut [T]) {
        for step in 0..t.n {
            let i = if t.upper == t.transpose { step } else { t.n - 1 - step };
            if t.transpose {
                scatter_triangle_row(t, i, a, x);
            } else {
                gather_triangle_row(t, i, a, x);
            }
        }
    }
}

/// X with A·X = B, or Aᵀ·X = B. A matrix with a zero or a NaN on its diagonal is a fault, or its X is NaN.
///
/// Reads A: `T[.., n, n]`, B: `T[.., n, k]`; writes X: `T[count, n, k]`; params [`TriangularSolve`], then a
/// [`BatchMap`].
pub fn triangular_solve_kernel<T: Float>(args: &mut Args<'_>) {
    let p = TriangularSolve::from_words(args.params());
    let map = BatchMap::from_words(&args.params()[TriangularSolve::WORDS..]);
    let t = Triangle { n: p.n, k: p.k, upper: p.upper, transpose: p.transpose, unit: p.unit };
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let (first, x) = (args.units().start, args.write::<T>(0));
    for (u, x) in x.chunks_exact_mut((p.n * p.k).max(1)).enumerate() {
        let (at, from) = map.matrices(first + u);
        let a = &a[batch_map::matrix_range(at, p.n * p.n)];
        if !p.unit && is_singular_triangle(p.n, a) {
            x.fill(T::NAN);
            if !p.nan {
                args.report(&SINGULAR, at, None);
            }
            continue;
        }
        x.copy_from_slice(&b[batch_map::matrix_range(from, p.n * p.k)]);
        solve_triangle(&t, a, x);
    }
}

by_dtype!(triangular_solve_for = triangular_solve_kernel::<floats>);
