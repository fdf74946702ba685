//! Calls of matrix products, softmaxes and layer norms.

use super::reduce::{columns, join};
use super::{by_float, elem, push_program};
use crate::arena::intern::Dims;
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::gemm::{self, Batch, Gemm, GemmFloat, Strides};
use crate::kernels::norm::residual::{self, Residual};
use crate::kernels::norm::{self, LayerNorm, rms};
use crate::kernels::reduce;
use crate::kernels::softmax::{self, Softmax};
use crate::kernels::tile::{Access, Input, Program, Step, TileOp};
use crate::kernels::work::Work;
use crate::nodes::dtype::DType;
use crate::nodes::lower::{Buf, Call, LowerCx};
use crate::nodes::ops::epilogue::{ACTS, GATES};
use crate::nodes::shaping::around;

/// The strides of the last two axes of `d`, exchanged if asked.
fn matrix(d: &Dims, exchanged: bool) -> Strides {
    let cols = d[d.len() - 1];
    if exchanged { Strides { row: 1, col: cols } } else { Strides { row: cols, col: 1 } }
}

/// Strides of the batch axes of `d`, aligned with those of the result; 0 where a matrix repeats.
fn batch(d: &Dims, to: &[usize]) -> Vec<usize> {
    let (s, own) = (d.strides(), d.len() - 2);
    let lead = to.len() - own;
    let step = |i: usize| if i < lead || d[i - lead] == 1 { 0 } else { s[i - lead] };
    (0..to.len()).map(step).collect()
}

/// The product of a `matmul` node.
pub fn product(cx: &LowerCx<'_>) -> Result<Gemm, String> {
    let (a, b, y) = (cx.arg_dims(0), cx.arg_dims(1), cx.out_dims(0));
    let (ta, tb) = (cx.attrs().bool(0), cx.attrs().bool(1));
    let lead = y.len() - 2;
    let k = a[a.len() - if ta { 2 } else { 1 }];
    let g = Gemm::new(y[lead], y[lead + 1], k).with_strides(matrix(&a, ta), matrix(&b, tb));
    let (sa, sb) = (batch(&a, &y[..lead]), batch(&b, &y[..lead]));
    let dims: Vec<Batch> = (0..lead).map(|i| Batch { size: y[i], a: sa[i], b: sb[i] }).collect();
    g.with_batch(&dims).ok_or_else(|| "too many batch axes".to_string())
}

/// `matmul`.
pub fn matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = product(cx)?;
    multiply(cx, g)
}

/// `matmul_bias_act`.
pub fn matmul_bias_act(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let act = ACTS[cx.attrs().choice(2) as usize].1;
    let g = Gemm { bias: true, act, ..product(cx)? };
    multiply(cx, g)
}

/// `matmul_gate`.
pub fn matmul_gate(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dtype, y) = (cx.dtype(0), cx.out_dims(0));
    let g = Gemm { act: GATES[cx.attrs().choice(2) as usize], precision: cx.precision, ..product(cx)? };
    if !cx.used[1] {
        return multiply(cx, g);
    }
    let summed = if dtype == DType::F32 { g.with_sums::<f32>() } else { g.with_sums::<f64>() };
    let Some(g) = summed else {
        if !g.is_empty() {
            multiply(cx, g)?;
        }
        let rows = y[..y.len() - 1].iter().product();
        return columns(cx, (rows, g.n), (Buf::Out(0), Buf::Out(1)));
    };
    let blocks = g.sums().0;
    let sums = if blocks == 1 { Buf::Out(1) } else { cx.temp(dtype.size(), blocks * g.n) };
    push_product_and_sums(cx, g, &[0, 1, 2].map(Buf::Arg), (Buf::Out(0), Some(sums)), cx.flops())?;
    if blocks > 1 { join(cx, (blocks, g.n), (sums, Buf::Out(1))) } else { Ok(()) }
}

fn multiply(cx: &mut LowerCx<'_>, g: Gemm) -> Result<(), String> {
    let reads: Vec<Buf> = (0..cx.args()).map(Buf::Arg).collect();
    push_product(cx, g, &reads, Buf::Out(0), cx.flops())
}

/// The call of a product of `reads` into `out`; one that accumulates goes on with what `out` holds.
pub fn push_product(cx: &mut LowerCx<'_>, g: Gemm, reads: &[Buf], out: Buf, flops: u64) -> Result<(), String> {
    push_product_and_sums(cx, g, reads, (out, None), flops)
}

/// The same, with the sums of the columns of C if the product has them.
fn push_product_and_sums(
    cx: &mut LowerCx<'_>,
    g: Gemm,
    reads: &[Buf],
    (out, sums): (Buf, Option<Buf>),
    flops: u64,
) -> Result<(), String> {
    let (dtype, g) = (cx.dtype(0), Gemm { precision: cx.precision, ..g });
    let scratch = match dtype {
        DType::F32 => scratch_len::<f32>(&g),
        _ => scratch_len::<f64>(&g),
    };
    let (split, units) = g.division();
    let whole = if let Split::Columns { .. } = split { whole_columns(&g) } else { whole(&g) };
    let kernel = match dtype {
        DType::F32 => gemm::kernel::<f32>(&g),
        DType::F64 => gemm::kernel::<f64>(&g),
        d => return Err(format!("no kernel for {d}")),
    };
    let call = Call::new(kernel, g.to_words(), units).flops(flops).reads(reads).work(work(dtype, &g)).whole(whole);
    let call = if g.accumulate { call.reads(&[out]).inplace(&[(reads.len(), 0)]) } else { call };
    let call = call.divided(out, split);
    let call = if let Some(sums) = sums { call.divided(sums, g.sums().1) } else { call };
    let call = if scratch > 0 { call.scratch(cx.scratch(dtype.size(), scratch)) } else { call };
    cx.call(call);
    Ok(())
}

/// `lora_matmul`: the low-rank product, scaled while it is small, goes onto the large one.
pub fn lora_matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (x, y, low) = (cx.arg_dims(0), cx.out_dims(0), cx.out_dims(1));
    let lead = y.len() - 1;
    let (rows, k, rank, n) = (y[..lead].iter().product::<usize>(), x[lead], low[lead], y[lead]);
    let turned = cx.attrs().bool(1);
    let by = |n: usize, k: usize| {
        let g = Gemm::new(rows, n, k);
        if turned { g.with_b_transposed() } else { g }
    };
    let (size, e, scale) = (cx.dtype(0).size(), elem(cx.dtype(0))?, cx.attrs().f64(0));
    let flops = |g: &Gemm| 2 * (g.len() * g.k) as u64;
    let low = if cx.used[1] { Buf::Out(1) } else { cx.temp(size, rows * rank) };
    let g = by(rank, k);
    push_product(cx, g, &[Buf::Arg(0), Buf::Arg(2)], low, flops(&g))?;
    let mut scaled = low;
    if scale != 1.0 {
        scaled = cx.temp(size, rows * rank);
        let inputs = vec![Input { elem: e, access: Access::Full }];
        let steps = vec![Step::new(TileOp::Fill, e, &[], [scale, -0.0]), Step::new(TileOp::Mul, e, &[0, 1], [0.0; 2])];
        let p = Program { inputs, steps, outputs: vec![2], len: rows * rank };
        p.check()?;
        push_program(cx, &p, &[low], &[scaled], p.len as u64);
    }
    let g = by(n, k);
    push_product(cx, g, &[Buf::Arg(0), Buf::Arg(1)], Buf::Out(0), flops(&g))?;
    let g = Gemm { accumulate: true, bias: cx.args() == 5, ..by(n, rank) };
    let reads = [scaled, Buf::Arg(3), Buf::Arg(4)];
    push_product(cx, g, &reads[..2 + usize::from(g.bias)], Buf::Out(0), flops(&g))
}

/// Which operands of a product all units read: B, and an A that lies by columns.
pub fn whole(g: &Gemm) -> u64 {
    2 | u64::from(g.a.col != 1)
}

/// The same where units are columns: A, and a B that does not lie by columns.
fn whole_columns(g: &Gemm) -> u64 {
    1 | u64::from(g.b.row != 1) << 1
}

/// The kind of work that a product is.
pub fn work(dtype: DType, g: &Gemm) -> Work {
    if dtype == DType::F32 { Work::product(g.runs_in::<f32>()) } else { Work::PRODUCT_F64 }
}

fn scratch_len<T: GemmFloat>(g: &Gemm) -> usize {
    g.scratch_len::<T>()
}

/// A call over rows; where they lie together the kernel may write over operand `over`.
fn along(cx: &mut LowerCx<'_>, kernel: Kernel, over: Option<usize>) -> Result<(), String> {
    let (outer, n, inner) = around(&cx.arg_dims(0), cx.attrs().size(0));
    let p = Softmax { outer, n, inner };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::SOFTMAX);
    let pairs: Vec<(usize, usize)> = over.filter(|_| inner == 1).map(|r| (r, 0)).into_iter().collect();
    cx.call(call.reads_args(cx.args()).writes(Buf::Out(0), p.per_unit()).inplace(&pairs));
    Ok(())
}

/// `softmax`.
pub fn softmax(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), softmax::softmax)?;
    along(cx, kernel, Some(0))
}

/// `softmax_backward`.
pub fn softmax_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), softmax::softmax_backward)?;
    along(cx, kernel, Some(1))
}

/// `log_softmax`.
pub fn log_softmax(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), softmax::log_softmax)?;
    along(cx, kernel, None)
}

/// `log_softmax_backward`.
pub fn log_softmax_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), softmax::log_softmax_backward)?;
    along(cx, kernel, None)
}

/// The view of x as rows.
fn rows(d: &Dims, eps: f64) -> LayerNorm {
    let n = d[d.len() - 1];
    LayerNorm { rows: d[..d.len() - 1].iter().product(), n, eps, affine: true }
}

/// `layer_norm`.
pub fn layer_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = rows(&cx.arg_dims(0), cx.attrs().f64(0));
    let kernel = by_float!(cx.dtype(0), norm::layer_norm)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::NORM).reads_args(3);
    let call = call.writes(Buf::Out(0), p.per_unit());
    cx.call(call.writes(Buf::Out(1), p.rows_per_unit()).writes(Buf::Out(2), p.rows_per_unit()));
    Ok(())
}

/// `rms_norm`.
pub fn rms_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = rows(&cx.arg_dims(0), cx.attrs().f64(0));
    let kernel = by_float!(cx.dtype(0), rms::rms_norm)?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).work(Work::NORM).reads_args(3);
    cx.call(call.writes(Buf::Out(0), p.per_unit()).writes(Buf::Out(1), p.rows_per_unit()));
    Ok(())
}

/// `residual_layer_norm`.
pub fn residual_layer_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), residual::residual_layer_norm)?;
    residual(cx, kernel)
}

/// `residual_rms_norm`.
pub fn residual_rms_norm(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), residual::residual_rms_norm)?;
    residual(cx, kernel)
}

/// The sum, if anybody reads it, then y and its statistics. The first of them may lie over x or res.
fn residual(cx: &mut LowerCx<'_>, kernel: Kernel) -> Result<(), String> {
    let LayerNorm { rows, n, eps, .. } = rows(&cx.arg_dims(0), cx.attrs().f64(0));
    let p = Residual { rows, n, eps, bias: cx.args() == 5, keep: cx.used[1] };
    let norm = p.norm();
    let call = Call::new(kernel, p.to_words(), norm.units()).flops(cx.flops()).work(Work::NORM).reads_args(cx.args());
    let call = if p.keep { call.writes(Buf::Out(1), norm.per_unit()) } else { call };
    let call = call.writes(Buf::Out(0), norm.per_unit()).inplace(&[(0, 0), (1, 0)]);
    cx.call((2..cx.used.len()).fold(call, |call, i| call.writes(Buf::Out(i), norm.rows_per_unit())));
    Ok(())
}

/// `layer_norm_backward`. The kernel wants gamma last.
pub fn layer_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), norm::layer_norm_backward)?;
    norm_backward(cx, kernel, &[0, 1, 3, 4, 2])
}

/// `rms_norm_backward`. The kernel wants gamma last.
pub fn rms_norm_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let kernel = by_float!(cx.dtype(0), rms::rms_norm_backward)?;
    norm_backward(cx, kernel, &[0, 1, 3, 2])
}

/// dx with partial dγ and dβ, then the sums of the partials that anybody reads. `reads` are operands as `kernel` wants
/// them; x is operand 1.
fn norm_backward(cx: &mut LowerCx<'_>, kernel: Kernel, reads: &[usize]) -> Result<(), String> {
    let (p, dtype) = (rows(&cx.arg_dims(1), 0.0), cx.dtype(0));
    let partials = [0, 1].map(|_| cx.temp(dtype.size(), p.blocks() * p.n));
    if p.rows > 0 {
        let reads: Vec<Buf> = reads.iter().map(|&i| Buf::Arg(i)).collect();
        let call = Call::new(kernel, p.to_words(), p.blocks()).flops(cx.flops()).work(Work::NORM);
        let call = call.reads(&reads).writes(Buf::Out(0), p.per_block());
        cx.call(call.writes(partials[0], p.n).writes(partials[1], p.n));
    }
    let sum = p.combine();
    for (i, partial) in partials.into_iter().enumerate().filter(|(i, _)| cx.used[i + 1]) {
        let call = Call::new(by_float!(dtype, reduce::sum)?, sum.to_words(), sum.units());
        cx.call(call.reads(&[partial]).writes(Buf::Out(i + 1), sum.per_unit()));
    }
    Ok(())
}
