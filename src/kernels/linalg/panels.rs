//! What factors of large matrices by panels have in common. Most of the work is in the products of panels with the rest
//! of the matrix.
//!
//! Invariant: an element is one chain of `mul_add`, in ascending order of the terms, or the sum of the same terms as
//! `gemm` computes it. The number of rows alone decides which.

use crate::gemm::{Gemm, Strides};

/// Columns of a panel of LU factors, and most rows of one of Cholesky factors.
pub(super) const PANEL: usize = 64;
/// Rows that are updated one by one.
pub(super) const BAND: usize = 16;

/// The most scratch of a product, for elements of `size` bytes.
pub(super) fn most_panel_scratch(size: usize, products: impl Iterator<Item = Gemm>) -> usize {
    let scratch = |g: Gemm| if size == 4 { g.scratch_len::<f32>() } else { g.scratch_len::<f64>() };
    products.map(scratch).max().unwrap_or(0)
}

/// The columns of a panel of LU factors, or the rows of one of Cholesky factors.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Rows of the matrix.
    pub(super) n: usize,
    /// Elements between two of them.
    pub(super) step: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Panel {
    pub(super) fn of(n: usize, from: usize, width: usize) -> Panel {
        Panel { n, step: n, from, to: (from + width).min(n) }
    }

    /// The first rows of the bands that have others above.
    pub(super) fn bands(&self) -> impl Iterator<Item = usize> + use<> {
        (BAND..self.width()).step_by(BAND)
    }

    pub(super) fn width(&self) -> usize {
        self.to - self.from
    }

    /// Rows from the panel's first one on.
    pub(super) fn height(&self) -> usize {
        self.n - self.from
    }

    /// C += A·B, where C and B are in the matrix.
    pub(super) fn product(&self, m: usize, n: usize, k: usize) -> Gemm {
        Gemm { accumulate: true, b: Strides { row: self.step, col: 1 }, ..Gemm::new(m, n, k) }
    }
}
