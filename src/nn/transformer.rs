//! Transformer blocks, and the network of nanoGPT.

use super::attention::{CausalSelfAttention, MultiHead, attend_causally, multi_head_attention, project_and_attend};
use super::dropout::dropout;
use super::linear_layers::{Linear, linear, linear_width, linear_with};
use super::norms::{layer_norm, layer_norm_no_bias, rms_norm};
use super::swiglu::swiglu;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Init, Var};

/// The feed-forward part of a [`transformer_block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FeedForward {
    /// `linear2(relu(linear1(x)))`.
    #[default]
    Relu,
    /// `linear2(gelu(linear1(x)))`.
    Gelu,
    /// [`swiglu`], called `name.mlp`.
    SwiGlu,
}

/// The norms of a [`transformer_block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Norm {
    /// [`layer_norm`].
    #[default]
    Layer,
    /// [`rms_norm`].
    Rms,
}

/// Options of [`transformer_block`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TransformerBlock<'g> {
    /// The attention.
    pub attention: MultiHead<'g>,
    /// Width of the feed-forward part's hidden layer.
    pub hidden: usize,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
    /// The norm.
    pub norm: Norm,
    /// Norms before attention and feed-forward part (`true`, as GPT-2 and Llama), or after each residual sum (as BERT).
    pub norm_first: bool,
    /// Dropout probability of each residual branch and of the hidden layer while training; attention has its own.
    pub dropout: f64,
    /// Term added to the norms' variance.
    pub eps: f64,
}

impl<'g> TransformerBlock<'g> {
    /// torch's defaults, without dropout: ReLU, layer norm after the sums, ε = 1e-5.
    pub fn new(heads: usize, hidden: usize) -> TransformerBlock<'g> {
        TransformerBlock {
            attention: MultiHead::new(heads),
            hidden,
            feed_forward: FeedForward::Relu,
            norm: Norm::Layer,
            norm_first: false,
            dropout: 0.0,
            eps: 1e-5,
        }
    }
}

setters! {
    ['g] TransformerBlock<'g> {
        attention: MultiHead<'g>,
        hidden: usize,
        feed_forward: FeedForward,
        norm: Norm,
        norm_first: bool,
        dropout: f64,
        eps: f64,
    }
}

/// Self-attention and a feed-forward part over `x` `[batch, sequence, width]`, each with a residual connection, as in
/// `torch.nn.TransformerEncoderLayer` with `batch_first`. Params: `name.self_attn.*` (see [`multi_head_attention`]),
/// `name.linear1.*`, `name.linear2.*`, `name.norm1.*` and `name.norm2.*`.
#[track_caller]
pub fn transformer_block<'g>(g: &'g Builder, name: &str, x: Var<'g>, o: TransformerBlock<'g>) -> Var<'g> {
    g.layer_scope(name, || {
        let norm = |i: usize, x| match o.norm {
            Norm::Layer => layer_norm(g, &format!("{name}.norm{i}"), x, o.eps),
            Norm::Rms => rms_norm(g, &format!("{name}.norm{i}"), x, o.eps),
        };
        let attend = |x| dropout(multi_head_attention(g, &format!("{name}.self_attn"), [x; 3], o.attention), o.dropout);
        let feed = |x| {
            let inner = |act: fn(Var<'g>) -> Var<'g>| {
                let h = dropout(act(linear(g, &format!("{name}.linear1"), x, o.hidden)), o.dropout);
                linear(g, &format!("{name}.linear2"), h, linear_width(x))
            };
            let y = match o.feed_forward {
                FeedForward::Relu => inner(Var::relu),
                FeedForward::Gelu => inner(Var::gelu),
                FeedForward::SwiGlu => swiglu(g, &format!("{name}.mlp"), x, o.hidden),
            };
            dropout(y, o.dropout)
        };
        if o.norm_first {
            let x = x + attend(norm(1, x));
            return x + feed(norm(2, x));
        }
        let x = norm(1, x + attend(x));
        norm(2, x + feed(x))
    })
}

/// A character-level or token-level GPT-2, as nanoGPT builds it. The defaults are those of nanoGPT's `GPTConfig`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gpt {
    /// Number of distinct tokens.
    pub vocabulary: usize,
    /// Longest sequence.
    pub context: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Heads of each block; they must divide the width.
    pub heads: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Adds biases to linear layers and norms.
    pub bias: bool,
    /// Dropout probability of embeddings, attention probabilities and residual branches while training
    /// ([`Builder::training`]).
    pub dropout: f64,
    /// Computes GELU by its tanh approximation, as GPT-2; if `false`, exactly, as nanoGPT.
    pub gelu_tanh: bool,
}

setters! {
    [] Gpt {
        vocabulary: usize,
        context: usize,
        layers: usize,
        heads: usize,
        width: usize,
        bias: bool,
        dropout: f64,
        gelu_tanh: bool,
    }
}

impl Default for Gpt {
    fn default() -> Gpt {
        Gpt {
            vocabulary: 50304,
            context: 1024,
            layers: 12,
            heads: 12,
            width: 768,
            bias: true,
            dropout: 0.0,
            gelu_tanh: false,
        }
    }
}

/// Logits `[batch, sequence, vocabulary]` of `tokens` `[batch, sequence]` (i32 or i64), in `dtype`. Names, shapes and
/// start values are nanoGPT's: `transformer.wte.weight` (also the head's weight),
/// `transformer.wpe.weight`, `transformer.h.0.ln_1.weight`, `.attn.c_attn`, `.attn.c_proj`, `.ln_2`, `.mlp.c_fc`,
/// `.mlp.c_proj`, …, `transformer.ln_f.weight`; weights are normal with σ = 0.02, those that end a residual branch with
/// 0.02/√(2·layers).
#[track_caller]
pub fn gpt<'g>(g: &'g Builder, tokens: Var<'g>, dtype: DType, o: Gpt) -> Var<'g> {
    // All nodes have the caller's line as their location.
    g.with_caller(|| {
        let d = tokens.dims();
        let [batch, length] = d[..] else {
            return g.fail(Kind::Shape, format!("gpt({tokens:?}): tokens are [batch, sequence]"));
        };
        if length > o.context {
            return g.fail(Kind::Shape, format!("gpt({tokens:?}): the context is {}", o.context));
        }
        let (wte, places) = make_gpt_tables(g, dtype, &o);
        let x = g.layer("transformer.wte", || wte.gather(tokens, 0)) + places.narrow(0, 0, length);
        let attend = |qkv| attend_causally(qkv, o.heads, o.dropout);
        let x = run_gpt_blocks(g, dropout(x, o.dropout), &o, &attend).reshape([batch * length, o.width]);
        x.matmul_t(wte, false, true).reshape([batch, length, o.vocabulary])
    })
}

/// The tables of a [`gpt`]: an embedding of each token, and one of each place.
pub(super) fn make_gpt_tables<'g>(g: &'g Builder, dtype: DType, o: &Gpt) -> (Var<'g>, Var<'g>) {
    let table = |name, rows| g.param(name, [rows, o.width], dtype, Init::Normal(0.02));
    (table("transformer.wte.weight", o.vocabulary), table("transformer.wpe.weight", o.context))
}

/// The blocks of a [`gpt`] and its last norm, over embedded tokens `x` `[batch, sequence, width]`. `attend` is the
/// attention of queries, keys and values; it is called once for each block, in order.
pub(super) fn run_gpt_blocks<'g>(
    g: &'g Builder,
    mut x: Var<'g>,
    o: &Gpt,
    attend: &dyn Fn([Var<'g>; 3]) -> Var<'g>,
) -> Var<'g> {
    let (plain, last) = (Linear::normal(0.02, o.bias), 0.02 / (2.0 * o.layers.max(1) as f64).sqrt());
    let ends = Linear::normal(last, o.bias);
    let norm = |name: &str, x| if o.bias { layer_norm(g, name, x, 1e-5) } else { layer_norm_no_bias(g, name, x, 1e-5) };
    for i in 0..o.layers {
        let name = format!("transformer.h.{i}");
        let h = norm(&format!("{name}.ln_1"), x);
        let attention = CausalSelfAttention { heads: o.heads, qkv: plain, proj: ends, dropout: o.dropout };
        let h = project_and_attend(g, &format!("{name}.attn"), h, attention, attend);
        x = x + dropout(h, o.dropout);
        let h = norm(&format!("{name}.ln_2"), x);
        let h = linear_with(g, &format!("{name}.mlp.c_fc"), h, o.width.saturating_mul(4), plain);
        let h = if o.gelu_tanh { h.gelu_tanh() } else { h.gelu() };
        x = x + dropout(linear_with(g, &format!("{name}.mlp.c_proj"), h, o.width, ends), o.dropout);
    }
    norm("transformer.ln_f", x)
}
