//! Calls of attention, its adjoint, and rotary embeddings. Where the sequence stands before the heads, the log-sum-exp and the gradients are
//! made with the heads first, so that a unit owns whole pieces of them, and then moved.

use super::{by_float, by_size};
use crate::kernels::attention::{self, Attention};
use crate::kernels::copy::{self, Strided};
use crate::kernels::rope::{Rope, rope as turn};
use crate::nodes::dtype::DType;
use crate::nodes::lower::{Buf, Call, LowerCx};
use crate::nodes::ops::attention::{DLSE, DROPOUT, Geometry, Layout, Optional, STREAM, optional};
use crate::nodes::ops::rope;

/// The params of a node whose q is operand `first` and whose optional operands begin at `rest`.
fn params(cx: &LowerCx<'_>, first: usize, rest: usize) -> Result<Attention, String> {
    let attrs = cx.attrs();
    let g = Geometry::of(&[0, 1, 2].map(|i| cx.arg_dims(first + i)), &attrs)?;
    let Optional { padding, bias, .. } = optional(&attrs, rest);
    let strides = bias.map_or([0, 0], |i| {
        let (d, s) = (cx.arg_dims(i), cx.arg_dims(i).strides());
        [0, 1].map(|axis| if d[axis] == 1 { 0 } else { s[axis] })
    });
    Ok(Attention {
        batch: g.batch,
        heads: g.heads,
        kv_heads: g.kv_heads,
        queries: g.queries,
        keys: g.keys,
        width: g.width,
        value_width: g.value_width,
        // With one head of each, both orders are the same.
        seq_major: g.layout != Layout::Bhsd && g.heads > 1,
        causal: g.causal,
        window: g.window,
        scale: g.scale,
        cap: g.softcap,
        padding: padding.is_some(),
        bytes: padding.is_some_and(|i| cx.dtype(i) == DType::Bool),
        bias: bias.is_some(),
        bias_batch: strides[0],
        bias_head: strides[1],
        dlse: attrs.fields.len() > DLSE && attrs.bool(DLSE),
        drop: attrs.f64(DROPOUT),
        stream: attrs.int(STREAM) as u64,
    })
}

/// Copies `from`, dense over the first three of `dims` in the order `[0, 2, 1]`, into result `to`.
fn exchange(cx: &mut LowerCx<'_>, from: Buf, to: usize, dims: [usize; 4]) -> Result<(), String> {
    let [_, s, h, w] = dims.map(|d| d as i64);
    let p = Strided::new(&dims, &[h * s * w, w, s * w, 1], 0).ok_or("too many axes")?;
    let call = Call::new(by_size!(cx.out(to).dtype, copy::strided_copy), p.to_words(), p.units());
    cx.call(call.reads(&[from]).writes(Buf::Out(to), p.per_unit()));
    Ok(())
}

/// `attention`.
pub fn attention(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (p, dtype) = (params(cx, 0, 3)?, cx.dtype(0));
    let kernel = by_float!(dtype, attention::forward)?;
    let lse = if p.seq_major { cx.temp(dtype.size(), p.batch * p.heads * p.queries) } else { Buf::Out(1) };
    let lane = if dtype == DType::F32 { p.forward_scratch::<f32>() } else { p.forward_scratch::<f64>() };
    let scratch = cx.scratch(dtype.size(), lane);
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).reads_args(cx.args());
    let call = call.writes(Buf::Out(0), p.per_unit()).writes(lse, p.stats_per_unit());
    cx.call(call.scratch(scratch));
    if p.seq_major && cx.used[1] {
        exchange(cx, lse, 1, [p.batch, p.heads, p.queries, 1])?;
    }
    Ok(())
}

/// `attention_backward`.
pub fn attention_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let dlse = cx.attrs().bool(DLSE);
    let (p, dtype) = (params(cx, 1, 6 + usize::from(dlse))?, cx.dtype(0));
    let kernel = by_float!(dtype, attention::backward)?;
    let rows = [p.heads * p.queries, p.kv_heads * p.keys, p.kv_heads * p.keys];
    let widths = [p.width, p.width, p.value_width];
    let lens = [0, 1, 2].map(|i| rows[i] * widths[i]);
    let grads = [0, 1, 2].map(|i| match p.seq_major {
        true => cx.temp(dtype.size(), p.batch * lens[i]),
        false => Buf::Out(i),
    });
    let lane = if dtype == DType::F32 { p.backward_scratch::<f32>() } else { p.backward_scratch::<f64>() };
    let scratch = cx.scratch(dtype.size(), lane);
    let mut call = Call::new(kernel, p.to_words(), p.backward_units()).flops(cx.flops()).reads_args(cx.args());
    for (grad, len) in grads.into_iter().zip(lens) {
        call = call.writes(grad, len / p.kv_heads);
    }
    call = call.scratch(scratch);
    if cx.used.len() > 3 && cx.used[3] {
        call = call.writes(Buf::Out(3), p.group() * p.queries * p.keys);
    }
    cx.call(call);
    for i in (0..3).filter(|&i| p.seq_major && cx.used[i]) {
        let (heads, len) = if i == 0 { (p.heads, p.queries) } else { (p.kv_heads, p.keys) };
        exchange(cx, grads[i], i, [p.batch, len, heads, widths[i]])?;
    }
    Ok(())
}

/// `rope`.
pub fn rope(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let geo = rope::Geometry::of(&cx.arg_dims(0), &cx.arg_dims(1), &cx.arg_dims(2), &cx.attrs())?;
    let p = Rope {
        rows: geo.batch * geo.heads * geo.seq,
        width: geo.width,
        pairs: geo.pairs,
        inner: if geo.layout == Layout::Bhsd { 1 } else { geo.heads },
        seq: geo.seq,
        per_sequence: if geo.own { geo.heads * geo.seq } else { 0 },
        neighbours: geo.pairing == rope::Pairing::Neighbours,
        inverse: geo.inverse,
    };
    if p.pairs == 0 {
        cx.view(0, 0, 0);
        return Ok(());
    }
    let call = Call::new(by_float!(cx.dtype(0), turn)?, p.to_words(), p.units()).flops(cx.flops());
    cx.call(call.reads_args(3).writes(Buf::Out(0), p.per_unit()).inplace(&[(0, 0)]));
    Ok(())
}
