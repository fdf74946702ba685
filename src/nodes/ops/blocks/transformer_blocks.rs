//! Whole layers of transformers as ops: the attention block, BERT's layer, Llama's.
//!
//! Block ops have no kernel. These decompose into products with epilogues, attention that stores no scores, and sums
//! with their norms. Each part is one op.

use crate::ensure;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::attention::Layout;
use crate::nodes::ops::attention::var::{Attention, Rope};
use crate::nodes::ops::blocks::attrs::{AttentionBlockAttrs, LlamaDecoderBlockAttrs, TransformerLayerAttrs};
use crate::nodes::ops::blocks::swiglu::gated_feed_forward;
use crate::nodes::ops::blocks::{affine_with_act, block_op, check_block_input, check_block_vector, check_block_weight};
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::norm::NormAttrs;
use Domain::{Bit, Positive, Real, Unit};

/// Attribute `name`, `h`, as a number of heads that divides `width`.
fn transformer_heads(name: &str, h: i64, width: usize) -> Result<usize, String> {
    let fits = usize::try_from(h).ok().filter(|&h| h > 0 && width > 0 && width.is_multiple_of(h));
    fits.ok_or_else(|| format!("{name} is {h}; it must divide the width {width}"))
}

/// Checks a mask of keys: `[batch, keys]`, bool or of x's type.
fn check_transformer_block_mask(cx: &Infer<'_>, i: usize, d: &[usize]) -> Result<(), String> {
    let t = cx.dtype(i);
    ensure!(t == DType::Bool || t == cx.dtype(0), "the mask is {t}; bool or {} is needed", cx.dtype(0));
    cx.expect_dims(i, "the mask of keys", &d[..2])
}

/// Checks the tables of cosines and sines, operands `i` and `i + 1`: `[positions, pairs]` for a head of `width`
/// elements.
fn check_transformer_rope_tables(cx: &Infer<'_>, i: usize, seq: usize, width: usize) -> Result<(), String> {
    for (i, what) in [(i, "cos"), (i + 1, "sin")] {
        cx.same_dtype(0, i)?;
        let d = cx.rank(i, what, 2)?;
        ensure!(d[0] >= seq, "{what} has shape {d}, and x {seq} positions");
        ensure!(d[1] <= width / 2, "{what} has shape {d}, and a head of width {width} {} pairs", width / 2);
    }
    cx.expect_dims(i + 1, "sin", &cx.dims(i))
}

/// x `[batch, sequence, heads·width]`, rotated by the first rows of the tables.
fn rotate_transformer_heads<'g>(x: Var<'g>, heads: usize, cos: Var<'g>, sin: Var<'g>) -> Var<'g> {
    let seq = x.dims()[1];
    let [cos, sin] = [cos, sin].map(|t| t.narrow(0, 0, seq));
    x.rope(cos, sin, Rope { layout: Layout::Bsd, heads, ..Rope::default() })
}

/// The operands of an attention block, taken apart by its attributes.
struct AttentionBlockParts<T> {
    mask: Option<T>,
    biases: Option<[T; 2]>,
    tables: Option<[T; 2]>,
}

impl<T: Copy> AttentionBlockParts<T> {
    /// Of (hidden, qkv_w, out_w\[, mask\]\[, qkv_b, out_b\]\[, cos, sin\]); `None` if their number is another.
    fn of(args: &[T], attrs: &AttentionBlockAttrs) -> Option<AttentionBlockParts<T>> {
        let mut rest = args.get(3..)?.iter().copied();
        let mut one = |there: bool| if there { rest.next().map(Some) } else { Some(None) };
        let mask = one(attrs.padding)?;
        let mut two = |there: bool| Some(one(there)?.zip(one(there)?).map(|(a, b)| [a, b]));
        let parts = AttentionBlockParts { mask, biases: two(attrs.bias)?, tables: two(attrs.rope)? };
        rest.next().is_none().then_some(parts)
    }
}

fn infer_attention_block(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = check_block_input(cx, 3)?;
    cx.rank(0, "x", 3)?;
    let at: Vec<usize> = (0..cx.args.len()).collect();
    let attrs = AttentionBlockAttrs::of(&cx.attrs);
    let want = 3 + usize::from(attrs.padding) + 2 * usize::from(attrs.bias) + 2 * usize::from(attrs.rope);
    let parts = AttentionBlockParts::of(&at, &attrs)
        .ok_or_else(|| format!("{} operands; padding, bias and rope ask for {want}", at.len()))?;
    let packed = check_block_weight(cx, 1, "qkv_w", d[2])?;
    ensure!(packed.is_multiple_of(3), "qkv_w has {packed} columns; queries, keys and values need a third each");
    let width = packed / 3;
    let heads = transformer_heads("heads", attrs.heads, width)?;
    let out = check_block_weight(cx, 2, "out_w", width)?;
    if let Some(i) = parts.mask {
        check_transformer_block_mask(cx, i, &d)?;
    }
    if let Some([i, j]) = parts.biases {
        check_block_vector(cx, i, "qkv_b", packed)?;
        check_block_vector(cx, j, "out_b", out)?;
    }
    if let Some([i, _]) = parts.tables {
        check_transformer_rope_tables(cx, i, d[1], width / heads)?;
    }
    cx.result(cx.dtype(0), &[d[0], d[1], out])
}

fn decompose_attention_block<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let attrs = AttentionBlockAttrs::of(&s.attrs);
    let (heads, causal) = (to_size_attr(attrs.heads), attrs.causal);
    let Some(parts) = AttentionBlockParts::of(s.args, &attrs) else { return Vec::new() };
    let all = affine_with_act(s.args[0], s.args[1], parts.biases.map(|b| b[0]), Activation::None);
    let width = s.args[2].dims()[0];
    let [q, k, v] = [0, 1, 2].map(|i| all.narrow(-1, i * width, width));
    let rotated = |x: Var<'g>| parts.tables.map_or(x, |[cos, sin]| rotate_transformer_heads(x, heads, cos, sin));
    let options = Attention {
        layout: Layout::Bsd,
        heads,
        causal,
        padding: parts.mask.map(transformer_key_mask),
        ..Attention::default()
    };
    let mixed = rotated(q).attention(rotated(k), v, options);
    vec![affine_with_act(mixed, s.args[2], parts.biases.map(|b| b[1]), Activation::None)]
}

/// The mask of keys `mask` as bools; a float means true from 0.5 on.
fn transformer_key_mask(mask: Var<'_>) -> Var<'_> {
    if mask.dtype() == DType::Bool { mask } else { mask.greater_equal(0.5) }
}

/// A layer of multi-head self-attention, with its projections.
pub const ATTENTION_BLOCK: OpDef = OpDef {
    name: "attention_block",
    doc: "y = attention(q, k, v)·out_w + out_b with q, k, v the thirds of x·qkv_w + qkv_b, q and k rotated if `rope`, \
        from (x, qkv_w, out_w[, mask][, qkv_b, out_b][, cos, sin])",
    arity: Arity::Between(3, 8),
    attrs: AttentionBlockAttrs::FIELDS,
    infer: infer_attention_block,
    cases: &[
        Case {
            args: "f[2,3,6] f[6,12] f[4,6] bool[2,3] f[12] f[6]",
            attrs: "heads=2 causal=false padding=true bias=true rope=false",
            domains: &[Real, Unit, Unit, Bit, Real],
        },
        Case {
            args: "f[1,4,5] f[5,24] f[8,3] f[6,2] f[6,2]",
            attrs: "heads=2 causal=true padding=false bias=false rope=true",
            domains: &[Real, Unit, Unit, Unit],
        },
        Case {
            args: "f[2,3,4] f[4,6] f[2,4] f[2,3] f[6] f[4] f[3,1] f[3,1]",
            attrs: "heads=1 causal=false padding=true bias=true rope=true",
            domains: &[Real, Unit, Unit, Bit, Real, Real, Unit],
        },
    ],
    ..block_op(Deriv::ViaDecompose, decompose_attention_block)
};

/// The operands of BERT's layer by name; the biases and βs are `None` in the short form.
struct TransformerLayerParts<T> {
    qkv: (T, Option<T>),
    out: (T, Option<T>),
    norm1: (T, Option<T>),
    fc1: (T, Option<T>),
    fc2: (T, Option<T>),
    norm2: (T, Option<T>),
    mask: T,
}

impl<T: Copy> TransformerLayerParts<T> {
    /// Of the 14 operands with biases, or the 8 without.
    fn of(args: &[T], bias: bool) -> Option<TransformerLayerParts<T>> {
        let mut rest = args.get(1..)?.iter().copied();
        let mut pair = || Some((rest.next()?, if bias { Some(rest.next()?) } else { None }));
        let (qkv, out, norm1, fc1, fc2, norm2) = (pair()?, pair()?, pair()?, pair()?, pair()?, pair()?);
        let layer = TransformerLayerParts { qkv, out, norm1, fc1, fc2, norm2, mask: rest.next()? };
        rest.next().is_none().then_some(layer)
    }
}

fn infer_transformer_layer(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = check_block_input(cx, 3)?;
    cx.rank(0, "x", 3)?;
    let at: Vec<usize> = (0..cx.args.len()).collect();
    let TransformerLayerAttrs { heads: h, eps1, eps2, bias, .. } = TransformerLayerAttrs::of(&cx.attrs);
    let want = if bias { 14 } else { 8 };
    let l = TransformerLayerParts::of(&at, bias)
        .ok_or_else(|| format!("{} operands; bias={bias} asks for {want}", at.len()))?;
    let packed = check_block_weight(cx, l.qkv.0, "qkv_w", d[2])?;
    ensure!(packed.is_multiple_of(3), "qkv_w has {packed} columns; queries, keys and values need a third each");
    transformer_heads("heads", h, packed / 3)?;
    let inner = check_block_weight(cx, l.fc1.0, "fc1_w", d[2])?;
    for (i, what, rows) in [(l.out.0, "out_w", packed / 3), (l.fc2.0, "fc2_w", inner)] {
        cx.same_dtype(0, i)?;
        cx.expect_dims(i, what, &[rows, d[2]])?;
    }
    check_block_vector(cx, l.norm1.0, "ln1_g", d[2])?;
    check_block_vector(cx, l.norm2.0, "ln2_g", d[2])?;
    let biases = [
        (l.qkv, "qkv_b", packed),
        (l.out, "out_b", d[2]),
        (l.norm1, "ln1_b", d[2]),
        (l.fc1, "fc1_b", inner),
        (l.fc2, "fc2_b", d[2]),
        (l.norm2, "ln2_b", d[2]),
    ];
    for ((_, i), what, n) in biases {
        i.map_or(Ok(()), |i| check_block_vector(cx, i, what, n))?;
    }
    check_transformer_block_mask(cx, l.mask, &d)?;
    for (name, eps) in [("eps1", eps1), ("eps2", eps2)] {
        ensure!(eps >= 0.0, "{name} is {eps}; it must not be negative");
    }
    cx.same_as(0)
}

/// `layer_norm(x + res)`, with β = 0 if there is none.
fn transformer_add_norm<'g>(x: Var<'g>, res: Var<'g>, (gamma, beta): (Var<'g>, Option<Var<'g>>), eps: f64) -> Var<'g> {
    let beta = beta.unwrap_or_else(|| gamma.full_like(0.0));
    x.g.emit1(Op::RESIDUAL_LAYER_NORM, &[x, res, gamma, beta], &NormAttrs { eps }.list())
}

fn decompose_transformer_layer<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let TransformerLayerAttrs { heads: transformer_heads, act, eps1, eps2, bias } = TransformerLayerAttrs::of(&s.attrs);
    let Some(l) = TransformerLayerParts::of(s.args, bias) else { return Vec::new() };
    let mut args = vec![x, l.qkv.0, l.out.0, l.mask];
    args.extend(l.qkv.1.zip(l.out.1).into_iter().flat_map(|(a, b)| [a, b]));
    let block = AttentionBlockAttrs { heads: transformer_heads, causal: false, padding: true, bias, rope: false };
    let mixed = x.g.emit1(Op::ATTENTION_BLOCK, &args, &block.list());
    let h = transformer_add_norm(mixed, x, l.norm1, eps1);
    let inner = affine_with_act(h, l.fc1.0, l.fc1.1, act);
    vec![transformer_add_norm(affine_with_act(inner, l.fc2.0, l.fc2.1, Activation::None), h, l.norm2, eps2)]
}

/// A layer of BERT.
pub const TRANSFORMER_LAYER: OpDef = OpDef {
    name: "transformer_layer",
    doc: "BERT's layer, h = norm(attention_block(x) + x), y = norm(fc2(act(fc1 h)) + h), from (x, qkv_w, qkv_b, \
        out_w, out_b, ln1_g, ln1_b, fc1_w, fc1_b, fc2_w, fc2_b, ln2_g, ln2_b, mask), or without the operands ending \
        in b if not `bias`",
    arity: Arity::Between(8, 14),
    attrs: TransformerLayerAttrs::FIELDS,
    infer: infer_transformer_layer,
    cases: &[
        Case {
            args: "f[2,3,4] f[4,12] f[12] f[4,4] f[4] f[4] f[4] f[4,6] f[6] f[6,4] f[4] f[4] f[4] bool[2,3]",
            attrs: "heads=2 act=gelu eps1=0.01 eps2=0.1 bias=true",
            domains: &[Real, Unit, Unit, Unit, Unit, Positive, Unit, Unit, Unit, Unit, Unit, Positive, Unit, Bit],
        },
        Case {
            args: "f[1,3,4] f[4,6] f[2,4] f[4] f[4,5] f[5,4] f[4] bool[1,3]",
            attrs: "heads=1 act=tanh eps1=0.1 eps2=0.01 bias=false",
            domains: &[Real, Unit, Unit, Positive, Unit, Unit, Positive, Bit],
        },
    ],
    ..block_op(Deriv::ViaDecompose, decompose_transformer_layer)
};

fn infer_llama_decoder(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = check_block_input(cx, 3)?;
    cx.rank(0, "x", 3)?;
    for (i, what) in [(1, "ln1_g"), (2, "ln1_b"), (7, "ln2_g"), (8, "ln2_b")] {
        check_block_vector(cx, i, what, d[2])?;
    }
    let (q, kv) = (check_block_weight(cx, 3, "q_w", d[2])?, check_block_weight(cx, 4, "k_w", d[2])?);
    let attrs = LlamaDecoderBlockAttrs::of(&cx.attrs);
    let (h, few) = (transformer_heads("heads", attrs.heads, q)?, transformer_heads("kv_heads", attrs.kv_heads, kv)?);
    ensure!(h.is_multiple_of(few), "kv_heads = {few} does not divide heads = {h}");
    ensure!(q / h == kv / few, "q_w makes heads of width {}, k_w of {}", q / h, kv / few);
    let inner = check_block_weight(cx, 9, "gate_w", d[2])?;
    let rest =
        [(5, "v_w", [d[2], kv]), (6, "o_w", [q, d[2]]), (10, "up_w", [d[2], inner]), (11, "down_w", [inner, d[2]])];
    for (i, what, dims) in rest {
        cx.same_dtype(0, i)?;
        cx.expect_dims(i, what, &dims)?;
    }
    check_transformer_rope_tables(cx, 12, d[1], q / h)?;
    if cx.args.len() == 15 {
        check_transformer_block_mask(cx, 14, &d)?;
    }
    ensure!(attrs.eps >= 0.0, "eps is {}; it must not be negative", attrs.eps);
    cx.same_as(0)
}

fn decompose_llama_decoder<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, attrs) = (s.args[0], LlamaDecoderBlockAttrs::of(&s.attrs));
    let (heads, kv_heads) = (to_size_attr(attrs.heads), to_size_attr(attrs.kv_heads));
    let norm = NormAttrs { eps: attrs.eps };
    let (cos, sin) = (s.args[12], s.args[13]);
    let h = s.g.emit1(Op::RMS_NORM, &[x, s.args[1], s.args[2]], &norm.list());
    let [q, k, v] = [3, 4, 5].map(|i| h.matmul(s.args[i]));
    let options = Attention {
        layout: Layout::Bsd,
        heads,
        kv_heads,
        causal: attrs.causal,
        padding: s.args.get(14).copied().map(transformer_key_mask),
        ..Attention::default()
    };
    let mixed = rotate_transformer_heads(q, heads, cos, sin).attention(
        rotate_transformer_heads(k, kv_heads, cos, sin),
        v,
        options,
    );
    let normed = s.g.emit(Op::RESIDUAL_RMS_NORM, &[mixed.matmul(s.args[6]), x, s.args[7], s.args[8]], &norm.list());
    let [h, sum, ..] = *normed else { return Vec::new() };
    vec![sum + gated_feed_forward(h, s.args[10], s.args[9], s.args[11])]
}

/// A layer of Llama.
pub const LLAMA_DECODER_BLOCK: OpDef = OpDef {
    name: "llama_decoder_block",
    doc: "Llama's layer: s = x + attention of rotated heads of rms_norm(x), y = s + swiglu_block(rms_norm(s)), from \
        (x, ln1_g, ln1_b, q_w, k_w, v_w, o_w, ln2_g, ln2_b, gate_w, up_w, down_w, cos, sin[, mask])",
    arity: Arity::Between(14, 15),
    attrs: LlamaDecoderBlockAttrs::FIELDS,
    infer: infer_llama_decoder,
    cases: &[
        Case {
            args: "f[2,3,4] f[4] f[4] f[4,8] f[4,4] f[4,4] f[8,4] f[4] f[4] f[4,5] f[4,5] f[5,4] f[3,1] f[3,1]",
            attrs: "heads=4 kv_heads=2 eps=0.01 causal=true",
            domains: &[Real, Positive, Unit, Unit, Unit, Unit, Unit, Positive, Unit],
        },
        Case {
            args: "f[2,3,4] f[4] f[4] f[4,4] f[4,4] f[4,4] f[4,4] f[4] f[4] f[4,6] f[4,6] f[6,4] f[5,2] f[5,2] \
                bool[2,3]",
            attrs: "heads=1 kv_heads=1 eps=0.1 causal=false",
            domains: &[Real, Positive, Unit, Unit, Unit, Unit, Unit, Positive, Unit, Unit, Unit, Unit, Unit, Unit, Bit],
        },
    ],
    ..block_op(Deriv::ViaDecompose, decompose_llama_decoder)
};
