//! The convolution and its gradients: units, scratch, functions over slices and entry points.

use super::channel_lanes::{self, correlate_lanes};
use super::conv_micro::ConvMicroEpilogue;
use super::conv_micro::Product;
use super::conv_plan::ConvPlan;
use super::correlate::{self, correlate};
use super::each_channel::{self, correlate_each};
use super::geom::ConvGeom;
use super::product::{self};
use super::way::{Way, WeightWay};
use super::weight_grad;
use super::winograd::{self, correlate_winograd};
use crate::abi::{Args, MatrixMut, Split};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::{Act, GemmFloat, act_fn};
use crate::window::Units;
use std::ops::Range;

/// How units of [`conv2d_forward`] divide y, and their number: images, or output channels if there are few images.
pub fn conv2d_division(g: &ConvGeom) -> (Split, usize) {
    Way::forward(g).division([g.n, g.c_out, g.windows.out()[0] * g.windows.out()[1]])
}

/// Elements of scratch per thread for [`conv2d_forward`].
pub fn conv2d_scratch(g: &ConvGeom) -> usize {
    forward_scratch_of(&Way::forward(g), g)
}

/// [`conv2d_scratch`] of a way.
pub(super) fn forward_scratch_of(way: &Way, g: &ConvGeom) -> usize {
    match way {
        Way::Strip(plan) => correlate::thread_scratch_len(plan),
        Way::Lanes(plan, _) => channel_lanes::lanes_scratch(plan),
        Way::Product(share) => product::forward_scratch(g, *share),
        Way::Each(plan, _) => each_channel::each_scratch(plan),
        Way::Winograd(plan, _) => winograd::winograd_scratch(plan),
    }
}

/// y = act(conv(x, weight) (+ bias)) for the units `units`; `y` is their part of the output, one row if the split is
/// not by columns.
///
/// x is `[n, c_in, h, w]`, weight `[c_out, c_in / groups, kh, kw]`, bias `[c_out]` or empty, y `[n, c_out, ho, wo]`.
pub fn conv2d_forward<T: GemmFloat>(
    g: &ConvGeom,
    operands: (&[T], &[T], &[T]),
    act: Act,
    units: Range<usize>,
    y: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    forward_by(&Way::forward(g), g, operands, act, units, y, scratch);
}

/// [`conv2d_forward`] in one way.
pub(super) fn forward_by<T: GemmFloat>(
    way: &Way,
    g: &ConvGeom,
    (x, weight, bias): (&[T], &[T], &[T]),
    act: Act,
    units: Range<usize>,
    mut y: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let relu = act == Act::Relu;
    let epilogue = ConvMicroEpilogue { bias, relu, act: if relu { None } else { act_fn(act) } };
    let size = [g.n, g.c_out, g.windows.out()[0] * g.windows.out()[1]];
    match way {
        Way::Strip(plan) => correlate(plan, Product { src: x, weight, epilogue }, units, y.row(0), scratch),
        Way::Lanes(plan, share) => {
            let (part, y) = share.part(size, units, y);
            correlate_lanes(plan, (x, weight), epilogue, part, y, scratch);
        }
        Way::Product(share) => {
            let (part, y) = share.part(size, units, y);
            product::forward(g, *share, (x, weight), epilogue, part, y, scratch);
        }
        Way::Each(plan, share) => {
            let (part, y) = share.part(size, units, y);
            correlate_each(plan, (x, weight), epilogue, part, y, scratch);
        }
        Way::Winograd(plan, share) => {
            let (part, y) = share.part(size, units, y);
            correlate_winograd(plan, (x, weight), epilogue, part, y, scratch);
        }
    }
}

/// As [`conv2d_division`], for [`conv2d_backward_input`].
pub fn conv2d_backward_input_division(g: &ConvGeom) -> (Split, usize) {
    Way::backward(g).division([g.n, g.c_in, g.windows.size[0] * g.windows.size[1]])
}

/// Elements of scratch per thread for [`conv2d_backward_input`].
pub fn conv2d_backward_input_scratch(g: &ConvGeom) -> usize {
    input_scratch_of(&Way::backward(g), g)
}

/// [`conv2d_backward_input_scratch`] of a way.
pub(super) fn input_scratch_of(way: &Way, g: &ConvGeom) -> usize {
    match way {
        Way::Product(share) => product::input_grad_scratch(g, *share),
        way => forward_scratch_of(way, g),
    }
}

/// dx, the adjoint of [`conv2d_forward`] in x, for the units `units`; `dx` is their part of the result, one row if the
/// split is not by columns.
pub fn conv2d_backward_input<T: GemmFloat>(
    g: &ConvGeom,
    dy: &[T],
    weight: &[T],
    units: Range<usize>,
    dx: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    input_by(&Way::backward(g), g, (dy, weight), units, dx, scratch);
}

/// [`conv2d_backward_input`] in one way.
pub(super) fn input_by<T: GemmFloat>(
    way: &Way,
    g: &ConvGeom,
    (dy, weight): (&[T], &[T]),
    units: Range<usize>,
    mut dx: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let epilogue = ConvMicroEpilogue { bias: &[], relu: false, act: None };
    let size = [g.n, g.c_in, g.windows.size[0] * g.windows.size[1]];
    match way {
        Way::Strip(plan) => correlate(plan, Product { src: dy, weight, epilogue }, units, dx.row(0), scratch),
        Way::Lanes(plan, share) => {
            let (part, dx) = share.part(size, units, dx);
            correlate_lanes(plan, (dy, weight), epilogue, part, dx, scratch);
        }
        Way::Product(share) => {
            let (part, dx) = share.part(size, units, dx);
            product::input_grad(g, *share, (dy, weight), part, dx, scratch);
        }
        Way::Each(plan, share) => {
            let (part, dx) = share.part(size, units, dx);
            correlate_each(plan, (dy, weight), epilogue, part, dx, scratch);
        }
        Way::Winograd(plan, share) => {
            let (part, dx) = share.part(size, units, dx);
            correlate_winograd(plan, (dy, weight), epilogue, part, dx, scratch);
        }
    }
}

/// Units of [`conv2d_backward_weight`].
pub fn conv2d_backward_weight_units(g: &ConvGeom) -> Units {
    let (blocks, channels) = WeightWay::of(g).blocks(g);
    Units { count: blocks * (g.c_out / channels), per_unit: channels * g.taps() }
}

/// Number of image blocks. [`conv2d_backward_weight`] writes one part for each, one after the other, each as large as
/// the weight. With one block the part is the gradient; otherwise [`conv2d_weight_combine`] adds the parts.
pub fn conv2d_weight_parts(g: &ConvGeom) -> usize {
    WeightWay::of(g).blocks(g).0
}

/// Elements of scratch per thread for [`conv2d_backward_weight`].
pub fn conv2d_backward_weight_scratch(g: &ConvGeom) -> usize {
    weight_scratch_of(WeightWay::of(g), g)
}

/// [`conv2d_backward_weight_scratch`] of a way.
pub(super) fn weight_scratch_of(way: WeightWay, g: &ConvGeom) -> usize {
    match way {
        WeightWay::Strip => weight_grad::thread_scratch_len(g, &ConvPlan::weight(g)),
        WeightWay::Lanes => channel_lanes::lanes_weight_scratch(g),
        WeightWay::Product => product::weight_grad_scratch(g),
        WeightWay::Each => each_channel::each_weight_scratch(g),
        WeightWay::Winograd => winograd::winograd_weight_scratch(g),
    }
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
    weight_by(WeightWay::of(g), g, (x, dy), units, parts, scratch);
}

/// [`conv2d_backward_weight`] in one way.
pub(super) fn weight_by<T: GemmFloat>(
    way: WeightWay,
    g: &ConvGeom,
    (x, dy): (&[T], &[T]),
    units: Range<usize>,
    parts: &mut [T],
    scratch: &mut [T],
) {
    let (_, channels) = way.blocks(g);
    let from = units.start * channels;
    let own = from..from + parts.len() / g.taps();
    match way {
        WeightWay::Strip => weight_grad::compute_parts(g, x, dy, units, parts, scratch),
        WeightWay::Lanes => channel_lanes::lanes_weight_grad(g, (x, dy), own, parts, scratch),
        WeightWay::Product => product::weight_grad(g, (x, dy), own, parts, scratch),
        WeightWay::Each => each_channel::each_weight_grad(g, (x, dy), own, parts, scratch),
        WeightWay::Winograd => winograd::winograd_weight_grad(g, (x, dy), own, parts, scratch),
    }
}

/// Elements of dw in a unit of [`conv2d_weight_combine`].
pub const COMBINE_UNIT: usize = 4096;

/// dw = the sum of the parts, in order; `dw` starts at element `from` of the gradient.
pub fn conv2d_weight_combine<T: Float>(parts: &[T], len: usize, from: usize, dw: &mut [T]) {
    weight_grad::combine_parts(parts, len, from, dw);
}

/// The part of the first write of a call, whose split is `split`: one row, if that is not by columns.
fn own_part<'a, T: GemmFloat>(args: &mut Args<'a>, split: Split) -> MatrixMut<'a, T> {
    if matches!(split, Split::Columns { .. }) {
        return args.panel(0);
    }
    let part = args.write::<T>(0);
    let len = part.len();
    MatrixMut::new(part, 1, len)
}

/// Entry point of [`conv2d_forward`].
///
/// Reads x, weight and, optionally, bias; writes y, divided by [`conv2d_division`], and scratch,
/// `PerThread(conv2d_scratch)`; params [`ConvGeom`], then, optionally, the number of an activation ([`Act`]).
pub fn conv2d_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let act = args.params().get(ConvGeom::WORDS).map_or(Act::None, |w| Act::from_word(*w));
    let bias = if args.reads() > 2 { args.read::<T>(2) } else { &[] };
    let (y, scratch) = (own_part(args, conv2d_division(&g).0), args.write::<T>(1));
    conv2d_forward(&g, (args.read(0), args.read(1), bias), act, args.units(), y, scratch);
}

by_dtype!(conv2d_kernel_for = conv2d_kernel::<floats>);

/// Entry point of [`conv2d_backward_input`].
///
/// Reads dy, weight; writes dx, divided by [`conv2d_backward_input_division`], and scratch,
/// `PerThread(conv2d_backward_input_scratch)`; params [`ConvGeom`].
pub fn conv2d_backward_input_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let g = ConvGeom::from_words(args.params());
    let (dx, scratch) = (own_part(args, conv2d_backward_input_division(&g).0), args.write::<T>(1));
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
