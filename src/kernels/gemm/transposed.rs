//! Products of some rows with a wide matrix, where both lie along k: a linear layer's way forward. Packing the wide
//! matrix would cost as much as many of the sums, so Cᵀ = Bᵀ · Aᵀ is computed, of which the few rows are packed, and
//! transposed back.
//!
//! Invariant: the bits are those of the product, whose sums are chains in either case. Which products those are follows
//! from the descriptor alone. `algorithm`, `desc` and `dots` ask.

use super::blocked::{self, Product};
use super::desc::{Gemm, Strides};
use super::epilogue::Epilogue;
use super::float::GemmFloat;
use super::plan::Plan;
use crate::kernels::abi::MatrixMut;
use crate::kernels::simd::Token;

/// Rows of C: fewer are dot products, or leave lanes idle; with more, packing B costs little.
const ROWS: std::ops::RangeInclusive<usize> = 32..=128;
/// Lanes of the widest vectors: those beyond the last row are idle.
const LANES: usize = 16;
/// Bytes of the block of Cᵀ that is there at once.
const BLOCK: usize = 256 << 10;
/// Lines and elements of each that are transposed at once.
const SQUARE: (usize, usize) = (16, 64);

/// Whether a product is computed by its transpose.
#[inline]
pub fn fits(g: &Gemm) -> bool {
    // Transposing an element of C costs as much as packing one or two.
    ROWS.contains(&g.m)
        && g.n.min(g.k) >= 2 * g.m
        && (g.m.next_multiple_of(LANES) - g.m) * 4 <= g.m
        && (g.a.col, g.b.row) == (1, 1)
        && g.batch().is_empty()
        && !g.accumulate
}

/// Columns of C, which are rows of Cᵀ, that are computed at once.
fn rows_at_once<T>(g: &Gemm) -> usize {
    (BLOCK / size_of::<T>() / g.m).min(g.n)
}

/// The transpose of a part of the product.
fn transpose<T>(g: &Gemm) -> Gemm {
    let (a, b) = (Strides { row: g.b.col, col: 1 }, Strides { row: 1, col: g.a.row });
    Gemm::new(rows_at_once::<T>(g), g.m, g.k).with_strides(a, b)
}

/// Elements of scratch.
pub fn scratch<T: GemmFloat>(g: &Gemm) -> usize {
    Plan::new::<T>(&transpose::<T>(g)).scratch::<T>() + rows_at_once::<T>(g) * g.m + SQUARE.0 * SQUARE.1
}

/// Computes some rows and columns of a product; the operands begin with what the first of them need.
pub fn product<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    (a, b): (&[T], &[T]),
    mut c: MatrixMut<'_, T>,
    end: &Epilogue<'_, T>,
    scratch: &mut [T],
) {
    let (t, (rows, cols)) = (transpose::<T>(g), (c.rows(), c.cols()));
    let plan = Plan::new::<T>(&t);
    let (square, rest) = scratch.split_at_mut(SQUARE.0 * SQUARE.1);
    let (all, scratch) = rest.split_at_mut(t.m * t.n);
    for j in (0..cols).step_by(t.m) {
        let width = t.m.min(cols - j);
        let t_c = &mut all[..width * rows];
        let p = Product { a: &b[j * g.b.col..], b: a, c: MatrixMut::new(t_c, width, rows), sums: None };
        blocked::product(token, &t, &plan, p, &Epilogue::NONE, scratch);
        let mut c = c.part(0..rows, j..j + width);
        transpose_back(token, t_c, &mut c, square);
        end.apply(c, (0, j));
    }
}

/// Copies Cᵀ into C by way of squares: between the rows of C lie the columns of other threads.
fn transpose_back<T: GemmFloat>(token: Token, from: &[T], c: &mut MatrixMut<'_, T>, square: &mut [T]) {
    let (rows, cols) = (c.rows(), c.cols());
    for j in (0..cols).step_by(SQUARE.1) {
        let inner = SQUARE.1.min(cols - j);
        for i in (0..rows).step_by(SQUARE.0) {
            let outer = SQUARE.0.min(rows - i);
            T::transpose(token, &from[j * rows + i..], rows, square, SQUARE.1, outer, inner);
            for (o, line) in square.chunks_exact(SQUARE.1).take(outer).enumerate() {
                c.row(i + o)[j..j + inner].copy_from_slice(&line[..inner]);
            }
        }
    }
}
