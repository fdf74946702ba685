//! Attention layers, with torch's and nanoGPT's names.

use super::init;
use super::linear_layers::{Linear, linear_project, linear_width, linear_with};
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Attention, Builder, Init, Layout, Pairing, Rope, Var};

/// Options of [`causal_self_attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CausalSelfAttention {
    /// Number of heads; it must divide the width.
    pub heads: usize,
    /// The linear layer that computes queries, keys and values.
    pub qkv: Linear,
    /// The linear layer that mixes the heads.
    pub proj: Linear,
    /// Dropout probability of the attention probabilities while training ([`Builder::training`]).
    pub dropout: f64,
}

impl CausalSelfAttention {
    /// `heads` heads, with torch's linear layers and no dropout.
    pub fn new(heads: usize) -> CausalSelfAttention {
        CausalSelfAttention { heads, qkv: Linear::default(), proj: Linear::default(), dropout: 0.0 }
    }
}

setters! {
    [] CausalSelfAttention { heads: usize, qkv: Linear, proj: Linear, dropout: f64 }
}

/// Causal self-attention of `x` `[batch, sequence, width]`, named as in nanoGPT: one linear layer `name.c_attn`
/// computes queries, keys and values of all heads, and `name.c_proj` mixes the heads.
#[track_caller]
pub fn causal_self_attention<'g>(g: &'g Builder, name: &str, x: Var<'g>, options: CausalSelfAttention) -> Var<'g> {
    let dropout = options.dropout;
    project_and_attend(g, name, x, options, |qkv| attend_causally(qkv, options.heads, dropout))
}

/// Attention of `[batch, sequence, width]` queries to the keys before them.
#[track_caller]
pub(super) fn attend_causally<'g>([q, k, v]: [Var<'g>; 3], heads: usize, dropout: f64) -> Var<'g> {
    q.attention(k, v, Attention { layout: Layout::Bsd, heads, causal: true, dropout, ..Attention::default() })
}

/// [`causal_self_attention`], with `attend` as the attention of queries, keys and values.
#[track_caller]
pub(super) fn project_and_attend<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    options: CausalSelfAttention,
    attend: impl FnOnce([Var<'g>; 3]) -> Var<'g>,
) -> Var<'g> {
    g.layer_scope(name, || {
        let width = linear_width(x);
        if x.is_some() && (options.heads == 0 || !width.is_multiple_of(options.heads)) {
            let text = format!("causal_self_attention({x:?}): {} heads of a width of {width}", options.heads);
            return g.fail(Kind::Shape, text);
        }
        let all = linear_with(g, &format!("{name}.c_attn"), x, width.saturating_mul(3), options.qkv);
        let mixed = attend([0, 1, 2].map(|i| all.narrow(-1, i * width, width)));
        linear_with(g, &format!("{name}.c_proj"), mixed, width, options.proj)
    })
}

/// Options of [`multi_head_attention`]. The defaults are torch's; `heads` has none.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MultiHead<'g> {
    /// Number of heads; it must divide the width.
    pub heads: usize,
    /// Number of heads of keys and values, each shared by `heads / kv_heads` neighbouring heads of queries; 0 is
    /// `heads`.
    pub kv_heads: usize,
    /// Adds biases to the projections.
    pub bias: bool,
    /// Hides later keys from a query.
    pub causal: bool,
    /// Sliding window: a causal query sees at most this many keys before its own.
    pub window: Option<usize>,
    /// Keys to attend to, bool `[batch, keys]`: true keeps a key (torch's `key_padding_mask` is the opposite). A float
    /// is refused: terms of the scores are a `mask`.
    pub padding: Option<Var<'g>>,
    /// Bias added to the scores, such as 0 and −∞: `[queries, keys]`, or `[batch or 1, heads or 1, queries, keys]`.
    pub mask: Option<Var<'g>>,
    /// Rotary embedding of queries and keys: tables of cosines and sines ([`Builder::rope_tables`]), and which elements
    /// form pairs.
    pub rope: Option<([Var<'g>; 2], Pairing)>,
    /// Dropout probability of the attention probabilities while training ([`Builder::training`]).
    pub dropout: f64,
}

impl<'g> MultiHead<'g> {
    /// `heads` heads, with biases, without a mask.
    pub fn new(heads: usize) -> MultiHead<'g> {
        MultiHead {
            heads,
            kv_heads: 0,
            bias: true,
            causal: false,
            window: None,
            padding: None,
            mask: None,
            rope: None,
            dropout: 0.0,
        }
    }
}

setters! {
    ['g] MultiHead<'g> {
        heads: usize,
        kv_heads: usize,
        bias: bool,
        causal: bool,
        window: impl Into<Option<usize>> => window.into(),
        padding: impl Into<Option<Var<'g>>> => padding.into(),
        mask: impl Into<Option<Var<'g>>> => mask.into(),
        dropout: f64,
    }
}

impl<'g> MultiHead<'g> {
    /// These options with this `rope`; see the field.
    pub fn rope(self, tables: [Var<'g>; 2], pairing: Pairing) -> MultiHead<'g> {
        MultiHead { rope: Some((tables, pairing)), ..self }
    }
}

/// Attention of `query` `[batch, queries, width]` over `key` and `value` `[batch, keys, width]`, as in
/// `torch.nn.MultiheadAttention` with `batch_first`: params `name.in_proj_weight` `[3·width, width]` (fewer rows with
/// fewer `kv_heads`; Glorot uniform), `name.in_proj_bias` (zeros), `name.out_proj.weight` and `name.out_proj.bias`
/// (zeros).
#[track_caller]
pub fn multi_head_attention<'g>(
    g: &'g Builder,
    name: &str,
    [query, key, value]: [Var<'g>; 3],
    options: MultiHead<'g>,
) -> Var<'g> {
    g.layer_scope(name, || {
        let (width, heads) = (linear_width(query), options.heads);
        let kv = if options.kv_heads == 0 { heads } else { options.kv_heads };
        if query.is_some() && (heads == 0 || !width.is_multiple_of(heads) || !heads.is_multiple_of(kv)) {
            let text = format!("multi_head_attention({query:?}): {heads} heads of a width of {width}, {kv} of keys");
            return g.fail(Kind::Shape, text);
        }
        let inner = kv * (width / heads.max(1));
        let rows = [width, inner, inner];
        let total = rows.iter().sum();
        let start = init::xavier_uniform(&[total, width], 1.0);
        let w = g.param(&format!("{name}.in_proj_weight"), [total, width], query.dtype(), start);
        let b = options.bias.then(|| g.param(&format!("{name}.in_proj_bias"), [total], query.dtype(), Init::Zeros));
        let from = [0, width, width + inner];
        let [q, k, v] = if query.is_same_value(key) && key.is_same_value(value) {
            // One product for all three.
            let all = linear_project(query, w, b);
            [0, 1, 2].map(|i| all.narrow(-1, from[i], rows[i]))
        } else {
            let part = |x: Var<'g>, i: usize| {
                linear_project(x, w.narrow(0, from[i], rows[i]), b.map(|b| b.narrow(0, from[i], rows[i])))
            };
            [part(query, 0), part(key, 1), part(value, 2)]
        };
        let turned = |x: Var<'g>, heads: usize| match options.rope {
            Some(([cos, sin], pairing)) => {
                x.rope(cos, sin, Rope { layout: Layout::Bsd, heads, pairing, ..Rope::default() })
            }
            None => x,
        };
        let (q, k) = (turned(q, heads), turned(k, kv));
        let attend = Attention {
            layout: Layout::Bsd,
            heads,
            kv_heads: kv,
            causal: options.causal,
            window: options.window,
            padding: options.padding,
            bias: options.mask,
            dropout: options.dropout,
            ..Attention::default()
        };
        let out = Linear { bias: options.bias, weight_init: Some(init::uniform_by_fan_in(width)), ..Linear::default() };
        let out = out.bias_init(Init::Zeros);
        linear_with(g, &format!("{name}.out_proj"), q.attention(k, v, attend), width, out)
    })
}
