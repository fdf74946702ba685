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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::attrs::Attr;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Arg, Out};

    /// What each call of the op reads; each writes the result.
    fn reads(op: Op, args: &[&[usize]], attrs: &[Attr<'_>]) -> Vec<Vec<Buf>> {
        let l = LoweredInTests::of_one_type(DType::F64, op, args, attrs, &[true]);
        assert!(l.calls.iter().all(|c| c.writes.len() == 1 && c.writes[0].0 == Out(0)) && l.temps.is_empty());
        l.calls.iter().map(|c| c.reads.to_vec()).collect()
    }

    /// True if the op only looks at the memory of its operand in another way.
    fn is_view(op: Op, args: &[&[usize]], attrs: &[Attr<'_>]) -> bool {
        let reads = reads(op, args, attrs);
        assert!(reads.is_empty() || reads == [(0..args.len()).map(Arg).collect::<Vec<Buf>>()], "{reads:?}");
        reads.is_empty()
    }

    #[test]
    fn moves_that_keep_the_order_of_elements_are_views() {
        let transpose = |dims: &[usize], perm: &[i64]| {
            is_view(Op::TRANSPOSE, &[dims], &TransposeAttrs { perm: perm.to_vec() }.list())
        };
        assert!(transpose(&[3, 1, 4], &[1, 0, 2]) && transpose(&[3, 1, 2, 1], &[3, 0, 1, 2]));
        assert!(!transpose(&[3, 4], &[1, 0]) && !transpose(&[1, 3, 4], &[0, 2, 1]));
        let flip = |dims: &[usize], axes: &[i64]| is_view(Op::FLIP, &[dims], &FlipAttrs { axes: axes.to_vec() }.list());
        assert!(flip(&[1, 4], &[0]) && flip(&[3, 1], &[1]));
        assert!(!flip(&[3, 4], &[1]) && !flip(&[2, 1], &[0]));
    }

    #[test]
    fn a_run_of_elements_is_a_view() {
        let slice = |[starts, limits, steps]: [[i64; 2]; 3]| {
            let [starts, limits, steps] = [starts, limits, steps].map(|list| list.to_vec());
            is_view(Op::SLICE, &[&[5, 6]], &SliceAttrs { starts, limits, steps }.list())
        };
        assert!(slice([[0, 0], [3, 6], [1, 1]]) && slice([[2, 0], [4, 6], [1, 1]]));
        assert!(slice([[1, 2], [2, 6], [1, 1]]) && slice([[1, 2], [2, 6], [3, 1]]));
        assert!(!slice([[0, 0], [5, 6], [2, 1]]) && !slice([[0, 1], [5, 6], [1, 1]]));
        assert!(!slice([[1, 2], [3, 3], [1, 1]]) && !slice([[1, 0], [2, 6], [1, 2]]));
    }

    #[test]
    fn a_join_of_one_and_a_pad_of_none_are_views() {
        let concat = |args: &[&[usize]]| is_view(Op::CONCAT, args, &ConcatAttrs { axis: 0 }.list());
        assert!(concat(&[&[3, 4]]));
        assert!(!concat(&[&[3, 4], &[2, 4]]) && !concat(&[&[3, 4], &[2, 4], &[1, 4]]));
        let pad = |low: [i64; 2], high: [i64; 2]| {
            is_view(Op::PAD, &[&[3, 4]], &PadAttrs { low: low.to_vec(), high: high.to_vec(), value: 0.0 }.list())
        };
        assert!(pad([0, 0], [0, 0]));
        assert!(!pad([0, 1], [0, 0]) && !pad([0, 0], [1, 0]));
    }
}
