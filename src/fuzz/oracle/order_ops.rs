//! Positions of elements by their order: of extremes, of running extremes, and of sorted rows.
//!
//! A position is unknown if the bounds of its element overlap those of another element.

use super::array::Array;
use super::layout_ops::oracle_zeros_layout;
use super::reduce_ops::oracle_reduce_rows_along;
use crate::nodes::ops::reduce::attrs::{ArgExtremeAttrs, RunningAttrs};
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, CumArgMaxAttrs};
use crate::nodes::{Attrs, DType, Op};
use std::cmp::Ordering;

/// The length of the rows of `x` in which an op orders elements, or adds them up.
pub(super) fn oracle_order_row_len(op: Op, attrs: &Attrs<'_>, x: &Array) -> usize {
    let axis = match op {
        Op::CUMSUM => RunningAttrs::of(attrs).axis,
        Op::CUM_ARG_MAX => CumArgMaxAttrs::of(attrs).axis,
        _ => x.dims.len() as i64 - 1,
    };
    usize::try_from(axis).ok().and_then(|axis| x.dims.get(axis)).copied().unwrap_or(1)
}

/// An element with its bound; whole numbers are compared exactly.
#[derive(Clone, Copy)]
struct OracleOrderedItem {
    real: f64,
    whole: i128,
    bound: f64,
}

fn oracle_ordered_item(x: &Array, i: usize) -> OracleOrderedItem {
    OracleOrderedItem { real: x.number(i), whole: x.whole(i).unwrap_or(0), bound: x.bounds()[i] }
}

impl OracleOrderedItem {
    /// The order of two elements, NaN above all.
    fn order(self, other: OracleOrderedItem, real: bool) -> Ordering {
        match real {
            false => self.whole.cmp(&other.whole),
            true => {
                let nans = self.real.is_nan().cmp(&other.real.is_nan());
                nans.then(self.real.partial_cmp(&other.real).unwrap_or(Ordering::Equal))
            }
        }
    }

    /// Whether the order of two elements follows from their bounds.
    fn is_apart(self, other: OracleOrderedItem) -> bool {
        let bounds = self.bound + other.bound;
        let far = || (self.real - other.real).abs() > bounds || self.real.is_nan() != other.real.is_nan();
        bounds == 0.0 || (bounds < f64::INFINITY && far())
    }
}

/// The position of the extreme of a row: the first, or with `last` the last of equals, and of NaN.
fn oracle_order_position(row: &[OracleOrderedItem], real: bool, smallest: bool, last: bool) -> Option<usize> {
    let mut best = 0;
    for k in 1..row.len() {
        let o = row[k].order(row[best], real);
        // NaN wins in both directions.
        let nans = real && (row[k].real.is_nan() || row[best].real.is_nan());
        let o = if smallest && !nans { o.reverse() } else { o };
        if o.is_gt() || (o.is_eq() && last) {
            best = k;
        }
    }
    let sure = (0..row.len()).all(|k| k == best || row[k].is_apart(row[best]));
    sure.then_some(best)
}

/// `arg_max` or `arg_min`, of shape `to`.
pub(super) fn oracle_order_extreme(op: Op, attrs: &Attrs<'_>, x: &Array, to: &[usize]) -> Array {
    let ArgExtremeAttrs { axis, dtype } = ArgExtremeAttrs::of(attrs);
    let one = |row: Vec<usize>| {
        let row: Vec<OracleOrderedItem> = row.iter().map(|&i| oracle_ordered_item(x, i)).collect();
        oracle_order_position(&row, x.is_real(), op == Op::ARG_MIN, false).map(|k| k as i128)
    };
    Array::wholes(dtype, to, oracle_reduce_rows_along(&x.dims, axis as usize).map(one))
}

/// `cum_arg_max`.
pub(super) fn oracle_order_running_extreme(attrs: &Attrs<'_>, x: &Array) -> Array {
    let CumArgMaxAttrs { axis, smallest } = CumArgMaxAttrs::of(attrs);
    let mut y = oracle_zeros_layout(DType::I32, &x.dims);
    for row in oracle_reduce_rows_along(&x.dims, axis as usize) {
        let items: Vec<OracleOrderedItem> = row.iter().map(|&i| oracle_ordered_item(x, i)).collect();
        let at =
            (0..row.len()).map(|k| oracle_order_position(&items[..=k], x.is_real(), smallest, true).map(|k| k as i128));
        let at = Array::wholes(DType::I32, &[row.len()], at);
        (0..row.len()).for_each(|k| y.put(row[k], &at, k));
    }
    y
}

/// `arg_sort` along the last axis: equal ones in their order, NaN last.
pub(super) fn oracle_order_positions(attrs: &Attrs<'_>, x: &Array) -> Array {
    let descending = ArgSortAttrs::of(attrs).descending;
    let real = x.is_real();
    let mut y = oracle_zeros_layout(DType::I32, &x.dims);
    for row in oracle_reduce_rows_along(&x.dims, x.dims.len() - 1) {
        let items: Vec<OracleOrderedItem> = row.iter().map(|&i| oracle_ordered_item(x, i)).collect();
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (items[a], items[b]);
            let nans = real && (a.real.is_nan() || b.real.is_nan());
            if descending && !nans { b.order(a, real) } else { a.order(b, real) }
        });
        let exact = items.iter().all(|i| i.bound == 0.0);
        let sure = |k: usize| exact || (0..row.len()).all(|j| j == k || items[order[j]].is_apart(items[order[k]]));
        let at = (0..row.len()).map(|k| sure(k).then_some(order[k] as i128));
        let at = Array::wholes(DType::I32, &[row.len()], at);
        (0..row.len()).for_each(|k| y.put(row[k], &at, k));
    }
    y
}
