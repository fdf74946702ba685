"""Layers, convolutions, pools and losses.

Made by tools/write_ops.py from the tables of the extension. Do not edit it.
"""

from __future__ import annotations

from .._arenagrad import _layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .._arenagrad import Var
    from .._types import Axes, DTypeLike, InitLike, Operand, Shape, Vars


def linear(name: str, x: Var, outputs: int, bias: bool = True, weight_init: InitLike | None = None, bias_init: InitLike | None = None, inputs: int | None = None) -> Var:  # noqa: E501
    """A linear layer, y = x·Wᵀ + b: params `name.weight` [outputs, inputs] and `name.bias`."""
    return _layer("linear", (name, x, outputs, bias, weight_init, bias_init, inputs))  # type: ignore[no-any-return]


def embedding(name: str, indices: Var, rows: int, width: int, padding: int | None = None, weight_init: InitLike | None = None, dtype: DTypeLike = "f32") -> Var:  # noqa: E501
    """Rows of a table: param `name.weight` [rows, width]."""
    return _layer("embedding", (name, indices, rows, width, padding, weight_init, dtype))  # type: ignore[no-any-return]


def conv1d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A convolution of x [N, C, L]: params `name.weight` and `name.bias`."""
    return _layer("conv1d", (name, x, outputs, kernel, stride, padding, dilation, groups, bias))  # type: ignore[no-any-return]


def conv2d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A convolution of x [N, C, H, W]: params `name.weight` and `name.bias`."""
    return _layer("conv2d", (name, x, outputs, kernel, stride, padding, dilation, groups, bias))  # type: ignore[no-any-return]


def conv3d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A convolution of x [N, C, D, H, W]: params `name.weight` and `name.bias`."""
    return _layer("conv3d", (name, x, outputs, kernel, stride, padding, dilation, groups, bias))  # type: ignore[no-any-return]


def conv_transpose1d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A transposed convolution of x [N, C, L]."""
    return _layer("conv_transpose1d", (name, x, outputs, kernel, stride, padding, output_padding, dilation, groups, bias))  # type: ignore[no-any-return]


def conv_transpose2d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A transposed convolution of x [N, C, H, W]."""
    return _layer("conv_transpose2d", (name, x, outputs, kernel, stride, padding, output_padding, dilation, groups, bias))  # type: ignore[no-any-return]


def conv_transpose3d(name: str, x: Var, outputs: int, kernel: Shape, stride: Shape = 1, padding: Shape = 0, output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True) -> Var:  # noqa: E501
    """A transposed convolution of x [N, C, D, H, W]."""
    return _layer("conv_transpose3d", (name, x, outputs, kernel, stride, padding, output_padding, dilation, groups, bias))  # type: ignore[no-any-return]


def max_pool1d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
    """The largest element of each window."""
    return _layer("max_pool1d", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def max_pool1d_with_indices(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
    """The largest element of each window, and its position in its plane."""
    return _layer("max_pool1d_with_indices", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def max_pool2d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
    """The largest element of each window."""
    return _layer("max_pool2d", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def max_pool2d_with_indices(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
    """The largest element of each window, and its position in its plane."""
    return _layer("max_pool2d_with_indices", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def max_pool3d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> Var:  # noqa: E501
    """The largest element of each window."""
    return _layer("max_pool3d", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def max_pool3d_with_indices(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, dilation: Shape = 1) -> tuple[Var, Var]:  # noqa: E501
    """The largest element of each window, and its position in its plane."""
    return _layer("max_pool3d_with_indices", (x, kernel, stride, padding, ceil_mode, dilation))  # type: ignore[no-any-return]


def avg_pool1d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
    """The mean of each window."""
    return _layer("avg_pool1d", (x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[no-any-return]


def avg_pool2d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
    """The mean of each window."""
    return _layer("avg_pool2d", (x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[no-any-return]


def avg_pool3d(x: Var, kernel: Shape, stride: Shape | None = None, padding: Shape = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Var:  # noqa: E501
    """The mean of each window."""
    return _layer("avg_pool3d", (x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override))  # type: ignore[no-any-return]


def adaptive_avg_pool1d(x: Var, output: Shape) -> Var:  # noqa: E501
    """Means of windows that give an output of this size."""
    return _layer("adaptive_avg_pool1d", (x, output))  # type: ignore[no-any-return]


def adaptive_avg_pool2d(x: Var, output: Shape) -> Var:  # noqa: E501
    """Means of windows that give an output of this size."""
    return _layer("adaptive_avg_pool2d", (x, output))  # type: ignore[no-any-return]


def adaptive_avg_pool3d(x: Var, output: Shape) -> Var:  # noqa: E501
    """Means of windows that give an output of this size."""
    return _layer("adaptive_avg_pool3d", (x, output))  # type: ignore[no-any-return]


def adaptive_max_pool2d(x: Var, output: Shape) -> Var:  # noqa: E501
    """Maxima of windows that give an output of this size."""
    return _layer("adaptive_max_pool2d", (x, output))  # type: ignore[no-any-return]


def dropout(x: Var, p: float = 0.5) -> Var:  # noqa: E501
    """Elements dropped with probability p while training."""
    return _layer("dropout", (x, p))  # type: ignore[no-any-return]


def layer_norm(name: str, x: Var, eps: float = 1e-5, bias: bool = True) -> Var:  # noqa: E501
    """Layer norm over the last axis: params `name.weight` and `name.bias`."""
    return _layer("layer_norm", (name, x, eps, bias))  # type: ignore[no-any-return]


def rms_norm(name: str, x: Var, eps: float = 1e-5) -> Var:  # noqa: E501
    """RMS norm over the last axis: param `name.weight`."""
    return _layer("rms_norm", (name, x, eps))  # type: ignore[no-any-return]


def group_norm(name: str, x: Var, groups: int, eps: float = 1e-5) -> Var:  # noqa: E501
    """Group norm of x [N, C, …]."""
    return _layer("group_norm", (name, x, groups, eps))  # type: ignore[no-any-return]


def instance_norm(x: Var, eps: float = 1e-5) -> Var:  # noqa: E501
    """Normalisation of each channel of each sample."""
    return _layer("instance_norm", (x, eps))  # type: ignore[no-any-return]


def layer_norm2d(name: str, x: Var, eps: float = 1e-6) -> Var:  # noqa: E501
    """Layer norm over the channels of x [N, C, H, W]."""
    return _layer("layer_norm2d", (name, x, eps))  # type: ignore[no-any-return]


def batch_norm(name: str, x: Var, eps: float = 1e-5, momentum: float = 0.1, training: bool = True) -> Var:  # noqa: E501
    """Batch norm of x [N, C, …], with running statistics."""
    return _layer("batch_norm", (name, x, eps, momentum, training))  # type: ignore[no-any-return]


def rnn(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]:  # noqa: E501
    """Elman network: all outputs and the last states."""
    return _layer("rnn", (name, x, hidden, layers, bidirectional, bias, batch_first, dropout, h0, lengths))  # type: ignore[no-any-return]


def gru(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]:  # noqa: E501
    """Gated recurrent units: all outputs and the last states."""
    return _layer("gru", (name, x, hidden, layers, bidirectional, bias, batch_first, dropout, h0, lengths))  # type: ignore[no-any-return]


def lstm(name: str, x: Var, hidden: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, c0: Var | None = None) -> tuple[Var, Var, Var]:  # noqa: E501
    """Long short-term memory: all outputs, the last states and the last cells."""
    return _layer("lstm", (name, x, hidden, layers, bidirectional, bias, batch_first, dropout, h0, lengths, c0))  # type: ignore[no-any-return]


def rnn_of(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, nonlinearity: str = "tanh") -> tuple[Var, Var]:  # noqa: E501
    """`rnn` on given weights: for each layer and direction w_ih, w_hh, b_ih, b_hh."""
    return _layer("rnn_of", (x, weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths, nonlinearity))  # type: ignore[no-any-return]


def gru_of(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None) -> tuple[Var, Var]:  # noqa: E501
    """`gru` on given weights, in the order of `rnn_of`."""
    return _layer("gru_of", (x, weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths))  # type: ignore[no-any-return]


def lstm_of(x: Var, weights: Vars, layers: int = 1, bidirectional: bool = False, bias: bool = True, batch_first: bool = False, dropout: float = 0.0, h0: Var | None = None, lengths: Var | None = None, c0: Var | None = None) -> tuple[Var, Var, Var]:  # noqa: E501
    """`lstm` on given weights, in the order of `rnn_of`."""
    return _layer("lstm_of", (x, weights, layers, bidirectional, bias, batch_first, dropout, h0, lengths, c0))  # type: ignore[no-any-return]


def swiglu(name: str, x: Var, hidden: int) -> Var:  # noqa: E501
    """The feed-forward layer of Llama."""
    return _layer("swiglu", (name, x, hidden))  # type: ignore[no-any-return]


def causal_self_attention(name: str, x: Var, heads: int, dropout: float = 0.0, bias: bool = True) -> Var:  # noqa: E501
    """Causal self-attention of x [batch, sequence, width]: layers `name.c_attn` and `name.c_proj`."""
    return _layer("causal_self_attention", (name, x, heads, dropout, bias))  # type: ignore[no-any-return]


def multi_head_attention(name: str, query: Var, key: Var, value: Var, heads: int, kv_heads: int = 0, bias: bool = True, causal: bool = False, window: int | None = None, padding: Var | None = None, mask: Var | None = None, dropout: float = 0.0) -> Var:  # noqa: E501
    """Attention of queries over keys and values, as torch's MultiheadAttention."""
    return _layer("multi_head_attention", (name, query, key, value, heads, kv_heads, bias, causal, window, padding, mask, dropout))  # type: ignore[no-any-return]


def transformer_block(name: str, x: Var, heads: int, hidden: int, feed_forward: str = "relu", norm: str = "layer", norm_first: bool = False, causal: bool = False, dropout: float = 0.0, eps: float = 1e-5) -> Var:  # noqa: E501
    """Self-attention and a feed-forward part, each with a residual connection."""
    return _layer("transformer_block", (name, x, heads, hidden, feed_forward, norm, norm_first, causal, dropout, eps))  # type: ignore[no-any-return]


def attention(q: Var, k: Var, v: Var, causal: bool = False, window: int | None = None, scale: float = 0.0, dropout: float = 0.0, bias: Var | None = None, top_left: bool = False) -> Var:  # noqa: E501
    """Scaled dot-product attention of [batch, heads, sequence, width]. With `top_left`, query i stands at key i."""
    return _layer("attention", (q, k, v, causal, window, scale, dropout, bias, top_left))  # type: ignore[no-any-return]


def gpt(tokens: Var, vocabulary: int, context: int, layers: int, heads: int, width: int, bias: bool = False, dropout: float = 0.0, dtype: DTypeLike = "f32") -> Var:  # noqa: E501
    """Logits of a GPT-2, as nanoGPT builds it."""
    return _layer("gpt", (tokens, vocabulary, context, layers, heads, width, bias, dropout, dtype))  # type: ignore[no-any-return]


def mamba(name: str, x: Var) -> Var:  # noqa: E501
    """A Mamba block with its defaults."""
    return _layer("mamba", (name, x))  # type: ignore[no-any-return]


def interpolate(x: Var, size: Shape, mode: str = "nearest") -> Var:  # noqa: E501
    """Images of another size."""
    return _layer("interpolate", (x, size, mode))  # type: ignore[no-any-return]


def upsample(x: Var, scale: int, mode: str = "nearest") -> Var:  # noqa: E501
    """Images larger by a factor."""
    return _layer("upsample", (x, scale, mode))  # type: ignore[no-any-return]


def sequence_mask(lengths: Var, most: int) -> Var:  # noqa: E501
    """Which steps are inside of each sequence: bool [batch, most]."""
    return _layer("sequence_mask", (lengths, most))  # type: ignore[no-any-return]


def l1_loss(x: Var, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
    """|x − target|."""
    return _layer("l1_loss", (x, target, reduction))  # type: ignore[no-any-return]


def huber_loss(x: Var, target: Var, delta: float = 1.0, reduction: str = "mean") -> Var:  # noqa: E501
    """Huber's loss."""
    return _layer("huber_loss", (x, target, delta, reduction))  # type: ignore[no-any-return]


def smooth_l1_loss(x: Var, target: Var, beta: float = 1.0, reduction: str = "mean") -> Var:  # noqa: E501
    """The smooth L1 loss."""
    return _layer("smooth_l1_loss", (x, target, beta, reduction))  # type: ignore[no-any-return]


def nll_loss(log_probs: Var, labels: Var, ignore_index: int = -100, reduction: str = "mean", weight: Var | None = None) -> Var:  # noqa: E501
    """−log p of each label."""
    return _layer("nll_loss", (log_probs, labels, ignore_index, reduction, weight))  # type: ignore[no-any-return]


def gaussian_nll_loss(x: Var, target: Var, variance: Var, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Var:  # noqa: E501
    """The negative log-likelihood of normal distributions."""
    return _layer("gaussian_nll_loss", (x, target, variance, full, eps, reduction))  # type: ignore[no-any-return]


def ctc_loss(log_probs: Var, targets: Var, input_lengths: Var, target_lengths: Var, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Var:  # noqa: E501
    """The loss of label sequences [N, S] that are shorter than their inputs [T, N, classes]."""
    return _layer("ctc_loss", (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity))  # type: ignore[no-any-return]


def kl_div(log_x: Var, target: Var, reduction: str = "mean") -> Var:  # noqa: E501
    """The Kullback–Leibler divergence."""
    return _layer("kl_div", (log_x, target, reduction))  # type: ignore[no-any-return]


def cosine_similarity(x: Var, y: Var, axis: int = 1, eps: float = 1e-8) -> Var:  # noqa: E501
    """The cosine of the angle along an axis."""
    return _layer("cosine_similarity", (x, y, axis, eps))  # type: ignore[no-any-return]


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool2d",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "causal_self_attention",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "embedding",
    "gaussian_nll_loss",
    "gpt",
    "group_norm",
    "gru",
    "gru_of",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "layer_norm2d",
    "linear",
    "lstm",
    "lstm_of",
    "mamba",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "multi_head_attention",
    "nll_loss",
    "rms_norm",
    "rnn",
    "rnn_of",
    "sequence_mask",
    "smooth_l1_loss",
    "swiglu",
    "transformer_block",
    "upsample",
]
