//! Layers, convolutions, pools and losses with options.

use super::{Args, Forward, conv, forwards, pool, transposed};
use arenagrad::graph::window::{Interpolation, Pool};
use arenagrad::graph::{Attention, Var as Value};
use arenagrad::nn;
use pyo3::prelude::*;

pub const TABLE: &[Forward] = forwards! {
    "linear"
    "(name: str, x: Var, outputs: int, bias: bool = True, weight_init: InitLike | None = None, bias_init: InitLike | \
     None = None, inputs: int | None = None) -> Var"
    "A linear layer, y = x·Wᵀ + b: params `name.weight` [outputs, inputs] and `name.bias`."
    => |a| nn::linear_with(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, nn::Linear::default()
            .bias(a.bool(3)?).weight_init(a.maybe_init(4)?).bias_init(a.maybe_init(5)?).inputs(a.maybe_size(6)?));
    "embedding"
    "(name: str, indices: Var, rows: int, width: int, padding: int | None = None, weight_init: InitLike | None = \
     None, dtype: DTypeLike = \"f32\") -> Var"
    "Rows of a table: param `name.weight` [rows, width]."
    => |a| nn::embedding_with(a.g, &a.text(0)?, a.var(1)?, [a.size(2)?, a.size(3)?],
        nn::Embedding::default().dtype(a.dtype(6)?).padding(a.maybe_size(4)?).weight_init(a.maybe_init(5)?));
    "conv1d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, \
     groups: int = 1, bias: bool = True) -> Var"
    "A convolution of x [N, C, L]: params `name.weight` and `name.bias`."
    => |a| nn::conv1d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<1>(3)?, conv(a, 4)?.bias(a.bool(8)?));
    "conv2d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, \
     groups: int = 1, bias: bool = True) -> Var"
    "A convolution of x [N, C, H, W]: params `name.weight` and `name.bias`."
    => |a| nn::conv2d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<2>(3)?, conv(a, 4)?.bias(a.bool(8)?));
    "conv3d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, \
     groups: int = 1, bias: bool = True) -> Var"
    "A convolution of x [N, C, D, H, W]: params `name.weight` and `name.bias`."
    => |a| nn::conv3d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<3>(3)?, conv(a, 4)?.bias(a.bool(8)?));
    "conv_transpose1d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = \
     0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var"
    "A transposed convolution of x [N, C, L]."
    => |a| nn::conv_transpose1d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<1>(3)?, transposed(a,
        4)?.bias(a.bool(9)?));
    "conv_transpose2d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = \
     0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var"
    "A transposed convolution of x [N, C, H, W]."
    => |a| nn::conv_transpose2d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<2>(3)?, transposed(a,
        4)?.bias(a.bool(9)?));
    "conv_transpose3d"
    "(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = \
     0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var"
    "A transposed convolution of x [N, C, D, H, W]."
    => |a| nn::conv_transpose3d(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.each::<3>(3)?, transposed(a,
        4)?.bias(a.bool(9)?));
    "max_pool1d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> Var"
    "The largest element of each window."
    => |a| a.me()?.max_pool1d(pool(a)?.dilation(a.each::<1>(5)?));
    "max_pool1d_with_indices"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> tuple[Var, Var]"
    "The largest element of each window, and its position in its plane."
    => |a| a.me()?.max_pool1d_with_indices(pool(a)?.dilation(a.each::<1>(5)?));
    "max_pool2d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> Var"
    "The largest element of each window."
    => |a| a.me()?.max_pool2d(pool(a)?.dilation(a.each::<2>(5)?));
    "max_pool2d_with_indices"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> tuple[Var, Var]"
    "The largest element of each window, and its position in its plane."
    => |a| a.me()?.max_pool2d_with_indices(pool(a)?.dilation(a.each::<2>(5)?));
    "max_pool3d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> Var"
    "The largest element of each window."
    => |a| a.me()?.max_pool3d(pool(a)?.dilation(a.each::<3>(5)?));
    "max_pool3d_with_indices"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: \
     Shape = 1) -> tuple[Var, Var]"
    "The largest element of each window, and its position in its plane."
    => |a| a.me()?.max_pool3d_with_indices(pool(a)?.dilation(a.each::<3>(5)?));
    "avg_pool1d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, \
     count_include_pad: bool = True, divisor_override: int | None = None) -> Var"
    "The mean of each window."
    => |a| a.me()?.avg_pool1d(averages(a)?);
    "avg_pool2d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, \
     count_include_pad: bool = True, divisor_override: int | None = None) -> Var"
    "The mean of each window."
    => |a| a.me()?.avg_pool2d(averages(a)?);
    "avg_pool3d"
    "(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, \
     count_include_pad: bool = True, divisor_override: int | None = None) -> Var"
    "The mean of each window."
    => |a| a.me()?.avg_pool3d(averages(a)?);
    "adaptive_avg_pool1d" "(x: Var, output: Shape) -> Var"
    "Means of windows that give an output of this size."
    => |a| a.me()?.adaptive_avg_pool1d(a.each(1)?);
    "adaptive_avg_pool2d" "(x: Var, output: Shape) -> Var"
    "Means of windows that give an output of this size."
    => |a| a.me()?.adaptive_avg_pool2d(a.each(1)?);
    "adaptive_avg_pool3d" "(x: Var, output: Shape) -> Var"
    "Means of windows that give an output of this size."
    => |a| a.me()?.adaptive_avg_pool3d(a.each(1)?);
    "adaptive_max_pool2d" "(x: Var, output: Shape) -> Var"
    "Maxima of windows that give an output of this size."
    => |a| a.me()?.adaptive_max_pool2d(a.each(1)?);
    "dropout" "(x: Var, p: float = 0.5) -> Var"
    "Elements dropped with probability p while training."
    => |a| nn::dropout(a.me()?, a.f64(1)?);
    "layer_norm" "(name: str, x: Var, eps: float = 1e-5, bias: bool = True) -> Var"
    "Layer norm over the last axis: params `name.weight` and `name.bias`."
    => |a| if a.bool(3)? { nn::layer_norm(a.g, &a.text(0)?, a.var(1)?,
        a.f64(2)?) } else { nn::layer_norm_no_bias(a.g, &a.text(0)?, a.var(1)?, a.f64(2)?) };
    "rms_norm" "(name: str, x: Var, eps: float = 1e-5) -> Var"
    "RMS norm over the last axis: param `name.weight`."
    => |a| nn::rms_norm(a.g, &a.text(0)?, a.var(1)?, a.f64(2)?);
    "group_norm" "(name: str, x: Var, groups: int, eps: float = 1e-5) -> Var"
    "Group norm of x [N, C, …]."
    => |a| nn::group_norm(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, a.f64(3)?);
    "instance_norm" "(x: Var, eps: float = 1e-5) -> Var"
    "Normalisation of each channel of each sample."
    => |a| nn::instance_norm(a.g, a.me()?, a.f64(1)?);
    "layer_norm2d" "(name: str, x: Var, eps: float = 1e-6) -> Var"
    "Layer norm over the channels of x [N, C, H, W]."
    => |a| nn::layer_norm2d(a.g, &a.text(0)?, a.var(1)?, a.f64(2)?);
    "batch_norm" "(name: str, x: Var, eps: float = 1e-5, momentum: float = 0.1, training: bool = True) -> Var"
    "Batch norm of x [N, C, …], with running statistics."
    => |a| nn::batch_norm(a.g, &a.text(0)?, a.var(1)?, nn::BatchNorm::default()
            .eps(a.f64(2)?).momentum(a.f64(3)?).training(a.bool(4)?));
    "rnn"
    "(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: \
     bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]"
    "Elman network: all outputs and the last states."
    => |a| { let run = nn::rnn_with(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, recurrent_from(a, 3, None)?); (run.output,
        run.h_n) };
    "gru"
    "(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: \
     bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]"
    "Gated recurrent units: all outputs and the last states."
    => |a| { let run = nn::gru_with(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, recurrent_from(a, 3, None)?); (run.output,
        run.h_n) };
    "lstm"
    "(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: \
     bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, c0: Var | None = None) -> \
     tuple[Var, Var, Var]"
    "Long short-term memory: all outputs, the last states and the last cells."
    => |a| { let run = nn::lstm_with(a.g, &a.text(0)?, a.var(1)?, a.size(2)?, recurrent_from(a, 3, Some(10))?); [run.output,
        run.h_n, run.c_n] };
    "rnn_of"
    "(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = \
     False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, nonlinearity: str = \"tanh\") -> \
     tuple[Var, Var]"
    "`rnn` on given weights: for each layer and direction w_ih, w_hh, b_ih, b_hh."
    => |a| { let run = nn::rnn_of(a.var(0)?, &a.vars(1)?, recurrent_from(a, 2, None)?.nonlinearity(a.one_of(9,
        "nonlinearity", NONLINEARITIES)?)); (run.output, run.h_n) };
    "gru_of"
    "(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = \
     False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]"
    "`gru` on given weights, in the order of `rnn_of`."
    => |a| { let run = nn::gru_of(a.var(0)?, &a.vars(1)?, recurrent_from(a, 2, None)?); (run.output, run.h_n) };
    "lstm_of"
    "(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = \
     False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, c0: Var | None = None) -> \
     tuple[Var, Var, Var]"
    "`lstm` on given weights, in the order of `rnn_of`."
    => |a| { let run = nn::lstm_of(a.var(0)?, &a.vars(1)?, recurrent_from(a, 2, Some(9))?); [run.output, run.h_n,
        run.c_n] };
    "swiglu" "(name: str, x: Var, hidden: int) -> Var"
    "The feed-forward layer of Llama."
    => |a| nn::swiglu(a.g, &a.text(0)?, a.var(1)?, a.size(2)?);
    "causal_self_attention" "(name: str, x: Var, heads: int, dropout: float = 0.0, bias: bool = True) -> Var"
    "Causal self-attention of x [batch, sequence, width]: layers `name.c_attn` and `name.c_proj`."
    => |a| { let l = nn::Linear::default().bias(a.bool(4)?); nn::causal_self_attention(a.g,
        &a.text(0)?, a.var(1)?, nn::CausalSelfAttention::new(a.size(2)?).qkv(l).proj(l).dropout(a.f64(3)?)) };
    "multi_head_attention"
    "(name: str, query: Var, key: Var, value: Var, heads: int, kv_heads: int = 0, bias: bool = True, causal: bool = \
     False, window: int | None = None, padding: Var | None = None, mask: Var | None = None, dropout: float = 0.0) -> \
     Var"
    "Attention of queries over keys and values, as torch's MultiheadAttention."
    => |a| nn::multi_head_attention(a.g, &a.text(0)?, [a.var(1)?, a.var(2)?, a.var(3)?],
        nn::MultiHead::new(a.size(4)?)
                .kv_heads(a.size(5)?).bias(a.bool(6)?).causal(a.bool(7)?).window(a.maybe_size(8)?)
                .padding(a.maybe_var(9)?).mask(a.maybe_var(10)?).dropout(a.f64(11)?));
    "transformer_block"
    "(name: str, x: Var, heads: int, hidden: int, feed_forward: str = \"relu\", norm: str = \"layer\", norm_first: \
     bool = False, causal: bool = False, dropout: float = 0.0, eps: float = 1e-5) -> Var"
    "Self-attention and a feed-forward part, each with a residual connection."
    => |a| transformer(a)?;
    "attention"
    "(q: Var, k: Var, v: Var, causal: bool = False, window: int | None = None, scale: float = 0.0, dropout: float = \
     0.0, bias: Var | None = None, top_left: bool = False) -> Var"
    "Scaled dot-product attention of [batch, heads, sequence, width]. With `top_left`, query i stands at key i."
    => |a| a.me()?.attention(a.var(1)?, a.var(2)?, Attention::default()
            .causal(a.bool(3)?).window(a.maybe_size(4)?).scale(a.f64(5)?).dropout(a.f64(6)?)
            .bias(a.maybe_var(7)?).top_left(a.bool(8)?));
    "gpt"
    "(tokens: Var, vocabulary: int, context: int, layers: int, heads: int, width: int, bias: bool = False, dropout: \
     float = 0.0, dtype: DTypeLike = \"f32\") -> Var"
    "Logits of a GPT-2, as nanoGPT builds it."
    => |a| nn::gpt(a.g, a.me()?, a.dtype(8)?, nn::Gpt::default()
            .vocabulary(a.size(1)?).context(a.size(2)?).layers(a.size(3)?).heads(a.size(4)?).width(a.size(5)?)
            .bias(a.bool(6)?).dropout(a.f64(7)?).gelu_tanh(false));
    "mamba" "(name: str, x: Var) -> Var"
    "A Mamba block with its defaults."
    => |a| nn::mamba(a.g, &a.text(0)?, a.var(1)?, nn::Mamba::default());
    "interpolate" "(x: Var, size: Shape, mode: str = \"nearest\") -> Var"
    "Images of another size."
    => |a| nn::interpolate(a.me()?, &a.dims(1)?, a.choice::<Interpolation>(2, "mode")?);
    "upsample" "(x: Var, scale: int, mode: str = \"nearest\") -> Var"
    "Images larger by a factor."
    => |a| nn::upsample(a.me()?, a.size(1)?, a.choice::<Interpolation>(2, "mode")?);
    "sequence_mask" "(lengths: Var, most: int) -> Var"
    "Which steps are inside of each sequence: bool [batch, most]."
    => |a| nn::sequence_mask(a.me()?, a.size(1)?);
    "l1_loss" "(x: Var, target: Var, reduction: str = \"mean\") -> Var"
    "|x − target|."
    => |a| nn::l1_loss(a.me()?, a.var(1)?, a.choice(2, "reduction")?);
    "huber_loss" "(x: Var, target: Var, delta: float = 1.0, reduction: str = \"mean\") -> Var"
    "Huber's loss."
    => |a| nn::huber_loss(a.me()?, a.var(1)?, a.f64(2)?, a.choice(3, "reduction")?);
    "smooth_l1_loss" "(x: Var, target: Var, beta: float = 1.0, reduction: str = \"mean\") -> Var"
    "The smooth L1 loss."
    => |a| nn::smooth_l1_loss(a.me()?, a.var(1)?, a.f64(2)?, a.choice(3, "reduction")?);
    "nll_loss"
    "(log_probs: Var, labels: Var, ignore_index: int = -100, reduction: str = \"mean\", weight: Var | None = None) -> \
     Var"
    "−log p of each label."
    => |a| nn::nll_loss(a.me()?, a.var(1)?, nn::NllLoss::default().ignore_index(a.i64(2)?)
        .reduction(a.choice(3, "reduction")?).weight(a.maybe_var(4)?));
    "gaussian_nll_loss"
    "(x: Var, target: Var, variance: Var, full: bool = False, eps: float = 1e-6, reduction: str = \"mean\") -> Var"
    "The negative log-likelihood of normal distributions."
    => |a| nn::gaussian_nll_loss(a.me()?, a.var(1)?, a.var(2)?, a.bool(3)?, a.f64(4)?, a.choice(5, "reduction")?);
    "ctc_loss"
    "(log_probs: Var, targets: Var, input_lengths: Var, target_lengths: Var, blank: int = 0, reduction: str = \
     \"mean\", zero_infinity: bool = False) -> Var"
    "The loss of label sequences [N, S] that are shorter than their inputs [T, N, classes]."
    => |a| nn::ctc_loss(a.me()?, a.var(1)?, a.var(2)?, a.var(3)?, nn::Ctc::default().blank(a.size(4)?)
        .reduction(a.choice(5, "reduction")?).zero_infinity(a.bool(6)?));
    "kl_div" "(log_x: Var, target: Var, reduction: str = \"mean\") -> Var"
    "The Kullback–Leibler divergence."
    => |a| nn::kl_div(a.me()?, a.var(1)?, a.choice(2, "reduction")?);
    "cosine_similarity" "(x: Var, y: Var, axis: int = 1, eps: float = 1e-8) -> Var"
    "The cosine of the angle along an axis."
    => |a| nn::cosine_similarity(a.me()?, a.var(1)?, a.i64(2)?, a.f64(3)?);
};

/// The options of a pool that averages.
fn averages<const N: usize, const P: usize>(a: &Args<'_, '_, '_>) -> PyResult<Pool<N, P>> {
    let (count_include_pad, divisor_override) = (a.bool(5)?, a.maybe_size(6)?);
    Ok(pool(a)?.count_include_pad(count_include_pad).divisor_override(divisor_override))
}

const NONLINEARITIES: &[(&str, nn::Nonlinearity)] =
    &[("tanh", nn::Nonlinearity::Tanh), ("relu", nn::Nonlinearity::Relu)];

/// The options of a recurrent network, from argument `at` on.
fn recurrent_from<'g>(a: &Args<'_, 'g, '_>, at: usize, c0: Option<usize>) -> PyResult<nn::Recurrent<'g>> {
    let c0 = c0.map(|i| a.maybe_var(i)).transpose()?.flatten();
    Ok(nn::Recurrent::default()
        .layers(a.size(at)?)
        .bidirectional(a.bool(at + 1)?)
        .bias(a.bool(at + 2)?)
        .batch_first(a.bool(at + 3)?)
        .dropout(a.f64(at + 4)?)
        .h0(a.maybe_var(at + 5)?)
        .lengths(a.maybe_var(at + 6)?)
        .c0(c0)
        .nonlinearity(nn::Nonlinearity::Tanh))
}

fn transformer<'g>(a: &Args<'_, 'g, '_>) -> PyResult<Value<'g>> {
    let kinds = [("relu", nn::FeedForward::Relu), ("gelu", nn::FeedForward::Gelu), ("swiglu", nn::FeedForward::SwiGlu)];
    let dropout = a.f64(8)?;
    let o = nn::TransformerBlock::new(a.size(2)?, a.size(3)?)
        .attention(nn::MultiHead::new(a.size(2)?).causal(a.bool(7)?).dropout(dropout))
        .feed_forward(a.one_of(4, "feed_forward", &kinds)?)
        .norm(a.one_of(5, "norm", &[("layer", nn::Norm::Layer), ("rms", nn::Norm::Rms)])?)
        .norm_first(a.bool(6)?)
        .dropout(dropout)
        .eps(a.f64(9)?);
    Ok(nn::transformer_block(a.g, &a.text(0)?, a.var(1)?, o))
}
