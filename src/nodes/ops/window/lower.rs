//! Kernel calls of `unfold` and `fold` (im2col and col2im).

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::pool::PoolGeom;
use crate::kernels::window::im2col;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::pool::last_two_dims;
use crate::nodes::ops::pool::lower::pool_geom;
use crate::nodes::ops::window::attrs::Col2imAttrs;

/// `im2col`.
pub fn emit_im2col(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let g = pool_geom(&d, WindowAttrs::of(&cx.attrs()).over(last_two_dims(&d)));
    emit_unfold(cx, im2col::im2col_kernel_for(cx.dtype(0))?, &g, true)
}

/// `col2im`.
pub fn emit_col2im(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.out_dims(0);
    let g = pool_geom(&d, WindowAttrs::from(Col2imAttrs::of(&cx.attrs())).over(last_two_dims(&d)));
    emit_unfold(cx, im2col::col2im_kernel_for(cx.dtype(0))?, &g, false)
}

fn emit_unfold(cx: &mut LowerCx<'_>, kernel: Kernel, g: &PoolGeom, columns: bool) -> Result<(), String> {
    let units = im2col::plane_units(g, columns);
    let call = Call::new(kernel, g.to_words(), units.count).flops(cx.flops()).cost_class(CostClass::POOL);
    cx.call(call.reads_args(1).writes(Buf::Out(0), units.per_unit));
    Ok(())
}
