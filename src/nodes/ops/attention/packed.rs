//! Attention whose q, k and v are side by side in the rows of one operand, as one product writes them. Nothing is
//! copied out first, and the backward op writes the gradient of that product's result.
//!
//! Invariant: [`super::AttentionGeometry`] checks the parts. The layout is `bsd`, and q and k have one length.

use super::attrs::{AttentionAttrs, AttentionBackwardAttrs};
use super::geometry::{AttentionGeometry, check_optional_operands};
use super::packed_parts::{packed_part_widths, packed_parts};
use super::{count_pair_flops, lower};
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Bit, Bits, Positive, Real, Unit};

fn read_geometry(cx: &Infer<'_>, attrs: &AttentionAttrs, i: usize) -> Result<AttentionGeometry, String> {
    AttentionGeometry::of(&packed_parts(&cx.dims(i), attrs)?, attrs)
}

/// q, k and v of the packed operand `i`; empty if the widths do not fit, which `infer` refuses.
fn split_qkv<'g>(s: &Site<'_, 'g>, i: usize) -> Vec<Var<'g>> {
    let Ok(widths) = packed_part_widths(&s.args[i].dims(), &AttentionAttrs::of(&s.attrs)) else { return Vec::new() };
    let mut at = 0;
    let mut next = |w: usize| {
        at += w;
        s.args[i].narrow(-1, at - w, w)
    };
    widths.map(&mut next).to_vec()
}

fn count_flops(cx: &CostCx<'_>, i: usize, a: usize, b: usize) -> u64 {
    let attrs = AttentionAttrs::of(&cx.graph.attrs(cx.node));
    let d = cx.graph.shape_dims(cx.graph.ty(cx.graph.args_of(cx.node)[i]).shape);
    packed_parts(&d, &attrs).and_then(|p| AttentionGeometry::of(&p, &attrs)).map_or(0, |g| count_pair_flops(&g, a, b))
}

/// [`ATTENTION`](super::ATTENTION) whose queries, keys and values are side by side in one tensor.
pub const ATTENTION_PACKED: OpDef = OpDef {
    name: "attention_packed",
    doc: "attention of the parts q, k, v of packed rows, from (qkv[, padding][, bias][, key])",
    arity: Arity::Between(1, 4),
    attrs: AttentionAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::HEAVY),
    infer: |cx| {
        let dtype = cx.float(0)?;
        let attrs = AttentionAttrs::of(&cx.attrs);
        let g = read_geometry(cx, &attrs, 0)?;
        check_optional_operands(cx, &attrs, &g, 1)?;
        cx.result(dtype, &g.y())?;
        cx.result(dtype, &[g.batch, g.heads, g.queries])
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let args = [&split_qkv(s, 0), &s.args[1..]].concat();
        s.g.emit(Op::ATTENTION, &args, &AttentionAttrs::of(&s.attrs).list()).into()
    }),
    lower: Lower::Kernel(lower::emit_attention_packed),
    cost: |cx| count_flops(cx, 0, 1, 1),
    cases: &[
        Case {
            args: "f[2,5,24]",
            attrs: "layout=bsd heads=2 kv_heads=2 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[1,137,16] f[1,137] f[1,1,137,137] u32[4]",
            attrs: "layout=bsd heads=4 kv_heads=2 mask=window window=90 ahead=0 top_left=false scale=0.7 softcap=2 \
                padding=true bias=true dropout=0.3 stream=7",
            domains: &[Real, Bit, Real, Bits],
        },
        Case {
            args: "f[3,4,9]",
            attrs: "layout=bsd heads=1 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
    ],
    ..OpDef::BLANK
};

/// The cotangents of the operands of [`ATTENTION_PACKED`].
pub const ATTENTION_PACKED_BACKWARD: OpDef = OpDef {
    name: "attention_packed_backward",
    doc: "the gradient of attention_packed in the packed rows, from (dy, qkv, y, lse[, dlse][, padding][, key])",
    arity: Arity::Between(4, 7),
    attrs: AttentionBackwardAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let (attrs, given) = (AttentionAttrs::of(&cx.attrs), cx.args.len());
        let dlse = AttentionBackwardAttrs::of(&cx.attrs).dlse;
        let rest = 4 + usize::from(dlse);
        ensure!(given >= rest, "{given} operands; at least {rest} are needed");
        ensure!(!attrs.bias, "the gradient of a bias is made by attention_backward alone");
        cx.float(0)?;
        (1..rest).try_for_each(|i| cx.same_dtype(0, i))?;
        let g = read_geometry(cx, &attrs, 1)?;
        cx.expect_dims(0, "dy", &g.y())?;
        cx.expect_dims(2, "y", &g.y())?;
        for (i, what) in [(3, "lse"), (4, "dlse")].into_iter().take(1 + usize::from(dlse)) {
            cx.expect_dims(i, what, &[g.batch, g.heads, g.queries])?;
        }
        check_optional_operands(cx, &attrs, &g, rest)?;
        cx.same_as(1)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let args = [&s.args[..1], &split_qkv(s, 1), &s.args[2..]].concat();
        let attrs = AttentionBackwardAttrs::of(&s.attrs);
        let grads = Vec::from(s.g.emit(Op::ATTENTION_BACKWARD, &args, &attrs.list()));
        grads.first().map(|dq| dq.concat(&grads[1..], -1)).into_iter().collect()
    }),
    lower: Lower::Kernel(lower::emit_attention_packed_backward),
    cost: |cx| count_flops(cx, 1, 3, 2),
    cases: &[
        Case {
            args: "f[2,5,8] f[2,5,24] f[2,5,8] f[2,2,5]",
            attrs: "layout=bsd heads=2 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Real, Positive],
        },
        Case {
            args: "f[1,137,8] f[1,137,16] f[1,137,8] f[1,4,137] f[1,4,137] f[1,137] u32[4]",
            attrs: "layout=bsd heads=4 kv_heads=2 mask=window window=90 ahead=0 top_left=false scale=0.7 softcap=2 \
                padding=true bias=false dropout=0.3 stream=7 dlse=true",
            domains: &[Unit, Unit, Unit, Positive, Real, Bit, Bits],
        },
        Case {
            args: "f[3,4,3] f[3,4,9] f[3,4,3] f[3,1,4]",
            attrs: "layout=bsd heads=1 kv_heads=1 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Real, Positive],
        },
    ],
    ..OpDef::BLANK
};
