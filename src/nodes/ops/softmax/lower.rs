//! Kernel calls of softmaxes.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::softmax;
use crate::kernels::softmax::Softmax;
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::softmax::attrs::SoftmaxAttrs;

/// A call along the axis. If the axis is contiguous, the kernel may write over operand `over`.
fn emit_along_axis(cx: &mut LowerCx<'_>, kernel: Kernel, over: Option<usize>) -> Result<(), String> {
    let axis = to_size_attr(SoftmaxAttrs::of(&cx.attrs()).axis);
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), axis);
    let p = Softmax { outer, n, inner };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::SOFTMAX);
    let pairs: Vec<(usize, usize)> = over.filter(|_| inner == 1).map(|r| (r, 0)).into_iter().collect();
    cx.call(call.reads_args(cx.args()).writes(Buf::Out(0), p.per_unit()).inplace(&pairs));
    Ok(())
}

/// `softmax`.
pub fn emit_softmax(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = softmax::softmax_kernel_for(cx.dtype(0))?;
    emit_along_axis(cx, kernel, Some(0))
}

/// `softmax_backward`.
pub fn emit_softmax_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = softmax::softmax_backward_kernel_for(cx.dtype(0))?;
    emit_along_axis(cx, kernel, Some(1))
}

/// `log_softmax`.
pub fn emit_log_softmax(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = softmax::log_softmax_kernel_for(cx.dtype(0))?;
    emit_along_axis(cx, kernel, Some(0))
}

/// `log_softmax_backward`.
pub fn emit_log_softmax_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = softmax::log_softmax_backward_kernel_for(cx.dtype(0))?;
    emit_along_axis(cx, kernel, None)
}
