//! Kernel calls of optimiser steps and of fused weight updates.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Gemm;
use crate::kernels::optim::rows::{self, AdagradRows, AdamRows, Rows};
use crate::kernels::optim::{Adam, Sgd};
use crate::kernels::{gemm, optim};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::matmul::lower::{emit_product_call, product_cost_class, product_of_operands, whole_operands};
use crate::nodes::ops::optim::attrs::{
    AdagradRowsAttrs, AdamAttrs, AdamRowsAttrs, CoalesceAttrs, MatmulAdamAttrs, MatmulSgdAttrs, MatmulSgdMomentumAttrs,
    SgdAttrs, SgdMomentumAttrs,
};
use crate::nodes::ops::optim::{step_layout, step_of_fused_form};

/// A rule, as its kernels take it.
struct LoweredOptimStep {
    /// The step.
    op: Op,
    /// Its numbers.
    words: Vec<u64>,
    /// Operands of each param, its gradient among them.
    tensors: usize,
}

impl LoweredOptimStep {
    /// The rule of step `op`, which the node takes alone or in a product. Its largest param has `len` elements.
    fn new(cx: &LowerCx<'_>, op: Op, len: usize, scaled: bool) -> Result<LoweredOptimStep, String> {
        let (tensors, _) = step_layout(op).ok_or("not a step")?;
        let words = step_words(cx.op(), &cx.attrs(), len, scaled).ok_or("not a step")?;
        Ok(LoweredOptimStep { op, words, tensors })
    }

    /// The kernel of steps by gradients in memory, and that of a fused weight update.
    fn kernels(&self, dtype: DType) -> Result<[Kernel; 2], String> {
        Ok(match self.op {
            Op::ADAM => [optim::adam_update_kernel_for(dtype)?, optim::fused_adam_update_kernel_for(dtype)?],
            _ => [optim::sgd_update_kernel_for(dtype)?, optim::fused_sgd_update_kernel_for(dtype)?],
        })
    }
}

/// The call of the step of `params` params, the largest of `len` elements, by gradients in memory. `reads` holds the
/// operands of each param, then the scalars. The call updates all operands of a param but the second, its gradient.
fn push_step(
    cx: &mut LowerCx<'_>,
    rule: LoweredOptimStep,
    (params, len): (usize, usize),
    flops: u64,
    reads: &[Buf],
) -> Result<(), String> {
    let kernel = rule.kernels(cx.dtype(0))?[0];
    let call = Call::new(kernel, rule.words, len.div_ceil(optim::UNIT)).flops(flops).cost_class(CostClass::OPTIMISER);
    let (mut call, mut pairs) = (call.reads(reads), Vec::new());
    for i in (0..params * rule.tensors).filter(|i| i % rule.tensors != 1) {
        pairs.push((i, pairs.len()));
        call = call.writes(Buf::Out(pairs.len() - 1), optim::UNIT);
    }
    cx.call(call.inplace(&pairs));
    Ok(())
}

/// `sgd`, `sgd_momentum`, `adam`.
pub fn emit_step(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (op, args) = (cx.op(), cx.args());
    let (tensors, scalars) = step_layout(op).ok_or("not a step")?;
    let (params, scaled) = ((args - scalars) / tensors, !(args - scalars).is_multiple_of(tensors));
    let len = (0..params).map(|i| cx.arg_dims(tensors * i).numel()).max().unwrap_or(0);
    let reads: Vec<Buf> = (0..args).map(Buf::Arg).collect();
    let rule = LoweredOptimStep::new(cx, op, len, scaled)?;
    push_step(cx, rule, (params, len), cx.flops(), &reads)
}

/// The rows of `n` that indices, operand `idx`, name. The gradient has as many elements as operand `g`.
fn rows_of_operands(cx: &LowerCx<'_>, n: usize, [g, idx]: [usize; 2]) -> Result<Rows, String> {
    let k = cx.arg_dims(idx).numel();
    match k <= rows::MOST_INDICES {
        true => Ok(Rows { n, k, inner: cx.arg_dims(g)[cx.arg_dims(idx).len()..].iter().product() }),
        false => Err(format!("{k} indices are more than a step on rows can take ({})", rows::MOST_INDICES)),
    }
}

/// `sgd_rows`, `adagrad_rows`, `adam_rows`.
pub fn emit_rows_step(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dtype, index, attrs) = (cx.dtype(0), cx.dtype(2), cx.attrs());
    let p = rows_of_operands(cx, cx.arg_dims(0)[0], [1, 2])?;
    let (kernel, rule, states) = match cx.op() {
        Op::SGD_ROWS => (rows::sgd_rows_kernel_for(dtype, index)?, Vec::new(), 0),
        Op::ADAGRAD_ROWS => {
            let AdagradRowsAttrs { eps } = AdagradRowsAttrs::of(&attrs);
            (rows::adagrad_rows_kernel_for(dtype, index)?, AdagradRows { eps }.to_words(), 1)
        }
        _ => {
            let AdamRowsAttrs { beta1, beta2, eps, weight_decay } = AdamRowsAttrs::of(&attrs);
            let rule = AdamRows { beta1, beta2, eps, weight_decay };
            (rows::adam_rows_kernel_for(dtype, index)?, rule.to_words(), 2)
        }
    };
    let call = Call::new(kernel, [p.to_words(), rule].concat(), p.units(p.n));
    let call = call.flops(cx.flops()).cost_class(CostClass::ROWS).ops((1 + states) * p.elements());
    let mut call = call.reads_args(cx.args()).looks(2, p.n).early();
    let tensors = 1 + states as usize;
    for j in 0..tensors {
        call = call.writes(Buf::Out(j), p.per_unit()).inplace(&[(if j == 0 { 0 } else { 2 + j }, j)]);
    }
    let scratch = [cx.scratch(size_of::<u32>(), p.places()), cx.scratch(dtype.size(), p.inner)];
    cx.call(scratch.into_iter().fold(call, Call::scratch));
    Ok(())
}

/// `coalesce`.
pub fn emit_coalesce(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let n = to_size_attr(CoalesceAttrs::of(&cx.attrs()).size);
    let p = rows_of_operands(cx, n, [0, 1])?;
    let call = Call::new(rows::coalesce_kernel_for(cx.dtype(0), cx.dtype(1))?, p.to_words(), p.units(p.k));
    let call = call.flops(cx.flops()).cost_class(CostClass::ROWS).ops(p.elements()).reads_args(2).looks(1, n).early();
    let scratch = cx.scratch(size_of::<u32>(), p.places());
    cx.call(call.writes(Buf::Out(0), p.per_unit()).scratch(scratch));
    Ok(())
}

/// `matmul_sgd`, `matmul_sgd_momentum`, `matmul_adam`. The step reads the gradient tile by tile where it can; plain SGD
/// reads it from registers. Otherwise, or where sums are long, the gradient is in memory between two calls.
pub fn emit_fused_update(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let op = step_of_fused_form(cx.op()).ok_or("not a step behind a product")?;
    let (dtype, g) = (cx.dtype(0), Gemm { precision: cx.precision, ..product_of_operands(cx)? });
    let (tensors, scalars) = step_layout(op).ok_or("not a step")?;
    let scaled = cx.args() > 1 + tensors + scalars;
    let rule = LoweredOptimStep::new(cx, op, g.len(), scaled)?;
    let mut words = g.to_words();
    if g.fuses_sgd_for(dtype) && op == Op::SGD && !scaled {
        words.push(MatmulSgdAttrs::of(&cx.attrs()).weight_decay.to_bits());
        return push_fused_update(cx, &g, (gemm::sgd_step_kernel_for(dtype, &g)?, words), 1, g.sgd_scratch_for(dtype));
    }
    // Blocks need all of k. Where k is longer than a side, each thread would need more memory than the gradient.
    if g.feeds_sink_for(dtype) && g.k <= g.m.min(g.n) {
        words.extend(&rule.words);
        return push_fused_update(cx, &g, (rule.kernels(dtype)?[1], words), tensors - 1, g.sink_scratch_for(dtype));
    }
    let (gradient, flops) = (cx.temp(dtype.size(), g.len()), 2 * (g.len() * g.k) as u64);
    emit_product_call(cx, g, &[Buf::Arg(0), Buf::Arg(1)], gradient, flops)?;
    let reads: Vec<Buf> = [Buf::Arg(2), gradient].into_iter().chain((3..cx.args()).map(Buf::Arg)).collect();
    push_step(cx, rule, (1, g.len()), cx.flops().saturating_sub(flops), &reads)
}

/// The call of a step that computes its gradient and updates `updated` tensors.
fn push_fused_update(
    cx: &mut LowerCx<'_>,
    g: &Gemm,
    (kernel, words): (Kernel, Vec<u64>),
    updated: usize,
    scratch: usize,
) -> Result<(), String> {
    let call = Call::new(kernel, words, g.units()).flops(cx.flops()).reads_args(cx.args());
    let mut call = call.cost_class(product_cost_class(cx.dtype(0), g)).whole(whole_operands(g));
    for i in 0..updated {
        call = call.writes(Buf::Out(i), g.per_unit()).inplace(&[(2 + i, i)]);
    }
    let call = if scratch > 0 { call.scratch(cx.scratch(cx.dtype(0).size(), scratch)) } else { call };
    cx.call(call);
    Ok(())
}

/// The numbers of a step's kernel as words, for an op with attributes `a`: a step, or a fused weight update. The
/// largest param has `len` elements; `scaled` says whether a scalar multiplies the gradients. `None` for another op.
fn step_words(op: Op, a: &Attrs<'_>, len: usize, scaled: bool) -> Option<Vec<u64>> {
    Some(match op {
        Op::SGD => optim_sgd_words(SgdAttrs::of(a), len, scaled),
        Op::MATMUL_SGD => optim_sgd_words(MatmulSgdAttrs::of(a).step_attrs(), len, scaled),
        Op::SGD_MOMENTUM => sgd_momentum_words(SgdMomentumAttrs::of(a), len, scaled),
        Op::MATMUL_SGD_MOMENTUM => sgd_momentum_words(MatmulSgdMomentumAttrs::of(a).step_attrs(), len, scaled),
        Op::ADAM => adam_words(AdamAttrs::of(a), len, scaled),
        Op::MATMUL_ADAM => adam_words(MatmulAdamAttrs::of(a).step_attrs(), len, scaled),
        _ => return None,
    })
}

fn optim_sgd_words(SgdAttrs { weight_decay }: SgdAttrs, len: usize, scaled: bool) -> Vec<u64> {
    Sgd { len, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay, scaled }.to_words()
}

fn sgd_momentum_words(a: SgdMomentumAttrs, len: usize, scaled: bool) -> Vec<u64> {
    let SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay } = a;
    Sgd { len, momentum, dampening, nesterov, weight_decay, scaled }.to_words()
}

fn adam_words(a: AdamAttrs, len: usize, scaled: bool) -> Vec<u64> {
    let AdamAttrs { beta1, beta2, eps, weight_decay, decoupled } = a;
    Adam { len, beta1, beta2, eps, weight_decay, decoupled, scaled }.to_words()
}
