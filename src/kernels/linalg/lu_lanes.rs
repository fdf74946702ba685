//! LU factors of eight small matrices at once, and solves with them: lane `l` of a vector belongs to matrix `l`.
//!
//! Invariant: each element is computed by the operations of `lu` and `triangular` in their order, so a matrix has the
//! same bits in a group as alone. If a pivot of a group is zero, those files compute its matrices one by one instead.

use super::batch_map;
use crate::float::Float;
use crate::simd;

/// Matrices of a group.
pub const LANES: usize = 8;

/// The most rows of a matrix of a group.
pub const SMALL: usize = 16;

/// A number for each matrix of a group.
pub type Lanes<T> = [T; LANES];

/// Whether `count` matrices of `n` rows are computed in groups.
pub fn goes_in_groups(count: usize, n: usize) -> bool {
    n <= SMALL && count >= LANES
}

/// Writes the elements of the matrices `at`, of `len` elements each, side by side.
#[inline(always)]
pub fn matrices_to_lanes<T: Float>(x: &[T], len: usize, at: Lanes<usize>, to: &mut [Lanes<T>]) {
    for (l, m) in at.into_iter().enumerate() {
        for (to, x) in to.iter_mut().zip(&x[batch_map::matrix_range(m, len)]) {
            to[l] = *x;
        }
    }
}

/// As [`matrices_to_lanes`]; row `i` of `k` elements of lane `l` is row `rows[l · n + i]` of its matrix.
#[inline(always)]
pub fn rows_to_lanes<T: Float>(x: &[T], k: usize, at: Lanes<usize>, rows: &[i32], to: &mut [Lanes<T>]) {
    let n = rows.len() / LANES;
    for (l, m) in at.into_iter().enumerate() {
        let x = &x[batch_map::matrix_range(m, n * k)];
        for (to, row) in to.chunks_exact_mut(k).zip(&rows[l * n..(l + 1) * n]) {
            for (to, x) in to.iter_mut().zip(&x[batch_map::matrix_range(*row as usize, k)]) {
                to[l] = *x;
            }
        }
    }
}

/// Writes each lane as one of the matrices of `len` elements that follow one another in `x`.
#[inline(always)]
pub fn lanes_to_matrices<T: Float>(from: &[Lanes<T>], x: &mut [T]) {
    for (l, x) in x.chunks_exact_mut(from.len().max(1)).enumerate() {
        for (x, from) in x.iter_mut().zip(from) {
            *x = from[l];
        }
    }
}

/// The rows of the pivots of column `j`: in each lane the first of the largest magnitudes, the first NaN if there is
/// one.
#[inline(always)]
fn find_pivots<T: Float>(n: usize, j: usize, a: &[Lanes<T>]) -> Lanes<usize> {
    let (mut most, mut at) = (a[j * n + j].map(|x| x.abs()), [T::from_f64(j as f64); LANES]);
    for i in j + 1..n {
        let (here, size) = (T::from_f64(i as f64), a[i * n + j].map(|x| x.abs()));
        // A comparison with NaN is false.
        let stays: Lanes<bool> = std::array::from_fn(|l| (size[l] <= most[l]) | most[l].is_nan());
        at = std::array::from_fn(|l| if stays[l] { at[l] } else { here });
        most = std::array::from_fn(|l| if stays[l] { most[l] } else { size[l] });
    }
    at.map(|i| i.to_f64() as usize)
}

/// y − m·x in each lane.
#[inline(always)]
fn subtract_multiple<T: Float>(m: &Lanes<T>, x: &Lanes<T>, y: &Lanes<T>) -> Lanes<T> {
    std::array::from_fn(|l| (-m[l]).mul_add(x[l], y[l]))
}

/// x / by in each lane.
#[inline(always)]
fn divide_lanes<T: Float>(x: &Lanes<T>, by: &Lanes<T>) -> Lanes<T> {
    std::array::from_fn(|l| x[l] / by[l])
}

simd! {
    /// Factors a group in place. `rows` holds the rows of one matrix after another; `odd` is true in the lanes whose
    /// number of exchanged rows is odd. False, and nothing of use, if a pivot is zero.
    pub fn factor_lu_lanes[T: Float](n: usize, a: &mut [Lanes<T>], rows: &mut [i32], odd: &mut Lanes<bool>) -> bool {
        for rows in rows.chunks_exact_mut(n.max(1)) {
            for (i, row) in rows.iter_mut().enumerate() {
                *row = i as i32;
            }
        }
        *odd = [false; LANES];
        for j in 0..n {
            for (l, i) in find_pivots(n, j, a).into_iter().enumerate().filter(|&(_, i)| i != j) {
                let (head, tail) = a.split_at_mut(i * n);
                for (x, y) in head[j * n..][..n].iter_mut().zip(&mut tail[..n]) {
                    std::mem::swap(&mut x[l], &mut y[l]);
                }
                rows.swap(l * n + j, l * n + i);
                odd[l] = !odd[l];
            }
            let (head, below) = a.split_at_mut((j + 1) * n);
            let (pivot, pivots) = (head[j * n + j], &head[j * n + j + 1..]);
            if pivot.contains(&T::ZERO) {
                return false;
            }
            for row in below.chunks_exact_mut(n) {
                let m = divide_lanes(&row[j], &pivot);
                row[j] = m;
                for (y, x) in row[j + 1..].iter_mut().zip(pivots) {
                    *y = subtract_multiple(&m, x, y);
                }
            }
        }
        true
    }
}

simd! {
    /// Solves with the factors of a group, in place: x holds the permuted rows of B, `k` columns each, then X.
    pub fn solve_lu_lanes[T: Float](n: usize, k: usize, lu: &[Lanes<T>], x: &mut [Lanes<T>]) {
        for i in 0..n {
            let (done, row) = x.split_at_mut(i * k);
            for (c, y) in row[..k].iter_mut().enumerate() {
                let mut sum = *y;
                for (m, done) in lu[i * n..][..i].iter().zip(done.chunks_exact(k)) {
                    sum = subtract_multiple(m, &done[c], &sum);
                }
                *y = sum;
            }
        }
        for i in (0..n).rev() {
            let (head, done) = x.split_at_mut((i + 1) * k);
            for (c, y) in head[i * k..].iter_mut().enumerate() {
                let mut sum = *y;
                for (m, done) in lu[i * n + i + 1..(i + 1) * n].iter().zip(done.chunks_exact(k)) {
                    sum = subtract_multiple(m, &done[c], &sum);
                }
                *y = divide_lanes(&sum, &lu[i * n + i]);
            }
        }
    }
}

simd! {
    /// As [`solve_lu_lanes`] with the transposes: x holds B, then the permuted rows of X.
    pub fn solve_lu_lanes_transposed[T: Float](n: usize, k: usize, lu: &[Lanes<T>], x: &mut [Lanes<T>]) {
        for i in 0..n {
            let (head, rest) = x.split_at_mut((i + 1) * k);
            for (c, done) in head[i * k..].iter_mut().enumerate() {
                *done = divide_lanes(done, &lu[i * n + i]);
                for (m, row) in lu[i * n + i + 1..(i + 1) * n].iter().zip(rest.chunks_exact_mut(k)) {
                    row[c] = subtract_multiple(m, done, &row[c]);
                }
            }
        }
        for i in (0..n).rev() {
            let (rest, row) = x.split_at_mut(i * k);
            for (c, done) in row[..k].iter().enumerate() {
                for (m, row) in lu[i * n..][..i].iter().zip(rest.chunks_exact_mut(k)) {
                    row[c] = subtract_multiple(m, done, &row[c]);
                }
            }
        }
    }
}

/// Whether the diagonal of no matrix of a group holds a zero or a NaN.
#[inline(always)]
pub fn all_diagonals_regular<T: Float>(n: usize, lu: &[Lanes<T>]) -> bool {
    lu.iter().step_by(n + 1).flatten().all(|x| *x != T::ZERO && !x.is_nan())
}
