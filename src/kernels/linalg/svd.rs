//! Thin singular value decompositions: A = U·diag(s)·Vᵀ with k = min(m, n) singular values, descending.
//!
//! One-sided Jacobi (Hestenes, 1958): rotations make the k rows of A, or of Aᵀ if A has more rows than columns,
//! orthogonal. Their lengths are the singular values. The reduced QR factor of the sorted rows makes them orthonormal,
//! even where a singular value is 0. In each column of U, the element of largest magnitude is positive; of several, the
//! first one is. Small matrices are rotated sixteen at a time (`svd_lanes`). A matrix with a NaN or an infinity has NaN
//! as result.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`svd_kernel`] | A: `T[count, m, n]` | U: `T[count, m, k]`, s: `T[count, k]`, Vᵀ: `T[count, k, n]`, scratch | [`Svd`] |

use super::batch_map;
use super::eigh;
use super::qr::{Qr, factor_q_and_r};
use super::svd_lanes::{LANES, LaneRow, Lanes, MOST_SWEEPS, orthogonalise_lanes, padded_len};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{dot_rows, largest_of_matrix_row, matrix_row_epsilon, rotate_rows, two_rows_mut};
use crate::params::params;
use crate::scratch::scratch;
use crate::simd;

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

    /// The padded length of the rows of a group of matrices; `None` if they are computed one by one.
    fn group_len(&self) -> Option<usize> {
        padded_len(self.len()).filter(|_| self.count >= LANES && self.rank() > 0)
    }

    /// Elements of the rows of a group, and of its rotations.
    fn group(&self) -> usize {
        LANES * self.rank() * self.group_len().unwrap_or(0)
    }

    /// Elements of scratch.
    pub fn scratch(&self) -> usize {
        2 * self.group() + SvdScratch::len(self.rank(), self.len()) + self.qr().scratch()
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

/// What a matrix is divided by; none if it has a NaN or an infinity.
fn scale_of<T: Float>(a: &[T]) -> Option<T> {
    let scale = largest_of_matrix_row(a);
    let finite = !scale.is_nan() && scale != T::INFINITY;
    finite.then_some(if scale < T::MIN_POSITIVE { T::ONE } else { scale })
}

/// Element `i` of row `row` of the rows that are rotated.
fn rotated_element<T: Float>(p: &Svd, a: &[T], row: usize, i: usize) -> T {
    a[if p.m >= p.n { i * p.n + row } else { row * p.n + i }]
}

/// The results of one matrix.
type Parts<'r, T> = (&'r mut [T], &'r mut [T], &'r mut [T]);

/// Writes U, s and Vᵀ of one matrix.
fn decompose_matrix<T: Float>(p: &Svd, a: &[T], to: Parts<'_, T>, scratch: &mut [T]) {
    let (k, len) = (p.rank(), p.len());
    let scale = scale_of(a);
    if let Some(scale) = scale {
        let SvdScratch { w, j, .. } = SvdScratch::cut(k, len, scratch);
        for row in 0..k {
            for i in 0..len {
                w[row * len + i] = rotated_element(p, a, row, i) / scale;
            }
        }
        j.fill(T::ZERO);
        (0..k).for_each(|i| j[i * k + i] = T::ONE);
        svd_orthogonalise_rows(k, len, w, j);
    }
    write_parts(p, scale, to, scratch);
}

/// The same for matrices `a` of a group, whose rows are padded to `N` elements; `to` gives the parts of each.
fn decompose_group<'r, T: Float, const N: usize>(
    p: &Svd,
    a: [&[T]; LANES],
    to: impl Iterator<Item = Parts<'r, T>>,
    scratch: &mut [T],
) {
    let (k, len) = (p.rank(), p.len());
    let (group, scratch) = scratch.split_at_mut(2 * p.group());
    group.fill(T::ZERO);
    let lanes: &mut [Lanes<T>] = group.as_chunks_mut().0;
    let rows: &mut [LaneRow<T, N>] = lanes.as_chunks_mut().0;
    let (ws, js) = rows.split_at_mut(k);
    let scales = a.map(scale_of);
    for (l, (a, scale)) in a.into_iter().zip(scales).enumerate() {
        let Some(scale) = scale else { continue };
        for (row, ws) in ws.iter_mut().enumerate() {
            for (i, ws) in ws.iter_mut().enumerate().take(len) {
                ws[l] = rotated_element(p, a, row, i) / scale;
            }
        }
    }
    js.iter_mut().enumerate().for_each(|(i, row)| row[i] = [T::ONE; LANES]);
    orthogonalise_lanes(len, ws, js);
    for (l, to) in to.enumerate() {
        let SvdScratch { w, j, .. } = SvdScratch::cut(k, len, scratch);
        for (w, ws) in w.chunks_exact_mut(len).zip(&*ws) {
            w.iter_mut().zip(ws).for_each(|(w, ws)| *w = ws[l]);
        }
        for (j, js) in j.chunks_exact_mut(k).zip(&*js) {
            j.iter_mut().zip(js).for_each(|(j, js)| *j = js[l]);
        }
        write_parts(p, scales[l], to, scratch);
    }
}

/// Writes U, s and Vᵀ of the rows and rotations in scratch; NaN if there is no scale.
fn write_parts<T: Float>(p: &Svd, scale: Option<T>, (u, s, vt): Parts<'_, T>, scratch: &mut [T]) {
    let (m, n, k, len, tall) = (p.m, p.n, p.rank(), p.len(), p.m >= p.n);
    let Some(scale) = scale else {
        return [u, s, vt].into_iter().for_each(|x| x.fill(T::NAN));
    };
    let SvdScratch { w, sorted, q, j, r, lengths, column, qr } = SvdScratch::cut(k, len, scratch);
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
    if units.is_empty() {
        return;
    }
    let matrix = |unit: usize| &a[batch_map::matrix_range(unit, p.m * p.n)];
    let parts = u.chunks_exact_mut((p.m * k).max(1)).zip(s.chunks_exact_mut(k.max(1)));
    let mut parts = parts.zip(vt.chunks_exact_mut((k * p.n).max(1))).map(|((u, s), vt)| (u, s, vt));
    let scratch = &mut scratch[..p.scratch()];
    let mut unit = units.start;
    while let Some(padded) = p.group_len().filter(|_| unit + LANES <= units.end) {
        let (group, to) = (std::array::from_fn(|l| matrix(unit + l)), parts.by_ref().take(LANES));
        match padded {
            LANES => decompose_group::<T, LANES>(&p, group, to, scratch),
            _ => decompose_group::<T, { LANES / 2 }>(&p, group, to, scratch),
        }
        unit += LANES;
    }
    for (unit, to) in (unit..units.end).zip(parts) {
        decompose_matrix(&p, matrix(unit), to, scratch);
    }
}

by_dtype!(svd_for = svd_kernel::<floats>);
