//! Kernel calls of norms.

use crate::arena::dims::Dims;
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::cost_model::CostClass;
use crate::kernels::norm::batch_norm::BatchNormGrad;
use crate::kernels::norm::group_norm::GroupNormGrad;
use crate::kernels::norm::layer_norm::LayerNorm;
use crate::kernels::norm::residual_norm::ResidualNorm;
use crate::kernels::norm::{batch_norm, group_norm, layer_norm, residual_norm, rms_norm};
use crate::kernels::reduce;
use crate::kernels::reduce::Reduce;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::norm::NormAttrs;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Arg, Out, Temp};
    use Split::{Columns, PerUnit};

    const EPS: NormAttrs = NormAttrs { eps: 0.5 };

    /// A norm of 150 rows of 33 elements. A unit has 4096 / 33 = 124 of the rows.
    fn rows(op: Op, args: usize, used: &[bool]) -> LoweredInTests {
        let all: [&[usize]; 5] = match args {
            3 => [&[150, 33], &[33], &[33], &[], &[]],
            4 => [&[150, 33], &[150, 33], &[33], &[33], &[]],
            _ => [&[150, 33], &[150, 33], &[33], &[33], &[33]],
        };
        LoweredInTests::of_one_type(DType::F32, op, &all[..args], &EPS.list(), used)
    }

    fn backward(op: Op, args: &[&[usize]], used: [bool; 3]) -> LoweredInTests {
        LoweredInTests::of_one_type(DType::F32, op, args, &[], &used)
    }

    #[test]
    fn norms_of_rows_divide_results_and_statistics_by_rows() {
        let reads = [Arg(0), Arg(1), Arg(2)];
        let writes = [(Out(0), PerUnit(124 * 33)), (Out(1), PerUnit(124)), (Out(2), PerUnit(124))];
        for (op, results, flops) in [(Op::LAYER_NORM, 3, 8), (Op::RMS_NORM, 2, 6)] {
            let l = rows(op, 3, &[true; 3][..results]);
            assert_eq!(l.operands(), [(&reads[..], &writes[..results])]);
            let call = &l.calls[0];
            assert_eq!((call.units, call.flops, call.work), (2, flops * 150 * 33, CostClass::NORM));
            assert_eq!(call.params, [150, 33, 0.5f64.to_bits(), 1]);
        }
    }

    #[test]
    fn the_sum_under_a_norm_is_written_if_it_is_read() {
        let (y, sum, stats) = (PerUnit(124 * 33), PerUnit(124 * 33), PerUnit(124));
        let l = rows(Op::RESIDUAL_LAYER_NORM, 4, &[true, false, true, true]);
        let reads = [Arg(0), Arg(1), Arg(2), Arg(3), Arg(4)];
        assert_eq!(l.operands(), [(&reads[..4], &[(Out(0), y), (Out(2), stats), (Out(3), stats)][..])]);
        assert_eq!(l.calls[0].inplace, [(0, 0), (1, 0)]);
        assert_eq!(l.calls[0].params, [150, 33, 0.5f64.to_bits(), 0, 0]);
        let l = rows(Op::RESIDUAL_RMS_NORM, 5, &[true; 3]);
        assert_eq!(l.operands(), [(&reads[..], &[(Out(1), sum), (Out(0), y), (Out(2), stats)][..])]);
        assert_eq!(l.calls[0].inplace, [(0, 0), (1, 0)]);
        assert_eq!(l.calls[0].params, [150, 33, 0.5f64.to_bits(), 1, 1]);
        assert_eq!((l.calls[0].units, l.calls[0].work), (2, CostClass::NORM));
    }

    /// 70 rows are 9 blocks of 8; each has a row of partial sums.
    #[test]
    fn gradients_of_norms_of_rows_are_partial_sums_and_their_sums() {
        let sum = Reduce::new(1, 9, 33);
        let layer: [&[usize]; 5] = [&[70, 33], &[70, 33], &[33], &[70], &[70]];
        let l = backward(Op::LAYER_NORM_BACKWARD, &layer, [true; 3]);
        let reads = [Arg(0), Arg(1), Arg(3), Arg(4), Arg(2)];
        let writes = [(Out(0), PerUnit(8 * 33)), (Temp(0), PerUnit(33)), (Temp(1), PerUnit(33))];
        let (partials, sums) = ([[Temp(0)], [Temp(1)]], [1, 2].map(|i| [(Out(i), PerUnit(sum.per_unit()))]));
        let want = [(&reads[..], &writes[..]), (&partials[0][..], &sums[0][..]), (&partials[1][..], &sums[1][..])];
        assert_eq!(l.operands(), want);
        assert_eq!(l.sizes(), [(4, 9 * 33, false); 2]);
        assert_eq!((l.calls[0].units, l.calls[1].params.clone()), (9, sum.to_words()));
        // Only sums that are read are computed.
        let rms: [&[usize]; 4] = [&[70, 33], &[70, 33], &[33], &[70]];
        let l = backward(Op::RMS_NORM_BACKWARD, &rms, [true, false, true]);
        let reads = [Arg(0), Arg(1), Arg(3), Arg(2)];
        assert_eq!(l.operands(), [(&reads[..], &writes[..]), want[2]]);
        // Without rows the sums are all there is to do.
        let none: [&[usize]; 5] = [&[0, 4], &[0, 4], &[4], &[0], &[0]];
        let l = backward(Op::LAYER_NORM_BACKWARD, &none, [true; 3]);
        assert_eq!(l.calls.iter().map(|c| c.writes[0].0).collect::<Vec<_>>(), [Out(1), Out(2)]);
        assert_eq!((l.sizes(), l.calls[0].params.clone()), (vec![(4, 0, false); 2], Reduce::new(1, 0, 4).to_words()));
    }

    #[test]
    fn gradients_of_norms_of_groups_overwrite_dy_where_a_channel_has_several_elements() {
        let of = |area: usize, used: [bool; 3]| {
            let x = [2, 6, area];
            let args: [&[usize]; 5] = [&x, &x, &[6], &[2, 3], &[2, 3]];
            backward(Op::GROUP_NORM_BACKWARD, &args, used)
        };
        let l = of(3, [true; 3]);
        // Two samples fit one unit: their partial sums are one row of six.
        let writes = [(Out(0), PerUnit(36)), (Temp(0), PerUnit(6)), (Temp(1), PerUnit(6))];
        assert_eq!(l.operands()[0], (&GAMMA_LAST[..], &writes[..]));
        assert_eq!((l.sizes(), l.calls.len()), (vec![(4, 6, false); 2], 3));
        assert_eq!((&l.calls[0].params[..], &l.calls[0].inplace[..]), (&[2, 3, 2, 3][..], &[(0, 0)][..]));
        let l = of(2, [true, true, false]);
        assert_eq!((&l.calls[0].inplace[..], l.calls.len()), (&[(0, 0)][..], 2));
        assert_eq!((&l.calls[1].reads[..], l.calls[1].writes[0].0), (&[Temp(0)][..], Out(1)));
        let l = of(1, [true, false, true]);
        assert!(l.calls[0].inplace.is_empty());
        assert_eq!((&l.calls[1].reads[..], l.calls[1].writes[0].0), (&[Temp(1)][..], Out(2)));
    }

    #[test]
    fn gradients_of_norms_of_batches_are_divided_by_channels() {
        let of = |x: [usize; 3]| {
            let c = [x[1]];
            backward(Op::BATCH_NORM_BACKWARD, &[&x, &x, &c, &c, &c], [true; 3])
        };
        for (x, channels, units) in [([3, 2, 4], 2, 1), ([1, 200, 64], 64, 4)] {
            let l = of(x);
            let dx = Columns { row: x[1] * x[2], width: channels * x[2] };
            let writes = [(Out(0), dx), (Out(1), PerUnit(channels)), (Out(2), PerUnit(channels))];
            assert_eq!(l.operands(), [(&GAMMA_LAST[..], &writes[..])]);
            let call = &l.calls[0];
            assert_eq!((call.units, &call.inplace[..]), (units, &[(0, 0)][..]));
            assert_eq!((&call.params[..], l.temps.len()), (&x.map(|n| n as u64)[..], 0));
        }
    }

    #[test]
    fn without_samples_the_gradients_of_gamma_and_beta_are_sums_over_nothing() {
        for (op, stat) in [(Op::GROUP_NORM_BACKWARD, &[0, 2][..]), (Op::BATCH_NORM_BACKWARD, &[4])] {
            let l = backward(op, &[&[0, 4, 3], &[0, 4, 3], &[4], stat, stat], [true; 3]);
            let written: Vec<Buf> = l.calls.iter().map(|c| c.writes[0].0).collect();
            assert_eq!((&written[..], l.temps.len()), (&[Out(1), Out(2)][..], 0));
            assert!(l.calls.iter().all(|c| c.params == Reduce::new(1, 0, 4).to_words()));
        }
    }
}
