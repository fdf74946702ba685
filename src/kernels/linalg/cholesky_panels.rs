//! Cholesky factors of large matrices, panel by panel (see `panels`).

use super::panels::{BAND, PANEL, Panel, most_panel_scratch};
use crate::abi::MatrixMut;
use crate::float::Float;
use crate::gemm::{Gemm, GemmFloat, multiply_into_view, transpose};
use crate::matrix_rows::{scale_matrix_row, subtract_scaled_rows};
use crate::scratch::scratch;
use crate::simd;
use std::ops::Range;

/// Rows of a panel of Cholesky factors of fewer than [`LARGE`] rows.
const NARROW_PANEL: usize = 32;
/// Rows from which on all panels are wide.
const LARGE: usize = 768;
/// Rows and columns of a tile that is transposed at a time.
const TILE: usize = 32;
/// The most bytes of a factor that is computed in scratch, of which each thread has as many.
const APART: usize = 2 << 20;
/// The same of a matrix that is alone: its scratch is there once.
const APART_ALONE: usize = 8 << 20;

/// Whether matrices of `n` rows have Cholesky factors by panels.
pub fn handles_size(n: usize) -> bool {
    n > BAND
}

/// Rows of a panel of Cholesky factors of a matrix of `n` rows.
fn cholesky_panel_rows(n: usize) -> usize {
    if n < LARGE { NARROW_PANEL } else { PANEL }
}

/// Elements between two rows of U while it is computed, of elements of `size` bytes. Rows that are a multiple of 4096
/// bytes apart share few sets of a cache; then U is in scratch, with other steps, if it is small.
fn row_step(size: usize, n: usize, alone: bool) -> usize {
    let (row, most) = (n * size, if alone { APART_ALONE } else { APART });
    if row.is_multiple_of(4096) && row.saturating_mul(n) <= most { n + 64 / size } else { n }
}

/// Elements of scratch of [`cholesky_by_panels`] for matrices of `n` rows of elements of `size` bytes, for a matrix
/// that is `alone` or one of several.
pub fn scratch_len(size: usize, n: usize, alone: bool) -> usize {
    let (step, width) = (row_step(size, n, alone), cholesky_panel_rows(n));
    let panels = (0..n).step_by(width).map(|from| Panel { step, ..Panel::of(n, from, width) });
    let products = panels.flat_map(|p| p.bands().map(move |i| p.cholesky_band(i)).chain([p.cholesky_rows()]));
    CholeskyPanelScratch::len(n, step) + most_panel_scratch(size, products)
}

scratch! {
    /// The scratch of a matrix of `n` rows, whose factor has rows of `step` elements.
    struct CholeskyPanelScratch(n: usize, step: usize) {
        /// U, if its rows lie in scratch.
        apart: if step > n { n * step } else { 0 },
        square: TILE * TILE,
        /// Rows above a panel, negated.
        minus: n * cholesky_panel_rows(n),
        ..work
    }
}

impl Panel {
    /// The rows of the panel minus Uᵀ·U of all rows above. A is the dense columns of those.
    fn cholesky_rows(&self) -> Gemm {
        self.product(self.width(), self.height(), self.from).with_a_transposed()
    }

    /// Rows of the panel from band `i` on, minus Uᵀ·U of as many rows above: as many as the lowest bit of `i`. So each
    /// pair of rows meets once, and products are as large as they can be.
    fn cholesky_band(&self, i: usize) -> Gemm {
        let above = cholesky_lowest_bit(i);
        self.product(above.min(self.width() - i), self.height() - i, above).with_a_transposed()
    }
}

/// The lowest bit of `i` that is 1.
fn cholesky_lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

/// Writes the factor L of the symmetric part of `a`; false if it is not positive definite. Works on U = Lᵀ, row by row.
/// `alone` is that of [`scratch_len`]; the bits do not depend on it.
pub fn cholesky_by_panels<T: GemmFloat>(n: usize, alone: bool, a: &[T], l: &mut [T], scratch: &mut [T]) -> bool {
    let step = row_step(size_of::<T>(), n, alone);
    let CholeskyPanelScratch { apart, square, minus, work } = CholeskyPanelScratch::cut(n, step, scratch);
    let u = if step > n { &mut *apart } else { &mut *l };
    let done = upper_cholesky_factor_by_panels(n, step, a, u, [&mut *square, minus, work]);
    if done {
        write_lower(n, (step > n).then_some((&*apart, step)), l, square);
    }
    done
}

/// Writes the factor U, in rows of `step` elements. False if a pivot is not positive.
fn upper_cholesky_factor_by_panels<T: GemmFloat>(
    n: usize,
    step: usize,
    a: &[T],
    u: &mut [T],
    [square, minus, work]: [&mut [T]; 3],
) -> bool {
    for from in (0..n).step_by(cholesky_panel_rows(n)) {
        let p = Panel { step, ..Panel::of(n, from, cholesky_panel_rows(n)) };
        copy_symmetric_cholesky_panel(&p, a, u, square);
        if from > 0 {
            let (above, below) = u.split_at_mut(from * step);
            copy_negative_cholesky_panel(above, step, from..p.to, minus);
            let mut c = MatrixMut::new(below, p.width(), step);
            multiply_into_view(&p.cholesky_rows(), minus, &above[from..], c.part(0..p.width(), from..n), work);
        }
        for i in (0..p.width()).step_by(BAND) {
            let (first, band) = (from + i, BAND.min(p.width() - i));
            let (above, below) = u.split_at_mut(first * step);
            if i > 0 {
                let (g, above) = (p.cholesky_band(i), &above[(first - cholesky_lowest_bit(i)) * step..]);
                copy_negative_cholesky_panel(above, step, first..first + g.m, minus);
                let mut c = MatrixMut::new(&mut *below, g.m, step);
                multiply_into_view(&g, minus, &above[first..], c.part(0..g.m, first..n), work);
            }
            if !finish_cholesky_panel_band(n, step, &mut below[..band * step], first) {
                return false;
            }
        }
    }
    true
}

/// Tiles of [`TILE`] numbers, or fewer at the end.
fn cholesky_panel_tiles(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = of.end;
    of.step_by(TILE).map(move |from| from..(from + TILE).min(end))
}

/// Writes the rows of a panel of (A + Aᵀ)/2, from its first column on.
fn copy_symmetric_cholesky_panel<T: GemmFloat>(p: &Panel, a: &[T], to: &mut [T], square: &mut [T]) {
    let (n, step) = (p.n, p.step);
    for rows in cholesky_panel_tiles(p.from..p.to) {
        for columns in cholesky_panel_tiles(p.from..n) {
            let (height, width) = (rows.len(), columns.len());
            transpose(&a[columns.start * n + rows.start..], n, square, width, height, width);
            for (i, turned) in rows.clone().zip(square.chunks_exact(width)) {
                let (to, row) = (&mut to[i * step..][columns.clone()], &a[i * n..][columns.clone()]);
                for (to, (x, y)) in to.iter_mut().zip(row.iter().zip(turned)) {
                    *to = (*x + *y) * T::HALF;
                }
            }
        }
    }
}

/// Copies the negative of some columns of rows of `step` elements.
fn copy_negative_cholesky_panel<T: Float>(rows: &[T], step: usize, columns: Range<usize>, to: &mut [T]) {
    for (to, row) in to.chunks_exact_mut(columns.len()).zip(rows.chunks_exact(step)) {
        to.iter_mut().zip(&row[columns.clone()]).for_each(|(to, x)| *to = -*x);
    }
}

simd! {
    /// Factors the rows of a band of U, of `n` elements each and `step` apart. Their first element of the diagonal is
    /// in column `first`. False if a pivot is not positive.
    fn finish_cholesky_panel_band[T: Float](n: usize, step: usize, band: &mut [T], first: usize) -> bool {
        for i in 0..band.len() / step {
            let (above, row) = band.split_at_mut(i * step);
            let (at, mut factors) = (first + i, [T::ZERO; BAND]);
            for (factor, above) in factors.iter_mut().zip(above.chunks_exact(step)) {
                *factor = above[at];
            }
            let row = &mut row[at..n];
            subtract_scaled_rows(&factors[..i], above, step, at, row);
            let pivot = row[0];
            if pivot <= T::ZERO || pivot.is_nan() || pivot == T::INFINITY {
                return false;
            }
            let root = pivot.sqrt();
            row[0] = root;
            scale_matrix_row(T::ONE / root, &mut row[1..]);
        }
        true
    }
}

/// Writes L = Uᵀ, tile by tile. `upper` is U and the elements between two of its rows, if it is not in the place of L.
fn write_lower<T: GemmFloat>(n: usize, upper: Option<(&[T], usize)>, l: &mut [T], square: &mut [T]) {
    for rows in cholesky_panel_tiles(0..n) {
        for columns in cholesky_panel_tiles(rows.start..n) {
            let (height, width) = (rows.len(), columns.len());
            let (u, step) = upper.unwrap_or((&*l, n));
            transpose(&u[rows.start * step + columns.start..], step, square, height, width, height);
            for i in rows.clone() {
                l[i * n..][columns.clone()].fill(T::ZERO);
            }
            for (i, turned) in columns.clone().zip(square.chunks_exact(height)) {
                // Behind the diagonal are elements of U that were not computed.
                let len = height.min(i + 1 - rows.start);
                l[i * n + rows.start..][..len].copy_from_slice(&turned[..len]);
            }
        }
    }
}
