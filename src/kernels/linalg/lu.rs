//! LU factors with partial pivoting, `A[rows] = L·U`, and solves with them.
//!
//! The algorithm is right-looking, in strips of [`STRIP`] columns. Once a strip is factored, the rest of each row,
//! right of the strip, takes all of the strip's updates at once, which changes no bit. Large matrices are factored by
//! `lu_panels`. The pivot is the element of largest magnitude, the first of several. If it is zero, its column stays as
//! it is, and nothing is divided by it. So every matrix has factors, and a singular one has a zero on the diagonal of
//! U.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`lu_kernel`] | A: `T[count, n, n]` | LU: `T[count, n, n]`, rows: `i32[count, n]`, sign: `T[count]`, scratch | [`LuFactor`] |
//! | [`lu_solve_kernel`] | LU: `T[.., n, n]`, rows: `i32[.., n]`, B: `T[.., n, k]` | X: `T[count, n, k]`, scratch | [`LuSolve`], `BatchMap` |
//! | [`lu_solve_small_kernel`] | A: `T[count, n, n]`, B: `T[.., n, k]` | X: `T[count, n, k]`, scratch | [`LuSolve`], `BatchMap` |

use super::batch_map::{self, BatchMap};
use super::lu_lanes::{
    LANES, Lanes, SMALL, all_diagonals_regular, factor_lu_lanes, goes_in_groups, lanes_to_matrices, matrices_to_lanes,
    rows_to_lanes, solve_lu_lanes, solve_lu_lanes_transposed,
};
use super::lu_panels::{self, lu_by_panels};
use super::triangular::{SINGULAR, Triangle, is_singular_triangle, solve_triangle};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::matrix_rows::{subtract_scaled_rows, two_rows_mut};
use crate::params::params;
use crate::simd;

/// Columns of a strip.
const STRIP: usize = 32;

params! {
    /// Params of [`lu_kernel`].
    pub struct LuFactor {
        /// Number of matrices, each a unit.
        pub count: usize,
        /// Rows and columns.
        pub n: usize,
    }
}

impl LuFactor {
    /// Elements of scratch for elements of `size` bytes.
    pub fn scratch(&self, size: usize) -> usize {
        match goes_in_groups(self.count, self.n) {
            true => LANES * self.n * self.n,
            false if lu_panels::handles_size(self.n) => lu_panels::scratch_len(size, self.n),
            false => 0,
        }
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
    /// Elements of scratch of [`lu_solve_kernel`].
    pub fn scratch(&self) -> usize {
        match goes_in_groups(self.count, self.n) {
            true => LANES * self.n * (self.n + self.k),
            false if self.transpose => self.n * self.k,
            false => 0,
        }
    }

    /// Elements of scratch of [`lu_solve_small_kernel`].
    pub fn factor_scratch(&self) -> usize {
        let alone = self.n * self.n;
        if goes_in_groups(self.count, self.n) { LANES * (alone + self.n * self.k) } else { alone }
    }
}

/// The row of the pivot of column `j` of a matrix of `n` columns: the first of the largest magnitudes, the first NaN if
/// there is one.
#[inline(always)]
fn find_pivot_row<T: Float>(n: usize, j: usize, a: &[T]) -> usize {
    let (mut at, mut most) = (j, a[j * n + j].abs());
    for i in j + 1..a.len() / n {
        let size = a[i * n + j].abs();
        if !most.is_nan() && (size > most || size.is_nan()) {
            (at, most) = (i, size);
        }
    }
    at
}

/// Factors the columns `from..to` of the rows from `from` on. Gives true if the number of exchanged rows is odd.
#[inline(always)]
fn factor_strip<T: Float>(n: usize, from: usize, to: usize, a: &mut [T], rows: &mut [i32]) -> bool {
    let mut odd = false;
    for j in from..to {
        let pivot_row = find_pivot_row(n, j, a);
        if pivot_row != j {
            let (x, y) = two_rows_mut(a, n, j, pivot_row);
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
            subtract_scaled_rows(&m, pivots, n, j + 1, &mut row[j + 1..to]);
        }
    }
    odd
}

/// Factors a matrix in place. Gives the sign of the permutation.
fn factor_matrix<T: GemmFloat>(n: usize, a: &mut [T], rows: &mut [i32], scratch: &mut [T]) -> T {
    for (i, row) in rows.iter_mut().enumerate() {
        *row = i as i32;
    }
    let odd = if lu_panels::handles_size(n) { lu_by_panels(n, a, rows, scratch) } else { lu_by_rows(n, a, rows) };
    if odd { -T::ONE } else { T::ONE }
}

simd! {
    /// Factors a small matrix in place. Gives true if the number of exchanged rows is odd.
    fn lu_by_rows[T: Float](n: usize, a: &mut [T], rows: &mut [i32]) -> bool {
        let mut odd = false;
        for from in (0..n).step_by(STRIP) {
            let to = (from + STRIP).min(n);
            odd ^= factor_strip(n, from, to, a, rows);
            for i in from + 1..if to < n { n } else { 0 } {
                let (head, tail) = a.split_at_mut(i * n);
                let (left, right) = tail[..n].split_at_mut(to);
                let updates = &left[from..i.min(to)];
                subtract_scaled_rows(updates, &head[from * n..], n, to, right);
            }
        }
        odd
    }
}

/// LU factors of each matrix: L below the diagonal (its own diagonal is 1), U from the diagonal on; row `i` of L·U is
/// row `rows[i]` of A; `sign` is that of the permutation.
///
/// Reads A: `T[count, n, n]`; writes LU: the same, in place of A or not, rows: `i32[count, n]`, sign: `T[count]`, and
/// scratch ([`LuFactor::scratch`]); params [`LuFactor`].
pub fn lu_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = LuFactor::from_words(args.params());
    let from = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (first, size) = (args.units().start, p.n * p.n);
    let (factors, rows, signs) = (args.write::<T>(0), args.write::<i32>(1), args.write::<T>(2));
    let scratch = args.write::<T>(3);
    let is_grouped = goes_in_groups(p.count, p.n);
    let (lanes, scratch) = scratch.split_at_mut(if is_grouped { LANES * size } else { 0 });
    let lanes = lanes.as_chunks_mut().0;
    for (g, signs) in signs.chunks_mut(LANES).enumerate() {
        let group = g * LANES..g * LANES + signs.len();
        let factors = &mut factors[group.start * size..group.end * size];
        let rows = &mut rows[group.start * p.n..group.end * p.n];
        let here = |m: usize| first + group.start + m;
        let in_group = is_grouped && signs.len() == LANES;
        if in_group
            && factor_small_group(&p, from.unwrap_or(&*factors), from.map_or(0, |_| here(0)), lanes, rows, signs)
        {
            lanes_to_matrices(lanes, factors);
            continue;
        }
        if let Some(a) = from {
            factors.copy_from_slice(&a[here(0) * size..here(signs.len()) * size]);
        }
        for (m, sign) in signs.iter_mut().enumerate() {
            let (factors, rows) =
                (&mut factors[batch_map::matrix_range(m, size)], &mut rows[batch_map::matrix_range(m, p.n)]);
            *sign = factor_matrix(p.n, factors, rows, scratch);
        }
    }
}

by_dtype!(lu_factor_for = lu_kernel::<floats>);

/// The factors of a group of matrices from number `first` of `a` on. False if one needs the general way.
fn factor_small_group<T: Float>(
    p: &LuFactor,
    a: &[T],
    first: usize,
    lanes: &mut [Lanes<T>],
    rows: &mut [i32],
    signs: &mut [T],
) -> bool {
    matrices_to_lanes(a, p.n * p.n, std::array::from_fn(|l| first + l), lanes);
    let mut odd = [false; LANES];
    let done = factor_lu_lanes(p.n, lanes, rows, &mut odd);
    for (sign, odd) in signs.iter_mut().zip(odd) {
        *sign = if odd { -T::ONE } else { T::ONE };
    }
    done
}

/// One system. All `rows` are in 0..n; they need not be a permutation.
fn solve_system<T: Float>(p: &LuSolve, lu: &[T], rows: &[i32], b: &[T], x: &mut [T], scratch: &mut [T]) {
    let (n, k) = (p.n, p.k);
    let lower = Triangle { n, k, upper: false, transpose: p.transpose, unit: true };
    let upper = Triangle { n, k, upper: true, transpose: p.transpose, unit: false };
    let row_of = |i: usize| rows[i] as usize;
    if p.transpose {
        let scratch = &mut scratch[..n * k];
        scratch.copy_from_slice(b);
        solve_triangle(&upper, lu, scratch);
        solve_triangle(&lower, lu, scratch);
        x.fill(T::ZERO);
        for i in 0..n {
            for (x, z) in
                x[batch_map::matrix_range(row_of(i), k)].iter_mut().zip(&scratch[batch_map::matrix_range(i, k)])
            {
                *x += *z;
            }
        }
    } else {
        for i in 0..n {
            x[batch_map::matrix_range(i, k)].copy_from_slice(&b[batch_map::matrix_range(row_of(i), k)]);
        }
        solve_triangle(&lower, lu, x);
        solve_triangle(&upper, lu, x);
    }
}

/// X of a singular matrix: NaN, but zeros in rows that `rows` does not name and that a transposed solve leaves out.
fn fill_singular_x<T: Float>(p: &LuSolve, rows: &[i32], x: &mut [T]) {
    x.fill(T::ZERO);
    for (i, &row) in rows.iter().enumerate() {
        x[batch_map::matrix_range(if p.transpose { row as usize } else { i }, p.k)].fill(T::NAN);
    }
}

/// Solves a group: the matrices of `x` from number `first` on. False if one needs the general way.
fn solve_small_group<T: Float>(
    p: &LuSolve,
    map: &BatchMap<'_>,
    first: usize,
    [lu, b]: [&[T]; 2],
    rows: &[i32],
    x: &mut [T],
    scratch: &mut [T],
) -> bool {
    let (n, k, at) = (p.n, p.k, std::array::from_fn(|l| map.matrices(first + l)));
    let (factors, from): (Lanes<usize>, Lanes<usize>) = (at.map(|m| m.0), at.map(|m| m.1));
    let mut order = [0; LANES * SMALL];
    for (order, m) in order.chunks_exact_mut(n).zip(factors) {
        order.copy_from_slice(&rows[batch_map::matrix_range(m, n)]);
    }
    let order = &order[..LANES * n];
    let (lanes, solved) = scratch.as_chunks_mut().0.split_at_mut(n * n);
    let solved = &mut solved[..n * k];
    matrices_to_lanes(lu, n * n, factors, lanes);
    if !all_diagonals_regular(n, lanes) || order.iter().any(|row| !(0..n as i32).contains(row)) {
        return false;
    }
    if !p.transpose {
        rows_to_lanes(b, k, from, order, solved);
        solve_lu_lanes(n, k, lanes, solved);
        lanes_to_matrices(solved, x);
        return true;
    }
    matrices_to_lanes(b, n * k, from, solved);
    solve_lu_lanes_transposed(n, k, lanes, solved);
    x.fill(T::ZERO);
    for ((l, x), order) in x.chunks_exact_mut(n * k).enumerate().zip(order.chunks_exact(n)) {
        for (row, solved) in order.iter().zip(solved.chunks_exact(k)) {
            for (x, solved) in x[batch_map::matrix_range(*row as usize, k)].iter_mut().zip(solved) {
                *x += solved[l];
            }
        }
    }
    true
}

/// X with A·X = B, or Aᵀ·X = B, from the factors of A. A matrix with a zero or a NaN on the diagonal of U is a fault,
/// or its X is NaN. A row outside of 0..n is a fault.
///
/// Reads LU: `T[.., n, n]`, rows: `i32[.., n]`, B: `T[.., n, k]`; writes X: `T[count, n, k]` and scratch
/// ([`LuSolve::scratch`]); params [`LuSolve`], then a [`BatchMap`].
pub fn lu_solve_kernel<T: Float>(args: &mut Args<'_>) {
    let p = LuSolve::from_words(args.params());
    let map = BatchMap::from_words(&args.params()[LuSolve::WORDS..]);
    let (lu, rows, b) = (args.read::<T>(0), args.read::<i32>(1), args.read::<T>(2));
    let (first, x, scratch) = (args.units().start, args.write::<T>(0), args.write::<T>(1));
    let size = (p.n * p.k).max(1);
    for (g, x) in x.chunks_mut(LANES * size).enumerate() {
        let first = first + g * LANES;
        let in_group = goes_in_groups(p.count, p.n) && x.len() == LANES * size;
        if in_group && solve_small_group(&p, &map, first, [lu, b], rows, x, scratch) {
            continue;
        }
        for (u, x) in x.chunks_exact_mut(size).enumerate() {
            let (a, from) = map.matrices(first + u);
            let (lu, rows) = (&lu[batch_map::matrix_range(a, p.n * p.n)], &rows[batch_map::matrix_range(a, p.n)]);
            if let Some(i) = rows.iter().position(|r| !(0..p.n as i64).contains(&i64::from(*r))) {
                args.fault_index(a * p.n + i, i64::from(rows[i]), p.n);
                continue;
            }
            if !is_singular_triangle(p.n, lu) {
                solve_system(&p, lu, rows, &b[batch_map::matrix_range(from, p.n * p.k)], x, scratch);
                continue;
            }
            fill_singular_x(&p, rows, x);
            if !p.nan {
                args.report(&SINGULAR, a, None);
            }
        }
    }
}

by_dtype!(lu_solve_for = lu_solve_kernel::<floats>);

/// X with A·X = B for small matrices whose factors have no reader: the factors of [`lu_kernel`], and what
/// [`lu_solve_kernel`] makes of them.
///
/// Reads A: `T[count, n, n]` with n ≤ [`SMALL`], B: `T[.., n, k]`; writes X: `T[count, n, k]` and scratch
/// ([`LuSolve::factor_scratch`]); params [`LuSolve`] without `transpose`, then a [`BatchMap`].
pub fn lu_solve_small_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = LuSolve::from_words(args.params());
    let map = BatchMap::from_words(&args.params()[LuSolve::WORDS..]);
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let (first, x, scratch) = (args.units().start, args.write::<T>(0), args.write::<T>(1));
    let (n, size) = (p.n, (p.n * p.k).max(1));
    let mut rows = [0; LANES * SMALL];
    for (g, x) in x.chunks_mut(LANES * size).enumerate() {
        let first = first + g * LANES;
        if goes_in_groups(p.count, n) && x.len() == LANES * size {
            let (rows, mut odd) = (&mut rows[..LANES * n], [false; LANES]);
            let at: Lanes<(usize, usize)> = std::array::from_fn(|l| map.matrices(first + l));
            let (lanes, solved) = scratch.as_chunks_mut().0.split_at_mut(n * n);
            matrices_to_lanes(a, n * n, at.map(|m| m.0), lanes);
            if factor_lu_lanes(n, lanes, rows, &mut odd) && all_diagonals_regular(n, lanes) {
                let solved = &mut solved[..n * p.k];
                rows_to_lanes(b, p.k, at.map(|m| m.1), rows, solved);
                solve_lu_lanes(n, p.k, lanes, solved);
                lanes_to_matrices(solved, x);
                continue;
            }
        }
        let (lu, rows) = (&mut scratch[..n * n], &mut rows[..n]);
        for (u, x) in x.chunks_exact_mut(size).enumerate() {
            let (m, from) = map.matrices(first + u);
            lu.copy_from_slice(&a[batch_map::matrix_range(m, n * n)]);
            rows.iter_mut().enumerate().for_each(|(i, row)| *row = i as i32);
            lu_by_rows(n, lu, rows);
            if is_singular_triangle(n, lu) {
                x.fill(T::NAN);
                if !p.nan {
                    args.report(&SINGULAR, m, None);
                }
                continue;
            }
            solve_system(&p, lu, rows, &b[batch_map::matrix_range(from, n * p.k)], x, &mut []);
        }
    }
}

by_dtype!(lu_solve_small_kernel_for = lu_solve_small_kernel::<floats>);
