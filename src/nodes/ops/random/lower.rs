//! Kernel calls of random draws.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::random;
use crate::kernels::random::Random;
use crate::kernels::random::key::{self, step_key_kernel};
use crate::kernels::random::sample::{Sample, sample_kernel_for};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::random::attrs::{DrawAttrs, RandomIntAttrs, SampleAttrs};

fn emit_draw(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let p = Random { len: cx.out_dims(0).numel(), stream: DrawAttrs::of(&cx.attrs()).stream as u64 };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::RANDOM);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `rng_uniform`.
pub fn emit_rng_uniform(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = random::random_uniform_kernel_for(cx.out(0).dtype)?;
    emit_draw(cx, kernel)
}

/// `rng_normal`.
pub fn emit_rng_normal(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = random::random_normal_kernel_for(cx.out(0).dtype)?;
    emit_draw(cx, kernel)
}

/// `rng_int`.
pub fn emit_rng_int(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let RandomIntAttrs { stream, low, high, dtype, .. } = RandomIntAttrs::of(&cx.attrs());
    let span = (high as u64).wrapping_sub(low as u64);
    let p = random::Int { len: cx.out_dims(0).numel(), stream: stream as u64, low: low as u64, span };
    let call = Call::new(random::random_int_kernel_for(dtype)?, p.to_words(), p.units())
        .flops(cx.flops())
        .cost_class(CostClass::RANDOM);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `rng_next`.
pub fn emit_rng_next(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let call = Call::new(step_key_kernel, [], 1).reads_args(1).writes(Buf::Out(0), key::WORDS);
    cx.call(call.inplace(&[(0, 0)]));
    Ok(())
}

/// `rng_fold`.
pub fn emit_rng_fold(cx: &mut LowerCx<'_>) -> Result<(), String> {
    cx.call(Call::new(key::fold_key_kernel, [], 1).reads_args(2).writes(Buf::Out(0), key::WORDS));
    Ok(())
}

pub(super) fn emit_sample(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let SampleAttrs { stream, temperature, top_k, top_p } = SampleAttrs::of(&cx.attrs());
    let (d, rows) = (cx.arg_dims(0), cx.out_dims(0).numel());
    let n = d.last().copied().unwrap_or(1);
    let p = Sample { rows, n, stream: stream as u64, temperature, top_k: to_size_attr(top_k), top_p };
    let kernel = sample_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::SAMPLE).faults();
    let call = call.reads_args(2).writes(Buf::Out(0), p.per_unit());
    let call = call.scratch(cx.scratch(size_of::<i32>(), n)).scratch(cx.scratch(size_of::<f64>(), n));
    cx.call(call);
    Ok(())
}
