"""Kinds that torch's own autograd adds: forward ops with what they keep, and derivatives that are not decomposed."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Build, Var
from ._indexing import bag_of
from ._kinds import Refused, Rule, Site, kind
from ._layers import _affine, _convolution, _each, _pdist, _sides
from ._resize import _aten, _grid_sampler, _smoothed, along


def derived(s: Site, forward: Rule, dy: Any, *operands: Any) -> list[Var]:
    """The derivatives of a rule by its operands, which differentiation here finds."""
    given = [(f"x{i}", s.var(x)) for i, x in enumerate(operands)]
    with Build("forward") as b:
        b.output("y", forward(Site(b, s.results, lambda i: i == 0), *(b.input(name, x.shape, x.dtype) for name, x in given)))
    back = b.graph.vjp(["y"], [name for name, _ in given], missing="zero")
    return s.b._splice(back, [*given, ("cotangent.y", s.var(dy))], [f"grad.{name}" for name, _ in given])


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
        return _of_three_axes(s, dy, x, w, stride, padding, dilation, transposed, groups, wanted, db)
    if n == 1:  # an axis of one more
        dy, x, w = (v.reshape([*v.shape[:2], 1, v.shape[2]]) for v in (dy, x, w))
    stride, padding, dilation = (
        [first] * (2 - n) + _each(given, n) for given, first in ((stride, 1), (padding, 0), (dilation, 1))
    )
    how = {"stride": stride, "pad": [p for p in padding for _ in range(2)], "dilation": dilation, "groups": groups}
    dx = dw = None
    if transposed:
        dx = _cut(_convolution(s, dy, w, None, stride, padding, dilation, False, 0, groups), x.shape) if wanted[0] else None
        # An output padding of a stride or more has room for windows that no element of x has.
        spans = zip(dy.shape[2:], w.shape[2:], stride, padding, dilation)
        sizes = [(n + 2 * pad - d * (k - 1) - 1) // step + 1 for n, k, step, pad, d in spans]
        wide = x.pad([0] * 4, [0, 0, *(n - m for n, m in zip(sizes, x.shape[2:]))])
        dw = dy.conv2d_weight_grad(wide, kernel=w.shape[2:], **how) if wanted[1] else None
    else:
        dx = dy.conv2d_input_grad(w, in_hw=x.shape[2:], **how) if wanted[0] else None
        dw = x.conv2d_weight_grad(dy, kernel=w.shape[2:], **how) if wanted[1] else None
    if n == 1:
        dx, dw = (v if v is None else v.reshape([*v.shape[:2], v.shape[3]]) for v in (dx, dw))
    return dx, dw, db


def _cut(x: Var, shape: Any) -> Var:
    """The first elements along each axis."""
    for axis, n in enumerate(shape):
        x = x if x.shape[axis] == n else x.narrow(axis, 0, n)
    return x


def _of_three_axes(
    s: Site, dy: Var, x: Var, w: Var, stride: Any, padding: Any, dilation: Any, transposed: bool, groups: int, wanted: Any, db: Any
) -> Any:
    stride, padding, dilation = (_each(v, 3) for v in (stride, padding, dilation))
    wide, small = (dy, x) if transposed else (x, dy)  # the operand and the result of the convolution that is not transposed
    dx = dw = None
    if wanted[0]:
        spans = [(n - 1) * k - 2 * p + d * (q - 1) + 1 for n, k, p, d, q in zip(dy.shape[2:], stride, padding, dilation, w.shape[2:])]
        more = [n - m for n, m in zip(x.shape[2:], spans)]
        dx = _convolution(s, dy, w, None, stride, padding, dilation, not transposed, 0 if transposed else more, groups)
        dx = _cut(dx, x.shape)
    if wanted[1]:
        # Batch and channels change places; what was the stride lies between the elements of the kernel.
        parts = []
        for a, b in zip(wide.chunk(groups, 1), small.chunk(groups, 1)):
            a, b = a.movedim([1], [0]), b.movedim([1], [0])
            part = _convolution(s, a, b, None, dilation, padding, stride, False, 0, 1)
            for axis, k in enumerate(w.shape[2:], 2):
                part = part.narrow(axis, 0, k)
            parts.append(part.movedim([1], [0]))
        dw = parts[0].concat(parts[1:], 0) if groups > 1 else parts[0]
    return dx, dw, db


def _max_pool_backward(n: int) -> Any:
    def rule(s: Site, dy: Any, x: Any, kernel: Any, stride: Any, pad: Any, dilation: Any, ceil: bool, at: Any) -> Var:
        zeros = s.b.full(0.0, x.shape, s.dtype).flatten(-n, -1)
        return zeros.scatter(dy.flatten(-n, -1), at.flatten(-n, -1), axis=x.ndim - n, mode="add", own=True).reshape(x.shape)

    return rule


def _adaptive_max_pool_backward(n: int) -> Any:
    def rule(s: Site, dy: Any, x: Any, at: Any) -> Var:
        flat = s.var(dy).flatten(-n, -1).scatter_along_axis(s.var(at).flatten(-n, -1), axis=x.ndim - n, size=math.prod(x.shape[-n:]))
        return flat.reshape(x.shape)

    return rule


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


def _windows(n: int, out: int, kernel: int, stride: int, pad: int) -> torch.Tensor:
    """The matrix of the sums of windows along one axis."""
    first = torch.arange(out)[:, None] * stride - pad
    at = torch.arange(n)[None]
    return (at >= first) & (at < first + kernel)


def _avg_pool_backward(n: int) -> Any:
    op = getattr(torch.ops.aten, f"avg_pool{n}d").default

    def rule(
        s: Site, dy: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool, divisor: int | None
    ) -> Var:
        kernel, pad = _each(kernel, n), _each(padding, n)
        stride = _each(stride, n) if stride or stride == 0 else kernel
        if x.ndim == 4 and n == 2 and not ceil and divisor is None:
            how = {"kernel": kernel, "stride": stride, "pad": _sides(padding), "count_include_pad": count_pad}
            return s.var(dy).avg_pool2d_backward(in_hw=x.shape[2:], **how)
        # What no kernel here takes.
        ones = torch.ones((1, 1, *x.shape[-n:]), dtype=s.results.dtype)
        as_asked = (kernel, stride, pad, ceil, count_pad)
        counts = (op(ones, *as_asked, 1) / op(ones, *as_asked, divisor))[0, 0]
        dx = s.var(dy) / s.var(counts)
        for i in range(n):
            axis = x.ndim - n + i
            windows = _windows(x.shape[axis], dy.shape[axis], kernel[i], stride[i], pad[i])
            dx = along(dx, axis, s.var(windows.to(s.results.dtype)))
        return dx

    return rule


def _means(n: int, out: int, dtype: torch.dtype) -> torch.Tensor:
    """The matrix of an adaptive average pool along one axis."""
    matrix = torch.zeros(out, n, dtype=dtype)
    for i in range(out):
        low, high = i * n // out, -(-(i + 1) * n // out)
        matrix[i, low:high] = 1.0 / (high - low)
    return matrix


def _adaptive_avg_pool_backward(n: int) -> Any:
    def rule(s: Site, dy: Any, x: Any) -> Var:
        dx = s.var(dy)
        for axis in range(x.ndim - n, x.ndim):
            dx = along(dx, axis, s.var(_means(x.shape[axis], dy.shape[axis], s.results.dtype)))
        return dx

    return rule


def _pad_backward(mode: str, n: int) -> Any:
    def rule(s: Site, dy: Any, x: Any, padding: Any) -> Var:
        own = x.shape[-n:]
        at = torch.arange(math.prod(own), dtype=torch.float64).reshape(1, 1, *own)
        at = torch.nn.functional.pad(at, list(padding), mode=mode).long().flatten()
        return s.var(dy).flatten(-n, -1).scatter_add(s.var(at), axis=x.ndim - n, size=math.prod(own)).reshape(x.shape)

    return rule


for _n in (2, 3):
    kind(f"max_pool{_n}d_with_indices_backward.default")(_max_pool_backward(_n))
    kind(f"adaptive_max_pool{_n}d_backward.default")(_adaptive_max_pool_backward(_n))
    kind(f"avg_pool{_n}d_backward.default")(_avg_pool_backward(_n))
    kind(f"_adaptive_avg_pool{_n}d_backward.default")(_adaptive_avg_pool_backward(_n))
for _n in (1, 2, 3):
    kind(f"replication_pad{_n}d_backward.default")(_pad_backward("replicate", _n))
    kind(f"reflection_pad{_n}d_backward.default")(_pad_backward("reflect", _n))


@kind("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def _grid_sampler_backward(s: Site, dy: Any, x: Any, grid: Any, mode: int, padding: int, aligned: bool, wanted: Any) -> Any:
    found = derived(s, lambda s, x, grid: _grid_sampler(s, x, grid, mode, padding, aligned), dy, x, grid)
    return tuple(d if asked else None for d, asked in zip(found, wanted))


@kind("_pdist_backward.default")
def _pdist_backward(s: Site, dy: Any, x: Any, p: float, distances: Any) -> Var:
    return derived(s, lambda s, x: _pdist(s, x, p), dy, x)[0]


@kind("masked_scatter_backward.default")
def _masked_scatter_backward(s: Site, dy: Any, mask: Any, shape: Any) -> Var:
    dy, mask = s.var(dy).flatten(), s.var(mask).broadcast(dy.shape).flatten()
    taken = mask.select(dy, dy.full_like(0.0))
    # The elements that are taken, in their order; the first element gets nothing from the others.
    at = mask.select(s.var(mask, "i64").cumsum(0) - 1.0, s.b.full(0.0, mask.shape, "i64"))
    return taken.scatter_add(at, axis=0, size=math.prod(shape)).reshape(shape)


def _bags(s: Site, bag: Any, indices: Any, offsets: Any) -> Var:
    """The bag of each element, which torch keeps in some cases only."""
    return bag_of(s, s.var(offsets), indices.shape[0]) if bag.shape[0] != indices.shape[0] else s.var(bag)


@kind("_embedding_bag_backward.default")
def _embedding_bag_backward(
    s: Site,
    dy: Any,
    indices: Any,
    offsets: Any,
    bag: Any,
    sizes: Any,
    largest: Any,
    rows: int,
    by_freq: bool,
    mode: int,
    sparse: bool,
    weights: Any,
    padding: int = -1,
) -> Var:
    if by_freq:
        raise Refused("an embedding bag with scale_grad_by_freq=True")
    dy, indices = s.var(dy), s.var(indices)
    if mode == 2:
        columns = dy.shape[1]
        dy = (s.var(sizes) > 0.0).unsqueeze(1).broadcast(dy.shape).select(dy, dy.full_like(0.0))
        # The row that each element of a bag came from.
        at = s.var(largest) * float(columns) + s.b.iota(0, (columns,), "i64").reshape([1, columns])
        return dy.flatten().scatter_add(at.flatten(), axis=0, size=rows * columns).reshape([rows, columns])
    if mode == 1:
        dy = dy / s.var(sizes, dy.dtype).maximum(1.0).unsqueeze(1)
    each = dy.gather(_bags(s, bag, indices, offsets), 0)
    if weights is not None:
        each = each * s.var(weights).unsqueeze(1)
    if padding >= 0:
        each = indices.not_equal(float(padding)).unsqueeze(1).broadcast(each.shape).select(each, each.full_like(0.0))
    return each.scatter_add(indices, axis=0, size=rows)


@kind("_embedding_bag_per_sample_weights_backward.default")
def _embedding_bag_weights_backward(
    s: Site, dy: Any, table: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding: int = -1
) -> Var:
    indices = s.var(indices)
    d = (s.var(dy).gather(_bags(s, bag, indices, offsets), 0) * s.var(table).gather(indices, 0)).sum(1)
    return d if padding < 0 else indices.not_equal(float(padding)).select(d, d.full_like(0.0))


def _smoothed_backward(op: Any) -> Any:
    def rule(s: Site, dy: Any, out: Any, shape: Any, aligned: bool, *scales: Any) -> Var:
        forward = _smoothed(op)
        return derived(s, lambda s, x: forward(s, x, out, aligned, *scales), dy, s.b.full(0.0, tuple(shape), s.dtype))[0]

    return rule


for _name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    kind(f"{_name}_backward.default")(_smoothed_backward(getattr(_aten, _name).default))


@kind("_cdist_backward.default")
def _cdist_backward(s: Site, dy: Any, a: Any, b: Any, p: float, distances: Any) -> Var:
    a, b = s.var(a), s.var(b)
    d = a.unsqueeze(a.ndim - 1) - b.unsqueeze(b.ndim - 2)
    far, dy = (s.var(x).unsqueeze(x.ndim) for x in (distances, dy))
    if p == math.inf:
        part = d.sign() * s.var((d.abs() - far).equal(0.0), d.dtype)
    else:
        share = d.abs() / (far > 0.0).select(far, far.full_like(1.0))
        part = d.sign() * (d.equal(0.0).select(d.full_like(1.0), share)).pow(p - 1.0)
    return (part * dy).sum(d.ndim - 2)
