//! Kernel calls of losses.

use crate::kernels::cost_model::CostClass;
use crate::kernels::reduce::Reduce;
use crate::kernels::reduce::squared_error;
use crate::kernels::reduce::squared_error::SquaredError;
use crate::kernels::softmax::CrossEntropy;
use crate::kernels::{reduce, softmax};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::loss::attrs::{CrossEntropyAttrs, CrossEntropyGradientAttrs, SquaredErrorAttrs};

fn read_params(cx: &LowerCx<'_>) -> CrossEntropy {
    let (d, a) = (cx.arg_dims(0), CrossEntropyAttrs::of(&cx.attrs()));
    CrossEntropy { rows: d[0], classes: d[1], ignore_index: a.ignore_index, smoothing: a.label_smoothing }
}

/// `softmax_cross_entropy`.
pub fn emit_softmax_cross_entropy(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = read_params(cx);
    let kernel = softmax::cross_entropy_kernel_for(cx.dtype(0), cx.dtype(1))?;
    let call =
        Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::CROSS_ENTROPY).reads_args(2);
    let call = call.looks(1, p.classes).or(p.ignore_index);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()));
    Ok(())
}

/// `softmax_cross_entropy_backward`.
pub fn emit_softmax_cross_entropy_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = read_params(cx);
    let kernel = softmax::cross_entropy_backward_kernel_for(cx.dtype(0), cx.dtype(1))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::SOFTMAX);
    let call = call.looks(1, p.classes).or(p.ignore_index);
    cx.call(call.reads_args(4).writes(Buf::Out(0), p.per_unit_logits()).inplace(&[(0, 0)]));
    Ok(())
}

/// `cross_entropy_gradient`.
pub fn emit_cross_entropy_gradient(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = read_params(cx);
    let kernel = softmax::cross_entropy_gradient_kernel_for(cx.dtype(0), cx.dtype(1))?;
    let mut words = p.to_words();
    words.push(CrossEntropyGradientAttrs::of(&cx.attrs()).weight.to_bits());
    let call = Call::new(kernel, words, p.units()).flops(cx.flops()).cost_class(CostClass::CROSS_ENTROPY).reads_args(2);
    let call = call.looks(1, p.classes).or(p.ignore_index);
    let call = call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit());
    cx.call(call.writes(Buf::Out(2), p.per_unit_logits()).inplace(&[(0, 2)]));
    Ok(())
}

/// `squared_error_gradient`.
pub fn emit_squared_error_gradient(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (len, dtype) = (cx.arg_dims(0).numel(), cx.dtype(0));
    let SquaredErrorAttrs { mean, weight } = SquaredErrorAttrs::of(&cx.attrs());
    let plan = reduce::plan_steps(1, len, 1);
    let divisor = if mean { len } else { 0 };
    let kernel = squared_error::squared_error_kernel_for(dtype)?;
    let call = |p: SquaredError, sums: Buf, flops: u64| {
        let call = Call::new(kernel, p.to_words(), p.units()).flops(flops).cost_class(CostClass::REDUCE).reads_args(2);
        call.writes(sums, 1).writes(Buf::Out(1), p.chunk).inplace(&[(0, 1), (1, 1)])
    };
    let Some(partial) = plan.partial else {
        cx.call(call(SquaredError { len, chunk: len.max(1), divisor, weight }, Buf::Out(0), cx.flops()));
        return Ok(());
    };
    let sums = cx.temp(dtype.size(), partial.out_len());
    cx.call(call(SquaredError { len, chunk: partial.chunk, divisor: 0, weight }, sums, cx.flops()));
    let last = Reduce { divisor: len, ..plan.last };
    let join = if mean { reduce::reduce_mean_kernel_for(dtype)? } else { reduce::sum_for(dtype)? };
    let call = Call::new(join, last.to_words(), last.units()).cost_class(CostClass::REDUCE).reads(&[sums]);
    cx.call(call.writes(Buf::Out(0), last.per_unit()));
    Ok(())
}
