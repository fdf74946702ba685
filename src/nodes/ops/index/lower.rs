//! Kernel calls of ops that read or write a tensor at indices.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::index;
use crate::kernels::index::ravel::Ravel;
use crate::kernels::index::scatter::Scatter;
use crate::kernels::index::{Indexed, ravel, scatter};
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::call::{Buf, Call, Looks};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::index::attrs::Scatter as Mode;
use crate::nodes::ops::index::attrs::{GatherAttrs, RavelIndexAttrs, ScatterAddAttrs, ScatterAttrs};

/// `scatter`: in place of its first operand, where that dies.
pub fn emit_scatter(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dtype, index) = (cx.dtype(0), cx.dtype(2));
    let ScatterAttrs { axis, mode, own } = ScatterAttrs::of(&cx.attrs());
    let axis = to_size_attr(axis);
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.out_dims(0), axis);
    let k = if own { cx.arg_dims(2)[axis] } else { cx.arg_dims(2).numel() };
    let p = Scatter { outer, n, k, inner, own };
    let kernel: Kernel = match mode {
        Mode::Set => scatter::set_for(dtype, index),
        Mode::Add => scatter::add_for(dtype, index)?,
        Mode::Mul => scatter::mul_for(dtype, index)?,
        Mode::Max => scatter::max_for(dtype, index)?,
        Mode::Min => scatter::min_for(dtype, index)?,
    };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::INDEX).reads_args(3);
    cx.call(call.looks(2, n).early().writes(Buf::Out(0), p.per_unit()).inplace(&[(0, 0)]));
    Ok(())
}

/// `ravel_index`.
pub fn emit_ravel_index(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let sizes = to_size_attrs(&RavelIndexAttrs::of(&cx.attrs()).sizes);
    let p = Ravel { len: cx.out_dims(0).numel(), axes: sizes.len() };
    let words: Vec<u64> = p.to_words().into_iter().chain(sizes.iter().map(|&n| n as u64)).collect();
    let call = Call::new(ravel::ravel_kernel_for(cx.dtype(0))?, words, p.units());
    let call = call.flops(cx.flops()).cost_class(CostClass::INDEX).looks(0, 0);
    // Each axis has its own bound.
    let looks = call.looks.map(|l| Looks { below: None, ..l });
    cx.call(Call { looks, ..call }.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

fn push_gather(cx: &mut LowerCx<'_>, kernel: Kernel, p: Indexed) -> Result<(), String> {
    let bytes = 2 * cx.out_dims(0).numel() * cx.dtype(0).size() + cx.arg_dims(1).numel() * cx.dtype(1).size();
    let call = Call::new(kernel, p.to_words(), p.units()).cost_class(CostClass::GATHER).ops(bytes as u64);
    cx.call(call.reads_args(2).looks(1, p.n).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

fn push_scatter(cx: &mut LowerCx<'_>, kernel: Kernel, p: Indexed) -> Result<(), String> {
    let call = Call::new(kernel, p.to_words(), p.units_scatter()).flops(cx.flops());
    cx.call(call.reads_args(2).looks(1, p.n).early().writes(Buf::Out(0), p.per_unit_scatter()));
    Ok(())
}

/// `gather`.
pub fn emit_gather(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), to_size_attr(GatherAttrs::of(&cx.attrs()).axis));
    let p = Indexed { outer, n, k: cx.arg_dims(1).numel(), inner };
    push_gather(cx, index::gather_kernel_for(cx.dtype(0), cx.dtype(1)), p)
}

/// `take_along_axis`.
pub fn emit_take_along_axis(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let axis = to_size_attr(GatherAttrs::of(&cx.attrs()).axis);
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), axis);
    let p = Indexed { outer, n, k: cx.arg_dims(1)[axis], inner };
    push_gather(cx, index::take_along_axis_kernel_for(cx.dtype(0), cx.dtype(1)), p)
}

/// `scatter_add`.
pub fn emit_scatter_add(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let AxisSplit { outer, n, inner } =
        split_at_axis(&cx.out_dims(0), to_size_attr(ScatterAddAttrs::of(&cx.attrs()).axis));
    let p = Indexed { outer, n, k: cx.arg_dims(1).numel(), inner };
    push_scatter(cx, scatter::scatter_add_kernel_for(cx.dtype(0), cx.dtype(1))?, p)
}

/// `scatter_along_axis`.
pub fn emit_scatter_along_axis(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let axis = to_size_attr(ScatterAddAttrs::of(&cx.attrs()).axis);
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.out_dims(0), axis);
    let p = Indexed { outer, n, k: cx.arg_dims(1)[axis], inner };
    push_scatter(cx, scatter::scatter_along_axis_add_kernel_for(cx.dtype(0), cx.dtype(1))?, p)
}
