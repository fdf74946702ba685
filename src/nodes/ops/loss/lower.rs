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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::abi::Split::PerUnit;
    use crate::nodes::ir::call::Looks;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Arg, Out, Temp};

    const ROWS: CrossEntropy = CrossEntropy { rows: 70, classes: 3, ignore_index: -5, smoothing: 0.25 };
    const LABELS: Option<Looks> = Some(Looks { read: 1, below: Some(3), or: Some(-5), early: false });

    #[test]
    fn a_cross_entropy_checks_its_labels_but_the_ignored_one() {
        let attrs = CrossEntropyAttrs { ignore_index: -5, label_smoothing: 0.25 };
        let (x, labels, row) = ((&[70, 3][..], DType::F32), (&[70][..], DType::I64), (&[70][..], DType::F32));
        let l = LoweredInTests::of(Op::SOFTMAX_CROSS_ENTROPY, &[x, labels], &attrs.list(), &[true; 2]);
        let (rows, logits) = (PerUnit(ROWS.per_unit()), PerUnit(ROWS.per_unit_logits()));
        let writes = [(Out(0), rows), (Out(1), rows), (Out(2), logits)];
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1)][..], &writes[..2])]);
        let call = &l.calls[0];
        assert_eq!((&call.params, call.units, call.looks), (&ROWS.to_words(), ROWS.units(), LABELS));
        assert_eq!((call.work, call.flops, call.inplace.len()), (CostClass::CROSS_ENTROPY, 5 * 210, 0));
        let l = LoweredInTests::of(Op::SOFTMAX_CROSS_ENTROPY_BACKWARD, &[x, labels, row, row], &attrs.list(), &[true]);
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1), Arg(2), Arg(3)][..], &[(Out(0), logits)][..])]);
        let call = &l.calls[0];
        assert_eq!((&call.params, call.units, call.looks), (&ROWS.to_words(), ROWS.units(), LABELS));
        assert_eq!((call.work, &call.inplace[..]), (CostClass::SOFTMAX, &[(0, 0)][..]));
        let attrs = CrossEntropyGradientAttrs { ignore_index: -5, label_smoothing: 0.25, weight: 0.5 };
        let l = LoweredInTests::of(Op::CROSS_ENTROPY_GRADIENT, &[x, labels], &attrs.list(), &[true; 3]);
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1)][..], &writes[..])]);
        let call = &l.calls[0];
        assert_eq!(call.params, [ROWS.to_words(), vec![0.5f64.to_bits()]].concat());
        assert_eq!((call.units, call.looks, &call.inplace[..]), (ROWS.units(), LABELS, &[(0, 2)][..]));
        assert_eq!((call.work, call.flops), (CostClass::CROSS_ENTROPY, 10 * 210));
    }

    #[test]
    fn a_squared_error_is_one_sweep_and_a_long_one_has_partial_sums() {
        let of = |len: usize, mean: bool| {
            let attrs = SquaredErrorAttrs { mean, weight: 0.25 };
            LoweredInTests::of_one_type(
                DType::F32,
                Op::SQUARED_ERROR_GRADIENT,
                &[&[len], &[len]],
                &attrs.list(),
                &[true; 2],
            )
        };
        let reads = [Arg(0), Arg(1)];
        for (len, mean, chunk, divisor) in [(10, true, 10, 10), (10, false, 10, 0), (1, true, 1, 1), (0, false, 1, 0)] {
            let l = of(len, mean);
            let p = SquaredError { len, chunk, divisor, weight: 0.25 };
            assert_eq!(l.operands(), [(&reads[..], &[(Out(0), PerUnit(1)), (Out(1), PerUnit(chunk))][..])]);
            let call = &l.calls[0];
            assert_eq!((&call.params, call.units, call.work), (&p.to_words(), 1, CostClass::REDUCE));
            assert_eq!((&call.inplace[..], call.flops), (&[(0, 1), (1, 1)][..], 5 * len as u64));
        }
        let plan = reduce::plan_steps(1, 40_000, 1);
        let partial = plan.partial.unwrap();
        let last = Reduce { divisor: 40_000, ..plan.last };
        for mean in [true, false] {
            let l = of(40_000, mean);
            let sweep = [(Temp(0), PerUnit(1)), (Out(1), PerUnit(partial.chunk))];
            let sum = [(Out(0), PerUnit(last.per_unit()))];
            assert_eq!(l.operands(), [(&reads[..], &sweep[..]), (&[Temp(0)], &sum)]);
            assert_eq!(l.sizes(), [(4, partial.out_len(), false)]);
            let p = SquaredError { len: 40_000, chunk: partial.chunk, divisor: 0, weight: 0.25 };
            assert_eq!((&l.calls[0].params, l.calls[0].units), (&p.to_words(), p.units()));
            assert_eq!((&l.calls[1].params, l.calls[1].units), (&last.to_words(), last.units()));
        }
    }
}
