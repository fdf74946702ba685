//! Ops with indices. An index out of range stops the interpretation. If an index is unknown, every result that it may
//! reach is unknown.

use super::array::{Array, count_elements, sizes_around_axis};
use super::layout_ops::oracle_zeros_layout;
use super::reduce_ops::{
    oracle_reduce_by_product, oracle_reduce_by_sum, oracle_reduce_to_extreme, oracle_reduce_wholes,
};
use super::rounding::Rounding;
use super::stop::Stop;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::index::attrs::Scatter;
use crate::nodes::ops::index::attrs::{GatherAttrs, RavelIndexAttrs, ScatterAddAttrs, ScatterAttrs};
use crate::nodes::{Attrs, DType, Op};

/// The result of an op with indices, of shape `to`, if it is one. An unknown index sets `may_fault`.
pub(super) fn oracle_index_elements(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Option<Array>, Stop> {
    let checked = |i: usize, bound: usize| check_oracle_index_elements(args[i], bound);
    Ok(Some(match op {
        Op::GATHER | Op::TAKE_ALONG_AXIS => {
            let axis = GatherAttrs::of(attrs).axis as usize;
            let index = checked(1, args[0].dims[axis])?;
            *may_fault |= index.iter().any(Option::is_none);
            oracle_take_by_index(args[0], axis, &index, to, op == Op::TAKE_ALONG_AXIS)
        }
        Op::SCATTER_ADD | Op::SCATTER_ALONG_AXIS => {
            let ScatterAddAttrs { axis, size } = ScatterAddAttrs::of(attrs);
            let index = checked(1, size as usize)?;
            *may_fault |= index.iter().any(Option::is_none);
            let base = oracle_zeros_layout(args[0].dtype, to);
            oracle_scatter_by_index(&base, args[0], axis as usize, &index, Scatter::Add, op == Op::SCATTER_ALONG_AXIS)
        }
        Op::SCATTER => {
            let ScatterAttrs { axis, mode, own } = ScatterAttrs::of(attrs);
            let index = checked(2, args[0].dims[axis as usize])?;
            *may_fault |= index.iter().any(Option::is_none);
            oracle_scatter_by_index(args[0], args[1], axis as usize, &index, mode, own)
        }
        Op::RAVEL_INDEX => {
            *may_fault |= args[0].each_whole().any(|x| x.is_none());
            oracle_index_positions(args[0], &to_size_attrs(&RavelIndexAttrs::of(attrs).sizes), to)?
        }
        _ => return Ok(None),
    }))
}

/// The indices, all in range or unknown.
pub(super) fn check_oracle_index_elements(index: &Array, bound: usize) -> Result<Vec<Option<usize>>, Stop> {
    let one = |x: Option<i128>| match x {
        Some(x) => match usize::try_from(x).ok().filter(|&x| x < bound) {
            Some(x) => Ok(Some(x)),
            None => Err(Stop::fault(format!("an index is {x}; it must be in 0..{bound}"))),
        },
        None => Ok(None),
    };
    index.each_whole().map(one).collect()
}

/// The place along the axis, and the places before and after it, of element `i`; and which index it has.
fn oracle_index_place(i: usize, [_, along, after]: [usize; 3], own: bool) -> (usize, usize, usize) {
    let (before, k, behind) = (i / after / along, i / after % along, i % after);
    (before, behind, if own { i } else { k })
}

fn oracle_take_by_index(x: &Array, axis: usize, index: &[Option<usize>], to: &[usize], own: bool) -> Array {
    let [_, n, after] = sizes_around_axis(&x.dims, axis);
    let along = if own { to[axis] } else { index.len() };
    let mut y = oracle_zeros_layout(x.dtype, to);
    for i in 0..y.len() {
        let (before, behind, of) = oracle_index_place(i, [0, along, after], own);
        match index[of] {
            Some(k) => y.put(i, x, (before * n + k) * after + behind),
            None => y.bound[i] = f64::INFINITY,
        }
    }
    y
}

fn oracle_scatter_by_index(
    base: &Array,
    updates: &Array,
    axis: usize,
    index: &[Option<usize>],
    mode: Scatter,
    own: bool,
) -> Array {
    if index.iter().any(Option::is_none) {
        return base.clone().unknown();
    }
    let [_, n, after] = sizes_around_axis(&base.dims, axis);
    let along = if own { updates.dims[axis] } else { index.len() };
    // The updates of each element, in order.
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); count_elements(&base.dims)];
    for i in 0..updates.len() {
        let (before, behind, at) = oracle_index_place(i, [0, along, after], own);
        if let Some(k) = index[at] {
            of[(before * n + k) * after + behind].push(i);
        }
    }
    let mut y = base.clone();
    for (i, all) in of.iter().enumerate() {
        match all.last() {
            None => {}
            Some(&last) if mode == Scatter::Set => y.put(i, updates, last),
            Some(_) => y.put(i, &oracle_joined_by_index(base, i, updates, all, mode), 0),
        }
    }
    y
}

/// Element `i` of `base` with all its updates, as a scalar.
fn oracle_joined_by_index(base: &Array, i: usize, updates: &Array, all: &[usize], mode: Scatter) -> Array {
    let dtype = base.dtype;
    if !base.is_real() {
        let wholes: Vec<_> = std::iter::once(base.whole(i)).chain(all.iter().map(|&k| updates.whole(k))).collect();
        let op = match mode {
            Scatter::Mul => Op::REDUCE_PROD,
            Scatter::Max => Op::REDUCE_MAX,
            Scatter::Min => Op::REDUCE_MIN,
            _ => Op::REDUCE_SUM,
        };
        return Array::wholes(dtype, &[], std::iter::once(oracle_reduce_wholes(op, dtype, &wholes)));
    }
    let r = Rounding::of(dtype);
    let reals: Vec<(f64, f64)> = std::iter::once(base.real(i)).chain(all.iter().map(|&k| updates.real(k))).collect();
    let y = match mode {
        Scatter::Mul => oracle_reduce_by_product(r, &reals),
        Scatter::Max => oracle_reduce_to_extreme(&reals, 1.0),
        Scatter::Min => oracle_reduce_to_extreme(&reals, -1.0),
        // A sum with an exact 0 is exact.
        _ => oracle_reduce_by_sum(r, reals.iter().copied().filter(|x| *x != (0.0, 0.0))),
    };
    Array::reals(dtype, &[], std::iter::once(y))
}

/// Coordinates along the last axis as positions in a tensor with axes of `sizes`.
fn oracle_index_positions(x: &Array, sizes: &[usize], to: &[usize]) -> Result<Array, Stop> {
    let n = sizes.len();
    let mut all = Vec::new();
    for i in 0..count_elements(to) {
        let mut position = Some(0);
        for (k, &size) in sizes.iter().enumerate() {
            let at = x.whole(i * n + k);
            if at.is_some_and(|at| !(0..size as i128).contains(&at)) {
                return Err(Stop::fault(format!("a coordinate is {at:?}; it must be in 0..{size}")));
            }
            position = position.zip(at).map(|(p, at)| p * size as i128 + at);
        }
        all.push(position);
    }
    Ok(Array::wholes(DType::I64, to, all.into_iter()))
}
