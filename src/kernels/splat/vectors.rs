//! Vectors of three.

use crate::float::Float;

/// Three numbers.
pub(super) type Triple<T> = [T; 3];

/// The elements of vector `i` of `x`.
#[inline(always)]
pub(super) fn vector_at<T: Float>(x: &[T], i: usize) -> Triple<T> {
    [x[3 * i], x[3 * i + 1], x[3 * i + 2]]
}

/// a − b.
#[inline(always)]
pub(super) fn vector_minus<T: Float>(a: Triple<T>, b: Triple<T>) -> Triple<T> {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// a + s·b.
#[inline(always)]
pub(super) fn vector_plus_scaled<T: Float>(a: Triple<T>, s: T, b: Triple<T>) -> Triple<T> {
    [s.mul_add(b[0], a[0]), s.mul_add(b[1], a[1]), s.mul_add(b[2], a[2])]
}

/// a·b.
#[inline(always)]
pub(super) fn vector_dot<T: Float>(a: Triple<T>, b: Triple<T>) -> T {
    a[2].mul_add(b[2], a[1].mul_add(b[1], a[0] * b[0]))
}

/// a × b.
#[inline(always)]
pub(super) fn vector_cross<T: Float>(a: Triple<T>, b: Triple<T>) -> Triple<T> {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The matrix with these rows times x.
#[inline(always)]
pub(super) fn vector_times<T: Float>(rows: &[Triple<T>; 3], x: Triple<T>) -> Triple<T> {
    [vector_dot(rows[0], x), vector_dot(rows[1], x), vector_dot(rows[2], x)]
}

/// The transpose of the matrix with these rows, times x.
#[inline(always)]
pub(super) fn vector_transposed_times<T: Float>(rows: &[Triple<T>; 3], x: Triple<T>) -> Triple<T> {
    let first = [x[0] * rows[0][0], x[0] * rows[0][1], x[0] * rows[0][2]];
    vector_plus_scaled(vector_plus_scaled(first, x[1], rows[1]), x[2], rows[2])
}

/// |v|.
pub(super) fn vector_length(v: Triple<f64>) -> f64 {
    vector_dot(v, v).sqrt()
}
