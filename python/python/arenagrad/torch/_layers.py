"""Kinds that are layers: products, convolutions, pools, norms, attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import nn
from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._shape import _as_batch, _expand


def _rows(x: Var) -> Var:
    return x.reshape([math.prod(x.shape[:-1]), x.shape[-1]])


@kind("linear.default")
def _linear(s: Site, x: Any, w: Any, bias: Any = None) -> Var:
    x, w = s.var(x), s.var(w)
    if w.ndim == 1:
        y = x @ w
    else:
        y = _rows(x).matmul(w, tb=True).reshape([*x.shape[:-1], w.shape[0]])
    return y if bias is None else y + s.var(bias)


@kind("matmul.default", "mm.default", "bmm.default", "dot.default", "mv.default", "vdot.default", "inner.default")
def _matmul(s: Site, a: Any, b: Any) -> Var:
    a, b = s.float(a), s.float(b)
    if a.ndim == 1 and b.ndim == 1:
        return (a * b).sum()
    if b.ndim == 1:
        return _matmul(s, a, b.reshape([b.shape[0], 1])).reshape(a.shape[:-1])
    if a.ndim == 1:
        return _matmul(s, a.reshape([1, a.shape[0]]), b).reshape([*b.shape[:-2], b.shape[-1]])
    if b.ndim == 2 and a.ndim > 2:
        return (_rows(a) @ b).reshape([*a.shape[:-1], b.shape[1]])
    return a @ b


@kind("addbmm.default")
def _addbmm(s: Site, x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Var:
    y = _matmul(s, a, b).sum(0) * float(alpha)
    return y if beta == 0 else y + s.float(x) * float(beta)


@kind("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(s: Site, x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Var:
    y = _matmul(s, a, b)
    y = y if alpha == 1 else y * float(alpha)
    return y if beta == 0 else y + (s.float(x) if beta == 1 else s.float(x) * float(beta))


@kind("transformers::grouped_mm_fallback.default")
def _grouped_mm(s: Site, x: Any, w: Any, ends: Any) -> Var:
    ends = s.var(ends, "i32")
    before = ends.narrow(0, 0, ends.shape[0] - 1).pad([1], [0])
    return s.b.op("grouped_matmul", s.var(x), s.var(w), ends - before, tw=False, by_size=True)


kind("outer.default", "ger.default")(lambda s, a, b: s.float(a).outer(s.float(b)))
kind("einsum.default")(lambda s, equation, xs, path=None: s.b.einsum(equation.replace(" ", ""), *map(s.float, xs)))


@kind("_trilinear.default")
def _trilinear(s: Site, a: Var, b: Var, c: Var, at: Any, bt: Any, ct: Any, dims: Any, unroll: int = 1) -> Var:
    def spread(x: Any, axes: list[int]) -> Var:
        x = s.var(x)
        for axis in axes:
            x = x.unsqueeze(axis)
        return x

    a, b, c = spread(a, at), spread(b, bt), spread(c, ct)
    letters = "abcdefghijkl"[: a.ndim]
    shape = [max(n) for n in zip(a.shape, b.shape, c.shape)]
    kept = "".join(x for i, x in enumerate(letters) if i not in dims)

    def operand(x: Var) -> tuple[str, Var]:
        own = [i for i, n in enumerate(x.shape) if n == shape[i]]
        return "".join(letters[i] for i in own), x.reshape([shape[i] for i in own])

    names, xs = zip(*map(operand, (a, b, c)))
    return s.b.einsum(",".join(names) + "->" + kept, *xs)


@kind("_cdist_forward.default", "cdist.default")
def _cdist(s: Site, a: Any, b: Any, p: float = 2, mode: Any = None) -> Var:
    a, b = s.float(a), s.float(b)
    d = a.reshape([*a.shape[:-1], 1, a.shape[-1]]) - b.reshape([*b.shape[:-2], 1, *b.shape[-2:]])
    if p == math.inf:
        return abs(d).amax(-1)
    return d.norm(float(p), [d.ndim - 1])


@kind("_euclidean_dist.default")
def _euclidean_dist(s: Site, a: Any, b: Any) -> Var:
    """What torch computes distances of many points by: √(|a|² + |b|² − 2·a·b). The derivative of a distance of 0 is 0."""
    a, b = s.float(a), s.float(b)
    square = (a * a).sum(-1, keepdims=True) + (b * b).sum(-1).unsqueeze(-2) - a.matmul(b, tb=True) * 2.0
    zero = square <= 0.0  # and not NaN
    return zero.select(square.full_like(0.0), zero.select(square.full_like(1.0), square).sqrt())


@kind("_pdist_forward.default", "pdist.default")
def _pdist(s: Site, x: Any, p: float = 2) -> Var:
    x = s.float(x)
    a, b = (x.gather(s.var(at), 0) for at in torch.triu_indices(x.shape[0], x.shape[0], 1))
    return abs(a - b).amax(-1) if p == math.inf else (a - b).norm(float(p), [1])


@kind("linalg_cross.default", "cross.default")
def _cross(s: Site, a: Any, b: Any, dim: int | None = -1) -> Var:
    a, b = s.float(a), s.float(b)
    dim = dim if dim is not None else next(i for i, n in enumerate(a.shape) if n == 3)
    turned = [(x.roll(-1, dim), x.roll(-2, dim)) for x in (a, b)]
    return turned[0][0] * turned[1][1] - turned[0][1] * turned[1][0]


def _with_bias(y: Var, bias: Var | None) -> Var:
    return y if bias is None else y + bias.reshape([1, bias.shape[0]] + [1] * (y.ndim - 2))


def _each(value: Any, n: int) -> list[int]:
    value = [value] if isinstance(value, int) else list(value)
    return [int(v) for v in value] * (n if len(value) == 1 else 1)


def _conv(n: int) -> Any:
    def rule(
        s: Site, x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Var:
        x, w, bias = s.var(x), s.var(w), None if bias is None else s.var(bias)
        if x.ndim == n + 1:
            return rule(s, x.unsqueeze(0), w, bias, stride, padding, dilation, groups).squeeze(0)
        stride, dilation = _each(stride, n), _each(dilation, n)
        if padding == "same":
            spans = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
            pad = [side for span in spans for side in (span // 2, span - span // 2)]
        else:
            pad = [p for p in _each(0 if padding == "valid" else padding, n) for _ in range(2)]
        y = s.b.op(f"conv{n}d", x, w, stride=stride, pad=pad, dilation=dilation, groups=groups)
        return _with_bias(y, bias)

    return rule


def _conv_transpose(n: int) -> Any:
    def rule(
        s: Site,
        x: Any,
        w: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        more: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Var:
        x, w, bias = s.var(x), s.var(w), None if bias is None else s.var(bias)
        if x.ndim == n + 1:
            return rule(s, x.unsqueeze(0), w, bias, stride, padding, more, groups, dilation).squeeze(0)
        pad = [p for p in _each(padding, n) for _ in range(2)]
        how = {"stride": _each(stride, n), "pad": pad, "dilation": _each(dilation, n), "groups": groups}
        y = s.b.op(f"conv_transpose{n}d", x, w, output_pad=_each(more, n), **how)
        return _with_bias(y, bias)

    return rule


def _pool(name: str, n: int) -> Any:
    def rule(s: Site, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, *more: Any) -> Any:
        kernel = _each(kernel, n)
        stride = _each(stride, n) if stride or stride == 0 else kernel
        how: dict[str, Any] = {"stride": stride, "padding": _each(padding, n)}
        if name == "avg":
            names = ("ceil_mode", "count_include_pad", "divisor_override")
            how.update(zip(names, more))
            return _as_batch(s.var(x), n + 2, lambda x: getattr(nn, f"avg_pool{n}d")(x, kernel, **how))
        dilation, how["ceil_mode"] = (*more, 1, False)[:2] if len(more) < 2 else more[:2]
        how["dilation"] = _each(dilation, n)
        return _as_batch(s.var(x), n + 2, lambda x: getattr(nn, f"max_pool{n}d")(x, kernel, **how))

    return rule


def _max_pool_with_positions(n: int) -> Any:
    def rule(
        s: Site, x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        if not s.used(1):
            return _pool("max", n)(s, x, kernel, stride, padding, dilation, ceil_mode), None
        kernel = _each(kernel, n)
        how = {"padding": _each(padding, n), "dilation": _each(dilation, n), "ceil_mode": ceil_mode}
        y, at = getattr(nn, f"max_pool{n}d_with_indices")(s.var(x), kernel, _each(stride or kernel, n), **how)
        return y, s.var(at, "i64")

    return rule


def _adaptive(name: str, n: int) -> Any:
    def rule(s: Site, x: Any, size: Any) -> Any:
        size = [k if k is not None else x.shape[i - n] for i, k in enumerate(size)]
        if name == "max" and s.used(1):
            return _maxima(s, s.var(x), size)
        y = _as_batch(s.var(x), n + 2, lambda x: getattr(x, f"adaptive_{name}_pool{n}d")(output=size))
        return (y, None) if name == "max" else y

    return rule


def _maxima(s: Site, x: Var, size: list[int]) -> tuple[Var, Var]:
    """The largest element of each window of an adaptive pool, and where it is: the first of equal ones."""
    own = x.shape[-len(size) :]
    at = torch.zeros(1, 1, dtype=torch.int64)
    for n, k in zip(own, size):
        low, high = (torch.arange(k) * n // k, -(-(torch.arange(k) + 1) * n // k))
        # A window that is shorter than others ends with its last element again.
        window = torch.minimum(low[:, None] + torch.arange(int((high - low).max())), high[:, None] - 1)
        at = (at[:, None, :, None] * n + window[:, None]).flatten(0, 1).flatten(1)
    flat = x.flatten(-len(size), -1)
    parts = flat.gather(s.var(at), flat.ndim - 1)
    which = parts.arg_max(-1, "i64")
    rows = s.b.iota(0, (at.shape[0],), "i64") * float(at.shape[1])
    place = s.var(at.flatten()).gather(which + rows, 0)
    shape = [*x.shape[: -len(size)], *size]
    return parts.amax(-1).reshape(shape), place.reshape(shape)


for _n in (1, 2, 3):
    kind(f"conv{_n}d.default", f"conv{_n}d.padding")(_conv(_n))
    kind(f"conv_transpose{_n}d.default", f"conv_transpose{_n}d.input")(_conv_transpose(_n))
    kind(f"max_pool{_n}d.default")(_pool("max", _n))
    kind(f"avg_pool{_n}d.default")(_pool("avg", _n))
    kind(f"max_pool{_n}d_with_indices.default")(_max_pool_with_positions(_n))
    kind(f"adaptive_avg_pool{_n}d.default", f"_adaptive_avg_pool{_n}d.default")(_adaptive("avg", _n))
    kind(f"adaptive_max_pool{_n}d.default")(_adaptive("max", _n))


@kind("convolution.default")
def _convolution(
    s: Site, x: Any, w: Any, bias: Any, stride: Any, pad: Any, dilation: Any, transposed: bool, more: Any, groups: int
) -> Var:
    n = x.ndim - 2
    if transposed:
        return _conv_transpose(n)(s, x, w, bias, stride, pad, more, groups, dilation)
    return _conv(n)(s, x, w, bias, stride, pad, dilation, groups)


def _affine(s: Site, shape: Any, weight: Any, bias: Any, dtype: str) -> tuple[Var, Var]:
    gamma = s.b.full(1.0, shape, dtype) if weight is None else s.var(weight)
    beta = s.b.full(0.0, shape, dtype) if bias is None else s.var(bias)
    return gamma, beta


@kind("layer_norm.default")
def _layer_norm(s: Site, x: Any, shape: Any, w: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Var:
    x = s.var(x)
    gamma, beta = _affine(s, list(shape), w, bias, x.dtype)
    if len(shape) == 1:
        return x.layer_norm(gamma, beta, eps)
    flat = x.reshape([*x.shape[: x.ndim - len(shape)], math.prod(shape)])
    return flat.layer_norm(gamma.flatten(), beta.flatten(), eps).reshape(x.shape)


@kind("rms_norm.default")
def _rms_norm(s: Site, x: Any, shape: Any, w: Any = None, eps: float | None = None) -> Var:
    x = s.var(x)
    gamma, beta = _affine(s, list(shape), w, None, x.dtype)
    eps = eps if eps is not None else 2.0**-23 if x.dtype == "f32" else 2.0**-52
    flat = x.reshape([*x.shape[: x.ndim - len(shape)], math.prod(shape)])
    return flat.rms_norm(gamma.flatten(), beta.flatten(), eps).reshape(x.shape)


@kind("group_norm.default")
def _group_norm(s: Site, x: Any, groups: int, w: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Var:
    x = s.var(x)
    gamma, beta = _affine(s, [x.shape[1]], w, bias, x.dtype)
    if x.ndim == 2:
        return x.reshape([*x.shape, 1]).group_norm(groups, gamma, beta, eps).reshape(x.shape)
    return x.group_norm(groups, gamma, beta, eps)


@kind("instance_norm.default")
def _instance_norm(s: Site, x: Any, w: Any, bias: Any, mean: Any, var: Any, own: bool, *rest: Any) -> Var:
    if mean is not None:
        raise Refused("instance norm with running statistics")
    return _group_norm(s, x, x.shape[1], w, bias, rest[1])


@kind("_native_batch_norm_legit_functional.default")
def _batch_norm(
    s: Site, x: Any, w: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    x = s.var(x)
    mean, var = s.var(mean), s.var(var)
    gamma, beta = _affine(s, mean.shape, w, bias, x.dtype)
    if not training:
        y = s.b.op("batch_norm_inference", x, gamma, beta, mean, var, axis=1, eps=eps)
        return y, mean, (var + eps).rsqrt(), mean, var
    y, own, spread = s.b.op("batch_norm", x, gamma, beta, eps=eps)
    n = x.size // max(x.shape[1], 1)
    if n < 2:
        raise Refused(f"batch norm in training over {n} element of each channel; torch refuses it, too")
    unbiased = spread.stop_gradient() * (n / (n - 1))
    mean = mean * (1 - momentum) + own.stop_gradient() * momentum
    # In torch, no gradient goes through the statistics.
    kept = own.stop_gradient(), (spread.stop_gradient() + eps).rsqrt()
    return y, *kept, mean, var * (1 - momentum) + unbiased * momentum


@kind("_native_batch_norm_legit.no_stats")
def _batch_norm_alone(s: Site, x: Any, w: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    x = s.var(x)
    gamma, beta = _affine(s, [x.shape[1]], w, bias, x.dtype)
    y, mean, var = s.b.op("batch_norm", x, gamma, beta, eps=eps)
    # In torch, no gradient goes through the statistics.
    return y, mean.stop_gradient(), (var.stop_gradient() + eps).rsqrt()


@kind("_native_batch_norm_legit_no_training.default")
def _batch_norm_inference(
    s: Site, x: Any, w: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    y = _batch_norm(s, x, w, bias, mean, var, False, momentum, eps)[0]
    empty = s.b.full(0.0, (0,), y.dtype)  # as torch on a CPU
    return y, empty, empty


@kind("scaled_dot_product_attention.default")
def _attention(
    s: Site,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Var:
    q, k, v = s.var(q), s.var(k), s.var(v)
    scale = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    lead = q.shape[:-2]
    if not grouped:
        k, v = (x if x.shape[:-2] == lead else x.broadcast([*lead, *x.shape[-2:]]) for x in (k, v))
    if mask is not None:
        mask = s.var(mask)
        if q.ndim != 4 and mask.ndim > 2:
            mask = mask.broadcast([*lead, *mask.shape[-2:]])
    if q.ndim != 4:
        fold = [1, math.prod(lead)]
        q, k, v = (x.reshape([*fold, *x.shape[-2:]]) for x in (q, k, v))
        if mask is not None and mask.ndim > 2:
            mask = mask.reshape([*fold, *mask.shape[-2:]])
    if scale == 0.0:
        raise Refused("attention with scale 0")
    y = nn.attention(q, k, v, causal, None, scale, dropout, mask, causal)
    return y.reshape([*lead, *y.shape[-2:]]) if len(lead) != 2 else y


def _sides(padding: Any) -> list[int]:
    return [p for p in _each(padding, 2) for _ in range(2)]


@kind("im2col.default")
def _im2col(s: Site, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Var:
    how = {"kernel": kernel, "stride": stride, "pad": _sides(padding), "dilation": dilation}
    return _as_batch(s.var(x), 4, lambda x: x.im2col(**how)) if x.ndim == 4 else s.var(x).unsqueeze(0).im2col(**how).squeeze(0)


@kind("col2im.default")
def _col2im(s: Site, x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Var:
    x = s.var(x)
    how = {"in_hw": size, "kernel": kernel, "stride": stride, "pad": _sides(padding), "dilation": dilation}
    return x.col2im(**how) if x.ndim == 3 else x.unsqueeze(0).col2im(**how).squeeze(0)
