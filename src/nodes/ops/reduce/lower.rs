//! Kernel calls of reductions and running sums. The axes are grouped into runs of adjacent axes. A kernel reduces one
//! run; if there are several, the innermost comes first, and temporaries hold the results in between.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::reduce;
use crate::kernels::reduce::cumulative::Cumulative;
use crate::kernels::reduce::root_sum_squares;
use crate::kernels::reduce::root_sum_squares::Parts;
use crate::kernels::reduce::{Reduce, plan_steps};
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::reduce::attrs::{ArgExtremeAttrs, ReduceAttrs, RunningAttrs, SumSquaresAttrs};

/// Runs of neighbouring axes that are all reduced or all kept: size, and whether reduced. Axes of size 1 are dropped.
fn find_axis_runs(dims: &[usize], axes: &[usize]) -> Vec<(usize, bool)> {
    let mut out: Vec<(usize, bool)> = Vec::new();
    for (i, &d) in dims.iter().enumerate().filter(|(_, d)| **d != 1) {
        let gone = axes.contains(&i);
        match out.last_mut() {
            Some(last) if last.1 == gone => last.0 *= d,
            _ => out.push((d, gone)),
        }
    }
    out
}

/// The kernels of one reduction.
struct Kernels {
    /// Of a run that is not the last. It combines partial results too.
    join: Kernel,
    /// The first step of a long run, if the reduction has such a form.
    partial: Option<Kernel>,
    /// Of the last run.
    last: Kernel,
}

/// Reduces operand 0 over `axes`.
fn emit_reduction(cx: &mut LowerCx<'_>, k: &Kernels) -> Result<(), String> {
    let (dims, axes) = (cx.arg_dims(0), to_size_attrs(&ReduceAttrs::of(&cx.attrs()).axes));
    let count: usize = axes.iter().map(|&a| dims[a]).product();
    let mut runs = find_axis_runs(&dims, &axes);
    let gone = |runs: &[(usize, bool)]| runs.iter().rposition(|r| r.1);
    if gone(&runs).is_none() {
        // Every axis in the set has one element: the element is its own sum, mean, maximum and log-sum-exp.
        cx.view(0, 0, 0);
        return Ok(());
    }
    if count == 0 {
        runs = vec![(0, true), (cx.out_dims(0).numel(), false)];
    }
    let (mut from, mut flops) = (Buf::Arg(0), cx.flops());
    while let Some(at) = gone(&runs) {
        let product = |r: &[(usize, bool)]| r.iter().map(|r| r.0).product::<usize>();
        let split = AxisSplit { outer: product(&runs[..at]), n: runs[at].0, inner: product(&runs[at + 1..]) };
        runs.remove(at);
        let last = gone(&runs).is_none();
        let to = if last { Buf::Out(0) } else { cx.temp(cx.dtype(0).size(), split.outer * split.inner) };
        let count = if last { Some(count) } else { None };
        emit_run(cx, k, &Run { split, from, to, count, flops });
        (from, flops) = (to, 0);
    }
    Ok(())
}

/// The reduction of one run of axes.
struct Run {
    /// The run is the middle axis.
    split: AxisSplit,
    /// The operand.
    from: Buf,
    /// The result.
    to: Buf,
    /// The divisor of a mean, if this is the last run.
    count: Option<usize>,
    /// Floating-point operations.
    flops: u64,
}

/// Reduces one run, in two steps if it is long.
fn emit_run(cx: &mut LowerCx<'_>, k: &Kernels, run: &Run) {
    let Run { split: AxisSplit { outer, n, inner }, from, to, count, flops } = *run;
    let plan = plan_steps(outer, n, inner);
    let kernel = if count.is_some() { k.last } else { k.join };
    let divisor = count.unwrap_or(n);
    match (plan.partial, k.partial) {
        (Some(p), Some(partial)) => {
            let temp = cx.temp(cx.dtype(0).size(), p.out_len());
            let first = Call::new(partial, p.to_words(), p.units()).flops(flops).cost_class(CostClass::REDUCE);
            cx.call(first.reads(&[from]).writes(temp, p.per_unit()));
            let last = Reduce { divisor, ..plan.last };
            cx.call(Call::new(kernel, last.to_words(), last.units()).reads(&[temp]).writes(to, last.per_unit()));
        }
        _ => {
            let p = Reduce { divisor, ..Reduce::new(outer, n, inner) };
            let call = Call::new(kernel, p.to_words(), p.units()).flops(flops).cost_class(CostClass::REDUCE);
            cx.call(call.reads(&[from]).writes(to, p.per_unit()));
        }
    }
}

/// The sums of the columns of a matrix of `rows` by `n`.
pub fn emit_column_sums(cx: &mut LowerCx<'_>, (rows, n): (usize, usize), (from, to): (Buf, Buf)) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::sum_for(d)?, Some(reduce::sum_partial_for(d)?));
    let split = AxisSplit { outer: 1, n: rows, inner: n };
    emit_run(cx, &Kernels { join, partial, last: join }, &Run { split, from, to, count: Some(rows), flops: 0 });
    Ok(())
}

/// The sum of `blocks` such sums, of blocks of rows.
pub fn emit_block_sum(cx: &mut LowerCx<'_>, (blocks, n): (usize, usize), (from, to): (Buf, Buf)) -> Result<(), String> {
    let (kernel, p) = (reduce::sum_for(cx.dtype(0))?, Reduce::new(1, blocks, n));
    cx.call(Call::new(kernel, p.to_words(), p.units()).reads(&[from]).writes(to, p.per_unit()));
    Ok(())
}

/// `reduce_sum`.
pub fn emit_reduce_sum(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::sum_for(d)?, Some(reduce::sum_partial_for(d)?));
    emit_reduction(cx, &Kernels { join, partial, last: join })
}

/// `reduce_mean`.
pub fn emit_reduce_mean(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::sum_for(d)?, Some(reduce::sum_partial_for(d)?));
    emit_reduction(cx, &Kernels { join, partial, last: reduce::reduce_mean_kernel_for(d)? })
}

/// `sum_squares`.
pub fn emit_sum_squares(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let SumSquaresAttrs { mean } = SumSquaresAttrs::of(&cx.attrs());
    let (d, n, flops) = (cx.dtype(0), cx.arg_dims(0).numel(), cx.flops());
    let join = if mean { reduce::reduce_mean_kernel_for(d)? } else { reduce::sum_for(d)? };
    let one = if mean { reduce::reduce_mean_squares_kernel_for(d)? } else { reduce::sum_squares_for(d)? };
    let partial = reduce::sum_squares_partial_for(d)?;
    // Partial sums are sums of squares already: they are joined without squaring.
    let last = if plan_steps(1, n, 1).partial.is_some() { join } else { one };
    let split = AxisSplit { outer: 1, n, inner: 1 };
    let run = Run { split, from: Buf::Arg(0), to: Buf::Out(0), count: Some(n), flops };
    emit_run(cx, &Kernels { join, partial: Some(partial), last }, &run);
    Ok(())
}

/// `root_sum_squares`.
pub fn emit_root_sum_squares(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = Parts { tensors: cx.args() - 1, len: (1..cx.args()).map(|i| cx.arg_dims(i).numel()).sum() };
    let kernel = root_sum_squares::root_sum_squares_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), 1).flops(cx.flops()).cost_class(CostClass::RARE);
    cx.call(call.reads_args(cx.args()).writes(Buf::Out(0), 1));
    Ok(())
}

/// `reduce_max`.
pub fn emit_reduce_max(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::max_for(d)?, Some(reduce::max_partial_for(d)?));
    emit_reduction(cx, &Kernels { join, partial, last: join })
}

/// `reduce_min`.
pub fn emit_reduce_min(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::min_for(d)?, Some(reduce::min_partial_for(d)?));
    emit_reduction(cx, &Kernels { join, partial, last: join })
}

/// `reduce_prod`.
pub fn emit_reduce_prod(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let (join, partial) = (reduce::prod_for(d)?, Some(reduce::prod_partial_for(d)?));
    emit_reduction(cx, &Kernels { join, partial, last: join })
}

/// `logsumexp`. That of several runs is the log-sum-exp of theirs.
pub fn emit_logsumexp(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let join = reduce::reduce_logsumexp_kernel_for(cx.dtype(0))?;
    emit_reduction(cx, &Kernels { join, partial: None, last: join })
}

fn emit_arg_reduction(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let AxisSplit { outer, n, inner } =
        split_at_axis(&cx.arg_dims(0), to_size_attr(ArgExtremeAttrs::of(&cx.attrs()).axis));
    let p = Reduce::new(outer, n, inner);
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::REDUCE);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `arg_max`.
pub fn emit_arg_max(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = reduce::reduce_arg_max_kernel_for(cx.dtype(0), cx.out(0).dtype)?;
    emit_arg_reduction(cx, kernel)
}

/// `arg_min`.
pub fn emit_arg_min(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = reduce::reduce_arg_min_kernel_for(cx.dtype(0), cx.out(0).dtype)?;
    emit_arg_reduction(cx, kernel)
}

/// A running sum or product: `kernel` scans along `axis`.
pub fn emit_running_reduction(cx: &mut LowerCx<'_>, kernel: Result<Kernel, String>) -> Result<(), String> {
    let RunningAttrs { axis, exclusive, reverse } = RunningAttrs::of(&cx.attrs());
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), to_size_attr(axis));
    let p = Cumulative { outer, n, inner, exclusive, reverse };
    let call = Call::new(kernel?, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::RUNNING);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
