//! Kernel calls of sorts and running extremes.

use crate::kernels::cost_model::CostClass;
use crate::kernels::cum_arg_max::CumArgMax;
use crate::kernels::sort::Sort;
use crate::kernels::top_k::{TopK, top_k_kernel_for};
use crate::kernels::{cum_arg_max, sort};
use crate::nodes::build::axes::{AxisSplit, split_at_axis};
use crate::nodes::build::size_attrs::to_size;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, CumArgMaxAttrs, TopKAttrs};

/// `arg_sort` along the last axis.
pub fn arg_sort(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let n = d.last().copied().unwrap_or(1);
    let ArgSortAttrs { descending } = ArgSortAttrs::of(&cx.attrs());
    let p = Sort { rows: d[..d.len().saturating_sub(1)].iter().product(), n, descending };
    let kernel = sort::arg_sort_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::SORT);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `top_k` along the last axis.
pub fn top_k(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let n = d.last().copied().unwrap_or(1);
    let p = TopK { rows: d[..d.len().saturating_sub(1)].iter().product(), n, k: to_size(TopKAttrs::of(&cx.attrs()).k) };
    let kernel = top_k_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::TOP_K);
    let call = call.reads_args(1).writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit());
    let call = call.scratch(cx.scratch(size_of::<i32>(), p.scratch()));
    cx.call(call);
    Ok(())
}

/// `cum_arg_max`.
pub fn cum_arg_max(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let CumArgMaxAttrs { axis, smallest } = CumArgMaxAttrs::of(&cx.attrs());
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), to_size(axis));
    let p = CumArgMax { outer, n, inner, smallest };
    let kernel = cum_arg_max::cum_arg_max_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::RUNNING);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
