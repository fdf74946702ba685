//! Kernel calls of pools.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::pool;
use crate::kernels::pool::PoolGeom;
use crate::kernels::window::Units;
use crate::kernels::window::WindowGeometry;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::first_entries;
use crate::nodes::ops::index::index_bounds::has_pool_positions;
use crate::nodes::ops::pool::attrs::{AvgPoolAttrs, AvgPoolBackwardAttrs, SumPoolAttrs, SumPoolBackwardAttrs};
use crate::nodes::ops::pool::last_two_dims;

/// The kernels' parameters of a pool of `[n, c, …]`.
pub(in crate::nodes::ops) fn pool_geom(nc: &[usize], windows: WindowGeometry<2>) -> PoolGeom {
    let [n, c] = first_entries(nc);
    PoolGeom { n, c, windows }
}

/// `max_pool2d`; positions are not written if no instruction reads them.
pub fn emit_max_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let g = pool_geom(&d, WindowAttrs::of(&cx.attrs()).over(last_two_dims(&d)));
    let units = g.y_units();
    let kernel = pool::max_pool2d_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    let call = call.reads_args(1).writes(Buf::Out(0), units.per_unit);
    cx.call(if cx.used[1] { call.writes(Buf::Out(1), units.per_unit) } else { call });
    Ok(())
}

/// A geometry of windows with the given plane and number of windows: all that moving between them depends on.
pub(in crate::nodes::ops) fn moving_geom(nc: &[usize], plane: [usize; 2], count: [usize; 2]) -> PoolGeom {
    let kernel = [0, 1].map(|a| plane[a].saturating_sub(count[a]) + 1);
    let more = [0, 1].map(|a| count[a].saturating_sub(plane[a]));
    let pad = more.map(|n| [0, n]);
    pool_geom(nc, WindowGeometry { pad, ..WindowGeometry::new(plane, kernel) })
}

/// `max_pool2d_backward`.
pub fn emit_max_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dy, dx) = (cx.arg_dims(0), cx.out_dims(0));
    let g = moving_geom(&dy, last_two_dims(&dx), last_two_dims(&dy));
    let units = g.x_units();
    let kernel = pool::max_pool2d_backward_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    push_moves(cx, call.writes(Buf::Out(0), units.per_unit), last_two_dims(&dx));
    Ok(())
}

/// Adds `call`, which moves between windows and planes by positions in the planes, its second operand.
fn push_moves(cx: &mut LowerCx<'_>, call: Call, plane: [usize; 2]) {
    let area = plane.iter().product();
    let call = call.reads_args(2).looks(1, area).or(-1);
    let sure = has_pool_positions(&cx.graph, cx.graph.args_of(cx.node)[1], area);
    cx.call(if sure { call.sure() } else { call });
}

/// `max_pool2d_gather`.
pub fn emit_max_pool2d_gather(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (x, y) = (cx.arg_dims(0), cx.out_dims(0));
    let g = moving_geom(&x, last_two_dims(&x), last_two_dims(&y));
    let units = g.y_units();
    let kernel = pool::max_pool2d_gather_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    push_moves(cx, call.writes(Buf::Out(0), units.per_unit), last_two_dims(&x));
    Ok(())
}

fn push_mean(cx: &mut LowerCx<'_>, kernel: Kernel, g: &PoolGeom, units: Units, count_pad: bool) -> Result<(), String> {
    let flags = if count_pad { pool::COUNT_PAD } else { 0 };
    let call = Call::new(kernel, [&g.to_words()[..], &[flags]].concat(), units.count)
        .flops(cx.flops())
        .cost_class(CostClass::POOL);
    cx.call(call.reads_args(1).writes(Buf::Out(0), units.per_unit));
    Ok(())
}

/// `avg_pool2d`.
pub fn emit_avg_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, a) = (cx.arg_dims(0), AvgPoolAttrs::of(&cx.attrs()));
    let g = pool_geom(&d, a.windows().over(last_two_dims(&d)));
    let kernel = pool::avg_pool2d_kernel_for(cx.dtype(0))?;
    push_mean(cx, kernel, &g, g.y_units(), a.count_include_pad)
}

/// `avg_pool2d_backward`.
pub fn emit_avg_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, a) = (cx.out_dims(0), AvgPoolBackwardAttrs::of(&cx.attrs()));
    let g = pool_geom(&d, a.windows().over(last_two_dims(&d)));
    let kernel = pool::avg_pool2d_backward_kernel_for(cx.dtype(0))?;
    push_mean(cx, kernel, &g, g.x_units(), a.count_include_pad)
}

/// A pool of sums with these windows, from or to planes.
fn push_sum(cx: &mut LowerCx<'_>, kernel: Kernel, g: &PoolGeom, units: Units) -> Result<(), String> {
    let call = Call::new(kernel, [&g.to_words()[..], &[pool::SUM]].concat(), units.count)
        .flops(cx.flops())
        .cost_class(CostClass::POOL);
    cx.call(call.reads_args(1).writes(Buf::Out(0), units.per_unit));
    Ok(())
}

/// `sum_pool2d`.
pub fn emit_sum_pool2d(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let g = pool_geom(&d, SumPoolAttrs::of(&cx.attrs()).windows().over(last_two_dims(&d)));
    push_sum(cx, pool::avg_pool2d_kernel_for(cx.dtype(0))?, &g, g.y_units())
}

/// `sum_pool2d_backward`.
pub fn emit_sum_pool2d_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.out_dims(0);
    let g = pool_geom(&d, SumPoolBackwardAttrs::of(&cx.attrs()).windows().over(last_two_dims(&d)));
    push_sum(cx, pool::avg_pool2d_backward_kernel_for(cx.dtype(0))?, &g, g.x_units())
}
