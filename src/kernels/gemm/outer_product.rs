//! Outer products: column times row, k = 1. Each sum has one term, so register tiles would cost more than they save.
//!
//! Invariant: an element has the bits of fma(x, y, 0), as it would in a tile.

use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::sgd_epilogue::SgdEpilogue;
use crate::abi::MatrixMut;

/// Whether C = A · B is an outer product of several rows whose second operand is contiguous.
#[inline]
pub fn can_compute(g: &Gemm) -> bool {
    g.k == 1 && !g.accumulate && g.m > 1 && (g.n == 1 || g.b.col == 1)
}

/// `row[j] = each(row[j], x · y[j])` for slices of one length, with the bits of fma(x, y, 0), which turns −0 into +0.
#[inline(always)]
fn update_row<T: GemmFloat>(row: &mut [T], x: T, y: &[T], each: impl Fn(T, T) -> T) {
    // A plain loop: the compiler vectorises a loop over chunks across the chunks, with gathers and scatters.
    for (c, y) in row.iter_mut().zip(y) {
        *c = each(*c, x * *y + T::ZERO);
    }
}

/// `c[i][j] = each(c[i][j], a[i] · b[j])` for whole rows of C. A lone column is computed as a row.
#[inline(always)]
fn update_rows<T: GemmFloat>((a, a_row): (&[T], usize), b: &[T], c: &mut [T], each: impl Fn(T, T) -> T) {
    if let ([x], 1) = (b, a_row) {
        return update_row(c, *x, &a[..c.len()], each);
    }
    // A loop, not `for_each`: its closure would be a call that is not compiled for the instruction set. Its indices
    // pass the end of `a` before they could wrap.
    for (i, c) in c.chunks_exact_mut(b.len()).enumerate() {
        update_row(c, a[i * a_row], b, &each);
    }
}

/// Computes a block of a product that [`can_compute`]. `a_row` is the stride between rows of A. `b` has the
/// columns of C.
pub fn compute_block<T: GemmFloat>(a: &[T], a_row: usize, b: &[T], c: &mut MatrixMut<'_, T>) {
    if let Some(c) = c.flat() {
        return outer_product(a, a_row, b, c, None);
    }
    (0..c.rows()).for_each(|i| outer_product(&a[i * a_row..], a_row, b, c.row(i), None));
}

crate::simd! {
    /// Computes whole rows of a product that [`can_compute`], or updates them by an SGD step whose gradient is
    /// the product. `a_row` is the stride between rows of A. `b` has the columns of C.
    pub fn outer_product[T: GemmFloat](a: &[T], a_row: usize, b: &[T], c: &mut [T], step: Option<SgdEpilogue<T>>) {
        match step {
            None => update_rows((a, a_row), b, c, |_, product| product),
            Some(step) => update_rows((a, a_row), b, c, |c, product| step.apply(c, product)),
        }
    }
}
