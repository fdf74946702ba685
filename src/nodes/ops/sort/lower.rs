//! Kernel calls of sorts.

use crate::kernels::abi::Split;
use crate::kernels::cost_model::CostClass;
use crate::kernels::sort;
use crate::kernels::sort::Sort;
use crate::kernels::sort::top_k::{TopK, top_k_kernel_for};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, TopKAttrs};

/// Scratch of `len` elements, each twice as large as one of operand 0, for each thread that runs one of `units` units:
/// a long row is one unit, and its scratch is needed once.
fn sort_scratch(cx: &mut LowerCx<'_>, units: usize, len: usize) -> (Buf, Split) {
    let size = 2 * cx.dtype(0).size();
    match units {
        1 => (cx.temp(size, len), Split::PerUnit(len)),
        _ => cx.scratch(size, len),
    }
}

/// `arg_sort` along the last axis.
pub fn emit_arg_sort(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let n = d.last().copied().unwrap_or(1);
    let ArgSortAttrs { descending } = ArgSortAttrs::of(&cx.attrs());
    let p = Sort { rows: d[..d.len().saturating_sub(1)].iter().product(), n, descending };
    let kernel = sort::arg_sort_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::SORT);
    let scratch = sort_scratch(cx, p.units(), p.scratch());
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()).scratch(scratch));
    Ok(())
}

/// `top_k` along the last axis.
pub fn emit_top_k(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let n = d.last().copied().unwrap_or(1);
    let p = TopK {
        rows: d[..d.len().saturating_sub(1)].iter().product(),
        n,
        k: to_size_attr(TopKAttrs::of(&cx.attrs()).k),
    };
    let kernel = top_k_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::TOP_K);
    let call = call.reads_args(1).writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit());
    let scratch = sort_scratch(cx, p.units(), p.scratch());
    cx.call(call.scratch(scratch));
    Ok(())
}
