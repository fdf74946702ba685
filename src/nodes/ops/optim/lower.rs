//! Kernel calls of optimiser steps and of fused weight updates.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Gemm;
use crate::kernels::{gemm, optim};
use crate::nodes::ir::call::{Buf, Call, LowerCx};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::lowering::by_float;
use crate::nodes::ops::matmul::lower as dense;
use crate::nodes::ops::optim::attrs::{MatmulSgdAttrs, kernel_words};
use crate::nodes::ops::optim::fused_update::step_of;
use crate::nodes::ops::optim::layout;

/// A rule, as its kernels take it.
struct Rule {
    /// The step.
    op: Op,
    /// Its numbers.
    words: Vec<u64>,
    /// Operands of each param, its gradient among them.
    tensors: usize,
}

impl Rule {
    /// The rule of step `op`, which the node takes alone or in a product. Its largest param has `len` elements.
    fn new(cx: &LowerCx<'_>, op: Op, len: usize, scaled: bool) -> Result<Rule, String> {
        let (tensors, _) = layout(op).ok_or("not a step")?;
        let words = kernel_words(cx.op(), &cx.attrs(), len, scaled).ok_or("not a step")?;
        Ok(Rule { op, words, tensors })
    }

    /// The kernel of steps by gradients in memory, and that of a fused weight update.
    fn kernels(&self, dtype: DType) -> Result<[Kernel; 2], String> {
        Ok(match self.op {
            Op::ADAM => {
                [by_float!(dtype, optim::adam_update_kernel)?, by_float!(dtype, optim::fused_adam_update_kernel)?]
            }
            _ => [by_float!(dtype, optim::sgd_update_kernel)?, by_float!(dtype, optim::fused_sgd_update_kernel)?],
        })
    }
}

/// The call of the step of `params` params, the largest of `len` elements, by gradients in memory. `reads` holds the
/// operands of each param, then the scalars. The call updates all operands of a param but the second, its gradient.
fn step_call(
    cx: &mut LowerCx<'_>,
    rule: Rule,
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
pub fn step(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (op, args) = (cx.op(), cx.args());
    let (tensors, scalars) = layout(op).ok_or("not a step")?;
    let (params, scaled) = ((args - scalars) / tensors, !(args - scalars).is_multiple_of(tensors));
    let len = (0..params).map(|i| cx.arg_dims(tensors * i).numel()).max().unwrap_or(0);
    let reads: Vec<Buf> = (0..args).map(Buf::Arg).collect();
    let rule = Rule::new(cx, op, len, scaled)?;
    step_call(cx, rule, (params, len), cx.flops(), &reads)
}

/// `matmul_sgd`, `matmul_sgd_momentum`, `matmul_adam`. The step reads the gradient tile by tile where it can; plain SGD
/// reads it from registers. Otherwise, or where sums are long, the gradient is in memory between two calls.
pub fn behind_product(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let op = step_of(cx.op()).ok_or("not a step behind a product")?;
    let (dtype, g) = (cx.dtype(0), Gemm { precision: cx.precision, ..dense::product(cx)? });
    let (tensors, scalars) = layout(op).ok_or("not a step")?;
    let scaled = cx.args() > 1 + tensors + scalars;
    let rule = Rule::new(cx, op, g.len(), scaled)?;
    let (fuses, feeds) = match dtype {
        DType::F32 => (g.fuses_sgd::<f32>(), g.feeds_sink::<f32>()),
        _ => (g.fuses_sgd::<f64>(), g.feeds_sink::<f64>()),
    };
    let mut words = g.to_words();
    if fuses && op == Op::SGD && !scaled {
        words.push(MatmulSgdAttrs::of(&cx.attrs()).weight_decay.to_bits());
        let (kernel, scratch) = match dtype {
            DType::F32 => (gemm::sgd_kernel::<f32>(&g), g.sgd_scratch::<f32>()),
            _ => (gemm::sgd_kernel::<f64>(&g), g.sgd_scratch::<f64>()),
        };
        return product_call(cx, &g, (kernel, words), 1, scratch);
    }
    // Blocks need all of k. Where k is longer than a side, each thread would need more memory than the gradient.
    if feeds && g.k <= g.m.min(g.n) {
        let scratch = if dtype == DType::F32 { g.sink_scratch::<f32>() } else { g.sink_scratch::<f64>() };
        words.extend(&rule.words);
        return product_call(cx, &g, (rule.kernels(dtype)?[1], words), tensors - 1, scratch);
    }
    let (gradient, flops) = (cx.temp(dtype.size(), g.len()), 2 * (g.len() * g.k) as u64);
    dense::push_product(cx, g, &[Buf::Arg(0), Buf::Arg(1)], gradient, flops)?;
    let reads: Vec<Buf> = [Buf::Arg(2), gradient].into_iter().chain((3..cx.args()).map(Buf::Arg)).collect();
    step_call(cx, rule, (1, g.len()), cx.flops().saturating_sub(flops), &reads)
}

/// The call of a step that computes its gradient and updates `updated` tensors.
fn product_call(
    cx: &mut LowerCx<'_>,
    g: &Gemm,
    (kernel, words): (Kernel, Vec<u64>),
    updated: usize,
    scratch: usize,
) -> Result<(), String> {
    let call = Call::new(kernel, words, g.units()).flops(cx.flops()).reads_args(cx.args());
    let mut call = call.cost_class(dense::work(cx.dtype(0), g)).whole(dense::whole(g));
    for i in 0..updated {
        call = call.writes(Buf::Out(i), g.per_unit()).inplace(&[(2 + i, i)]);
    }
    let call = if scratch > 0 { call.scratch(cx.scratch(cx.dtype(0).size(), scratch)) } else { call };
    cx.call(call);
    Ok(())
}
