//! Kernel calls of splats.
//!
//! All ops first project the splats, which gives a record, bounds and a distance for each, and then sort them. The
//! units of the image are rows of tiles; those of the gradient are groups of tiles.

use super::OPERANDS;
use super::attrs::SplatAttrs;
use super::pack::IMAGE;
use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::splat::{self, MOMENTS, RECORD, SPLATS, Splat, VIEW_SUMS};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;

/// What the kernels of an image read: records, bounds, order and view.
type Projected = [Buf; 4];

/// The operands that describe the scene, the first of which is `first`.
fn scene_operands(first: usize) -> Vec<Buf> {
    (first..first + OPERANDS).map(Buf::Arg).collect()
}

/// The params of a node whose positions are operand `first`.
fn read_params(cx: &LowerCx<'_>, first: usize) -> Splat {
    SplatAttrs::of(&cx.attrs()).params(cx.arg_dims(first)[0], &cx.arg_dims(first + 4))
}

/// A call with these params; most of the work is in the one that is `main`.
fn kernel_call(cx: &LowerCx<'_>, p: &Splat, kernel: Kernel, units: usize, main: bool) -> Call {
    let flops = if main { cx.flops() } else { p.count as u64 * 400 };
    Call::new(kernel, p.to_words(), units).flops(flops).cost_class(IMAGE)
}

/// Projects and orders the splats.
fn emit_projection(cx: &mut LowerCx<'_>, p: &Splat, first: usize) -> Result<Projected, String> {
    let (size, count) = (cx.dtype(first).size(), p.count.max(1));
    let (records, bounds) = (cx.temp(size, count * RECORD), cx.temp(size_of::<i32>(), count * 4));
    let order = cx.temp(size_of::<i32>(), count);
    emit_projection_into(cx, p, first, [records, bounds, order])?;
    Ok([records, bounds, order, Buf::Arg(first + 5)])
}

/// Writes records, bounds and order.
fn emit_projection_into(cx: &mut LowerCx<'_>, p: &Splat, first: usize, to: [Buf; 3]) -> Result<(), String> {
    let (dtype, count, [records, bounds, order]) = (cx.dtype(first), p.count.max(1), to);
    let distances = cx.temp(dtype.size(), count);
    let call = kernel_call(cx, p, splat::splat_project_kernel_for(dtype)?, p.splat_units().max(1), false);
    let call = call.reads(&scene_operands(first)).writes(records, SPLATS * RECORD);
    cx.call(call.writes(bounds, SPLATS * 4).writes(distances, SPLATS));
    let call = Call::new(splat::splat_order_kernel_for(dtype)?, p.to_words(), 1);
    let compared = p.count as u64 * u64::from(p.count.max(1).ilog2() + 1);
    cx.call(call.reads(&[distances]).writes(order, count).ops(compared).cost_class(CostClass::SORT));
    Ok(())
}

/// The call that blends an image and T, from `reads`.
fn emit_blend(cx: &mut LowerCx<'_>, p: &Splat, kernel: Kernel, reads: &[Buf]) {
    let (pixels, positions) = (p.pixels_per_unit(), cx.scratch(size_of::<i32>(), p.list_scratch().max(1)));
    let call = kernel_call(cx, p, kernel, p.tile_rows(), true).reads(reads).faults();
    let call = call.writes(Buf::Out(0), 4 * pixels).writes(Buf::Out(1), pixels).scratch(positions);
    cx.call(call.whole(0b1111));
}

/// `splat_render`.
pub fn emit_splat_render(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = read_params(cx, 0);
    let projected = emit_projection(cx, &p, 0)?;
    emit_blend(cx, &p, splat::splat_blend_kernel_for(cx.dtype(0))?, &projected);
    Ok(())
}

/// `splat_render_tangent`.
pub fn emit_splat_render_tangent(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (p, dtype) = (read_params(cx, 0), cx.dtype(0));
    let [records, bounds, order, view] = emit_projection(cx, &p, 0)?;
    let tangents = cx.temp(dtype.size(), p.count * MOMENTS);
    let call = kernel_call(cx, &p, splat::splat_tangents_kernel_for(dtype)?, p.splat_units(), false);
    cx.call(call.reads_args(2 * OPERANDS).writes(tangents, SPLATS * MOMENTS));
    let reads = [records, bounds, order, view, tangents, Buf::Arg(2 * OPERANDS - 1)];
    emit_blend(cx, &p, splat::splat_blend_tangent_kernel_for(dtype)?, &reads);
    Ok(())
}

/// `splat_render_backward`.
pub fn emit_splat_render_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (p, dtype) = (read_params(cx, 1), cx.dtype(1));
    let projected = emit_projection(cx, &p, 1)?;
    let groups = p.groups();
    let moments = cx.temp(dtype.size(), groups * p.count * MOMENTS);
    let view_sums = cx.temp(dtype.size(), groups * VIEW_SUMS);
    let lanes = cx.scratch(dtype.size(), p.backward_scratch());
    let positions = cx.scratch(size_of::<i32>(), p.backward_positions());
    let call = kernel_call(cx, &p, splat::splat_backward_kernel_for(dtype)?, groups, true);
    let call = call.reads(&[Buf::Arg(0)]).reads(&projected).faults().whole(0b11111);
    let call = call.writes(moments, p.count * MOMENTS).writes(view_sums, VIEW_SUMS);
    cx.call(call.scratch(lanes).scratch(positions));
    let call = kernel_call(cx, &p, splat::splat_gradients_kernel_for(dtype)?, p.splat_units(), false);
    let widths = [3, 3, 4, 1, p.colour_len()];
    let call = call.reads(&[moments]).reads(&scene_operands(1));
    cx.call(widths.iter().enumerate().fold(call, |call, (i, width)| call.writes(Buf::Out(i), SPLATS * width)));
    if cx.used[OPERANDS - 1] {
        let call = Call::new(splat::splat_view_gradient_kernel_for(dtype)?, p.to_words(), 1);
        cx.call(call.reads(&[Buf::Out(0), view_sums]).writes(Buf::Out(OPERANDS - 1), 12));
    }
    Ok(())
}

/// `splat_prepare`.
pub fn emit_splat_prepare(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = read_params(cx, 0);
    emit_projection_into(cx, &p, 0, [Buf::Out(0), Buf::Out(1), Buf::Out(2)])
}

/// `splat_rasterize`.
pub fn emit_splat_rasterize(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = SplatAttrs::of(&cx.attrs()).params(cx.arg_dims(0)[0], &[]);
    emit_blend(cx, &p, splat::splat_blend_kernel_for(cx.dtype(0))?, &[0, 1, 2, 3].map(Buf::Arg));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::abi::Split::PerUnit;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use crate::nodes::ops::splat::splat_image::SplatImage;
    use Buf::{Arg, Out, Temp};

    /// An op of `n` splats and more operands before and after them, for an image of 5 by 4 pixels.
    fn lowered(op: Op, before: &[&[usize]], n: usize, after: &[&[usize]], used: &[bool]) -> LoweredInTests {
        let (threes, fours, ones) = ([n, 3], [n, 4], [n]);
        let scene: [&[usize]; 6] = [&threes, &threes, &fours, &ones, &threes, &[4, 3]];
        let attrs = SplatImage::new(5, 4).attrs();
        LoweredInTests::of_one_type(DType::F32, op, &[before, &scene, after].concat(), &attrs.list(), used)
    }

    fn params(n: usize) -> Splat {
        SplatImage::new(5, 4).attrs().params(n, &[n, 3])
    }

    #[test]
    fn splats_are_projected_ordered_and_blended() {
        let (l, p) = (lowered(Op::SPLAT_RENDER, &[], 70, &[], &[true; 2]), params(70));
        let scene: Vec<Buf> = (0..6).map(Arg).collect();
        let records = (Temp(0), PerUnit(SPLATS * RECORD));
        let projected = [records, (Temp(1), PerUnit(SPLATS * 4)), (Temp(3), PerUnit(SPLATS))];
        assert_eq!(l.operands()[0], (&scene[..], &projected[..]));
        assert_eq!((l.calls[0].units, l.calls[0].flops, &l.calls[0].params), (2, 28_000, &p.to_words()));
        assert_eq!(l.operands()[1], (&[Temp(3)][..], &[(Temp(2), PerUnit(70))][..]));
        // 70 splats in 7 rounds of comparisons.
        assert_eq!((l.calls[1].units, l.calls[1].ops, l.calls[1].work), (1, 490, CostClass::SORT));
        let (call, pixels) = (&l.calls[2], p.pixels_per_unit());
        assert_eq!(call.reads, [Temp(0), Temp(1), Temp(2), Arg(5)]);
        assert_eq!(call.writes[..2], [(Out(0), PerUnit(4 * pixels)), (Out(1), PerUnit(pixels))]);
        assert_eq!((call.whole, call.units, call.looks.is_some()), (0b1111, p.tile_rows(), true));
        // 20 pixels meet 32 splats each.
        assert_eq!((call.flops, l.calls.len()), (20 * 32 * 50 + 28_000, 3));
        let sizes = [(4, 70 * RECORD, false), (4, 280, false), (4, 70, false), (4, 70, false)];
        assert_eq!((&l.sizes()[..4], l.temps.len(), l.temps[4].per_thread), (&sizes[..], 5, true));
        // Without splats there is room for one.
        let sizes = [(4, RECORD, false), (4, 4, false), (4, 1, false), (4, 1, false)];
        assert_eq!(lowered(Op::SPLAT_RENDER, &[], 0, &[], &[true; 2]).sizes()[..4], sizes);
    }

    #[test]
    fn prepared_splats_are_results() {
        let l = lowered(Op::SPLAT_PREPARE, &[], 70, &[], &[true; 3]);
        let projected = [Out(0), Out(1), Temp(0)];
        assert_eq!(l.calls[0].writes.iter().map(|w| w.0).collect::<Vec<_>>(), projected);
        assert_eq!(l.operands()[1], (&[Temp(0)][..], &[(Out(2), PerUnit(70))][..]));
        assert_eq!((l.calls.len(), l.sizes()), (2, vec![(4, 70, false)]));
    }

    #[test]
    fn tangents_are_projected_too() {
        let six: [&[usize]; 6] = [&[70, 3], &[70, 3], &[70, 4], &[70], &[70, 3], &[4, 3]];
        let l = lowered(Op::SPLAT_RENDER_TANGENT, &[], 70, &six, &[true; 2]);
        let all: Vec<Buf> = (0..12).map(Arg).collect();
        assert_eq!(l.operands()[2], (&all[..], &[(Temp(4), PerUnit(SPLATS * MOMENTS))][..]));
        assert_eq!((l.calls[2].flops, l.sizes()[4]), (28_000, (4, 70 * MOMENTS, false)));
        let call = &l.calls[3];
        assert_eq!(call.reads, [Temp(0), Temp(1), Temp(2), Arg(5), Temp(4), Arg(11)]);
        assert_eq!((call.writes[0].0, call.writes[1].0, l.calls.len()), (Out(0), Out(1), 4));
    }

    #[test]
    fn gradients_are_sums_over_groups_of_tiles() {
        let p = params(70);
        let of = |view: bool| {
            let used = [true, true, true, true, true, view];
            lowered(Op::SPLAT_RENDER_BACKWARD, &[&[4, 5, 4]], 70, &[], &used)
        };
        let l = of(true);
        assert_eq!(l.calls[0].reads, (1..7).map(Arg).collect::<Vec<Buf>>());
        let (call, groups) = (&l.calls[2], p.groups());
        assert_eq!(call.reads, [Arg(0), Temp(0), Temp(1), Temp(2), Arg(6)]);
        assert_eq!(call.writes[..2], [(Temp(4), PerUnit(70 * MOMENTS)), (Temp(5), PerUnit(VIEW_SUMS))]);
        assert_eq!((call.whole, call.units, call.looks.is_some()), (0b11111, groups, true));
        let sizes = [(4, groups * 70 * MOMENTS, false), (4, groups * VIEW_SUMS, false)];
        assert_eq!(l.sizes()[4..6], sizes);
        assert!(call.flops > 28_000);
        let call = &l.calls[3];
        assert_eq!(call.reads, [&[Temp(4)][..], &l.calls[0].reads[..]].concat());
        let widths = [3, 3, 4, 1, 3].into_iter().enumerate();
        assert_eq!(call.writes, widths.map(|(i, w)| (Out(i), PerUnit(SPLATS * w))).collect::<Vec<_>>());
        assert_eq!((call.flops, call.units), (28_000, p.splat_units()));
        assert_eq!(l.operands()[4], (&[Out(0), Temp(5)][..], &[(Out(5), PerUnit(12))][..]));
        assert_eq!((l.calls[4].units, l.calls.len()), (1, 5));
        // A view that needs no gradient has none.
        assert_eq!(of(false).calls.len(), 4);
    }
}
