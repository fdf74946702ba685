//! The products at all points, as register tiles.

use super::points::POINTS;
use crate::abi::MatrixMut;
use crate::gemm::{GemmFloat, RegisterTileOperands};
use crate::simd::Token;

/// An operand of one point after another: elements from row to row, from term to term, from point to point.
#[derive(Clone, Copy)]
pub(super) struct PointOperand<'a, T> {
    pub of: &'a [T],
    pub row: usize,
    pub term: usize,
    pub point: usize,
}

/// `c[point] (+)= a[point] · b[point]` with `m` rows, `n` columns and `k` terms. The columns of b are adjacent, and so
/// are those of c, whose rows have `n` elements.
pub(super) fn multiply_points<T: GemmFloat>(
    [m, n, k]: [usize; 3],
    a: PointOperand<'_, T>,
    b: PointOperand<'_, T>,
    add: bool,
    (c, c_point): (&mut [T], usize),
) {
    let token = Token::current();
    let (tallest, _) = T::shape(token, usize::MAX);
    // Tiles of about equal height.
    let tiles = m.div_ceil(tallest);
    for point in 0..POINTS * POINTS {
        let (a_at, b_at) = (&a.of[point * a.point..], &b.of[point * b.point..]);
        let mut c = MatrixMut::new(&mut c[point * c_point..], m, n);
        let mut j = 0;
        while j < n {
            let width = T::width(token, tallest, n - j);
            for t in 0..tiles {
                let rows = m * t / tiles..m * (t + 1) / tiles;
                T::tile(
                    token,
                    RegisterTileOperands {
                        a: &a_at[rows.start * a.row..],
                        a_row: a.row,
                        a_col: a.term,
                        b: &b_at[j..],
                        b_row: b.term,
                        k,
                        c: c.part(rows, j..j + width),
                        add,
                        prefetch_c: false,
                        prefetch: None,
                        step: None,
                    },
                );
            }
            j += width;
        }
    }
}
