"""Kinds that torch's own autograd adds: forward ops with what they keep, and derivatives that are not decomposed."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._layers import _affine, _convolution, _each, _sides


@kind("native_layer_norm.default")
def _native_layer_norm(s: Site, x: Any, shape: Any, w: Any, bias: Any, eps: float) -> Any:
    x = s.var(x)
    gamma, beta = _affine(s, list(shape), w, bias, x.dtype)
    lead = list(x.shape[: x.ndim - len(shape)])
    flat = x.reshape([*lead, math.prod(shape)])
    y, *stats = s.b.op("layer_norm", flat, gamma.flatten(), beta.flatten(), eps=eps)
    kept = lead + [1] * len(shape)
    # In torch, no gradient goes through the statistics.
    return y.reshape(x.shape), *(x.stop_gradient().reshape(kept) for x in stats)


@kind("native_group_norm.default")
def _native_group_norm(s: Site, x: Any, w: Any, bias: Any, n: int, c: int, area: int, groups: int, eps: float) -> Any:
    x = s.var(x)
    gamma, beta = _affine(s, [c], w, bias, x.dtype)
    y, mean, rstd = s.b.op("group_norm", x.reshape([n, c, area]), gamma, beta, groups=groups, eps=eps)
    return y.reshape(x.shape), mean.reshape([n, groups]), rstd.reshape([n, groups])


@kind("_scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(
    s: Site, q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, mask: Any = None, scale: Any = None
) -> Any:
    if dropout:
        raise Refused("dropout of attention under torch.compile")
    operands = [s.var(q), s.var(k), s.var(v), *([] if mask is None else [_wide_mask(s, mask, q, k)])]
    return s.b.op("attention", *operands, **_attention(q, k, causal, mask, scale))


@kind("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def _flash_attention_backward(
    s: Site, dy: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, dropout: float, causal: bool, mask: Any = None, scale: Any = None
) -> Any:
    operands = [s.var(x) for x in (dy, q, k, v, y, lse)] + ([] if mask is None else [_wide_mask(s, mask, q, k)])
    return s.b.op("attention_backward", *operands, **_attention(q, k, causal, mask, scale), dlse=False)[:3]


def _wide_mask(s: Site, mask: Any, q: Any, k: Any) -> Var:
    mask = s.var(mask)
    shape = [1] * (4 - mask.ndim) + list(mask.shape)
    return mask.reshape(shape).broadcast([*shape[:2], q.shape[2], k.shape[2]])


def _attention(q: Any, k: Any, causal: bool, mask: Any, scale: float | None) -> dict[str, Any]:
    return {
        "layout": "bhsd",
        "heads": q.shape[1],
        "kv_heads": k.shape[1],
        "mask": "causal" if causal else "none",
        "window": 0,
        "ahead": 0,
        "top_left": causal,
        "scale": scale if scale is not None else 1 / math.sqrt(q.shape[-1]),
        "softcap": 0.0,
        "padding": False,
        "bias": mask is not None,
        "dropout": 0.0,
        "stream": 0,
    }


@kind("convolution_backward.default")
def _convolution_backward(
    s: Site,
    dy: Any,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    more: Any,
    groups: int,
    wanted: Any,
) -> Any:
    dy, x, w = s.var(dy), s.var(x), s.var(w)
    n = x.ndim - 2
    db = dy.sum([d for d in range(dy.ndim) if d != 1]) if wanted[2] else None
    if n > 2:
        raise Refused("the derivative of a convolution of three axes under torch.compile")
    if n == 1:  # an axis of one more
        dy, x, w = (v.reshape([*v.shape[:2], 1, v.shape[2]]) for v in (dy, x, w))
    stride, padding, dilation = (
        [first] * (2 - n) + _each(given, n) for given, first in ((stride, 1), (padding, 0), (dilation, 1))
    )
    how = {"stride": stride, "pad": [p for p in padding for _ in range(2)], "dilation": dilation, "groups": groups}
    dx = dw = None
    if transposed:
        dx = _convolution(s, dy, w, None, stride, padding, dilation, False, 0, groups) if wanted[0] else None
        dw = dy.conv2d_weight_grad(x, kernel=w.shape[2:], **how) if wanted[1] else None
    else:
        dx = dy.conv2d_input_grad(w, in_hw=x.shape[2:], **how) if wanted[0] else None
        dw = x.conv2d_weight_grad(dy, kernel=w.shape[2:], **how) if wanted[1] else None
    if n == 1:
        dx, dw = (v if v is None else v.reshape([*v.shape[:2], v.shape[3]]) for v in (dx, dw))
    return dx, dw, db


@kind("max_pool2d_with_indices_backward.default")
def _max_pool_backward(s: Site, dy: Any, x: Any, kernel: Any, stride: Any, pad: Any, dilation: Any, ceil: bool, at: Any) -> Var:
    zeros = s.b.full(0.0, x.shape, s.dtype).flatten(-2, -1)
    return zeros.scatter(dy.flatten(-2, -1), at.flatten(-2, -1), axis=x.ndim - 2, mode="add", own=True).reshape(x.shape)


@kind("embedding_dense_backward.default")
def _embedding_backward(s: Site, dy: Any, indices: Any, rows: int, padding: int, by_freq: bool) -> Var:
    indices = s.var(indices).flatten()
    dy = s.var(dy).reshape([indices.size, dy.shape[-1]])
    if padding >= 0:
        dy = indices.not_equal(float(padding)).reshape([indices.size, 1]).broadcast(dy.shape).select(dy, dy.full_like(0.0))
    if by_freq:
        counts = s.b.full(1.0, (indices.size,), dy.dtype).scatter_add(indices, axis=0, size=rows)
        dy = dy / counts.gather(indices, 0).unsqueeze(1)
    return dy.scatter_add(indices, axis=0, size=rows)


@kind("avg_pool2d_backward.default")
def _avg_pool_backward(
    s: Site, dy: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool, divisor: int | None
) -> Var:
    if ceil or divisor is not None or x.ndim != 4:
        raise Refused("the derivative of this average pool under torch.compile")
    kernel = _each(kernel, 2)
    how = {"kernel": kernel, "stride": _each(stride or kernel, 2), "pad": _sides(padding), "count_include_pad": count_pad}
    return s.var(dy).avg_pool2d_backward(in_hw=x.shape[2:], **how)


def _means(n: int, out: int, dtype: torch.dtype) -> torch.Tensor:
    """The matrix of an adaptive average pool along one axis."""
    matrix = torch.zeros(out, n, dtype=dtype)
    for i in range(out):
        low, high = i * n // out, -(-(i + 1) * n // out)
        matrix[i, low:high] = 1.0 / (high - low)
    return matrix


@kind("_adaptive_avg_pool2d_backward.default")
def _adaptive_avg_pool_backward(s: Site, dy: Any, x: Any) -> Var:
    rows, columns = (_means(x.shape[d], dy.shape[d], s.results.dtype) for d in (-2, -1))
    return s.var(rows.t()) @ s.var(dy) @ s.var(columns)
