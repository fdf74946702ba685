//! Products of matrices, of floats and of integers.

use super::array::{Array, count_elements, ravel_position, unravel_position};
use super::rounding::{Rounding, Term, nearest_element};
use super::whole_ops::wrap_whole;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::{Attrs, DType};

/// Where the elements of one operand are that belong to an element of the result.
struct ProductSide<'a> {
    x: &'a Array,
    transposed: bool,
}

impl ProductSide<'_> {
    /// The position of row `i`, column `j` in the matrix that belongs to the batch at `at`.
    fn position(&self, at: &[usize], i: usize, j: usize) -> usize {
        let d = &self.x.dims;
        let rank = d.len() - 2;
        let lead = at.len() - rank;
        let mut place: Vec<usize> = (0..rank).map(|k| if d[k] == 1 { 0 } else { at[lead + k] }).collect();
        place.extend(if self.transposed { [j, i] } else { [i, j] });
        ravel_position(&place, d)
    }
}

/// `matmul` or `int_matmul` of type `dtype` and shape `to`.
pub(super) fn oracle_product(attrs: &Attrs<'_>, a: &Array, b: &Array, dtype: DType, to: &[usize]) -> Array {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(attrs);
    let rank = a.dims.len();
    let k = if ta { a.dims[rank - 2] } else { a.dims[rank - 1] };
    let (left, right) = (ProductSide { x: a, transposed: ta }, ProductSide { x: b, transposed: tb });
    let lead = to.len() - 2;
    let factors = |e: usize| {
        let at = unravel_position(e, to);
        let (batch, i, j) = (&at[..lead], at[lead], at[lead + 1]);
        // The positions of consecutive elements differ by a fixed step.
        let (p, q) = (left.position(batch, i, 0), right.position(batch, 0, j));
        let (ps, qs) = (
            if k > 1 { left.position(batch, i, 1) - p } else { 0 },
            if k > 1 { right.position(batch, 1, j) - q } else { 0 },
        );
        (0..k).map(move |s| (p + s * ps, q + s * qs))
    };
    if a.is_real() && b.is_real() {
        return Array::reals(
            dtype,
            to,
            (0..count_elements(to)).map(|e| oracle_sum_of_products(dtype, (a, b), factors(e))),
        );
    }
    let one = |e: usize| {
        let mut sum: i128 = 0;
        for (p, q) in factors(e) {
            sum = wrap_whole(dtype, sum + a.whole(p)? * b.whole(q)?);
        }
        Some(sum)
    };
    Array::wholes(dtype, to, (0..count_elements(to)).map(one))
}

/// Σ a[p]·b[q] over the positions `factors` of real numbers, and its bound.
pub(super) fn oracle_sum_of_products(
    dtype: DType,
    (a, b): (&Array, &Array),
    factors: impl Iterator<Item = (usize, usize)>,
) -> (f64, f64) {
    let r = Rounding::of(dtype);
    let (mut known, mut more) = (true, 0.0);
    let terms = factors.map(|(p, q)| {
        let ((x, bx), (y, by)) = (a.real(p), b.real(q));
        // An overflow of one product, which the sum does not see.
        known &= !((x * y).is_infinite() && x.is_finite() && y.is_finite());
        let exact = libm::fma(x, y, -(x * y)) == 0.0 && nearest_element(dtype, x * y) == x * y;
        more += if exact { 0.0 } else { r.ulps(x * y, 0.5) };
        Term { x: x * y, bound: oracle_bound_of_product_term((x, bx), (y, by)) }
    });
    let (sum, bound) = r.sum(terms);
    r.settled(sum, if known { bound + more } else { f64::INFINITY })
}

/// The bound of a product of two numbers with bounds, before rounding. It is infinite if one of them is unknown.
pub(super) fn oracle_bound_of_product_term((x, bx): (f64, f64), (y, by): (f64, f64)) -> f64 {
    if bx.max(by) == f64::INFINITY {
        return f64::INFINITY;
    }
    // Nothing moves by a factor that is exact, even if the other one is infinite.
    let moved = |x: f64, bound: f64| if bound == 0.0 { 0.0 } else { x.abs() * bound };
    let bound = moved(x, by) + moved(y, bx) + moved(bx, by);
    // NaN times a known number is NaN.
    if bound.is_nan() { 0.0 } else { bound }
}
