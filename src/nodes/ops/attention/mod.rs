//! Scaled dot-product attention, with a backward op that computes all gradients in one sweep.
//!
//! Invariant: [`AttentionGeometry::of`] and [`check_optional_operands`] check shapes, masks and options; both ops,
//! their lowering and their decompositions share them. Neither op stores anything of size queries × keys, except the
//! gradient of a bias, if that is read.

pub mod attrs;
pub mod axial_rope;
pub mod geometry;
pub mod lower;
pub mod rope;
pub mod rope_tables;
pub mod var;

pub mod packed;
pub mod packed_parts;
pub mod rope_geometry;
mod scores;

use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::attention::geometry::attention_dims;
use Domain::{Bit, Bits, Positive, Real, Unit};
pub use attrs::Layout;
use attrs::{AttentionAttrs, AttentionBackwardAttrs};
use geometry::check_optional_operands;
pub use geometry::{AttentionGeometry, Optional, find_optional_operands};
pub use packed::{ATTENTION_PACKED, ATTENTION_PACKED_BACKWARD};
use scores::Scores;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    (1..3).try_for_each(|i| cx.same_dtype(0, i))?;
    let attrs = AttentionAttrs::of(&cx.attrs);
    let g = AttentionGeometry::of(&attention_dims(cx, 0), &attrs)?;
    check_optional_operands(cx, &attrs, &g, 3)?;
    cx.result(dtype, &g.y())?;
    cx.result(dtype, &[g.batch, g.heads, g.queries])
}

fn infer_backward_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let (attrs, dlse) = (AttentionAttrs::of(&cx.attrs), AttentionBackwardAttrs::of(&cx.attrs).dlse);
    let rest = 6 + usize::from(dlse);
    ensure!(cx.args.len() >= rest, "{} operands; at least {rest} are needed", cx.args.len());
    (1..rest).try_for_each(|i| cx.same_dtype(0, i))?;
    let g = AttentionGeometry::of(&attention_dims(cx, 1), &attrs)?;
    cx.expect_dims(0, "dy", &g.y())?;
    cx.expect_dims(4, "y", &g.y())?;
    let rows = [g.batch, g.heads, g.queries];
    cx.expect_dims(5, "lse", &rows)?;
    if dlse {
        cx.expect_dims(6, "dlse", &rows)?;
    }
    check_optional_operands(cx, &attrs, &g, rest)?;
    (1..4).try_for_each(|i| cx.same_as(i))?;
    match attrs.bias {
        true => cx.result(dtype, &[g.batch, g.heads, g.queries, g.keys]),
        false => Ok(()),
    }
}

/// Multiply-adds: for each pair, `a` times the width of q and k and `b` times that of v.
fn count_flops(cx: &CostCx<'_>, first: usize, a: usize, b: usize) -> u64 {
    let d = |i: usize| cx.graph.shape_dims(cx.graph.ty(cx.graph.args_of(cx.node)[first + i]).shape);
    let g = AttentionGeometry::of(&[d(0), d(1), d(2)], &AttentionAttrs::of(&cx.graph.attrs(cx.node)));
    g.map_or(0, |g| count_pair_flops(&g, a, b))
}

fn count_pair_flops(g: &AttentionGeometry, a: usize, b: usize) -> u64 {
    g.pairs().saturating_mul(2 * (a * g.width + b * g.value_width) as u64)
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let t = scores::score_tangents(s, t);
    match Scores::new(s, 0, 3).filter(|_| t.iter().any(Option::is_some)) {
        Some(scores) => scores.jvp(s.outs, t),
        None => vec![None, None],
    }
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let mut grads = vec![None; s.args.len()];
    let dy = match ct {
        [None, None] => return grads,
        [dy, _] => dy.unwrap_or_else(|| s.outs[0].full_like(0.0)),
        _ => return grads,
    };
    let mut args = vec![dy, s.args[0], s.args[1], s.args[2], s.outs[0], s.outs[1]];
    args.extend(ct[1]);
    args.extend(&s.args[3..]);
    let attrs = AttentionAttrs::of(&s.attrs);
    let all = s.g.emit(Op::ATTENTION_BACKWARD, &args, &attrs.backward(ct[1].is_some()).list());
    grads.iter_mut().zip(all.iter()).take(3).for_each(|(to, d)| *to = Some(*d));
    if let Some(i) = find_optional_operands(&attrs, 3).bias {
        grads[i] = all.get(3).filter(|_| want[i]).map(|d| d.unbroadcast(&s.args[i].dims()));
    }
    grads
}

fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let AttentionBackwardAttrs { dlse, bias, .. } = AttentionBackwardAttrs::of(&s.attrs);
    let Some(scores) = Scores::new(s, 1, 6 + usize::from(dlse)) else { return Vec::new() };
    let all = scores.backward(s.args[0], s.args[4], s.args[5], dlse.then(|| s.args[6]));
    all[..if bias { 4 } else { 3 }].to_vec()
}

/// Members are further sequences where all operands have an axis for those: masks, biases and keys need none.
const BATCH_ATTENTION: Batch = Batch::RuleIf(
    |attrs| {
        let AttentionAttrs { padding, bias, dropout, .. } = AttentionAttrs::of(attrs);
        !padding && !bias && dropout == 0.0
    },
    |s| s.merged(),
);

/// Scaled dot-product attention, with the log-sum-exp of the scores.
pub const ATTENTION: OpDef = OpDef {
    name: "attention",
    doc: "y = dropout(softmax(s))·v with s = softcap(scale·q·kᵀ) + bias over the keys that a query sees, 0 if it sees none; \
          also lse = ln Σ eˢ; from (q, k, v[, padding][, bias][, key])",
    arity: Arity::Between(3, 6),
    attrs: AttentionAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: BATCH_ATTENTION,
    decompose: Some(|s| Scores::new(s, 0, 3).map_or_else(Vec::new, |x| x.forward())),
    lower: Lower::Kernel(lower::emit_attention),
    cost: |cx| count_flops(cx, 0, 1, 1),
    cases: &[
        // Places before the first key and behind the last one.
        Case {
            args: "f[2,2,9,4] f[2,1,5,4] f[2,1,5,4]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=window window=2 ahead=1 top_left=true scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[1,1,9,2] f[1,1,5,2] f[1,1,5,2]",
            attrs: "layout=bhsd heads=1 kv_heads=1 mask=window window=1 ahead=2 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[1,70,3] f[1,150,3] f[1,150,3]",
            attrs: "layout=bsd heads=1 kv_heads=1 mask=causal window=0 ahead=0 top_left=true scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[1,150,3] f[1,150,3] f[1,150,3]",
            attrs: "layout=bsd heads=1 kv_heads=1 mask=window window=30 ahead=70 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[2,2,5,4] f[2,2,5,4] f[2,2,5,4]",
            attrs: "layout=bhsd heads=2 kv_heads=2 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        // More queries than keys: the first see none. Two heads of q share one of k; v has another width.
        Case {
            args: "f[2,5,4,3] f[2,4,2,3] f[2,4,2,5]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0.7 softcap=1.5 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        // More keys than queries, several blocks of both, a bias for all heads.
        Case {
            args: "f[1,70,6] f[1,137,3] f[1,137,3] f[1,1,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=window window=90 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=true dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[3,2,3,4] f[3,1,6,4] f[3,1,6,4] f[3,6] f[3,2,3,6]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=2 \
                padding=true bias=true dropout=0 stream=0",
            domains: &[Real, Real, Real, Bit, Real],
        },
        // A mask of bools for each query, of several blocks of keys.
        Case {
            args: "f[1,70,6] f[1,137,3] f[1,137,3] bool[1,1,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=2 \
                padding=false bias=true dropout=0 stream=0",
            domains: &[Real, Real, Real, Bit],
        },
        Case {
            args: "f[2,2,3,4] f[2,2,5,4] f[2,2,5,4] bool[2,5] bool[1,2,3,5] u32[4]",
            attrs: "layout=bhsd heads=2 kv_heads=2 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=true bias=true dropout=0.3 stream=4",
            domains: &[Real, Real, Real, Bit, Bit, Bits],
        },
        // One key a sequence, hidden in some.
        Case {
            args: "f[9,2,6] f[9,1,6] f[9,1,6] bool[9,1]",
            attrs: "layout=bsd heads=3 kv_heads=3 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=true bias=false dropout=0 stream=0",
            domains: &[Real, Real, Real, Bit],
        },
        Case {
            args: "f[1,1,7,3] f[1,1,9,3] f[1,1,9,2]",
            attrs: "layout=bhsd heads=1 kv_heads=1 mask=window window=0 ahead=0 top_left=false scale=-1 softcap=0 \
                padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[2,2,5,4] f[2,1,6,4] f[2,1,6,4] u32[4]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0.3 stream=5",
            domains: &[Real, Real, Real, Bits],
        },
        Case {
            args: "f[2,70,6] f[2,137,3] f[2,137,3] f[2,137] f[1,2,70,137] u32[4]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=2 \
                padding=true bias=true dropout=0.6 stream=7",
            domains: &[Real, Real, Real, Bit, Real, Bits],
        },
        Case {
            args: "f[1,1,2,3] f[1,1,4,3] f[1,1,4,2] u32[4]",
            attrs: "layout=bhsd heads=1 kv_heads=1 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=1 stream=0",
            domains: &[Real, Real, Real, Bits],
        },
    ],
    ..OpDef::BLANK
};

/// The cotangents of the operands of [`ATTENTION`].
pub const ATTENTION_BACKWARD: OpDef = OpDef {
    name: "attention_backward",
    doc: "dq, dk, dv and, with a bias, dbias of attention, from \
          (dy, q, k, v, y, lse[, dlse][, padding][, bias][, key])",
    arity: Arity::Between(6, 10),
    attrs: AttentionBackwardAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_backward_types,
    deriv: Deriv::ViaDecompose,
    batch: BATCH_ATTENTION,
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower::emit_attention_backward),
    cost: |cx| count_flops(cx, 1, 3, 2),
    cases: &[
        // Places before the first key and behind the last one.
        Case {
            args: "f[2,2,9,4] f[2,2,9,4] f[2,1,5,4] f[2,1,5,4] f[2,2,9,4] f[2,2,9]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=window window=2 ahead=1 top_left=true scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive],
        },
        Case {
            args: "f[1,70,3] f[1,70,3] f[1,150,3] f[1,150,3] f[1,70,3] f[1,1,70]",
            attrs: "layout=bsd heads=1 kv_heads=1 mask=window window=30 ahead=20 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive],
        },
        Case {
            args: "f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5]",
            attrs: "layout=bhsd heads=2 kv_heads=2 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive],
        },
        Case {
            args: "f[2,5,4,5] f[2,5,4,3] f[2,4,2,3] f[2,4,2,5] f[2,5,4,5] f[2,4,5] f[2,4,5]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0.7 softcap=1.5 \
                padding=false bias=false dropout=0 stream=0 dlse=true",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Real],
        },
        Case {
            args: "f[1,70,6] f[1,70,6] f[1,137,3] f[1,137,3] f[1,70,6] f[1,2,70] f[1,137] f[1,2,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=window window=90 ahead=0 top_left=false scale=0 softcap=0 \
                padding=true bias=true dropout=0 stream=0 dlse=false",
            domains: &[Unit, Unit, Unit, Unit, Unit, Positive, Bit, Unit],
        },
        Case {
            args: "f[3,2,3,4] f[3,2,3,4] f[3,1,6,4] f[3,1,6,4] f[3,2,3,4] f[3,2,3] f[3,2,3] bool[3,6] f[1,2,3,6]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=2 \
                padding=true bias=true dropout=0 stream=0 dlse=true",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Real, Bit, Unit],
        },
        Case {
            args: "f[1,70,6] f[1,70,6] f[1,137,3] f[1,137,3] f[1,70,6] f[1,2,70] bool[1,1,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                padding=false bias=true dropout=0 stream=0 dlse=false",
            domains: &[Unit, Unit, Unit, Unit, Unit, Positive, Bit],
        },
        Case {
            args: "f[2,5,4,5] f[2,5,4,3] f[2,4,2,3] f[2,4,2,5] f[2,5,4,5] f[2,4,5] bool[2,4] f[2,4,5,4] u32[4]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0.7 softcap=1.5 \
                padding=true bias=true dropout=0.4 stream=9 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Bit, Unit, Bits],
        },
    ],
    ..OpDef::BLANK
};
