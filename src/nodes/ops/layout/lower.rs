//! Kernel calls of ops that move elements: strided copies, concatenations, pads. A move that keeps the order of
//! elements is a view.

use crate::kernels::copy;
use crate::kernels::copy::{Concat, Pad, StridedCopy};
use crate::nodes::arguments::axes::split_at_axis;
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::lowering::element_bits;
use crate::nodes::ops::layout::attrs::{ConcatAttrs, FlipAttrs, PadAttrs, SliceAttrs, TransposeAttrs};

/// Result 0 is the elements of operand 0 from `base` on, `strides` apart, in shape `dims`. If they are one run of
/// memory, it is a view.
fn emit_copy(cx: &mut LowerCx<'_>, dims: &[usize], strides: &[i64], base: usize) -> Result<(), String> {
    let mut run = 1;
    let dense = dims.iter().zip(strides).rev().all(|(&d, &s)| {
        let fits = d == 1 || s == run;
        run *= d as i64;
        fits
    });
    if dense {
        cx.view(0, 0, base);
        return Ok(());
    }
    let p = StridedCopy::new(dims, strides, base).ok_or("too many axes")?;
    let call = Call::new(copy::strided_copy_kernel_for(cx.dtype(0)), p.to_words(), p.units());
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// Row-major strides of operand 0.
fn operand_strides(cx: &LowerCx<'_>) -> Vec<i64> {
    cx.arg_dims(0).strides().iter().map(|&s| s as i64).collect()
}

/// `transpose`.
pub fn emit_transpose(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let s = operand_strides(cx);
    let moved: Vec<i64> = to_size_attrs(&TransposeAttrs::of(&cx.attrs()).perm).into_iter().map(|p| s[p]).collect();
    let to = cx.out_dims(0);
    emit_copy(cx, &to, &moved, 0)
}

/// `broadcast`: repeated axes have stride 0.
pub fn emit_broadcast(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (from, to, s) = (cx.arg_dims(0), cx.out_dims(0), operand_strides(cx));
    let lead = to.len() - from.len();
    let step = |i: usize| if i < lead || from[i - lead] != to[i] { 0 } else { s[i - lead] };
    let steps: Vec<i64> = (0..to.len()).map(step).collect();
    emit_copy(cx, &to, &steps, 0)
}

/// `slice`. The leading part of a tensor is a view.
pub fn emit_slice(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (s, a, to) = (operand_strides(cx), SliceAttrs::of(&cx.attrs()), cx.out_dims(0));
    let base = to_size_attrs(&a.starts).iter().zip(&s).map(|(&at, &s)| at * s as usize).sum();
    // The step along an axis of one element does not matter.
    let step = |i: usize, p: usize| if to[i] > 1 { p as i64 * s[i] } else { s[i] };
    let steps: Vec<i64> = to_size_attrs(&a.steps).into_iter().enumerate().map(|(i, p)| step(i, p)).collect();
    emit_copy(cx, &to, &steps, base)
}

/// `flip`: reversed axes have negative strides.
pub fn emit_flip(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (mut s, d, mut base) = (operand_strides(cx), cx.arg_dims(0), 0);
    for a in to_size_attrs(&FlipAttrs::of(&cx.attrs()).axes) {
        base += (d[a] - 1) * s[a] as usize;
        s[a] = -s[a];
    }
    emit_copy(cx, &d, &s, base)
}

/// `concat`.
pub fn emit_concat(cx: &mut LowerCx<'_>) -> Result<(), String> {
    if cx.args() == 1 {
        cx.view(0, 0, 0);
        return Ok(());
    }
    let axis = to_size_attr(ConcatAttrs::of(&cx.attrs()).axis);
    let outer = split_at_axis(&cx.arg_dims(0), axis).outer;
    let width = |i: usize| cx.arg_dims(i)[axis..].iter().product();
    let p = Concat { outer, widths: (0..cx.args()).map(width).collect() };
    let call = Call::new(copy::concat_kernel_for(cx.dtype(0)), p.to_words(), p.units());
    cx.call(call.reads_args(p.widths.len()).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `pad`.
pub fn emit_pad(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (a, from, dtype) = (PadAttrs::of(&cx.attrs()), cx.arg_dims(0), cx.dtype(0));
    if from == cx.out_dims(0) {
        cx.view(0, 0, 0);
        return Ok(());
    }
    let (low, high) = (to_size_attrs(&a.low), to_size_attrs(&a.high));
    let p = Pad::new(&from, &low, &high, element_bits(a.value, dtype)).ok_or("too many axes")?;
    let call = Call::new(copy::pad_kernel_for(dtype), p.to_words(), p.units());
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
