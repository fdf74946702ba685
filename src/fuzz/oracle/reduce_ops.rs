//! Reductions, running sums, softmaxes, and sorted orders.
//!
//! An op here reads rows: the elements that one result (or one row of results) is made of.

use super::array::{Array, count_elements, ravel_position, sizes_around_axis, unravel_position};
use super::layout_ops::oracle_zeros_layout;
use super::product_ops::oracle_bound_of_product_term;
use super::rounding::{Rounding, Term};
use super::whole_ops::wrap_whole;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::reduce::attrs::{ReduceAttrs, RunningAttrs};
use crate::nodes::ops::softmax::attrs::SoftmaxAttrs;
use crate::nodes::{Attrs, DType, Op};

/// The positions of the elements of each row that is reduced over `axes`, rows in the order of the results.
fn oracle_reduce_rows_over(dims: &[usize], axes: &[usize]) -> Vec<Vec<usize>> {
    let kept: Vec<usize> = (0..dims.len()).filter(|a| !axes.contains(a)).collect();
    let kept_dims: Vec<usize> = kept.iter().map(|&a| dims[a]).collect();
    let mut rows = vec![Vec::new(); count_elements(&kept_dims)];
    for i in 0..count_elements(dims) {
        let at = unravel_position(i, dims);
        let of: Vec<usize> = kept.iter().map(|&a| at[a]).collect();
        rows[ravel_position(&of, &kept_dims)].push(i);
    }
    rows
}

/// The sum of some floats with its bound.
pub(super) fn oracle_reduce_by_sum(r: Rounding, all: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (y, bound) = r.sum(all.map(|(x, bound)| Term { x, bound }));
    r.settled(y, bound)
}

/// The largest (or with `sign` −1 the smallest) of some floats.
pub(super) fn oracle_reduce_to_extreme(all: &[(f64, f64)], sign: f64) -> (f64, f64) {
    if all.iter().any(|x| x.1 == f64::INFINITY) {
        return (0.0, f64::INFINITY);
    }
    if all.iter().any(|x| x.0.is_nan()) {
        return (f64::NAN, 0.0);
    }
    let most = |f: &dyn Fn(&(f64, f64)) -> f64| all.iter().map(f).fold(f64::NEG_INFINITY, f64::max);
    let y = most(&|x| sign * x.0);
    if y.is_infinite() {
        return (sign * y, 0.0);
    }
    let (high, low) = (most(&|x| sign * x.0 + x.1), most(&|x| sign * x.0 - x.1));
    (sign * y, (high - y).max(y - low))
}

pub(super) fn oracle_reduce_by_product(r: Rounding, all: &[(f64, f64)]) -> (f64, f64) {
    let y: f64 = all.iter().map(|x| x.0).product();
    let high: f64 = all.iter().map(|x| x.0.abs() + x.1).product();
    let size: f64 = all.iter().map(|x| x.0.abs()).product();
    // Partial products in any order may leave the range of the type.
    let partial: f64 = all.iter().map(|x| (x.0.abs() + x.1).max(1.0)).product();
    let least: f64 = all.iter().map(|x| x.0.abs().clamp(f64::MIN_POSITIVE, 1.0)).product();
    if (partial > r.most && y.is_finite()) || all.iter().any(|x| x.1 == f64::INFINITY) {
        return (y, f64::INFINITY);
    }
    let lost = if y != 0.0 && least < r.least { partial * r.least / r.unit } else { 0.0 };
    r.settled(y, (high - size) + r.ulps(high, 0.5 * all.len() as f64) + lost)
}

/// ln Σ eˣ.
fn oracle_reduce_log_sum_exp(r: Rounding, all: &[(f64, f64)]) -> (f64, f64) {
    let m = all.iter().map(|x| x.0).fold(f64::NEG_INFINITY, f64::max);
    let b = all.iter().map(|x| x.1).fold(0.0, f64::max);
    if all.iter().any(|x| x.0.is_nan()) || m.is_infinite() {
        return r.settled(if all.iter().any(|x| x.0.is_nan()) { f64::NAN } else { m }, b);
    }
    let sum: f64 = all.iter().map(|x| libm::exp(x.0 - m)).sum();
    let y = m + libm::log(sum);
    let rounding = r.unit * (2.0 * all.len() as f64 + 16.0) + r.ulps(y.abs() + m.abs(), 2.0);
    r.settled(y, b + rounding)
}

fn oracle_reduce_reals(op: Op, r: Rounding, all: &[(f64, f64)]) -> Option<(f64, f64)> {
    Some(match op {
        Op::REDUCE_SUM => oracle_reduce_by_sum(r, all.iter().copied()),
        Op::REDUCE_MEAN => {
            let ((y, b), n) = (oracle_reduce_by_sum(r, all.iter().copied()), all.len() as f64);
            r.settled(y / n, if n > 0.0 { b / n + r.ulps(y / n, 2.0) } else { 0.0 })
        }
        Op::REDUCE_MAX => oracle_reduce_to_extreme(all, 1.0),
        Op::REDUCE_MIN => oracle_reduce_to_extreme(all, -1.0),
        Op::REDUCE_PROD => oracle_reduce_by_product(r, all),
        Op::LOGSUMEXP => oracle_reduce_log_sum_exp(r, all),
        _ => return None,
    })
}

pub(super) fn oracle_reduce_wholes(op: Op, dtype: DType, all: &[Option<i128>]) -> Option<i128> {
    let known: Option<Vec<i128>> = all.iter().copied().collect();
    let known = known?;
    match op {
        Op::REDUCE_SUM => Some(wrap_whole(dtype, known.iter().sum())),
        Op::REDUCE_PROD => Some(known.iter().fold(1, |y, x| wrap_whole(dtype, y * x))),
        Op::REDUCE_MAX => known.iter().copied().max(),
        _ => known.iter().copied().min(),
    }
}

/// The result of a reduction over axes, of shape `to`.
pub(super) fn apply_oracle_reduce_op(op: Op, attrs: &Attrs<'_>, x: &Array, to: &[usize]) -> Option<Array> {
    if !matches!(
        op,
        Op::REDUCE_SUM | Op::REDUCE_MEAN | Op::REDUCE_MAX | Op::REDUCE_MIN | Op::REDUCE_PROD | Op::LOGSUMEXP
    ) {
        return None;
    }
    let rows = oracle_reduce_rows_over(&x.dims, &to_size_attrs(&ReduceAttrs::of(attrs).axes));
    if !x.is_real() {
        let one =
            |row: &Vec<usize>| oracle_reduce_wholes(op, x.dtype, &row.iter().map(|&i| x.whole(i)).collect::<Vec<_>>());
        return Some(Array::wholes(x.dtype, to, rows.iter().map(one)));
    }
    let r = Rounding::of(x.dtype);
    let one = |row: &Vec<usize>| oracle_reduce_reals(op, r, &row.iter().map(|&i| x.real(i)).collect::<Vec<_>>());
    Some(Array::reals(x.dtype, to, rows.iter().filter_map(one)))
}

/// `root_sum_squares`: √s, or √Σx² where s overflowed or underflowed. Where s is near the ends of its type's range it
/// is either, and unknown if they differ.
pub(super) fn oracle_reduce_root_sum_squares(args: &[&Array]) -> Option<Array> {
    let (s, parts) = args.split_first()?;
    let r = Rounding::of(s.dtype);
    let (x, b) = s.real(0);
    let given = (x.sqrt(), if x > 2.0 * b { b / x.sqrt() + r.ulps(x.sqrt(), 1.0) } else { x.abs().sqrt() + b.sqrt() });
    let squares = parts
        .iter()
        .flat_map(|p| p.each_real())
        .map(|(x, b)| Term { x: x * x, bound: oracle_bound_of_product_term((x, b), (x, b)) });
    let (sum, bound) = Rounding::of(DType::F64).sum(squares);
    let own = (sum.sqrt(), if sum > 0.0 { bound / sum.sqrt() + r.ulps(sum.sqrt(), 4.0) } else { bound.sqrt() });
    let count: usize = parts.iter().map(|p| p.len()).sum();
    let enough = r.least / r.unit * (count as f64 + 1.0) * 4.0;
    let one = match x {
        _ if b == f64::INFINITY => (given.0, b),
        _ if x.is_nan() || (x > enough && x < r.most / 2.0) => given,
        _ if x <= enough / 16.0 || x == f64::INFINITY => own,
        _ => (own.0, f64::INFINITY),
    };
    // The squares of large f64 overflow here, and not in the engine, which scales them.
    let open = one.0.is_infinite() && parts.iter().all(|p| p.each_real().all(|x| x.0.is_finite()));
    let one = if open { (one.0, f64::INFINITY) } else { one };
    Some(Array::reals(DType::F64, &[], std::iter::once(Rounding::of(DType::F64).settled(one.0, one.1))))
}

/// The positions of the elements of each row along `axis`, from the first to the last.
pub(super) fn oracle_reduce_rows_along(dims: &[usize], axis: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
    let [before, n, after] = sizes_around_axis(dims, axis);
    (0..before * after).map(move |i| (0..n).map(|k| (i / after * n + k) * after + i % after).collect())
}

/// The running sum along an axis.
pub(super) fn oracle_reduce_cumsum(attrs: &Attrs<'_>, x: &Array) -> Array {
    let a = RunningAttrs::of(attrs);
    let r = Rounding::of(x.dtype);
    let mut y = oracle_zeros_layout(x.dtype, &x.dims);
    for mut row in oracle_reduce_rows_along(&x.dims, a.axis as usize) {
        if a.reverse {
            row.reverse();
        }
        for k in 0..row.len() {
            let seen = &row[..if a.exclusive { k } else { k + 1 }];
            let one = match x.is_real() {
                true => Array::reals(
                    x.dtype,
                    &[],
                    std::iter::once(oracle_reduce_by_sum(r, seen.iter().map(|&i| x.real(i)))),
                ),
                false => {
                    let all: Vec<_> = seen.iter().map(|&i| x.whole(i)).collect();
                    Array::wholes(x.dtype, &[], std::iter::once(oracle_reduce_wholes(Op::REDUCE_SUM, x.dtype, &all)))
                }
            };
            y.put(row[k], &one, 0);
        }
    }
    y
}

/// `softmax` or `log_softmax` along an axis.
pub(super) fn oracle_reduce_softmax(op: Op, attrs: &Attrs<'_>, x: &Array) -> Array {
    let r = Rounding::of(x.dtype);
    let mut y = oracle_zeros_layout(x.dtype, &x.dims);
    for row in oracle_reduce_rows_along(&x.dims, SoftmaxAttrs::of(attrs).axis as usize) {
        let all: Vec<(f64, f64)> = row.iter().map(|&i| x.real(i)).collect();
        let m = all.iter().map(|x| x.0).fold(f64::NEG_INFINITY, f64::max);
        let widest = all.iter().map(|x| x.1).fold(0.0, f64::max);
        let total: f64 = all.iter().map(|x| libm::exp(x.0 - m)).sum();
        let rounds = r.unit * (2.0 * all.len() as f64 + 24.0);
        let one = all.iter().map(|&(v, b)| match op {
            Op::SOFTMAX => {
                let share = libm::exp(v - m) / total;
                // The error of the exponent is that of the result, relatively.
                let relative = libm::expm1(b + widest) + rounds + 2.0 * r.unit * (v - m).abs();
                r.settled(share, if widest == f64::INFINITY { widest } else { share * relative + r.least })
            }
            _ => {
                let (log, down) = (libm::log(total), v - m);
                let rounding = rounds + r.ulps(down.abs() + log + m.abs() + v.abs(), 2.0);
                r.settled(down - log, b + widest + rounding)
            }
        });
        let one = Array::reals(x.dtype, &[row.len()], one);
        (0..row.len()).for_each(|k| y.put(row[k], &one, k));
    }
    y
}
