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
