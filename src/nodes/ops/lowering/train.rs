//! Calls of losses, random draws, optimiser steps and of activations with their derivatives.

use super::{by_float, by_num_index};
use crate::kernels::abi::Kernel;
use crate::kernels::key::{self, step_key};
use crate::kernels::optim::{self, Adam, Sgd};
use crate::kernels::random::{self, Random};
use crate::kernels::reduce::{self, Reduce};
use crate::kernels::slope::{self, Slope};
use crate::kernels::softmax::{self, CrossEntropy};
use crate::kernels::squares::{self, SquaredError};
use crate::kernels::work::Work;
use crate::nodes::lower::{Buf, Call, LowerCx};

fn cross(cx: &LowerCx<'_>) -> CrossEntropy {
    let (d, a) = (cx.arg_dims(0), cx.attrs());
    CrossEntropy { rows: d[0], classes: d[1], ignore_index: a.int(0), smoothing: a.f64(1) }
}

/// `softmax_cross_entropy`.
pub fn cross_entropy(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = cross(cx);
    let kernel = by_num_index!(float cx.dtype(0), cx.dtype(1), softmax::cross_entropy)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::CROSS_ENTROPY).reads_args(2);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()));
    Ok(())
}

/// `softmax_cross_entropy_backward`.
pub fn cross_entropy_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = cross(cx);
    let kernel = by_num_index!(float cx.dtype(0), cx.dtype(1), softmax::cross_entropy_backward)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::SOFTMAX);
    cx.call(call.reads_args(4).writes(Buf::Out(0), p.per_unit_logits()).inplace(&[(0, 0)]));
    Ok(())
}

/// `cross_entropy_gradient`.
pub fn cross_entropy_gradient(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = cross(cx);
    let kernel = by_num_index!(float cx.dtype(0), cx.dtype(1), softmax::cross_entropy_gradient)?;
    let mut words = p.to_words();
    words.push(cx.attrs().f64(2).to_bits());
    let call = Call::new(kernel, words, p.units()).flops(cx.flops()).work(Work::CROSS_ENTROPY).reads_args(2);
    let call = call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit());
    cx.call(call.writes(Buf::Out(2), p.per_unit_logits()).inplace(&[(0, 2)]));
    Ok(())
}

/// `squared_error_gradient`.
pub fn squared_error_gradient(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (len, dtype, mean, weight) = (cx.arg_dims(0).numel(), cx.dtype(0), cx.attrs().bool(0), cx.attrs().f64(1));
    let plan = reduce::plan(1, len, 1);
    let divisor = if mean { len } else { 0 };
    let kernel = by_float!(dtype, squares::squared_error)?;
    let call = |p: SquaredError, sums: Buf, flops: u64| {
        let call = Call::new(kernel, p.to_words(), p.units()).flops(flops).work(Work::REDUCE).reads_args(2);
        call.writes(sums, 1).writes(Buf::Out(1), p.chunk).inplace(&[(0, 1), (1, 1)])
    };
    let Some(partial) = plan.partial else {
        cx.call(call(SquaredError { len, chunk: len.max(1), divisor, weight }, Buf::Out(0), cx.flops()));
        return Ok(());
    };
    let sums = cx.temp(dtype.size(), partial.out_len());
    cx.call(call(SquaredError { len, chunk: partial.chunk, divisor: 0, weight }, sums, cx.flops()));
    let last = Reduce { divisor: len, ..plan.last };
    let join = if mean { by_float!(dtype, reduce::mean)? } else { by_float!(dtype, reduce::sum)? };
    let call = Call::new(join, last.to_words(), last.units()).work(Work::REDUCE).reads(&[sums]);
    cx.call(call.writes(Buf::Out(0), last.per_unit()));
    Ok(())
}

fn draw(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let p = Random { len: cx.out_dims(0).numel(), stream: cx.attrs().int(0) as u64 };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::RANDOM);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `rng_uniform`.
pub fn rng_uniform(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.out(0).dtype, random::rng_uniform)?;
    draw(cx, kernel)
}

/// `rng_normal`.
pub fn rng_normal(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.out(0).dtype, random::rng_normal)?;
    draw(cx, kernel)
}

/// `rng_next`.
pub fn rng_next(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let call = Call::new(step_key, [], 1).reads_args(1).writes(Buf::Out(0), key::WORDS);
    cx.call(call.inplace(&[(0, 0)]));
    Ok(())
}

/// `rng_fold`.
pub fn rng_fold(cx: &mut LowerCx<'_>) -> Result<(), String> {
    cx.call(Call::new(random::rng_fold, [], 1).reads_args(2).writes(Buf::Out(0), key::WORDS));
    Ok(())
}

/// The params of a step that has `tensors` operands for each and `scalars` after them, and whether a scale follows.
fn steps(args: usize, tensors: usize, scalars: usize) -> (usize, bool) {
    ((args - scalars) / tensors, !(args - scalars).is_multiple_of(tensors))
}

/// Elements of the largest param of a step.
fn largest(cx: &LowerCx<'_>, params: usize, tensors: usize) -> usize {
    (0..params).map(|i| cx.arg_dims(tensors * i).numel()).max().unwrap_or(0)
}

/// The call of a step that takes its operands in order: what is updated of each param is all but the gradient, which
/// comes second.
fn step_call(cx: &mut LowerCx<'_>, call: Call, params: usize, tensors: usize, reads: &[Buf]) {
    let (mut call, mut pairs) = (call.reads(reads), Vec::new());
    for i in (0..params * tensors).filter(|i| i % tensors != 1) {
        pairs.push((i, pairs.len()));
        call = call.writes(Buf::Out(pairs.len() - 1), optim::UNIT);
    }
    cx.call(call.inplace(&pairs));
}

/// `sgd`.
pub fn sgd(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let reads: Vec<Buf> = (0..cx.args()).map(Buf::Arg).collect();
    let len = largest(cx, steps(cx.args(), 2, 1).0, 2);
    sgd_call(cx, len, cx.attrs().f64(0), &reads)
}

/// The call of a plain step into the results; `reads` are p and its gradient of each param, then the rate and, if it is
/// there, the scale.
pub fn sgd_call(cx: &mut LowerCx<'_>, len: usize, weight_decay: f64, reads: &[Buf]) -> Result<(), String> {
    let (params, scaled) = steps(reads.len(), 2, 1);
    let p = Sgd { len, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay, scaled };
    let flops = (4 * len * params) as u64;
    let call = Call::new(by_float!(cx.dtype(0), optim::sgd_update)?, p.to_words(), p.units()).flops(flops);
    let call = call.work(Work::OPTIMISER);
    step_call(cx, call, params, 2, reads);
    Ok(())
}

/// `sgd_momentum`.
pub fn sgd_momentum(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (params, scaled) = steps(cx.args(), 3, 2);
    let (len, a) = (largest(cx, params, 3), cx.attrs());
    let (momentum, dampening, nesterov, weight_decay) = (a.f64(0), a.f64(1), a.bool(2), a.f64(3));
    let p = Sgd { len, momentum, dampening, nesterov, weight_decay, scaled };
    let call = Call::new(by_float!(cx.dtype(0), optim::sgd_update)?, p.to_words(), p.units()).flops(cx.flops());
    let call = call.work(Work::OPTIMISER);
    // The kernel wants the step number before the rate.
    let mut reads: Vec<Buf> = (0..cx.args()).map(Buf::Arg).collect();
    reads.swap(3 * params, 3 * params + 1);
    step_call(cx, call, params, 3, &reads);
    Ok(())
}

/// `adam`.
pub fn adam(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (params, scaled) = steps(cx.args(), 4, 2);
    let (len, a) = (largest(cx, params, 4), cx.attrs());
    let (beta1, beta2, eps, weight_decay) = (a.f64(0), a.f64(1), a.f64(2), a.f64(3));
    let p = Adam { len, beta1, beta2, eps, weight_decay, decoupled: a.bool(4), scaled };
    let call = Call::new(by_float!(cx.dtype(0), optim::adam_update)?, p.to_words(), p.units()).flops(cx.flops());
    let call = call.work(Work::OPTIMISER);
    let reads: Vec<Buf> = (0..cx.args()).map(Buf::Arg).collect();
    step_call(cx, call, params, 4, &reads);
    Ok(())
}

/// `act_slope`.
pub fn act_slope(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = Slope { len: cx.arg_dims(0).numel() };
    let kernel = match cx.attrs().choice(0) {
        0 => by_float!(cx.dtype(0), slope::gelu)?,
        1 => by_float!(cx.dtype(0), slope::gelu_tanh)?,
        _ => by_float!(cx.dtype(0), slope::silu)?,
    };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::ACTIVATION).reads_args(1);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()).inplace(&[(0, 1), (0, 0)]));
    Ok(())
}
