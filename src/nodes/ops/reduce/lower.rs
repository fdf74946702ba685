//! Kernel calls of reductions and running sums. The axes are grouped into runs of adjacent axes. A kernel reduces one
//! run; if there are several, the innermost comes first, and temporaries hold the results in between.

use crate::kernels::abi::Kernel;
use crate::kernels::cost_model::CostClass;
use crate::kernels::reduce;
use crate::kernels::reduce::cumulative::Cumulative;
use crate::kernels::reduce::root_sum_squares;
use crate::kernels::reduce::root_sum_squares::Parts;
use crate::kernels::reduce::terms::{self, Divided, plan_terms};
use crate::kernels::reduce::{Reduce, plan_steps};
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Op;
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
    if !runs.iter().any(|r| r.1) {
        // Every axis in the set has one element: the element is its own sum, mean, maximum and log-sum-exp.
        cx.view(0, 0, 0);
        return Ok(());
    }
    if count == 0 {
        runs = vec![(0, true), (cx.out_dims(0).numel(), false)];
    }
    emit_runs(cx, k, runs, (Buf::Arg(0), cx.flops()), count);
    Ok(())
}

/// Takes the innermost of the runs that are reduced. Whether it is the last.
fn take_run(runs: &mut Vec<(usize, bool)>) -> Option<(AxisSplit, bool)> {
    let at = runs.iter().rposition(|r| r.1)?;
    let product = |r: &[(usize, bool)]| r.iter().map(|r| r.0).product::<usize>();
    let split = AxisSplit { outer: product(&runs[..at]), n: runs[at].0, inner: product(&runs[at + 1..]) };
    runs.remove(at);
    Some((split, !runs.iter().any(|r| r.1)))
}

/// Where the results of a run are written: they are the node's if it is the last.
fn target(cx: &mut LowerCx<'_>, split: &AxisSplit, last: bool) -> Buf {
    if last { Buf::Out(0) } else { cx.temp(cx.out(0).dtype.size(), split.outer * split.inner) }
}

/// Reduces the runs of `from`. `count` is the number of elements of each result.
fn emit_runs(
    cx: &mut LowerCx<'_>,
    k: &Kernels,
    mut runs: Vec<(usize, bool)>,
    (mut from, mut flops): (Buf, u64),
    count: usize,
) {
    while let Some((split, last)) = take_run(&mut runs) {
        let to = target(cx, &split, last);
        emit_run(cx, k, &Run { split, from, to, count: last.then_some(count), flops });
        (from, flops) = (to, 0);
    }
}

/// The kernels of a reduction of terms.
struct TermKernels {
    /// Of terms whose results are the node's.
    whole: Kernel,
    /// Of terms whose results are reduced further.
    part: Kernel,
    /// Of these results.
    rest: Kernels,
}

/// The kernels that reduce terms of type `dtype` by `op`.
fn kernels_of_terms(op: Op, dtype: DType) -> Result<TermKernels, String> {
    let (terms, join) = match op {
        Op::REDUCE_SUM => (terms::sum_terms_for(dtype)?, reduce::sum_for(dtype)?),
        Op::REDUCE_MAX => (terms::max_terms_for(dtype)?, reduce::max_for(dtype)?),
        Op::REDUCE_MIN => (terms::min_terms_for(dtype)?, reduce::min_for(dtype)?),
        Op::REDUCE_MEAN => {
            let (part, join) = (terms::sum_terms_for(dtype)?, reduce::sum_for(dtype)?);
            let rest = Kernels { join, partial: None, last: reduce::reduce_mean_kernel_for(dtype)? };
            return Ok(TermKernels { whole: terms::mean_terms_for(dtype)?, part, rest });
        }
        _ => return Err("a pointwise region does not end in it".into()),
    };
    Ok(TermKernels { whole: terms, part: terms, rest: Kernels { join, partial: None, last: join } })
}

/// Whether a pointwise region of shape `dims` may end in `op` over `axes`.
pub fn reduces_terms(op: Op, dtype: DType, dims: &[usize], axes: &[usize]) -> bool {
    let first = take_run(&mut find_axis_runs(dims, axes));
    let plan = first.and_then(|(split, _)| plan_terms(split.outer, split.n, split.inner));
    plan.is_some() && kernels_of_terms(op, dtype).is_ok()
}

/// Reduces terms of shape `dims` by `op` over `axes`. `of_terms` adds to the call of a kernel of [`terms`], which has
/// its first write, what computes them.
pub fn emit_terms(
    cx: &mut LowerCx<'_>,
    (op, dims, axes): (Op, &[usize], &[usize]),
    of_terms: impl FnOnce(&mut LowerCx<'_>, Call, &Divided) -> Call,
) -> Result<(), String> {
    let count: usize = axes.iter().map(|&a| dims[a]).product();
    let dtype = cx.out(0).dtype;
    let mut runs = find_axis_runs(dims, axes);
    let (split, last) = take_run(&mut runs).ok_or("nothing is reduced")?;
    let plan = plan_terms(split.outer, split.n, split.inner)
        .ok_or("too many terms to reduce where they are computed; take the reduction out of the region")?;
    let TermKernels { whole, part, rest: k } = kernels_of_terms(op, dtype)?;
    let to = target(cx, &split, last);
    let first = Divided { divisor: count, ..plan.first };
    let alone = last && plan.last.is_none();
    let chunks = if plan.last.is_some() { cx.temp(dtype.size(), first.out_len()) } else { to };
    let call = Call::new(if alone { whole } else { part }, first.to_words(), first.units());
    let call = of_terms(cx, call.writes(chunks, first.per_unit()), &first);
    cx.call(call);
    if let Some(p) = plan.last {
        let p = Reduce { divisor: if last { count } else { p.divisor }, ..p };
        let kernel = if last { k.last } else { k.join };
        cx.call(Call::new(kernel, p.to_words(), p.units()).reads(&[chunks]).writes(to, p.per_unit()));
    }
    emit_runs(cx, &k, runs, (to, 0), count);
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
