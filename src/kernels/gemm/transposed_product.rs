//! Products that are computed as their transpose: C has some tens of rows, B is wide, and both operands are contiguous
//! along k.
//!
//! This is the forward product of a linear layer. Packing the wide matrix would take a large share of the time. So the
//! kernel computes Cᵀ = Bᵀ · Aᵀ, which packs only the few rows of A, and transposes the result.
//!
//! Invariant: the bits are those of the general product, because all sums are chains. The choice follows from the
//! descriptor alone.

use super::blocked::{self, BlockedProduct};
use super::blocked_plan::BlockedPlan;
use super::epilogue::GemmEpilogue;
use super::gemm_desc::{Gemm, Strides};
use super::gemm_float::GemmFloat;
use super::tuning::{PREFETCH_B, TRANSPOSED_BLOCK, TRANSPOSED_LANES, TRANSPOSED_ROWS, TRANSPOSED_SQUARE};
use crate::abi::MatrixMut;
use crate::scratch::scratch;
use crate::simd::Token;

/// Whether a product is computed by its transpose.
#[inline]
pub fn transposed_fits(g: &Gemm) -> bool {
    // Transposing an element of C costs as much as packing one or two.
    TRANSPOSED_ROWS.contains(&g.m)
        && g.n.min(g.k) >= 2 * g.m
        && (g.m.next_multiple_of(TRANSPOSED_LANES) - g.m) * 4 <= g.m
        && (g.a.col, g.b.row) == (1, 1)
        && !g.accumulate
}

/// Rows of Cᵀ that are computed at once.
fn transposed_rows_at_once<T>(g: &Gemm) -> usize {
    (TRANSPOSED_BLOCK / size_of::<T>() / g.m).min(g.n)
}

/// The descriptor of the transpose of that part of the product.
fn transposed_gemm<T>(g: &Gemm) -> Gemm {
    let (a, b) = (Strides { row: g.b.col, col: 1 }, Strides { row: 1, col: g.a.row });
    Gemm::new(transposed_rows_at_once::<T>(g), g.m, g.k).with_strides(a, b)
}

/// The plan of the transpose of `g`, whose rows of A are columns of B.
pub fn transposed_plan<T>(g: &Gemm) -> BlockedPlan {
    let plan = BlockedPlan::new::<T>(&transposed_gemm::<T>(g));
    if g.all_b().saturating_mul(size_of::<T>()) > PREFETCH_B { plan.with_far_a() } else { plan }
}

/// Elements of scratch of each thread.
pub fn transposed_scratch<T: GemmFloat>(g: &Gemm) -> usize {
    TransposedScratch::len(transposed_rows_at_once::<T>(g), g.m) + transposed_plan::<T>(g).scratch::<T>()
}

scratch! {
    /// The scratch of a product whose transpose has `m` rows at once.
    struct TransposedScratch(m: usize, n: usize) {
        square: TRANSPOSED_SQUARE.0 * TRANSPOSED_SQUARE.1,
        /// Rows of Cᵀ.
        all: m * n,
        ..product
    }
}

/// Computes a block of a product and applies its epilogue. A begins at the block's first row, B at its first column.
pub fn transposed_product<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    (a, b): (&[T], &[T]),
    mut c: MatrixMut<'_, T>,
    end: &GemmEpilogue<'_, T>,
    scratch: &mut [T],
) {
    let (t, (rows, cols)) = (transposed_gemm::<T>(g), (c.rows(), c.cols()));
    let plan = transposed_plan::<T>(g);
    let TransposedScratch { square, all, product } = TransposedScratch::cut(t.m, t.n, scratch);
    for j in (0..cols).step_by(t.m) {
        let width = t.m.min(cols - j);
        let t_c = &mut all[..width * rows];
        let p = BlockedProduct { a: &b[j * g.b.col..], b: a, c: MatrixMut::new(t_c, width, rows), sums: None };
        blocked::multiply_block(token, &t, &plan, p, &GemmEpilogue::NONE, product);
        let mut c = c.part(0..rows, j..j + width);
        copy_back(token, t_c, &mut c, square);
        end.apply(c, (0, j));
    }
}

/// Copies Cᵀ into C by way of squares in scratch: between the rows of C are columns of other threads.
fn copy_back<T: GemmFloat>(token: Token, from: &[T], c: &mut MatrixMut<'_, T>, square: &mut [T]) {
    let (rows, cols) = (c.rows(), c.cols());
    for j in (0..cols).step_by(TRANSPOSED_SQUARE.1) {
        let inner = TRANSPOSED_SQUARE.1.min(cols - j);
        for i in (0..rows).step_by(TRANSPOSED_SQUARE.0) {
            let outer = TRANSPOSED_SQUARE.0.min(rows - i);
            T::transpose(token, &from[j * rows + i..], rows, square, TRANSPOSED_SQUARE.1, outer, inner);
            for (o, line) in square.chunks_exact(TRANSPOSED_SQUARE.1).take(outer).enumerate() {
                c.row(i + o)[j..j + inner].copy_from_slice(&line[..inner]);
            }
        }
    }
}
