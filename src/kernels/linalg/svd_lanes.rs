//! Rotations of sixteen small matrices at once: lane `l` of a vector belongs to matrix `l`.
//!
//! Invariant: each element is computed by the operations of `svd` in their order, so a matrix has the same bits in a
//! group as alone. A sweep that rotates nothing changes nothing, so matrices may be swept as often as the slowest of
//! their group.

// Loops over indices of fixed arrays become vectors; closures would not be compiled for the instruction set.
#![allow(clippy::needless_range_loop)]

use crate::float::Float;
use crate::matrix_rows::matrix_row_epsilon;
use crate::simd;

/// Sweeps over all pairs of rows. Six to ten are usual.
pub const MOST_SWEEPS: usize = 40;

/// Matrices of a group.
pub const LANES: usize = 16;

/// A number for each matrix of a group.
pub type Lanes<T> = [T; LANES];

/// A row of `N` elements, of which those beyond the row's end are 0, in each matrix of a group.
pub type LaneRow<T, const N: usize> = [Lanes<T>; N];

/// The padded length of rows of `len` elements; `None` if they are too long for groups.
pub fn padded_len(len: usize) -> Option<usize> {
    [LANES / 2, LANES].into_iter().find(|n| len <= *n)
}

/// Σ x·y, by the operations of [`dot_rows`](crate::matrix_rows::dot_rows), but for sums of zeros.
#[inline(always)]
fn dot_lanes<T: Float, const N: usize>(x: &LaneRow<T, N>, y: &LaneRow<T, N>) -> Lanes<T> {
    let mut dot = [T::ZERO; LANES];
    for l in 0..LANES {
        let mut sums = [T::ZERO; N];
        for i in 0..N {
            sums[i] = x[i][l].mul_add(y[i][l], T::ZERO);
        }
        let mut half = N / 2;
        while half > 0 {
            for i in 0..half {
                sums[i] += sums[i + half];
            }
            half /= 2;
        }
        dot[l] = sums[0];
    }
    dot
}

/// The rotations of a pair of rows: cosines, sines, and tangents, which are 0 where nothing is rotated.
struct Turns<T> {
    c: Lanes<T>,
    s: Lanes<T>,
    t: Lanes<T>,
}

/// The rotations that make rows orthogonal whose squares are `a` and `b`, and whose product is `both`.
#[inline(always)]
fn turns_of<T: Float>(least: T, a: Lanes<T>, b: Lanes<T>, both: Lanes<T>) -> Turns<T> {
    let [mut cs, mut ss, mut ts] = [[T::ZERO; LANES]; 3];
    for l in 0..LANES {
        let near = both[l].abs() <= least * a[l].sqrt() * b[l].sqrt();
        let zeta = (b[l] - a[l]) / (T::TWO * both[l]);
        let size = zeta.abs();
        let large = size * (T::ONE + T::ONE / size / size).sqrt();
        let root = if size > T::ONE { large } else { zeta.mul_add(zeta, T::ONE).sqrt() };
        let t = T::ONE / (size + root);
        let t = if zeta < T::ZERO { -t } else { t };
        let c = T::ONE / t.mul_add(t, T::ONE).sqrt();
        (cs[l], ss[l], ts[l]) = (c, c * t, if near { T::ZERO } else { t });
    }
    Turns { c: cs, s: ss, t: ts }
}

/// (x, y) becomes (c·x − s·y, s·x + c·y) in the matrices that are rotated.
#[inline(always)]
fn rotate_lanes<T: Float, const N: usize>(turns: &Turns<T>, x: &mut LaneRow<T, N>, y: &mut LaneRow<T, N>) {
    let (c, s, t) = (turns.c, turns.s, turns.t);
    for (x, y) in x.iter_mut().zip(y) {
        // Copies, so that nothing that is read is written: the loops become vectors.
        let (a, b) = (*x, *y);
        let (mut to_x, mut to_y) = (a, b);
        for l in 0..LANES {
            let turned = c[l].mul_add(a[l], -(s[l] * b[l]));
            to_x[l] = if t[l] != T::ZERO { turned } else { a[l] };
        }
        for l in 0..LANES {
            let turned = s[l].mul_add(a[l], c[l] * b[l]);
            to_y[l] = if t[l] != T::ZERO { turned } else { b[l] };
        }
        (*x, *y) = (to_x, to_y);
    }
}

/// Rows `p` < `q`.
#[inline(always)]
fn lane_rows_mut<R>(rows: &mut [R], p: usize, q: usize) -> (&mut R, &mut R) {
    let (head, tail) = rows.split_at_mut(q);
    (&mut head[p], &mut tail[0])
}

simd! {
    /// Makes the rows of `w`, of `len` elements, orthogonal in each matrix, and applies the same rotations to the rows
    /// of `j`.
    pub fn orthogonalise_lanes[T: Float, const N: usize](
        len: usize, w: &mut [LaneRow<T, N>], j: &mut [LaneRow<T, N>],
    ) {
        let least = matrix_row_epsilon::<T>() * T::from_f64(len as f64).sqrt();
        for _ in 0..MOST_SWEEPS {
            let mut rotated = false;
            for q in 1..w.len() {
                for p in 0..q {
                    let (x, y) = lane_rows_mut(w, p, q);
                    let turns = turns_of(least, dot_lanes(x, x), dot_lanes(y, y), dot_lanes(x, y));
                    let mut any = false;
                    for l in 0..LANES {
                        any |= turns.t[l] != T::ZERO;
                    }
                    if !any {
                        continue;
                    }
                    rotated = true;
                    rotate_lanes(&turns, x, y);
                    let (x, y) = lane_rows_mut(j, p, q);
                    rotate_lanes(&turns, x, y);
                }
            }
            if !rotated {
                break;
            }
        }
    }
}
