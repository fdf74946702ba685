//! Scaled dot-product attention, with a backward op that computes all gradients in one sweep.
//!
//! Invariant: [`Geometry::of`] and [`check_optional`] check shapes, masks and options; both ops, their lowering and
//! their decompositions share them. Neither op stores anything of size queries × keys, except the gradient of a bias,
//! if that is read.

pub mod attrs;
pub mod lower;
pub mod rope;
pub mod rotary;
pub mod var;

pub mod packed;
mod plain;

use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::CostCx;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ir::typed::Choice;
use Domain::{Bit, Bits, Positive, Real, Unit};
pub use attrs::Layout;
use attrs::{AttentionAttrs, AttentionBackwardAttrs, Mask};
pub use packed::{ATTENTION_PACKED, ATTENTION_PACKED_BACKWARD};
use plain::Scores;
use std::ops::Deref;

/// Sizes and options of a node, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Order of axes.
    pub layout: Layout,
    /// Sequences.
    pub batch: usize,
    /// Heads of q.
    pub heads: usize,
    /// Heads of k and v.
    pub kv_heads: usize,
    /// Length of q.
    pub queries: usize,
    /// Length of k and v.
    pub keys: usize,
    /// Head width of q and k.
    pub width: usize,
    /// Head width of v and y.
    pub value_width: usize,
    /// Whether a query sees no later key.
    pub causal: bool,
    /// Earlier keys that a causal query sees; the greatest number for all.
    pub window: usize,
    /// The factor of the scores.
    pub scale: f64,
    /// The softcap; 0 for none.
    pub softcap: f64,
}

/// `[batch, heads, sequence, width]` of one operand.
pub(super) fn axes(what: &str, d: &[usize], layout: Layout, heads: usize) -> Result<[usize; 4], String> {
    let name = Layout::NAMES[layout as usize];
    let shape = crate::nodes::ir::infer::show(d);
    match (layout, d) {
        (Layout::Bhsd, &[b, h, s, w]) | (Layout::Bshd, &[b, s, h, w]) => {
            ensure!(h == heads, "{what} of shape {shape} has {h} heads in layout {name}, not {heads}");
            ensure!(w > 0, "the head width of {what} is 0");
            Ok([b, h, s, w])
        }
        (Layout::Bsd, &[b, s, w]) => {
            ensure!(w.is_multiple_of(heads), "{heads} heads do not divide the last axis of {what}, {w}");
            ensure!(w > 0, "the head width of {what} is 0");
            Ok([b, heads, s, w / heads])
        }
        _ => Err(format!(
            "{what} has shape {shape}; layout {name} has rank {}",
            if layout == Layout::Bsd { 3 } else { 4 }
        )),
    }
}

/// Attribute `name` as a number of at least 1.
fn count(name: &str, n: i64) -> Result<usize, String> {
    ensure!(n >= 1, "{name} is {n}; it must be at least 1");
    usize::try_from(n).map_err(|_| format!("{name} is {n}"))
}

impl Geometry {
    /// The geometry of q, k and v of these dimensions.
    pub fn of<D: Deref<Target = [usize]>>([q, k, v]: &[D; 3], attrs: &AttentionAttrs) -> Result<Geometry, String> {
        let AttentionAttrs { layout, mask, window, scale, softcap, .. } = *attrs;
        let (heads, kv_heads) = (count("heads", attrs.heads)?, count("kv_heads", attrs.kv_heads)?);
        ensure!(heads.is_multiple_of(kv_heads), "kv_heads = {kv_heads} does not divide heads = {heads}");
        let [batch, _, queries, width] = axes("q", q, layout, heads)?;
        let [kb, _, keys, kw] = axes("k", k, layout, kv_heads)?;
        let [vb, _, values, value_width] = axes("v", v, layout, kv_heads)?;
        ensure!(batch == kb && batch == vb, "batch sizes {batch} of q, {kb} of k and {vb} of v differ");
        ensure!(width == kw, "head widths {width} of q and {kw} of k differ");
        ensure!(keys == values, "lengths {keys} of k and {values} of v differ");
        ensure!(window >= 0, "window is {window}; it must not be negative");
        ensure!(mask == Mask::Window || window == 0, "window is {window}, but mask is {}", Mask::NAMES[mask as usize]);
        ensure!(scale.is_finite(), "scale is {scale}; it must be finite (0 stands for 1/√width)");
        ensure!(softcap >= 0.0 && softcap.is_finite(), "softcap is {softcap}; it must be 0 (none) or positive");
        Ok(Geometry {
            layout,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            width,
            value_width,
            causal: mask != Mask::None,
            window: if mask == Mask::Window { window as usize } else { usize::MAX },
            scale: if scale == 0.0 { 1.0 / (width as f64).sqrt() } else { scale },
            softcap,
        })
    }

    /// Heads of q that share one of k.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Dimensions of y.
    fn y(&self) -> Vec<usize> {
        let (b, h, s, w) = (self.batch, self.heads, self.queries, self.value_width);
        match self.layout {
            Layout::Bhsd => vec![b, h, s, w],
            Layout::Bshd => vec![b, s, h, w],
            Layout::Bsd => vec![b, s, h.saturating_mul(w)],
        }
    }

    /// Pairs of a query and a key that it may see, over all heads.
    fn pairs(&self) -> u64 {
        let rows = (self.batch * self.heads * self.queries) as u64;
        let all = rows.saturating_mul(self.keys as u64);
        match (self.causal, self.window) {
            (false, _) => all,
            (true, usize::MAX) => all / 2,
            (true, w) => all.min(rows.saturating_mul(w as u64 + 1)),
        }
    }
}

/// Operands that a node may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optional {
    /// The mask of keys.
    pub padding: Option<usize>,
    /// The bias.
    pub bias: Option<usize>,
    /// The random key of dropout.
    pub key: Option<usize>,
    /// The number of all operands.
    pub end: usize,
}

/// Which optional operands there are, from `rest` on.
pub fn optional(attrs: &AttentionAttrs, rest: usize) -> Optional {
    let mut end = rest;
    let mut next = |there: bool| {
        end += usize::from(there);
        there.then(|| end - 1)
    };
    let padding = next(attrs.padding);
    let bias = next(attrs.bias);
    let key = next(attrs.dropout != 0.0);
    Optional { padding, bias, key, end }
}

/// Checks the optional operands from `rest` on, and that no other follows.
fn check_optional(cx: &Infer<'_>, attrs: &AttentionAttrs, g: &Geometry, rest: usize) -> Result<(), String> {
    let Optional { padding, bias, key, end } = optional(attrs, rest);
    let given = cx.args.len();
    ensure!(given == end, "{given} operands; padding, bias and dropout ask for {end}");
    if let Some(i) = padding {
        let d = cx.dtype(i);
        ensure!(d == DType::Bool || d == cx.dtype(0), "the padding mask is {d}; bool or {} is needed", cx.dtype(0));
        cx.expect_dims(i, "the padding mask", &[g.batch, g.keys])?;
    }
    if let Some(i) = bias {
        cx.same_dtype(0, i)?;
        let (d, full) = (cx.rank(i, "the bias", 4)?, [g.batch, g.heads, g.queries, g.keys]);
        let fits = (0..4).all(|a| d[a] == full[a] || (a < 2 && d[a] == 1));
        let full = crate::nodes::ir::infer::show(&full);
        ensure!(fits, "the bias has shape {d}; {full} is needed, or 1 for its first axes");
    }
    let p = attrs.dropout;
    ensure!((0.0..=1.0).contains(&p), "dropout is {p}; it must lie in [0, 1]");
    match key {
        Some(i) => super::random::key(cx, i),
        None => Ok(()),
    }
}

fn dims<'e>(cx: &Infer<'e>, first: usize) -> [crate::arena::intern::Dims; 3] {
    [0, 1, 2].map(|i| cx.dims(first + i))
}

fn forward_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    (1..3).try_for_each(|i| cx.same_dtype(0, i))?;
    let attrs = AttentionAttrs::of(&cx.attrs);
    let g = Geometry::of(&dims(cx, 0), &attrs)?;
    check_optional(cx, &attrs, &g, 3)?;
    cx.result(dtype, &g.y())?;
    cx.result(dtype, &[g.batch, g.heads, g.queries])
}

fn backward_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let (attrs, dlse) = (AttentionAttrs::of(&cx.attrs), AttentionBackwardAttrs::of(&cx.attrs).dlse);
    let rest = 6 + usize::from(dlse);
    ensure!(cx.args.len() >= rest, "{} operands; at least {rest} are needed", cx.args.len());
    (1..rest).try_for_each(|i| cx.same_dtype(0, i))?;
    let g = Geometry::of(&dims(cx, 1), &attrs)?;
    cx.expect_dims(0, "dy", &g.y())?;
    cx.expect_dims(4, "y", &g.y())?;
    let rows = [g.batch, g.heads, g.queries];
    cx.expect_dims(5, "lse", &rows)?;
    if dlse {
        cx.expect_dims(6, "dlse", &rows)?;
    }
    check_optional(cx, &attrs, &g, rest)?;
    (1..4).try_for_each(|i| cx.same_as(i))?;
    match attrs.bias {
        true => cx.result(dtype, &[g.batch, g.heads, g.queries, g.keys]),
        false => Ok(()),
    }
}

/// Multiply-adds: for each pair, `a` times the width of q and k and `b` times that of v.
fn flops(cx: &CostCx<'_>, first: usize, a: usize, b: usize) -> u64 {
    let d = |i: usize| cx.graph.shape_dims(cx.graph.ty(cx.graph.args_of(cx.node)[first + i]).shape);
    let g = Geometry::of(&[d(0), d(1), d(2)], &AttentionAttrs::of(&cx.graph.attrs(cx.node)));
    g.map_or(0, |g| flops_of(&g, a, b))
}

fn flops_of(g: &Geometry, a: usize, b: usize) -> u64 {
    g.pairs().saturating_mul(2 * (a * g.width + b * g.value_width) as u64)
}

fn jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let t = plain::tangents(s, t);
    match Scores::new(s, 0, 3).filter(|_| t.iter().any(Option::is_some)) {
        Some(scores) => scores.jvp(s.outs, t),
        None => vec![None, None],
    }
}

fn vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
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
    if let Some(i) = optional(&attrs, 3).bias {
        grads[i] = all.get(3).filter(|_| want[i]).map(|d| d.unbroadcast(&s.args[i].dims()));
    }
    grads
}

fn backward_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let AttentionBackwardAttrs { dlse, bias, .. } = AttentionBackwardAttrs::of(&s.attrs);
    let Some(scores) = Scores::new(s, 1, 6 + usize::from(dlse)) else { return Vec::new() };
    let all = scores.backward(s.args[0], s.args[4], s.args[5], dlse.then(|| s.args[6]));
    all[..if bias { 4 } else { 3 }].to_vec()
}

/// Scaled dot-product attention, with the log-sum-exp of the scores.
pub const ATTENTION: OpDef = OpDef {
    name: "attention",
    doc: "y = dropout(softmax(s))·v with s = softcap(scale·q·kᵀ) + bias over the keys that a query sees, 0 if it sees none; \
          also lse = ln Σ eˢ; from (q, k, v[, padding][, bias][, key])",
    arity: Arity::Between(3, 6),
    attrs: AttentionAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: forward_infer,
    deriv: Deriv::Rules(jvp, vjp),
    decompose: Some(|s| Scores::new(s, 0, 3).map_or_else(Vec::new, |x| x.forward())),
    lower: Lower::Kernel(lower::attention),
    cost: |cx| flops(cx, 0, 1, 1),
    cases: &[
        Case {
            args: "f[2,2,5,4] f[2,2,5,4] f[2,2,5,4]",
            attrs: "layout=bhsd heads=2 kv_heads=2 mask=none window=0 scale=0 softcap=0 padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        // More queries than keys: the first see none. Two heads of q share one of k; v has another width.
        Case {
            args: "f[2,5,4,3] f[2,4,2,3] f[2,4,2,5]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 scale=0.7 softcap=1.5 padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        // More keys than queries, several blocks of both, a bias for all heads.
        Case {
            args: "f[1,70,6] f[1,137,3] f[1,137,3] f[1,1,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=window window=90 scale=0 softcap=0 padding=false bias=true dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[3,2,3,4] f[3,1,6,4] f[3,1,6,4] f[3,6] f[3,2,3,6]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=causal window=0 scale=0 softcap=2 padding=true bias=true dropout=0 stream=0",
            domains: &[Real, Real, Real, Bit, Real],
        },
        // One key a sequence, hidden in some.
        Case {
            args: "f[9,2,6] f[9,1,6] f[9,1,6] bool[9,1]",
            attrs: "layout=bsd heads=3 kv_heads=3 mask=none window=0 scale=0 softcap=0 padding=true bias=false dropout=0 stream=0",
            domains: &[Real, Real, Real, Bit],
        },
        Case {
            args: "f[1,1,7,3] f[1,1,9,3] f[1,1,9,2]",
            attrs: "layout=bhsd heads=1 kv_heads=1 mask=window window=0 scale=-1 softcap=0 padding=false bias=false dropout=0 stream=0",
            domains: &[Real],
        },
        Case {
            args: "f[2,2,5,4] f[2,1,6,4] f[2,1,6,4] u32[4]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=none window=0 scale=0 softcap=0 padding=false bias=false dropout=0.3 stream=5",
            domains: &[Real, Real, Real, Bits],
        },
        Case {
            args: "f[2,70,6] f[2,137,3] f[2,137,3] f[2,137] f[1,2,70,137] u32[4]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=causal window=0 scale=0 softcap=2 padding=true bias=true dropout=0.6 stream=7",
            domains: &[Real, Real, Real, Bit, Real, Bits],
        },
        Case {
            args: "f[1,1,2,3] f[1,1,4,3] f[1,1,4,2] u32[4]",
            attrs: "layout=bhsd heads=1 kv_heads=1 mask=none window=0 scale=0 softcap=0 padding=false bias=false dropout=1 stream=0",
            domains: &[Real, Real, Real, Bits],
        },
    ],
};

/// The cotangents of the operands of [`ATTENTION`].
pub const ATTENTION_BACKWARD: OpDef = OpDef {
    name: "attention_backward",
    doc: "dq, dk, dv and, with a bias, dbias of attention, from \
          (dy, q, k, v, y, lse[, dlse][, padding][, bias][, key])",
    arity: Arity::Between(6, 10),
    attrs: AttentionBackwardAttrs::FIELDS,
    flags: Flags::PURE,
    infer: backward_infer,
    deriv: Deriv::ViaDecompose,
    decompose: Some(backward_expand),
    lower: Lower::Kernel(lower::attention_backward),
    cost: |cx| flops(cx, 1, 3, 2),
    cases: &[
        Case {
            args: "f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5,4] f[2,2,5]",
            attrs: "layout=bhsd heads=2 kv_heads=2 mask=none window=0 scale=0 softcap=0 padding=false bias=false dropout=0 stream=0 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive],
        },
        Case {
            args: "f[2,5,4,5] f[2,5,4,3] f[2,4,2,3] f[2,4,2,5] f[2,5,4,5] f[2,4,5] f[2,4,5]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 scale=0.7 softcap=1.5 padding=false bias=false dropout=0 stream=0 dlse=true",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Real],
        },
        Case {
            args: "f[1,70,6] f[1,70,6] f[1,137,3] f[1,137,3] f[1,70,6] f[1,2,70] f[1,137] f[1,2,70,137]",
            attrs: "layout=bsd heads=2 kv_heads=1 mask=window window=90 scale=0 softcap=0 padding=true bias=true dropout=0 stream=0 dlse=false",
            domains: &[Unit, Unit, Unit, Unit, Unit, Positive, Bit, Unit],
        },
        Case {
            args: "f[3,2,3,4] f[3,2,3,4] f[3,1,6,4] f[3,1,6,4] f[3,2,3,4] f[3,2,3] f[3,2,3] bool[3,6] f[1,2,3,6]",
            attrs: "layout=bhsd heads=2 kv_heads=1 mask=causal window=0 scale=0 softcap=2 padding=true bias=true dropout=0 stream=0 dlse=true",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Real, Bit, Unit],
        },
        Case {
            args: "f[2,5,4,5] f[2,5,4,3] f[2,4,2,3] f[2,4,2,5] f[2,5,4,5] f[2,4,5] bool[2,4] f[2,4,5,4] u32[4]",
            attrs: "layout=bshd heads=4 kv_heads=2 mask=causal window=0 scale=0.7 softcap=1.5 padding=true bias=true dropout=0.4 stream=9 dlse=false",
            domains: &[Real, Unit, Unit, Real, Real, Positive, Bit, Unit, Bits],
        },
    ],
};
