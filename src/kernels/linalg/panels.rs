//! Factors of large matrices, panel by panel. Most of the work is in the products of panels with the rest of the
//! matrix.
//!
//! Invariant: an element is one chain of `mul_add`, in ascending order of the terms, or the sum of the same terms as
//! `gemm` computes it. The number of rows alone decides which.

use super::rows::{add_scaled_row, first_largest, scale_row, subtract_rows, two_rows};
use crate::abi::MatrixMut;
use crate::float::Float;
use crate::gemm::{Gemm, GemmFloat, Strides, gemm_view, transpose};
use crate::simd;
use std::ops::Range;

/// Columns of a panel of LU factors, and most rows of one of Cholesky factors.
const PANEL: usize = 64;
/// Rows of a panel of Cholesky factors of fewer than [`LARGE`] rows.
const NARROW_PANEL: usize = 32;
/// Rows from which on all panels are wide.
const LARGE: usize = 768;
/// Columns of a panel that are factored one by one, after a copy that has them one behind another.
const STRIP: usize = 8;
/// Rows and columns of a tile that is transposed at a time.
const TILE: usize = 32;
/// The most bytes of a factor that is computed in scratch, of which each thread has as many.
const APART: usize = 2 << 20;
/// The same of a matrix that is alone: its scratch is there once.
const APART_ALONE: usize = 8 << 20;
/// Rows that are updated one by one.
const BAND: usize = 16;

/// Whether matrices of `n` rows have LU factors by panels.
pub fn has_lu_panels(n: usize) -> bool {
    n > PANEL
}

/// Whether matrices of `n` rows have Cholesky factors by panels.
pub fn has_cholesky_panels(n: usize) -> bool {
    n > BAND
}

/// Rows of a panel of Cholesky factors of a matrix of `n` rows.
fn cholesky_panel(n: usize) -> usize {
    if n < LARGE { NARROW_PANEL } else { PANEL }
}

/// Elements between two rows of U while it is computed, of elements of `size` bytes. Rows that are a multiple of 4096
/// bytes apart share few sets of a cache; then U is in scratch, with other steps, if it is small.
fn cholesky_step(size: usize, n: usize, alone: bool) -> usize {
    let (row, most) = (n * size, if alone { APART_ALONE } else { APART });
    if row.is_multiple_of(4096) && row.saturating_mul(n) <= most { n + 64 / size } else { n }
}

/// Elements of scratch of [`lu_by_panels`] for matrices of `n` rows of elements of `size` bytes.
pub fn lu_scratch(size: usize, n: usize) -> usize {
    let panels = (0..n).step_by(PANEL).map(|from| Panel::of(n, from, PANEL));
    let products = panels.flat_map(|p| p.bands().map(move |i| p.lu_band(i)).chain([p.lu_rest()]));
    n * (PANEL + STRIP) + most_scratch(size, products)
}

/// The same of [`cholesky_by_panels`], for a matrix that is `alone` or one of several.
pub fn cholesky_scratch(size: usize, n: usize, alone: bool) -> usize {
    let (step, width) = (cholesky_step(size, n, alone), cholesky_panel(n));
    let panels = (0..n).step_by(width).map(|from| Panel { step, ..Panel::of(n, from, width) });
    let products = panels.flat_map(|p| p.bands().map(move |i| p.cholesky_band(i)).chain([p.cholesky_rows()]));
    let upper = if step > n { n * step } else { 0 };
    upper + n * width + TILE * TILE + most_scratch(size, products)
}

/// The most scratch of a product, for elements of `size` bytes.
fn most_scratch(size: usize, products: impl Iterator<Item = Gemm>) -> usize {
    let scratch = |g: Gemm| if size == 4 { g.scratch_len::<f32>() } else { g.scratch_len::<f64>() };
    products.map(scratch).max().unwrap_or(0)
}

/// The columns of a panel of LU factors, or the rows of one of Cholesky factors.
#[derive(Clone, Copy)]
struct Panel {
    /// Rows of the matrix.
    n: usize,
    /// Elements between two of them.
    step: usize,
    from: usize,
    to: usize,
}

impl Panel {
    fn of(n: usize, from: usize, width: usize) -> Panel {
        Panel { n, step: n, from, to: (from + width).min(n) }
    }

    /// The first rows of the bands that have others above.
    fn bands(&self) -> impl Iterator<Item = usize> + use<> {
        (BAND..self.width()).step_by(BAND)
    }

    fn width(&self) -> usize {
        self.to - self.from
    }

    /// Rows from the panel's first one on.
    fn height(&self) -> usize {
        self.n - self.from
    }

    /// C += A·B, where C and B are in the matrix.
    fn product(&self, m: usize, n: usize, k: usize) -> Gemm {
        Gemm { accumulate: true, b: Strides { row: self.step, col: 1 }, ..Gemm::new(m, n, k) }
    }

    /// The rows below and right of the panel minus L·U. A is rows of the panel.
    fn lu_rest(&self) -> Gemm {
        self.product(self.n - self.to, self.n - self.to, self.width())
    }

    /// The rows of a band right of the panel minus L·U of the bands above. A is rows of the panel.
    fn lu_band(&self, i: usize) -> Gemm {
        let rows = BAND.min(self.width() - i);
        let g = self.product(rows, self.n - self.to, i);
        Gemm { a: Strides { row: self.width(), col: 1 }, ..g }
    }

    /// The rows of the panel minus Uᵀ·U of all rows above. A is the dense columns of those.
    fn cholesky_rows(&self) -> Gemm {
        self.product(self.width(), self.height(), self.from).with_a_transposed()
    }

    /// Rows of the panel from band `i` on, minus Uᵀ·U of as many rows above: as many as the lowest bit of `i`. So each
    /// pair of rows meets once, and products are as large as they can be.
    fn cholesky_band(&self, i: usize) -> Gemm {
        let above = lowest_bit(i);
        self.product(above.min(self.width() - i), self.height() - i, above).with_a_transposed()
    }
}

/// The lowest bit of `i` that is 1.
fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

/// Factors a matrix in place, as `lu_of_matrix` does for small ones. Gives true if the number of exchanged rows is odd.
pub fn lu_by_panels<T: GemmFloat>(n: usize, a: &mut [T], rows: &mut [i32], scratch: &mut [T]) -> bool {
    let (panel, rest) = scratch.split_at_mut(n * PANEL);
    let (strip, work) = rest.split_at_mut(n * STRIP);
    let mut odd = false;
    for from in (0..n).step_by(PANEL) {
        let p = Panel::of(n, from, PANEL);
        let width = p.width();
        let panel = &mut panel[..p.height() * width];
        for (row, a) in panel.chunks_exact_mut(width).zip(a[from * n..].chunks_exact(n)) {
            row.copy_from_slice(&a[from..p.to]);
        }
        let mut pivots = [0; PANEL];
        factor_panel(width, panel, &mut pivots[..width], strip);
        for (j, pivot) in pivots[..width].iter().enumerate().filter(|(j, pivot)| j != *pivot) {
            let (x, y) = two_rows(a, n, from + j, from + pivot);
            x.swap_with_slice(y);
            rows.swap(from + j, from + pivot);
            odd = !odd;
        }
        for (row, a) in panel.chunks_exact(width).zip(a[from * n..].chunks_exact_mut(n)) {
            a[from..p.to].copy_from_slice(row);
        }
        match n - p.to {
            0 => {}
            // A product with a vector would want a contiguous column.
            1 => update_last_column(&p, a),
            _ => {
                negate_left_of_bands(width, panel);
                update_right_of_panel(&p, panel, a, work);
            }
        }
    }
    odd
}

/// The one column right of a panel.
fn update_last_column<T: Float>(p: &Panel, a: &mut [T]) {
    let n = p.n;
    for i in p.from + 1..n {
        for j in p.from..i.min(p.to) {
            a[i * n + n - 1] = (-a[i * n + j]).mul_add(a[j * n + n - 1], a[i * n + n - 1]);
        }
    }
}

/// The rows right of a panel: those of U, then the rest of the matrix.
fn update_right_of_panel<T: GemmFloat>(p: &Panel, panel: &[T], a: &mut [T], work: &mut [T]) {
    let (n, width) = (p.n, p.width());
    for i in (0..width).step_by(BAND) {
        let band = BAND.min(width - i);
        let (above, below) = a.split_at_mut((p.from + i) * n);
        if i > 0 {
            let mut c = MatrixMut::new(&mut *below, band, n);
            let u = &above[p.from * n + p.to..];
            gemm_view(&p.lu_band(i), &panel[i * width..], u, c.part(0..band, p.to..n), work);
        }
        finish_band(width, &panel[i * width + i..], n, &mut below[..band * n], p.to);
    }
    let (above, below) = a.split_at_mut(p.to * n);
    let mut c = MatrixMut::new(below, n - p.to, n);
    let u = &above[p.from * n + p.to..];
    gemm_view(&p.lu_rest(), &panel[width * width..], u, c.part(0..n - p.to, p.to..n), work);
}

/// Factors columns of `height` elements, one behind another. Gives the rows of the pivots.
#[inline(always)]
fn factor_columns<T: Float>(height: usize, columns: &mut [T], pivots: &mut [usize]) {
    for (j, pivot_row) in pivots.iter_mut().enumerate() {
        let at = j + first_largest(&columns[j * height + j..(j + 1) * height]);
        *pivot_row = at;
        if at != j {
            columns.chunks_exact_mut(height).for_each(|column| column.swap(j, at));
        }
        let (head, after) = columns.split_at_mut((j + 1) * height);
        let (pivot, below) = head[j * height + j..].split_at_mut(1);
        if pivot[0] == T::ZERO {
            continue;
        }
        below.iter_mut().for_each(|x| *x = *x / pivot[0]);
        for column in after.chunks_exact_mut(height) {
            let (above, column) = column.split_at_mut(j + 1);
            add_scaled_row(-above[j], below, column);
        }
    }
}

simd! {
    /// Factors a dense panel of `width` columns. Gives the rows of the pivots.
    fn factor_panel[T: Float](width: usize, panel: &mut [T], pivots: &mut [usize], strip: &mut [T]) {
        for from in (0..width).step_by(STRIP) {
            let to = (from + STRIP).min(width);
            let height = panel.len() / width - from;
            let strip = &mut strip[..(to - from) * height];
            for (i, row) in panel[from * width..].chunks_exact(width).enumerate() {
                for (column, x) in strip.chunks_exact_mut(height).zip(&row[from..to]) {
                    column[i] = *x;
                }
            }
            factor_columns(height, strip, &mut pivots[from..to]);
            for (j, pivot) in pivots[from..to].iter_mut().enumerate() {
                *pivot += from;
                if *pivot != from + j {
                    let (x, y) = two_rows(panel, width, from + j, *pivot);
                    x.swap_with_slice(y);
                }
            }
            for (i, row) in panel[from * width..].chunks_exact_mut(width).enumerate() {
                for (column, x) in strip.chunks_exact(height).zip(&mut row[from..to]) {
                    *x = column[i];
                }
            }
            for i in from + 1..panel.len() / width {
                let (head, tail) = panel.split_at_mut(i * width);
                let (left, right) = tail[..width].split_at_mut(to);
                subtract_rows(&left[from..i.min(to)], &head[from * width..], width, to, right);
            }
        }
    }
}

/// Negates what products multiply: all columns of rows below the first `width`, and in those the columns before a
/// band's own.
fn negate_left_of_bands<T: Float>(width: usize, panel: &mut [T]) {
    for (i, row) in panel.chunks_exact_mut(width).enumerate() {
        let columns = if i < width { i / BAND * BAND } else { width };
        row[..columns].iter_mut().for_each(|x| *x = -*x);
    }
}

simd! {
    /// Subtracts from each row of a band the rows above it in the band times factors, from column `first` on. Rows of
    /// factors are `step` elements apart.
    fn finish_band[T: Float](step: usize, factors: &[T], n: usize, band: &mut [T], first: usize) {
        for i in 1..band.len() / n {
            let (above, row) = band.split_at_mut(i * n);
            subtract_rows(&factors[i * step..][..i], above, n, first, &mut row[first..n]);
        }
    }
}

/// Writes the factor L of the symmetric part of `a`; false if it is not positive definite. Works on U = Lᵀ, row by row.
/// `alone` is that of [`cholesky_scratch`]; the bits do not depend on it.
pub fn cholesky_by_panels<T: GemmFloat>(n: usize, alone: bool, a: &[T], l: &mut [T], scratch: &mut [T]) -> bool {
    let step = cholesky_step(size_of::<T>(), n, alone);
    let (apart, scratch) = scratch.split_at_mut(if step > n { n * step } else { 0 });
    let (square, scratch) = scratch.split_at_mut(TILE * TILE);
    let done = upper_factor(n, step, a, if step > n { &mut *apart } else { &mut *l }, square, scratch);
    if done {
        write_lower(n, (step > n).then_some((&*apart, step)), l, square);
    }
    done
}

/// Writes the factor U, in rows of `step` elements. False if a pivot is not positive.
fn upper_factor<T: GemmFloat>(
    n: usize,
    step: usize,
    a: &[T],
    u: &mut [T],
    square: &mut [T],
    scratch: &mut [T],
) -> bool {
    let (minus, work) = scratch.split_at_mut(n * cholesky_panel(n));
    for from in (0..n).step_by(cholesky_panel(n)) {
        let p = Panel { step, ..Panel::of(n, from, cholesky_panel(n)) };
        copy_symmetric_part(&p, a, u, square);
        if from > 0 {
            let (above, below) = u.split_at_mut(from * step);
            copy_negative(above, step, from..p.to, minus);
            let mut c = MatrixMut::new(below, p.width(), step);
            gemm_view(&p.cholesky_rows(), minus, &above[from..], c.part(0..p.width(), from..n), work);
        }
        for i in (0..p.width()).step_by(BAND) {
            let (first, band) = (from + i, BAND.min(p.width() - i));
            let (above, below) = u.split_at_mut(first * step);
            if i > 0 {
                let (g, above) = (p.cholesky_band(i), &above[(first - lowest_bit(i)) * step..]);
                copy_negative(above, step, first..first + g.m, minus);
                let mut c = MatrixMut::new(&mut *below, g.m, step);
                gemm_view(&g, minus, &above[first..], c.part(0..g.m, first..n), work);
            }
            if !finish_cholesky_band(n, step, &mut below[..band * step], first) {
                return false;
            }
        }
    }
    true
}

/// Tiles of [`TILE`] numbers, or fewer at the end.
fn tiles(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = of.end;
    of.step_by(TILE).map(move |from| from..(from + TILE).min(end))
}

/// Writes the rows of a panel of (A + Aᵀ)/2, from its first column on.
fn copy_symmetric_part<T: GemmFloat>(p: &Panel, a: &[T], to: &mut [T], square: &mut [T]) {
    let (n, step) = (p.n, p.step);
    for rows in tiles(p.from..p.to) {
        for columns in tiles(p.from..n) {
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
fn copy_negative<T: Float>(rows: &[T], step: usize, columns: Range<usize>, to: &mut [T]) {
    for (to, row) in to.chunks_exact_mut(columns.len()).zip(rows.chunks_exact(step)) {
        to.iter_mut().zip(&row[columns.clone()]).for_each(|(to, x)| *to = -*x);
    }
}

simd! {
    /// Factors the rows of a band of U, of `n` elements each and `step` apart. Their first element of the diagonal is
    /// in column `first`. False if a pivot is not positive.
    fn finish_cholesky_band[T: Float](n: usize, step: usize, band: &mut [T], first: usize) -> bool {
        for i in 0..band.len() / step {
            let (above, row) = band.split_at_mut(i * step);
            let (at, mut factors) = (first + i, [T::ZERO; BAND]);
            for (factor, above) in factors.iter_mut().zip(above.chunks_exact(step)) {
                *factor = above[at];
            }
            let row = &mut row[at..n];
            subtract_rows(&factors[..i], above, step, at, row);
            let pivot = row[0];
            if pivot <= T::ZERO || pivot.is_nan() || pivot == T::INFINITY {
                return false;
            }
            let root = pivot.sqrt();
            row[0] = root;
            scale_row(T::ONE / root, &mut row[1..]);
        }
        true
    }
}

/// Writes L = Uᵀ, tile by tile. `upper` is U and the elements between two of its rows, if it is not in the place of L.
fn write_lower<T: GemmFloat>(n: usize, upper: Option<(&[T], usize)>, l: &mut [T], square: &mut [T]) {
    for rows in tiles(0..n) {
        for columns in tiles(rows.start..n) {
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
