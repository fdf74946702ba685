//! Kernel calls of norms.

use crate::arena::dims::Dims;
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::cost_model::CostClass;
use crate::kernels::norm::batch_norm::BatchNormGrad;
use crate::kernels::norm::group_norm::{GroupNorm, GroupNormGrad};
use crate::kernels::norm::layer_norm::LayerNorm;
use crate::kernels::norm::residual_norm::ResidualNorm;
use crate::kernels::norm::{batch_norm, group_norm, layer_norm, residual_norm, rms_norm};
use crate::kernels::reduce;
use crate::kernels::reduce::Reduce;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::norm::{GroupNormAttrs, NormAttrs};

/// The view of x as rows.
fn view_as_rows(d: &Dims, eps: f64) -> LayerNorm {
    let n = d[d.len() - 1];
    LayerNorm { rows: d[..d.len() - 1].iter().product(), n, eps, affine: true }
}

/// `layer_norm`.
pub fn emit_layer_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = view_as_rows(&cx.arg_dims(0), NormAttrs::of(&cx.attrs()).eps);
    let kernel = layer_norm::layer_norm_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::NORM).reads_args(3);
    let call = call.writes(Buf::Out(0), p.per_unit());
    cx.call(call.writes(Buf::Out(1), p.rows_per_unit()).writes(Buf::Out(2), p.rows_per_unit()));
    Ok(())
}

/// `rms_norm`.
pub fn emit_rms_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = view_as_rows(&cx.arg_dims(0), NormAttrs::of(&cx.attrs()).eps);
    let kernel = rms_norm::rms_norm_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::NORM).reads_args(3);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.rows_per_unit()));
    Ok(())
}

/// `group_norm`.
pub fn emit_group_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, GroupNormAttrs { groups, eps }) = (cx.arg_dims(0), GroupNormAttrs::of(&cx.attrs()));
    let (groups, area) = (groups as usize, d[2..].iter().product());
    let p = GroupNorm { rows: d[0] * groups, groups, channels: d[1] / groups, area, eps };
    let kernel = group_norm::group_norm_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::NORM).reads_args(3);
    let call = call.writes(Buf::Out(0), p.per_unit());
    cx.call(call.writes(Buf::Out(1), p.rows_per_unit()).writes(Buf::Out(2), p.rows_per_unit()));
    Ok(())
}

/// `residual_layer_norm`.
pub fn emit_residual_layer_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = residual_norm::residual_layer_norm_kernel_for(cx.dtype(0))?;
    emit_residual_norm(cx, kernel)
}

/// `residual_rms_norm`.
pub fn emit_residual_rms_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = residual_norm::residual_rms_norm_kernel_for(cx.dtype(0))?;
    emit_residual_norm(cx, kernel)
}

/// The sum, if it is read, then y and its statistics. The first of them may overwrite x or res.
fn emit_residual_norm(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let LayerNorm { rows, n, eps, .. } = view_as_rows(&cx.arg_dims(0), NormAttrs::of(&cx.attrs()).eps);
    let p = ResidualNorm { rows, n, eps, bias: cx.args() == 5, keep: cx.used[1] };
    let norm = p.norm();
    let call = Call::new(kernel, p.to_words(), norm.units())
        .flops(cx.flops())
        .cost_class(CostClass::NORM)
        .reads_args(cx.args());
    let call = if p.keep { call.writes(Buf::Out(1), norm.per_unit()) } else { call };
    let call = call.writes(Buf::Out(0), norm.per_unit()).inplace(&[(0, 0), (1, 0)]);
    cx.call((2..cx.used.len()).fold(call, |call, i| call.writes(Buf::Out(i), norm.rows_per_unit())));
    Ok(())
}

/// `layer_norm_backward`. The kernel wants gamma last.
pub fn emit_layer_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = layer_norm::layer_norm_backward_kernel_for(cx.dtype(0))?;
    emit_rows_backward(cx, kernel, &[0, 1, 3, 4, 2])
}

/// `rms_norm_backward`. The kernel wants gamma last.
pub fn emit_rms_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = rms_norm::rms_norm_backward_kernel_for(cx.dtype(0))?;
    emit_rows_backward(cx, kernel, &[0, 1, 3, 2])
}

/// dx with partial dγ and dβ, then the sums of those partials that are read. `reads` are the operands in the order of
/// `kernel`; x is operand 1.
fn emit_rows_backward(cx: &mut LowerCx<'_>, kernel: Kernel, reads: &[usize]) -> Result<(), String> {
    let (p, dtype) = (view_as_rows(&cx.arg_dims(1), 0.0), cx.dtype(0));
    let partials = [0, 1].map(|_| cx.temp(dtype.size(), p.blocks() * p.n));
    if p.rows > 0 {
        let reads: Vec<Buf> = reads.iter().map(|&i| Buf::Arg(i)).collect();
        let call = Call::new(kernel, p.to_words(), p.blocks()).flops(cx.flops()).cost_class(CostClass::NORM);
        let call = call.reads(&reads).writes(Buf::Out(0), p.per_block());
        cx.call(call.writes(partials[0], p.n).writes(partials[1], p.n));
    }
    sum_partials(cx, partials, p.combine())
}

/// dγ and dβ, those that are read: the sums of their partials.
fn sum_partials(cx: &mut LowerCx<'_>, partials: [Buf; 2], sum: Reduce) -> Result<(), String> {
    let dtype = cx.dtype(0);
    for (i, partial) in partials.into_iter().enumerate().filter(|(i, _)| cx.used[i + 1]) {
        let call = Call::new(reduce::sum_for(dtype)?, sum.to_words(), sum.units());
        cx.call(call.reads(&[partial]).writes(Buf::Out(i + 1), sum.per_unit()));
    }
    Ok(())
}

/// The operands of the kernels of group and batch norm, which want gamma last.
const GAMMA_LAST: [Buf; 5] = [Buf::Arg(0), Buf::Arg(1), Buf::Arg(3), Buf::Arg(4), Buf::Arg(2)];

/// dγ and dβ of an x without elements: zeros, as sums over no rows.
fn emit_zero_sums(cx: &mut LowerCx<'_>, channels: usize) -> Result<(), String> {
    sum_partials(cx, [Buf::Arg(0); 2], Reduce::new(1, 0, channels))
}

/// `group_norm_backward`: dx with partial dγ and dβ, then their sums.
pub fn emit_group_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (d, groups, dtype) = (cx.arg_dims(1), cx.arg_dims(3)[1], cx.dtype(0));
    if d.contains(&0) {
        return emit_zero_sums(cx, d[1]);
    }
    let p = GroupNormGrad { samples: d[0], groups, channels: d[1] / groups, area: d[2..].iter().product() };
    let partials = [0, 1].map(|_| cx.temp(dtype.size(), p.partials() * d[1]));
    let kernel = group_norm::group_norm_backward_kernel_for(dtype)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::NORM);
    let call = call.reads(&GAMMA_LAST).writes(Buf::Out(0), p.per_unit());
    let call = call.writes(partials[0], p.partials_per_unit()).writes(partials[1], p.partials_per_unit());
    cx.call(if p.area > 1 { call.inplace(&[(0, 0)]) } else { call });
    sum_partials(cx, partials, p.combine())
}

/// `batch_norm_backward`: one call, divided by columns of channels.
pub fn emit_batch_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(1);
    if d.contains(&0) {
        return emit_zero_sums(cx, d[1]);
    }
    let p = BatchNormGrad { samples: d[0], channels: d[1], area: d[2..].iter().product() };
    let kernel = batch_norm::batch_norm_backward_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::NORM);
    let call = call.reads(&GAMMA_LAST).divided(Buf::Out(0), Split::Columns { row: p.row(), width: p.columns() });
    let call = call.writes(Buf::Out(1), p.per_unit()).writes(Buf::Out(2), p.per_unit());
    cx.call(call.inplace(&[(0, 0)]));
    Ok(())
}
