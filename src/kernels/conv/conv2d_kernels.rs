//! The convolution and its gradients: units, scratch, functions over slices and entry points.

use super::conv_micro::ConvMicroEpilogue;
use super::conv_plan::{ConvPlan, weight_grad_blocks};
use super::correlate::{self, Product, correlate};
use super::geom::ConvGeom;
use super::weight_grad;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::{Act, GemmFloat, act_fn};
use crate::window::Units;
use std::ops::Range;

/// Units of [`conv2d_forward`]: images, or blocks of output channels if there are few images.
pub fn conv2d_units(g: &ConvGeom) -> Units {
    let (count, per_unit) = ConvPlan::forward(g).units();
    Units { count, per_unit }
}

/// Elements of scratch per thread for [`conv2d_forward`].
pub fn conv2d_scratch(g: &ConvGeom) -> usize {
    correlate::thread_scratch_len(&ConvPlan::forward(g))
}

/// y = act(conv(x, weight) (+ bias)) for the units `units`; `y` is their part of the output.
///
/// x is `[n, c_in, h, w]`, weight `[c_out, c_in / groups, kh, kw]`, bias `[c_out]` or empty, y `[n, c_out, ho, wo]`.
pub fn conv2d_forward<T: GemmFloat>(
    g: &ConvGeom,
    x: &[T],
    weight: &[T],
    bias: &[T],
    act: Act,
    units: Range<usize>,
    y: &mut [T],
    scratch: &mut [T],
) {
    let relu = act == Act::Relu;
    let epilogue = ConvMicroEpilogue { bias, relu, act: if relu { None } else { act_fn(act) } };
    correlate(&ConvPlan::forward(g), Product { src: x, weight, epilogue }, units, y, scratch);
}

/// Units of [`conv2d_backward_input`].
pub fn conv2d_backward_input_units(g: &ConvGeom) -> Units {
    let (count, per_unit) = ConvPlan::backward(g).units();
    Units { count, per_unit }
}

/// Elements of scratch per thread for [`conv2d_backward_input`].
pub fn conv2d_backward_input_scratch(g: &ConvGeom) -> usize {
    correlate::thread_scratch_len(&ConvPlan::backward(g))
}

/// dx, the adjoint of [`conv2d_forward`] in x, for the units `units`; `dx` is their part of the result.
pub fn conv2d_backward_input<T: GemmFloat>(
    g: &ConvGeom,
    dy: &[T],
    weight: &[T],
    units: Range<usize>,
    dx: &mut [T],
    scratch: &mut [T],
) {
    let p = Product { src: dy, weight, epilogue: ConvMicroEpilogue { bias: &[], relu: false, act: None } };
    correlate(&ConvPlan::backward(g), p, units, dx, scratch);
}

/// Units of [`conv2d_backward_weight`].
pub fn conv2d_backward_weight_units(g: &ConvGeom) -> Units {
    let (blocks, channels) = weight_grad_blocks(g);
    Units { count: blocks * (g.c_out / channels), per_unit: channels * g.taps() }
}

/// Number of image blocks. [`conv2d_backward_weight`] writes one part for each, one after the other, each as large as
/// the weight. With one block the part is the gradient; otherwise [`conv2d_weight_combine`] adds the parts.
pub fn conv2d_weight_parts(g: &ConvGeom) -> usize {
    weight_grad_blocks(g).0
}

/// Elements of scratch per thread for [`conv2d_backward_weight`].
pub fn conv2d_backward_weight_scratch(g: &ConvGeom) -> usize {
    weight_grad::thread_scratch_len(g, &ConvPlan::weight(g))
}

/// The adjoint of [`conv2d_forward`] in the weight, as [`conv2d_weight_parts`] parts, for the units `units`; `parts` is
/// their part of the result.
pub fn conv2d_backward_weight<T: GemmFloat>(
    g: &ConvGeom,
    x: &[T],
    dy: &[T],
    units: Range<usize>,
    parts: &mut [T],
    scratch: &mut [T],
) {
    weight_grad::compute_parts(g, x, dy, units, parts, scratch);
}

/// Elements of dw in a unit of [`conv2d_weight_combine`].
pub const COMBINE_UNIT: usize = 4096;

/// dw = the sum of the parts, in order; `dw` starts at element `from` of the gradient.
pub fn conv2d_weight_combine<T: Float>(parts: &[T], len: usize, from: usize, dw: &mut [T]) {
    weight_grad::combine_parts(parts, len, from, dw);
}

/// Entry point of [`conv2d_forward`].
///
/// Reads x, weight and, optionally, bias; writes y, `PerUnit(conv2d_units.per_unit)`, and scratch,
/// `PerThread(conv2d_scratch)`; params [`ConvGeom`], then, optionally, the number of an activation ([`Act`]);
/// `conv2d_units.count` units.
pub fn conv2d_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let act = args.params().get(ConvGeom::WORDS).map_or(Act::None, |w| Act::from_word(*w));
    let bias = if args.reads() > 2 { args.read::<T>(2) } else { &[] };
    let (y, scratch) = (args.write::<T>(0), args.write::<T>(1));
    conv2d_forward(&g, args.read(0), args.read(1), bias, act, args.units(), y, scratch);
}

by_dtype!(conv2d_kernel_for = conv2d_kernel::<floats>);

/// Entry point of [`conv2d_backward_input`].
///
/// Reads dy, weight; writes dx, `PerUnit(conv2d_backward_input_units.per_unit)`, and scratch,
/// `PerThread(conv2d_backward_input_scratch)`; params [`ConvGeom`]; `conv2d_backward_input_units.count` units.
pub fn conv2d_backward_input_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let (dx, scratch) = (args.write::<T>(0), args.write::<T>(1));
    conv2d_backward_input(&g, args.read(0), args.read(1), args.units(), dx, scratch);
}

by_dtype!(conv2d_backward_input_kernel_for = conv2d_backward_input_kernel::<floats>);

/// Entry point of [`conv2d_backward_weight`].
///
/// Reads x, dy; writes the parts (dw itself if [`conv2d_weight_parts`] is 1), `conv2d_weight_parts * w_len` elements,
/// `PerUnit(conv2d_backward_weight_units.per_unit)`, and scratch, `PerThread(conv2d_backward_weight_scratch)`; params
/// [`ConvGeom`]; `conv2d_backward_weight_units.count` units.
pub fn conv2d_backward_weight_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let (parts, scratch) = (args.write::<T>(0), args.write::<T>(1));
    conv2d_backward_weight(&g, args.read(0), args.read(1), args.units(), parts, scratch);
}

by_dtype!(conv2d_backward_weight_kernel_for = conv2d_backward_weight_kernel::<floats>);

/// Entry point of [`conv2d_weight_combine`].
///
/// Reads the parts; writes dw, `PerUnit(COMBINE_UNIT)`; params [`ConvGeom`]; `w_len.div_ceil(COMBINE_UNIT)` units.
pub fn conv2d_weight_combine_kernel<T: Float>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let dw = args.write::<T>(0);
    conv2d_weight_combine(args.read(0), g.w_len(), args.units().start * COMBINE_UNIT, dw);
}

by_dtype!(conv2d_weight_combine_kernel_for = conv2d_weight_combine_kernel::<floats>);
