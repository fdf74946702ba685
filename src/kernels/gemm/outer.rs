//! Products of a column by a row: sums have one term, and tiles would cost more than they do.
//!
//! Invariant: the bits of fma(x, y, 0), as tiles have them. Only `mod.rs`, `algorithm` and `fused_update` call this.

use super::desc::Gemm;
use super::float::GemmFloat;
use super::sgd::SgdEpilogue;
use super::tuning::OUTER_ELEMENTS;
use crate::kernels::abi::MatrixMut;

/// Whether C = A · B is a column by a row: then sums have one term, and tiles would cost more than they do.
#[inline]
pub fn fits(g: &Gemm) -> bool {
    g.k == 1 && !g.accumulate && g.m > 1 && (g.n == 1 || g.b.col == 1)
}

/// `row[j] = each(row[j], x · y[j])` for slices of one length, with the bits of fma(x, y, 0), which makes +0 of −0.
#[inline(always)]
fn along<T: GemmFloat>(row: &mut [T], x: T, y: &[T], each: impl Fn(T, T) -> T) {
    let ((wide, rest), (y_wide, y_rest)) = (row.as_chunks_mut::<OUTER_ELEMENTS>(), y.as_chunks::<OUTER_ELEMENTS>());
    for (c, y) in wide.iter_mut().zip(y_wide) {
        for (c, y) in c.iter_mut().zip(y) {
            *c = each(*c, x * *y + T::ZERO);
        }
    }
    for (c, y) in rest.iter_mut().zip(y_rest) {
        *c = each(*c, x * *y + T::ZERO);
    }
}

/// `c[i][j] = each(c[i][j], a[i] · b[j])`, of some rows; a lone column lies as a row does.
#[inline(always)]
fn each_outer<T: GemmFloat>((a, a_row): (&[T], usize), b: &[T], c: &mut [T], each: impl Fn(T, T) -> T) {
    if let ([x], 1) = (b, a_row) {
        return along(c, *x, &a[..c.len()], each);
    }
    // Loops, not closures for each: those would be calls, compiled for no instruction set.
    for (c, x) in c.chunks_exact_mut(b.len()).zip(a.iter().step_by(a_row.max(1))) {
        along(c, *x, b, &each);
    }
}

/// Computes some rows and columns of a product that [`fits`] names; the columns of `b` are those of C.
pub fn product<T: GemmFloat>(a: &[T], a_row: usize, b: &[T], c: &mut MatrixMut<'_, T>) {
    if let Some(c) = c.flat() {
        return outer(a, a_row, b, c, None);
    }
    (0..c.rows()).for_each(|i| outer(&a[i * a_row..], a_row, b, c.row(i), None));
}

crate::simd! {
    /// Computes some rows of a product that [`fits`] names, or takes a step by it. The columns of `b` are those of C,
    /// `a_row` is the distance between rows of A.
    pub fn outer[T: GemmFloat](a: &[T], a_row: usize, b: &[T], c: &mut [T], step: Option<SgdEpilogue<T>>) {
        match step {
            None => each_outer((a, a_row), b, c, |_, product| product),
            Some(step) => each_outer((a, a_row), b, c, |c, product| step.apply(c, product)),
        }
    }
}
