//! Ops that move elements, and constants.

use super::array::{Array, Numbers, count_elements, ravel_position, unravel_position};
use super::element_bytes::decode_array;
use super::rounding::nearest_element;
use super::whole_ops::wrap_whole;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::constant::attrs::{ConstantAttrs, FullAttrs, IotaAttrs};
use crate::nodes::ops::layout::attrs::{ConcatAttrs, FlipAttrs, PadAttrs, SliceAttrs, TransposeAttrs};
use crate::nodes::{Attrs, DType, Op};

/// A tensor of one number, which the type holds or rounds.
fn oracle_filled_layout(dtype: DType, dims: &[usize], value: f64) -> Array {
    let n = count_elements(dims);
    if dtype.is_complex() {
        return Array::pairs(dtype, dims, (0..n).map(|_| ([nearest_element(dtype.part(), value), 0.0], 0.0)));
    }
    match dtype.is_real_float() {
        true => Array::reals(dtype, dims, (0..n).map(|_| (nearest_element(dtype, value), 0.0))),
        false => Array::wholes(dtype, dims, (0..n).map(|_| Some(value as i128))),
    }
}

/// The result of a constant, a fill or a counter.
pub(super) fn oracle_constant_layout(op: Op, attrs: &Attrs<'_>, dtype: DType, dims: &[usize]) -> Option<Array> {
    Some(match op {
        Op::CONSTANT => decode_array(dtype, dims, &ConstantAttrs::of(attrs).data),
        Op::FULL => oracle_filled_layout(dtype, dims, FullAttrs::of(attrs).value),
        Op::IOTA => {
            let axis = IotaAttrs::of(attrs).axis as usize;
            let at = |i: usize| unravel_position(i, dims)[axis];
            match dtype.is_real_float() {
                true => Array::reals(
                    dtype,
                    dims,
                    (0..count_elements(dims)).map(|i| (nearest_element(dtype, at(i) as f64), 0.0)),
                ),
                false => Array::wholes(
                    dtype,
                    dims,
                    (0..count_elements(dims)).map(|i| Some(wrap_whole(dtype, at(i) as i128))),
                ),
            }
        }
        _ => return None,
    })
}

/// The result of an op that moves elements, of shape `to`.
pub(super) fn apply_oracle_layout_op(op: Op, attrs: &Attrs<'_>, args: &[&Array], to: &[usize]) -> Option<Array> {
    let x = *args.first()?;
    let pick = |from: &dyn Fn(&[usize]) -> usize| {
        x.pick(to, (0..count_elements(to)).map(|i| from(&unravel_position(i, to)[..to.len()])))
    };
    let rank = x.dims.len();
    Some(match op {
        Op::RESHAPE | Op::CHECKPOINT | Op::OPTIMIZATION_BARRIER | Op::STOP_GRADIENT => x.reshaped(to),
        Op::TRANSPOSE => {
            let perm = to_size_attrs(&TransposeAttrs::of(attrs).perm);
            pick(&|at| {
                let mut from = [0; 8];
                perm.iter().zip(at).for_each(|(&p, &a)| from[p] = a);
                ravel_position(&from[..rank], &x.dims)
            })
        }
        Op::BROADCAST => {
            let lead = to.len() - rank;
            pick(&|at| {
                let from: Vec<usize> = (0..rank).map(|k| if x.dims[k] == 1 { 0 } else { at[lead + k] }).collect();
                ravel_position(&from, &x.dims)
            })
        }
        Op::SLICE => {
            let a = SliceAttrs::of(attrs);
            let (starts, steps) = (to_size_attrs(&a.starts), to_size_attrs(&a.steps));
            pick(&|at| {
                let from: Vec<usize> = (0..rank).map(|k| starts[k] + at[k] * steps[k]).collect();
                ravel_position(&from, &x.dims)
            })
        }
        Op::FLIP => {
            let axes = to_size_attrs(&FlipAttrs::of(attrs).axes);
            pick(&|at| {
                let turned = |k: usize| if axes.contains(&k) { x.dims[k] - 1 - at[k] } else { at[k] };
                ravel_position(&(0..rank).map(turned).collect::<Vec<_>>(), &x.dims)
            })
        }
        Op::CONCAT => oracle_concat_layout(ConcatAttrs::of(attrs).axis as usize, args, to),
        Op::PAD => oracle_pad_layout(&PadAttrs::of(attrs), x, to),
        _ => return None,
    })
}

fn oracle_concat_layout(axis: usize, args: &[&Array], to: &[usize]) -> Array {
    let mut y = oracle_zeros_layout(args[0].dtype, to);
    let mut first = 0;
    for x in args {
        for i in 0..x.len() {
            let mut at = unravel_position(i, &x.dims);
            at[axis] += first;
            y.put(ravel_position(&at[..to.len()], to), x, i);
        }
        first += x.dims[axis];
    }
    y
}

fn oracle_pad_layout(a: &PadAttrs, x: &Array, to: &[usize]) -> Array {
    let low = to_size_attrs(&a.low);
    let mut y = oracle_filled_layout(x.dtype, to, a.value);
    for i in 0..x.len() {
        let mut at = unravel_position(i, &x.dims);
        low.iter().zip(&mut at).for_each(|(l, at)| *at += l);
        y.put(ravel_position(&at[..to.len()], to), x, i);
    }
    y
}

/// Slice `i` of the first axis.
pub(super) fn oracle_slice_layout(x: &Array, i: usize) -> Array {
    let dims = &x.dims[1..];
    let n = count_elements(dims);
    x.pick(dims, i * n..(i + 1) * n)
}

/// An array of this type and shape of zeros.
pub(super) fn oracle_zeros_layout(dtype: DType, dims: &[usize]) -> Array {
    let n = count_elements(dims);
    let numbers = match (dtype.is_real_float(), dtype.is_complex()) {
        (true, _) => Numbers::Real(vec![0.0; n]),
        (_, true) => Numbers::Pair(vec![[0.0; 2]; n]),
        _ => Numbers::Whole(vec![0; n]),
    };
    Array { dtype, dims: dims.to_vec(), numbers, bound: vec![0.0; n] }
}
