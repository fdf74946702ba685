"""Kinds that move elements."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Site, axes_of, kind


@kind("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default", "_reshape_alias.default")
def _view(s: Site, x: Var, size: Any, *_: Any) -> Var:
    size = [int(n) for n in size]
    if -1 in size:
        rest = math.prod(n for n in size if n != -1)
        size[size.index(-1)] = x.size // rest if rest else 0
    return x if tuple(size) == x.shape else x.reshape(size)


@kind("permute.default", "permute_copy.default")
def _permute(s: Site, x: Var, dims: list[int]) -> Var:
    return x.transpose(axes_of(x, dims)) if x.ndim else x


@kind("transpose.int")
def _transpose(s: Site, x: Var, a: int, b: int) -> Var:
    order = list(range(x.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return x.transpose(order) if order else x


kind("t.default")(lambda s, x: x.t() if x.ndim > 1 else x)
kind("mT.default", "adjoint.default")(lambda s, x: x.t())
kind("movedim.int")(lambda s, x, a, b: x.movedim(a, b))
kind("unsqueeze.default")(lambda s, x, dim: x.reshape(_with_axis(x, dim, 1)))
kind("flatten.using_ints")(lambda s, x, a=0, b=-1: x.flatten(a, b) if x.ndim else x.reshape([1]))


def _with_axis(x: Var, dim: int, n: int) -> list[int]:
    shape = list(x.shape)
    shape.insert(dim if dim >= 0 else dim + x.ndim + 1, n)
    return shape


@kind("unflatten.int")
def _unflatten(s: Site, x: Var, dim: int, sizes: list[int]) -> Var:
    dim %= x.ndim
    return _view(s, x, [*x.shape[:dim], *_whole(sizes, x.shape[dim]), *x.shape[dim + 1 :]])


def _whole(sizes: Any, n: int) -> list[int]:
    sizes = [int(k) for k in sizes]
    if -1 in sizes:
        sizes[sizes.index(-1)] = n // math.prod(k for k in sizes if k != -1)
    return sizes


@kind("squeeze.default", "squeeze.dim", "squeeze.dims")
def _squeeze(s: Site, x: Var, dims: Any = None) -> Var:
    if isinstance(dims, (list, tuple)) and not dims:
        return x
    ones = [d for d in axes_of(x, dims) if x.ndim and x.shape[d] == 1]
    return x.reshape([n for d, n in enumerate(x.shape) if d not in ones]) if ones else x


@kind("expand.default", "expand_copy.default")
def _expand(s: Site, x: Any, size: Any, implicit: bool = False) -> Var:
    x = s.var(x)
    lead = len(size) - x.ndim
    shape = [x.shape[i - lead] if n == -1 else int(n) for i, n in enumerate(size)]
    return x if tuple(shape) == x.shape else x.broadcast(shape)


kind("expand_as.default")(lambda s, x, other: _expand(s, x, other.shape))


@kind("broadcast_tensors.default")
def _broadcast_tensors(s: Site, xs: list[Any]) -> tuple[Var, ...]:
    shape = torch.broadcast_shapes(*(tuple(x.shape) for x in xs))
    return tuple(_expand(s, x, shape) for x in xs)


@kind("repeat.default", "tile.default")
def _repeat(s: Site, x: Var, times: list[int]) -> Var:
    lead = max(len(times) - x.ndim, 0)
    times = [1] * (x.ndim + lead - len(times)) + list(times)
    return x.reshape([1] * lead + list(x.shape)).tile(times)


kind("repeat_interleave.self_int")(
    lambda s, x, n, dim=None, output_size=None: (
        x.flatten().repeat_interleave(n, 0) if dim is None else x.repeat_interleave(n, dim)
    )
)


@kind("cat.default", "concat.default", "concatenate.default")
def _cat(s: Site, xs: list[Any], dim: int = 0) -> Var:
    parts = [s.float(x) for x in xs if not (x.ndim == 1 and x.shape[0] == 0)]
    if not parts:
        return s.float(xs[0])
    return parts[0].concat(parts[1:], dim) if len(parts) > 1 else parts[0]


@kind("stack.default")
def _stack(s: Site, xs: list[Any], dim: int = 0) -> Var:
    parts = [s.float(x) for x in xs]
    shaped = [p.reshape(_with_axis(p, dim, 1)) for p in parts]
    axis = dim if dim >= 0 else dim + parts[0].ndim + 1
    return shaped[0].concat(shaped[1:], axis) if len(shaped) > 1 else shaped[0]


@kind("split.Tensor", "split.int")
def _split(s: Site, x: Var, size: int, dim: int = 0) -> Any:
    n = x.shape[dim]
    return _parts(x, [min(size, n - at) for at in range(0, n, size)] or [0], dim)


kind("split_with_sizes.default", "split.sizes", "split_with_sizes_copy.default")(
    lambda s, x, sizes, dim=0: _parts(x, list(sizes), dim)
)


def _parts(x: Var, sizes: list[int], dim: int) -> Any:
    return x.split(sizes, dim) if len(sizes) > 1 else (x,)


@kind("chunk.default")
def _chunk(s: Site, x: Var, parts: int, dim: int = 0) -> Any:
    return _split(s, x, -(-x.shape[dim] // parts), dim)


@kind("unbind.int", "unbind_copy.int")
def _unbind(s: Site, x: Var, dim: int = 0) -> Any:
    return tuple(_select(s, x, dim, i) for i in range(x.shape[dim]))


def _bounds(n: int, start: int | None, end: int | None) -> tuple[int, int]:
    start, end = (slice(start, end).indices(n))[:2]
    return start, max(start, end)


@kind("slice.Tensor", "slice_copy.Tensor")
def _slice(s: Site, x: Var, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Var:
    dim %= x.ndim
    start, end = _bounds(x.shape[dim], start, end)
    if start == 0 and end == x.shape[dim] and step == 1:
        return x
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[dim], limits[dim], steps[dim] = start, end, step
    return x.slice(starts, limits, steps)


def _select(s: Site, x: Var, dim: int, index: int) -> Var:
    dim %= x.ndim
    return x.narrow(dim, index % x.shape[dim], 1).reshape([n for d, n in enumerate(x.shape) if d != dim])


kind("narrow.default", "narrow_copy.default")(lambda s, x, dim, start, length: x.narrow(dim, start % max(x.shape[dim], 1), length))


@kind("slice_scatter.default")
def _slice_scatter(
    s: Site, x: Any, part: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Var:
    x = s.float(x)
    dim %= x.ndim
    low, high = _bounds(x.shape[dim], start, end)
    if step != 1:
        at = torch.arange(low, high, step)
        wide = [at.numel() if d == dim else n for d, n in enumerate(x.shape)]
        return x.scatter(_expand(s, s.float(part), wide), s.var(at), axis=dim, mode="set", own=False)
    shape = list(x.shape)
    shape[dim] = high - low
    part = _expand(s, s.float(part), shape)
    parts = [x.narrow(dim, 0, low)] if low else []
    parts.append(part)
    if high < x.shape[dim]:
        parts.append(x.narrow(dim, high, x.shape[dim] - high))
    return parts[0].concat(parts[1:], dim) if len(parts) > 1 else part


@kind("select_scatter.default")
def _select_scatter(s: Site, x: Any, part: Any, dim: int, index: int) -> Var:
    part = s.float(part)
    at = index % x.shape[dim]
    return _slice_scatter(s, x, part.reshape(_with_axis(part, dim % x.ndim, 1)), dim, at, at + 1)


@kind("copy.default")
def _copy(s: Site, x: Any, source: Any, *_: Any) -> Var:
    return _expand(s, s.float(source), x.shape)


@kind("fill.Scalar", "fill.Tensor", "full_like.default", "new_full.default")
def _filled(s: Site, x: Any, value: Any, *rest: Any) -> Var:
    shape = x.shape
    if isinstance(value, (list, tuple)):  # new_full has a size first
        shape, value = value, rest[0]
    if isinstance(value, (int, float)):
        return s.b.full(float(value), tuple(shape), s.dtype)
    return _expand(s, s.float(value), shape)


kind("zeros_like.default", "empty_like.default")(lambda s, x, *_: s.b.full(0.0, x.shape, s.dtype))
kind("ones_like.default")(lambda s, x, *_: s.b.full(1.0, x.shape, s.dtype))
kind("new_zeros.default", "new_empty.default", "new_empty_strided.default")(lambda s, x, size, *_: s.b.full(0.0, tuple(size), s.dtype))
kind("new_ones.default")(lambda s, x, size, *_: s.b.full(1.0, tuple(size), s.dtype))
kind("sym_size.int")(lambda s, x, dim: x.shape[dim])
kind("sym_numel.default")(lambda s, x: math.prod(x.shape))
kind("flip.default")(lambda s, x, dims: x.flip(axes_of(x, dims)) if dims else x)
kind("tril.default")(lambda s, x, k=0: x.tril(k))
kind("triu.default")(lambda s, x, k=0: x.triu(k))
kind("diagonal.default", "diagonal_copy.default")(lambda s, x, k=0, a=0, b=1: x.diagonal(k, a, b))
kind("diag_embed.default")(lambda s, x, k=0, a=-2, b=-1: x.diag_embed(k, a, b))
kind("trace.default")(lambda s, x: x.trace())
kind("unfold.default")(lambda s, x, dim, size, step: x.sliding_window(dim, size, step))
kind("pixel_shuffle.default")(lambda s, x, r: _as_batch(x, 4, lambda x: x.pixel_shuffle(r)))
kind("pixel_unshuffle.default")(lambda s, x, r: _as_batch(x, 4, lambda x: x.pixel_unshuffle(r)))


def _as_batch(x: Var, rank: int, f: Any) -> Var:
    """`f` of `x` with its first axes as one, or with an axis more."""
    lead = list(x.shape[: x.ndim - rank + 1])
    y = f(x.reshape([math.prod(lead), *x.shape[x.ndim - rank + 1 :]]))
    return y.reshape(lead + list(y.shape[1:]))


@kind("roll.default")
def _roll(s: Site, x: Var, shifts: Any, dims: Any = ()) -> Var:
    if not dims:
        return x.flatten().roll(shifts[0], 0).reshape(x.shape)
    for shift, dim in zip(shifts, dims):
        x = x.roll(shift, dim)
    return x


@kind("pad.default", "constant_pad_nd.default")
def _pad(s: Site, x: Any, pad: list[int], mode: Any = "constant", value: float | None = None) -> Var:
    if not isinstance(mode, str):  # constant_pad_nd has the value there
        mode, value = "constant", mode
    x = s.float(x)
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    cut = [max(-n, 0) for n in low], [max(-n, 0) for n in high]
    if any(cut[0] + cut[1]):
        x = x.slice(cut[0], [n - c for n, c in zip(x.shape, cut[1])])
        low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if mode == "constant":
        return x.pad(low, high, float(value or 0.0))
    return x.pad_with(low, high, mode)


for _axes in "123":
    kind(f"reflection_pad{_axes}d.default")(lambda s, x, pad: _pad(s, x, pad, "reflect"))
    kind(f"replication_pad{_axes}d.default")(lambda s, x, pad: _pad(s, x, pad, "replicate"))


@kind("meshgrid.indexing", "meshgrid.default")
def _meshgrid(s: Site, xs: list[Any], indexing: str = "ij") -> tuple[Var, ...]:
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[0], order[1] = 1, 0
    shape = [xs[i].shape[0] if xs[i].ndim else 1 for i in order]
    at = {i: axis for axis, i in enumerate(order)}
    return tuple(
        s.var(x).reshape([shape[d] if d == at[i] else 1 for d in range(len(xs))]).broadcast(shape)
        for i, x in enumerate(xs)
    )
