//! LU factors of large matrices, panel by panel (see `panels`).

use super::panels::{BAND, PANEL, Panel, most_panel_scratch};
use crate::abi::MatrixMut;
use crate::float::Float;
use crate::gemm::{Gemm, GemmFloat, Strides, multiply_into_view};
use crate::matrix_rows::{add_scaled_matrix_row, place_of_largest_in_matrix_row, subtract_scaled_rows, two_rows_mut};
use crate::scratch::scratch;
use crate::simd;

/// Columns of a panel that are factored one by one, after a copy that has them one behind another.
const STRIP: usize = 8;

/// Whether matrices of `n` rows have LU factors by panels.
pub fn handles_size(n: usize) -> bool {
    n > PANEL
}

/// Elements of scratch of [`lu_by_panels`] for matrices of `n` rows of elements of `size` bytes.
pub fn scratch_len(size: usize, n: usize) -> usize {
    let panels = (0..n).step_by(PANEL).map(|from| Panel::of(n, from, PANEL));
    let products = panels.flat_map(|p| p.bands().map(move |i| p.lu_band(i)).chain([p.lu_rest()]));
    LuPanelScratch::len(n) + most_panel_scratch(size, products)
}

scratch! {
    /// The scratch of a matrix of `n` rows.
    struct LuPanelScratch(n: usize) {
        panel: n * PANEL,
        strip: n * STRIP,
        ..work
    }
}

impl Panel {
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
}

/// Factors a matrix in place, as `factor_matrix` does for small ones. Gives true if the number of exchanged rows is
/// odd.
pub fn lu_by_panels<T: GemmFloat>(n: usize, a: &mut [T], rows: &mut [i32], scratch: &mut [T]) -> bool {
    let LuPanelScratch { panel, strip, work } = LuPanelScratch::cut(n, scratch);
    let mut odd = false;
    for from in (0..n).step_by(PANEL) {
        let p = Panel::of(n, from, PANEL);
        let width = p.width();
        let panel = &mut panel[..p.height() * width];
        for (row, a) in panel.chunks_exact_mut(width).zip(a[from * n..].chunks_exact(n)) {
            row.copy_from_slice(&a[from..p.to]);
        }
        let mut pivots = [0; PANEL];
        factor_lu_panel(width, panel, &mut pivots[..width], strip);
        for (j, pivot) in pivots[..width].iter().enumerate().filter(|(j, pivot)| j != *pivot) {
            let (x, y) = two_rows_mut(a, n, from + j, from + pivot);
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
            1 => update_last_column_by_lu_panel(&p, a),
            _ => {
                negate_left_of_lu_panel_bands(width, panel);
                update_right_of_lu_panel(&p, panel, a, work);
            }
        }
    }
    odd
}

/// The one column right of a panel.
fn update_last_column_by_lu_panel<T: Float>(p: &Panel, a: &mut [T]) {
    let n = p.n;
    for i in p.from + 1..n {
        for j in p.from..i.min(p.to) {
            a[i * n + n - 1] = (-a[i * n + j]).mul_add(a[j * n + n - 1], a[i * n + n - 1]);
        }
    }
}

/// The rows right of a panel: those of U, then the rest of the matrix.
fn update_right_of_lu_panel<T: GemmFloat>(p: &Panel, panel: &[T], a: &mut [T], work: &mut [T]) {
    let (n, width) = (p.n, p.width());
    for i in (0..width).step_by(BAND) {
        let band = BAND.min(width - i);
        let (above, below) = a.split_at_mut((p.from + i) * n);
        if i > 0 {
            let mut c = MatrixMut::new(&mut *below, band, n);
            let u = &above[p.from * n + p.to..];
            multiply_into_view(&p.lu_band(i), &panel[i * width..], u, c.part(0..band, p.to..n), work);
        }
        finish_lu_panel_band(width, &panel[i * width + i..], n, &mut below[..band * n], p.to);
    }
    let (above, below) = a.split_at_mut(p.to * n);
    let mut c = MatrixMut::new(below, n - p.to, n);
    let u = &above[p.from * n + p.to..];
    multiply_into_view(&p.lu_rest(), &panel[width * width..], u, c.part(0..n - p.to, p.to..n), work);
}

/// Factors columns of `height` elements, one behind another. Gives the rows of the pivots.
#[inline(always)]
fn factor_lu_panel_columns<T: Float>(height: usize, columns: &mut [T], pivots: &mut [usize]) {
    for (j, pivot_row) in pivots.iter_mut().enumerate() {
        let at = j + place_of_largest_in_matrix_row(&columns[j * height + j..(j + 1) * height]);
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
            add_scaled_matrix_row(-above[j], below, column);
        }
    }
}

simd! {
    /// Factors a dense panel of `width` columns. Gives the rows of the pivots.
    fn factor_lu_panel[T: Float](width: usize, panel: &mut [T], pivots: &mut [usize], strip: &mut [T]) {
        for from in (0..width).step_by(STRIP) {
            let to = (from + STRIP).min(width);
            let height = panel.len() / width - from;
            let strip = &mut strip[..(to - from) * height];
            for (i, row) in panel[from * width..].chunks_exact(width).enumerate() {
                for (column, x) in strip.chunks_exact_mut(height).zip(&row[from..to]) {
                    column[i] = *x;
                }
            }
            factor_lu_panel_columns(height, strip, &mut pivots[from..to]);
            for (j, pivot) in pivots[from..to].iter_mut().enumerate() {
                *pivot += from;
                if *pivot != from + j {
                    let (x, y) = two_rows_mut(panel, width, from + j, *pivot);
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
                subtract_scaled_rows(&left[from..i.min(to)], &head[from * width..], width, to, right);
            }
        }
    }
}

/// Negates what products multiply: all columns of rows below the first `width`, and in those the columns before a
/// band's own.
fn negate_left_of_lu_panel_bands<T: Float>(width: usize, panel: &mut [T]) {
    for (i, row) in panel.chunks_exact_mut(width).enumerate() {
        let columns = if i < width { i / BAND * BAND } else { width };
        row[..columns].iter_mut().for_each(|x| *x = -*x);
    }
}

simd! {
    /// Subtracts from each row of a band the rows above it in the band times factors, from column `first` on. Rows of
    /// factors are `step` elements apart.
    fn finish_lu_panel_band[T: Float](step: usize, factors: &[T], n: usize, band: &mut [T], first: usize) {
        for i in 1..band.len() / n {
            let (above, row) = band.split_at_mut(i * n);
            subtract_scaled_rows(&factors[i * step..][..i], above, n, first, &mut row[first..n]);
        }
    }
}
