//! Calls of losses, random draws, optimiser steps and of activations with their derivatives.

use super::{by_float, by_num_index};
use crate::kernels::abi::Kernel;
use crate::kernels::key::{self, step_key};
use crate::kernels::optim::{self, Adam, Sgd};
use crate::kernels::random::{self, Random};
use crate::kernels::slope::{self, Slope};
use crate::kernels::softmax::{self, CrossEntropy};
use crate::nodes::lower::{Buf, Call, LowerCx};

fn cross(cx: &LowerCx<'_>) -> CrossEntropy {
    let (d, a) = (cx.arg_dims(0), cx.attrs());
    CrossEntropy { rows: d[0], classes: d[1], ignore_index: a.int(0), smoothing: a.f64(1) }
}

/// `softmax_cross_entropy`.
pub fn cross_entropy(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = cross(cx);
    let kernel = by_num_index!(float cx.dtype(0), cx.dtype(1), softmax::cross_entropy)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).reads_args(2);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()));
    Ok(())
}

/// `softmax_cross_entropy_backward`.
pub fn cross_entropy_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = cross(cx);
    let kernel = by_num_index!(float cx.dtype(0), cx.dtype(1), softmax::cross_entropy_backward)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops());
    cx.call(call.reads_args(4).writes(Buf::Out(0), p.per_unit_logits()).inplace(&[(0, 0)]));
    Ok(())
}

fn draw(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let p = Random { len: cx.out_dims(0).numel(), stream: cx.attrs().int(0) as u64 };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops());
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

/// `sgd`.
pub fn sgd(cx: &mut LowerCx<'_>) -> Result<(), String> {
    sgd_call(cx, cx.arg_dims(0).numel(), cx.attrs().f64(0), &[0, 1, 2].map(Buf::Arg))
}

/// The call of a plain step into the first result; `reads` are p, its gradient, the rate.
pub fn sgd_call(cx: &mut LowerCx<'_>, len: usize, weight_decay: f64, reads: &[Buf]) -> Result<(), String> {
    let p = Sgd { len, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay, scaled: false };
    let call = Call::new(by_float!(cx.dtype(0), optim::sgd_update)?, p.to_words(), p.units()).flops(4 * len as u64);
    cx.call(call.reads(reads).writes(Buf::Out(0), p.per_unit()).inplace(&[(0, 0)]));
    Ok(())
}

/// `sgd_momentum`.
pub fn sgd_momentum(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (len, a) = (cx.arg_dims(0).numel(), cx.attrs());
    let p = Sgd {
        len,
        momentum: a.f64(0),
        dampening: a.f64(1),
        nesterov: a.bool(2),
        weight_decay: a.f64(3),
        scaled: false,
    };
    let call = Call::new(by_float!(cx.dtype(0), optim::sgd_update)?, p.to_words(), p.units()).flops(cx.flops());
    // The kernel wants the step number before the rate.
    let call = call.reads(&[0, 1, 2, 4, 3].map(Buf::Arg));
    let call = call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit());
    cx.call(call.inplace(&[(0, 0), (2, 1)]));
    Ok(())
}

/// `adam`.
pub fn adam(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (len, a) = (cx.arg_dims(0).numel(), cx.attrs());
    let p = Adam {
        len,
        beta1: a.f64(0),
        beta2: a.f64(1),
        eps: a.f64(2),
        weight_decay: a.f64(3),
        decoupled: a.bool(4),
        scaled: false,
    };
    let call = Call::new(by_float!(cx.dtype(0), optim::adam_update)?, p.to_words(), p.units()).flops(cx.flops());
    let call = (0..3).fold(call.reads_args(6), |call, i| call.writes(Buf::Out(i), p.per_unit()));
    cx.call(call.inplace(&[(0, 0), (2, 1), (3, 2)]));
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
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).reads_args(1);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.per_unit()).inplace(&[(0, 1), (0, 0)]));
    Ok(())
}
