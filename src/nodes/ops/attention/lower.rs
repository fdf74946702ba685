//! Kernel calls of attention, its adjoint, and rotary embeddings.
//!
//! A unit must write one range of bytes. So kernels write the log-sum-exp and the gradients as `[batch, heads,
//! sequence, …]`. If the layout has the sequence axis before the axis of heads, copies then restore the layout.

use crate::kernels::attention::rope;
use crate::kernels::attention::rope::Rope;
use crate::kernels::attention::{AttentionShape, BLOCK_KEYS, CHUNK_QUERIES};
use crate::kernels::copy::StridedCopy;
use crate::kernels::cost_model::CostClass;
use crate::kernels::{attention, copy};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::attention::attrs::{AttentionAttrs, AttentionBackwardAttrs, Layout, Pairing};
use crate::nodes::ops::attention::packed_parts::packed_parts;
use crate::nodes::ops::attention::rope_geometry::RopeGeometry;
use crate::nodes::ops::attention::{AttentionGeometry, Optional, find_optional_operands};

/// How q, k and v are read, and where optional operands begin.
#[derive(Clone, Copy)]
struct AttentionReads {
    /// The first of q, k, v, or the operand that holds all.
    first: usize,
    packed: bool,
    rest: usize,
}

impl AttentionReads {
    /// The reads of the kernels: all operands, the packed one three times.
    fn bufs(&self, args: usize) -> Vec<Buf> {
        let times = |i: usize| if self.packed && i == self.first { 3 } else { 1 };
        (0..args).flat_map(|i| std::iter::repeat_n(Buf::Arg(i), times(i))).collect()
    }
}

/// The kernel's params for a node. `dlse` says whether the log-sum-exp has a gradient.
fn kernel_params(cx: &LowerCx<'_>, reads: &AttentionReads, dlse: bool) -> Result<AttentionShape, String> {
    let (attrs, AttentionReads { first, packed, rest }) = (AttentionAttrs::of(&cx.attrs()), *reads);
    let dims =
        if packed { packed_parts(&cx.arg_dims(first), &attrs)? } else { [0, 1, 2].map(|i| cx.arg_dims(first + i)) };
    let shape = AttentionGeometry::of(&dims, &attrs)?.shape;
    let Optional { padding, bias, .. } = find_optional_operands(&attrs, rest);
    let strides = bias.map_or([0, 0], |i| {
        let (d, s) = (cx.arg_dims(i), cx.arg_dims(i).strides());
        [0, 1].map(|axis| if d[axis] == 1 { 0 } else { s[axis] })
    });
    Ok(AttentionShape {
        packed,
        seq_major: packed || shape.seq_major,
        bytes: padding.is_some_and(|i| cx.dtype(i) == DType::Bool),
        bias_bytes: bias.is_some_and(|i| cx.dtype(i) == DType::Bool),
        bias_batch: strides[0],
        bias_head: strides[1],
        dlse,
        ..shape
    })
}

/// Copies `from`, dense over the first three of `dims` in the order `[0, 2, 1]`, into result `to`.
fn copy_exchanged(cx: &mut LowerCx<'_>, from: Buf, to: usize, dims: [usize; 4]) -> Result<(), String> {
    let [_, s, h, w] = dims.map(|d| d as i64);
    let p = StridedCopy::new(&dims, &[h * s * w, w, s * w, 1], 0).ok_or("too many axes")?;
    let call = Call::new(copy::strided_copy_kernel_for(cx.out(to).dtype), p.to_words(), p.units());
    cx.call(call.reads(&[from]).writes(Buf::Out(to), p.per_unit()));
    Ok(())
}

/// `attention`.
pub fn emit_attention(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_forward_call(cx, &AttentionReads { first: 0, packed: false, rest: 3 })
}

/// `attention_packed`.
pub fn emit_attention_packed(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_forward_call(cx, &AttentionReads { first: 0, packed: true, rest: 1 })
}

fn emit_forward_call(cx: &mut LowerCx<'_>, reads: &AttentionReads) -> Result<(), String> {
    let (p, dtype) = (kernel_params(cx, reads, false)?, cx.dtype(0));
    let kernel = attention::attention_forward_kernel_for(dtype)?;
    let lse = if p.seq_major { cx.temp(dtype.size(), p.batch * p.heads * p.queries) } else { Buf::Out(1) };
    let scratch = cx.scratch(dtype.size(), p.forward_scratch_for(dtype));
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::ATTENTION);
    let call = call.reads(&reads.bufs(cx.args()));
    let call = call.writes(Buf::Out(0), p.per_unit()).writes(lse, p.stats_per_unit());
    cx.call(call.scratch(scratch));
    if p.seq_major && cx.used[1] {
        copy_exchanged(cx, lse, 1, [p.batch, p.heads, p.queries, 1])?;
    }
    Ok(())
}

/// Units of the backward kernels that compute the scores twice, if `threads` threads finish earlier with them than with
/// one unit for each head: seven products divided evenly, against five for each head.
fn choose_fine_units(p: &AttentionShape, threads: usize) -> Option<[usize; 2]> {
    let heads = p.backward_units();
    let sooner = 7 * heads < 5 * threads * heads.div_ceil(threads);
    p.fine_units().filter(|units| sooner && units.iter().all(|&u| u >= threads))
}

/// `attention_backward`.
pub fn emit_attention_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_backward_call(cx, false)
}

/// `attention_packed_backward`.
pub fn emit_attention_packed_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_backward_call(cx, true)
}

fn emit_backward_call(cx: &mut LowerCx<'_>, packed: bool) -> Result<(), String> {
    let dlse = AttentionBackwardAttrs::of(&cx.attrs()).dlse;
    let rest = if packed { 4 } else { 6 } + usize::from(dlse);
    let reads = AttentionReads { first: 1, packed, rest };
    let (p, dtype) = (kernel_params(cx, &reads, dlse)?, cx.dtype(0));
    let rows = [p.heads * p.queries, p.kv_heads * p.keys, p.kv_heads * p.keys];
    let widths = [p.width, p.width, p.value_width];
    let lens = [0, 1, 2].map(|i| rows[i] * widths[i]);
    let grads = [0, 1, 2].map(|i| match p.seq_major {
        true => cx.temp(dtype.size(), p.batch * lens[i]),
        false => Buf::Out(i),
    });
    let per_thread = p.backward_scratch_for(dtype);
    let scratch = cx.scratch(dtype.size(), per_thread);
    let bias = cx.used.len() > 3 && cx.used[3];
    let bufs = reads.bufs(cx.args());
    let reading = |kernel, units, flops| {
        let call = Call::new(kernel, p.to_words(), units).flops(flops);
        call.cost_class(CostClass::ATTENTION_BACKWARD).reads(&bufs)
    };
    let with_bias = |call: Call, per: usize| if bias { call.writes(Buf::Out(3), per * p.keys) } else { call };
    let mut calls = Vec::new();
    if let Some([keys, queries]) = choose_fine_units(&p, cx.threads) {
        // Four and three products. Scores are made twice, and count once.
        let call = reading(attention::attention_backward_keys_kernel_for(dtype)?, keys, cx.flops() / 7 * 4);
        let call = (1..3).fold(call, |call, i| call.writes(grads[i], BLOCK_KEYS * widths[i]));
        calls.push(call.scratch(scratch));
        let call = reading(attention::attention_backward_queries_kernel_for(dtype)?, queries, cx.flops() / 7 * 3);
        let call = call.writes(grads[0], CHUNK_QUERIES * widths[0]).scratch(cx.scratch(dtype.size(), per_thread));
        calls.push(with_bias(call, CHUNK_QUERIES));
    } else {
        let call = reading(attention::attention_backward_kernel_for(dtype)?, p.backward_units(), cx.flops());
        let call = (0..3).fold(call, |call, i| call.writes(grads[i], lens[i] / p.kv_heads));
        calls.push(with_bias(call.scratch(scratch), p.group() * p.queries));
    }
    calls.into_iter().for_each(|call| cx.call(call));
    if p.packed {
        let call = Call::new(attention::pack_gradients_kernel_for(dtype)?, p.to_words(), p.pack_gradients_units());
        cx.call(call.reads(&grads).writes(Buf::Out(0), p.pack_gradients_per_unit()));
        return Ok(());
    }
    for i in (0..3).filter(|&i| p.seq_major && cx.used[i]) {
        let (heads, len) = if i == 0 { (p.heads, p.queries) } else { (p.kv_heads, p.keys) };
        copy_exchanged(cx, grads[i], i, [p.batch, len, heads, widths[i]])?;
    }
    Ok(())
}

/// `rope`.
pub fn emit_rope(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let geo = RopeGeometry::of(&cx.arg_dims(0), &cx.arg_dims(1), &cx.arg_dims(2), &cx.attrs())?;
    let p = Rope {
        rows: geo.batch * geo.heads * geo.seq,
        width: geo.width,
        pairs: geo.pairs,
        inner: if geo.layout == Layout::Bhsd { 1 } else { geo.heads },
        seq: geo.seq,
        per_sequence: if geo.own { geo.heads * geo.seq } else { 0 },
        neighbours: geo.pairing == Pairing::Neighbours,
        inverse: geo.inverse,
    };
    if p.pairs == 0 {
        cx.view(0, 0, 0);
        return Ok(());
    }
    let call = Call::new(rope::rope_kernel_for(cx.dtype(0))?, p.to_words(), p.units()).flops(cx.flops());
    cx.call(call.reads_args(3).writes(Buf::Out(0), p.per_unit()).inplace(&[(0, 0)]));
    Ok(())
}
