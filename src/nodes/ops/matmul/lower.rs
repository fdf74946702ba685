//! Kernel calls of matrix products.

use crate::kernels::abi::Split;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm;
use crate::kernels::gemm::{Batch, Gemm, Strides};
use crate::kernels::tile::{Access, Input, TileOp, TileProgram, TileStep};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::lowering::{kernel_dtype, push_tile_program};
use crate::nodes::ops::matmul::attrs::{LoraMatmulAttrs, MatmulAttrs, MatmulBiasActAttrs, MatmulDactAttrs};
use crate::nodes::ops::reduce::lower::{emit_block_sum, emit_column_sums};

/// The strides of the last two axes of `d`, exchanged if asked.
fn last_axes_strides(d: &[usize], exchanged: bool) -> Strides {
    let cols = d[d.len() - 1];
    if exchanged { Strides { row: 1, col: cols } } else { Strides { row: cols, col: 1 } }
}

/// Strides of the batch axes of `d`, aligned with those of the result; 0 where a matrix repeats.
fn batch_strides(d: &[usize], to: &[usize]) -> Vec<usize> {
    let lead = to.len() - (d.len() - 2);
    let step = |i: usize| if i < lead || d[i - lead] == 1 { 0 } else { d[i - lead + 1..].iter().product() };
    (0..to.len()).map(step).collect()
}

/// The product of the first two operands of a node.
pub fn product_of_operands(cx: &LowerCx<'_>) -> Result<Gemm, String> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&cx.attrs());
    product_of_dims([&cx.arg_dims(0), &cx.arg_dims(1), &cx.out_dims(0)], ta, tb)
}

/// The product y = a·b of operands of these dimensions, whose last two axes are exchanged first if `ta` or `tb`.
pub fn product_of_dims([a, b, y]: [&[usize]; 3], ta: bool, tb: bool) -> Result<Gemm, String> {
    let lead = y.len() - 2;
    let k = a[a.len() - if ta { 2 } else { 1 }];
    let g = Gemm::new(y[lead], y[lead + 1], k).with_strides(last_axes_strides(a, ta), last_axes_strides(b, tb));
    let (sa, sb) = (batch_strides(a, &y[..lead]), batch_strides(b, &y[..lead]));
    let dims: Vec<Batch> = (0..lead).map(|i| Batch { size: y[i], a: sa[i], b: sb[i] }).collect();
    g.with_batch(&dims).ok_or_else(|| "too many batch axes".to_string())
}

/// `matmul`.
pub fn emit_matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = product_of_operands(cx)?;
    emit_plain_product(cx, g)
}

/// `matmul_bias_act`.
pub fn emit_matmul_bias_act(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let act = MatmulBiasActAttrs::of(&cx.attrs()).act.epilogue_act();
    let g = Gemm { bias: true, act, ..product_of_operands(cx)? };
    emit_plain_product(cx, g)
}

/// `matmul_add`.
pub fn emit_matmul_add(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let g = Gemm { accumulate: true, ..product_of_operands(cx)? };
    let to = MatmulTo { c: Buf::Out(0), old: Buf::Arg(2), sums: None };
    emit_product_to(cx, g, &[Buf::Arg(0), Buf::Arg(1)], to, cx.flops())
}

/// `matmul_dact`.
pub fn emit_matmul_dact(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (dtype, y) = (cx.dtype(0), cx.out_dims(0));
    let act = MatmulDactAttrs::of(&cx.attrs()).by.epilogue_act();
    let g = Gemm { act, precision: cx.precision, ..product_of_operands(cx)? };
    if !cx.used[1] {
        return emit_plain_product(cx, g);
    }
    let Some(g) = g.with_sums_for(dtype) else {
        if !g.is_empty() {
            emit_plain_product(cx, g)?;
        }
        let rows = y[..y.len() - 1].iter().product();
        return emit_column_sums(cx, (rows, g.n), (Buf::Out(0), Buf::Out(1)));
    };
    let blocks = g.unit_sums().0;
    let sums = if blocks == 1 { Buf::Out(1) } else { cx.temp(dtype.size(), blocks * g.n) };
    let to = MatmulTo { c: Buf::Out(0), old: Buf::Out(0), sums: Some(sums) };
    emit_product_to(cx, g, &[0, 1, 2].map(Buf::Arg), to, cx.flops())?;
    if blocks > 1 { emit_block_sum(cx, (blocks, g.n), (sums, Buf::Out(1))) } else { Ok(()) }
}

fn emit_plain_product(cx: &mut LowerCx<'_>, g: Gemm) -> Result<(), String> {
    let reads: Vec<Buf> = (0..cx.args()).map(Buf::Arg).collect();
    emit_product_call(cx, g, &reads, Buf::Out(0), cx.flops())
}

/// Where a product goes.
struct MatmulTo {
    c: Buf,
    /// What a product that accumulates is added to. C may take its place.
    old: Buf,
    /// The sums of the columns of C, if the product has them.
    sums: Option<Buf>,
}

/// The call of a product of `reads` into `out`. A product that accumulates is added to `out`.
pub fn emit_product_call(cx: &mut LowerCx<'_>, g: Gemm, reads: &[Buf], out: Buf, flops: u64) -> Result<(), String> {
    emit_product_to(cx, g, reads, MatmulTo { c: out, old: out, sums: None }, flops)
}

/// The call of a product of `reads`.
fn emit_product_to(cx: &mut LowerCx<'_>, g: Gemm, reads: &[Buf], to: MatmulTo, flops: u64) -> Result<(), String> {
    let (dtype, g) = (cx.dtype(0), Gemm { precision: cx.precision, ..g });
    let g = Gemm { by_rows: cx.in_body && g.has_rows_for(cx.threads), ..g };
    let scratch = g.scratch_len_for(dtype);
    let (split, units) = g.division();
    let whole = if let Split::Columns { .. } = split { whole_operands_of_columns(&g) } else { whole_operands(&g) };
    let call = Call::new(gemm::product_kernel_for(dtype, &g)?, g.to_words(), units)
        .flops(flops)
        .reads(reads)
        .cost_class(product_cost_class(dtype, &g))
        .whole(whole);
    let call = if g.accumulate { call.reads(&[to.old]).inplace(&[(reads.len(), 0)]) } else { call };
    let call = call.divided(to.c, split);
    let call = if let Some(sums) = to.sums { call.divided(sums, g.unit_sums().1) } else { call };
    let call = if scratch > 0 { call.scratch(cx.scratch(dtype.size(), scratch)) } else { call };
    cx.call(call);
    Ok(())
}

/// `lora_matmul`: the low-rank product, scaled while it is small, is added to the large one.
pub fn emit_lora_matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (x, y, low) = (cx.arg_dims(0), cx.out_dims(0), cx.out_dims(1));
    let lead = y.len() - 1;
    let (rows, k, rank, n) = (y[..lead].iter().product::<usize>(), x[lead], low[lead], y[lead]);
    let LoraMatmulAttrs { scale, transposed } = LoraMatmulAttrs::of(&cx.attrs());
    let by = |n: usize, k: usize| {
        let g = Gemm::new(rows, n, k);
        if transposed { g.with_b_transposed() } else { g }
    };
    let (size, e) = (cx.dtype(0).size(), kernel_dtype(cx.dtype(0))?);
    let flops = |g: &Gemm| 2 * (g.len() * g.k) as u64;
    let low = if cx.used[1] { Buf::Out(1) } else { cx.temp(size, rows * rank) };
    let g = by(rank, k);
    emit_product_call(cx, g, &[Buf::Arg(0), Buf::Arg(2)], low, flops(&g))?;
    let mut scaled = low;
    if scale != 1.0 {
        scaled = cx.temp(size, rows * rank);
        let inputs = vec![Input { elem: e, access: Access::Full }];
        let steps = vec![TileStep::fill(e, scale), TileStep::new(TileOp::Mul, e, &[0, 1], [0.0; 2])];
        let p = TileProgram { inputs, steps, outputs: vec![2], len: rows * rank };
        p.check()?;
        push_tile_program(cx, &p, &[low], &[scaled], p.len as u64);
    }
    let g = by(n, k);
    emit_product_call(cx, g, &[Buf::Arg(0), Buf::Arg(1)], Buf::Out(0), flops(&g))?;
    let g = Gemm { accumulate: true, bias: cx.args() == 5, ..by(n, rank) };
    let reads = [scaled, Buf::Arg(3), Buf::Arg(4)];
    emit_product_call(cx, g, &reads[..2 + usize::from(g.bias)], Buf::Out(0), flops(&g))
}

/// The operands of a product that all units read whole, as bits: B, and A if it is column-major.
pub fn whole_operands(g: &Gemm) -> u64 {
    2 | u64::from(g.a.col != 1)
}

/// [`whole_operands`] where units are columns: A, and B unless it is column-major.
fn whole_operands_of_columns(g: &Gemm) -> u64 {
    1 | u64::from(g.b.row != 1) << 1
}

/// The cost class of a product.
pub fn product_cost_class(dtype: DType, g: &Gemm) -> CostClass {
    if dtype == DType::F32 { CostClass::product(g.runs_in_for(dtype)) } else { CostClass::PRODUCT_F64 }
}
