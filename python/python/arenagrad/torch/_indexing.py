"""Kinds that read and write at indices."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._shape import _expand, _select
from ._values import DTYPES


def _wrapped(s: Site, index: Any, n: int) -> Var:
    """Indices from the front; torch counts negative ones from the end."""
    if isinstance(index, torch.Tensor):
        return s.var(torch.where(index < 0, index + n, index))
    index = index if index.dtype in ("i32", "i64") else s.var(index, "i64")
    return (index < 0.0).select(index + float(n), index)


@kind("select.int", "select_copy.int")
def _select_at(s: Site, x: Var, dim: int, index: Any) -> Var:
    if not isinstance(index, Var):
        return _select(s, x, dim, index)
    at = _wrapped(s, index, x.shape[dim])  # a number of the data
    return x.gather(at.reshape([1]), dim).reshape([n for d, n in enumerate(x.shape) if d != dim % x.ndim])


@kind("_local_scalar_dense.default", "item.default")
def _number_of(s: Site, x: Any) -> Var:
    # In torch a number has no gradient.
    return s.var(x).reshape([]).stop_gradient()


kind("_is_all_true.default")(lambda s, x: s.var(x).all())


def _places(s: Site, size: Any, stride: Any, offset: int | None) -> Var:
    """Where the elements of a strided view are in their tensor, which torch has in row-major order."""
    if not s.given[0].is_contiguous() or s.given[0].storage_offset():
        raise Refused("as_strided of a tensor that is not contiguous")
    at = torch.zeros(tuple(size), dtype=torch.int64) + (offset or 0)
    for axis, (n, step) in enumerate(zip(size, stride)):
        at += (torch.arange(n) * step).reshape([-1] + [1] * (len(size) - axis - 1))
    return s.var(at)


@kind("as_strided.default", "as_strided_copy.default")
def _as_strided(s: Site, x: Any, size: Any, stride: Any, offset: int | None = None) -> Var:
    return s.var(x).flatten().gather(_places(s, size, stride, offset), 0)


@kind("diagonal_scatter.default")
def _diagonal_scatter(s: Site, x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Var:
    x = s.var(x)
    at = s.var(torch.arange(x.size).reshape(tuple(x.shape)).diagonal(offset, dim1, dim2).flatten())
    return x.flatten().scatter(s.var(source, x.dtype).flatten(), at, axis=0, mode="set", own=False).reshape(x.shape)


@kind("as_strided_scatter.default")
def _as_strided_scatter(s: Site, x: Any, source: Any, size: Any, stride: Any, offset: int | None = None) -> Var:
    x, at = s.var(x), _places(s, size, stride, offset).flatten()
    return x.flatten().scatter(s.var(source, x.dtype).flatten(), at, axis=0, mode="set", own=False).reshape(x.shape)


@kind("embedding.default")
def _embedding(s: Site, table: Any, indices: Any, padding: int = -1, by_freq: bool = False, *_: Any) -> Var:
    table, indices = s.var(table), s.var(indices)
    y = table.embedding(indices, None if padding < 0 else padding)
    if not by_freq:
        return y
    # How often a row is read divides its gradient, and no value.
    counts = s.b.full(1.0, (indices.size,), y.dtype).scatter_add(indices.flatten(), axis=0, size=table.shape[0])
    fixed = y.stop_gradient()
    return fixed + (y - fixed) / counts.gather(indices, 0).unsqueeze(indices.ndim)


def bag_of(s: Site, offsets: Var, n: int) -> Var:
    """The bag of each of `n` elements: how many bags begin at it or before, less one."""
    begun = s.b.full(1.0, (offsets.shape[0],), "i64").scatter_add(offsets, axis=0, size=n + 1)
    return begun.narrow(0, 0, n).cumsum(0) - 1.0


@kind("embedding_bag.padding_idx", "embedding_bag.default", "_embedding_bag.default", "_embedding_bag_forward_only.default")
def _embedding_bag(
    s: Site,
    table: Any,
    indices: Any,
    offsets: Any,
    by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Any = None,
    last: bool = False,
    padding: int | None = -1,
) -> Any:
    if by_freq:
        raise Refused("an embedding bag with scale_grad_by_freq=True")
    table, indices, offsets = s.var(table), s.var(indices), s.var(offsets)
    offsets = offsets.narrow(0, 0, offsets.shape[0] - 1) if last else offsets
    n, bags = indices.shape[0], offsets.shape[0]
    bag = bag_of(s, offsets, n)
    rows = table.gather(indices, 0)
    if weights is not None:
        rows = rows * s.var(weights).reshape([n, 1])
    counted = None
    if padding is not None and padding >= 0:
        counted = indices.not_equal(float(padding)).reshape([n, 1])
        rows = counted.broadcast(rows.shape).select(rows, rows.full_like(-math.inf if mode == 2 else 0.0))
    largest = None
    if mode == 2:
        empty = s.b.full(-math.inf, (bags, rows.shape[1]), rows.dtype)
        y = empty.scatter(rows, bag, axis=0, mode="max", own=False)
        if s.used(3):
            # The first element of the bag that is as large.
            first = y.gather(bag, 0).equal(rows).select(s.b.iota(0, rows.shape, "i64"), s.b.full(float(n), rows.shape, "i64"))
            first = s.b.full(float(n), y.shape, "i64").scatter(first, bag, axis=0, mode="min", own=False)
            largest = indices.gather(first.minimum(n - 1.0), 0)
        y = y.equal(s.b.full(-math.inf, y.shape, y.dtype)).select(y.full_like(0.0), y)
    else:
        y = rows.scatter_add(bag, axis=0, size=bags)
    ones = s.b.full(1.0, (n, 1), rows.dtype) if counted is None else s.var(counted, rows.dtype)
    sizes = ones.scatter_add(bag, axis=0, size=bags)
    y = y / sizes.maximum(1.0) if mode == 1 else y
    return y, *_as_kept(s, (bag, sizes.squeeze(1), largest))


def _as_kept(s: Site, values: Any) -> list[Any]:
    """What torch keeps of an embedding bag for its derivative: nothing for what that does not read."""
    if not isinstance(s.results, (tuple, list)) or len(s.results) != 4:
        return [None] * 3
    kept = []
    for like, x in zip(s.results[1:], values):
        shape = tuple(map(int, like.shape))
        dtype = DTYPES[like.dtype]
        kept.append(s.b.full(0.0, shape, dtype) if x is None or x.shape != shape else s.var(x, dtype))
    return kept


def _joint(s: Site, x: Var, indices: list[Any]) -> tuple[list[int], list[Any]]:
    """The axes that have indices, and these, in one shape. A mask of constants becomes positions."""
    axes, given, axis = [], [], 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, "bool", torch.uint8):
            if not isinstance(index, torch.Tensor):
                raise Refused("a mask chooses elements, so that their number follows from the data: use torch.where")
            for k, places in enumerate(torch.nonzero(index, as_tuple=True)):
                axes.append(axis + k)
                given.append(places)
            axis += index.ndim
            continue
        if index is not None:
            axes.append(axis)
            given.append(index)
        axis += 1
    shape = torch.broadcast_shapes(*(tuple(i.shape) for i in given))
    spread = [i.expand(shape) if isinstance(i, torch.Tensor) else _expand(s, i, shape) for i in given]
    return axes, [_wrapped(s, i, x.shape[axis]) for axis, i in zip(axes, spread)]


def _coordinates(indices: list[Var]) -> Var:
    wide = [i.cast("i64") for i in indices]
    return wide[0].stack(wide[1:], wide[0].ndim)


@kind("index.Tensor", "_unsafe_index.Tensor")
def _index(s: Site, x: Any, indices: list[Any]) -> Var:
    x = s.var(x)
    axes, at = _joint(s, x, indices)
    if len(axes) == 1:
        return x.gather(at[0], axes[0])
    rest = [d for d in range(x.ndim) if d not in axes]
    y = x.transpose(axes + rest).gather_nd(_coordinates(at))
    first, lead = axes[0], at[0].ndim
    if first == 0 or axes != list(range(first, first + len(axes))):
        return y
    # Neighbouring axes: the indices' axes stand where the first of them stood.
    order = [lead + i for i in range(first)] + list(range(lead)) + list(range(lead + first, y.ndim))
    return y.transpose(order)


@kind("index_put.default", "_unsafe_index_put.default")
def _index_put(s: Site, x: Any, indices: list[Any], values: Any, accumulate: bool = False) -> Var:
    x, values = s.float(x), s.float(values)
    masks = [i for i in indices if i is not None and i.dtype == "bool"]
    if len(masks) == 1 and not isinstance(masks[0], torch.Tensor) and values.size == 1 and not accumulate:
        mask = masks[0].reshape(list(masks[0].shape) + [1] * (x.ndim - masks[0].ndim)).broadcast(x.shape)
        return mask.select(_expand(s, values.reshape([]), x.shape), x)
    axes, at = _joint(s, x, indices)
    rest = [d for d in range(x.ndim) if d not in axes]
    order = axes + rest
    places = list(at[0].shape)
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    shape = places + [x.shape[d] for d in rest]
    if adjacent and axes[0] > 0:
        wide = _expand(s, values, [x.shape[d] for d in rest[: axes[0]]] + places + [x.shape[d] for d in rest[axes[0] :]])
        k = axes[0]
        lead = len(places)
        values = wide.transpose([*range(k, k + lead), *range(k), *range(k + lead, wide.ndim)])
    else:
        values = _expand(s, values, shape)
    y = x.transpose(order).scatter_nd(_coordinates(at), values, "add" if accumulate else "set")
    return y.transpose([order.index(d) for d in range(x.ndim)])


@kind("index_select.default")
def _index_select(s: Site, x: Any, dim: int, index: Any) -> Var:
    index = s.var(index)
    return s.var(x).gather(index.reshape([1]) if index.ndim == 0 else index, dim)


def _within(x: Any, index: Any, dim: int) -> Any:
    """`x` cut to the index's size along all other axes, which torch's gather and scatter allow."""
    for d, n in enumerate(index.shape):
        if d != dim % x.ndim and x.shape[d] != n:
            x = x.narrow(d, 0, n)
    return x


@kind("gather.default")
def _gather(s: Site, x: Any, dim: int, index: Any, sparse: bool = False) -> Var:
    x, index = s.var(x), s.var(index)
    return _within(x, index, dim).take_along_axis(index, dim)


def _scattered(s: Site, x: Any, dim: int, index: Any, source: Any, mode: str) -> Var:
    x, index, source = s.float(x), s.var(index), s.float(source)
    dim %= x.ndim
    source = source if source.ndim else source.broadcast(index.shape)
    for d, n in enumerate(index.shape):
        if source.shape[d] != n:
            source = source.narrow(d, 0, n)
    part = _within(x, index, dim).scatter(source, index, axis=dim, mode=mode, own=True)
    return _placed(x, part, [d for d, n in enumerate(part.shape) if x.shape[d] != n])


def _placed(x: Var, part: Var, axes: list[int]) -> Var:
    """`x` with its first elements along these axes replaced."""
    if not axes:
        return part
    d, n = axes[0], part.shape[axes[0]]
    return _placed(x.narrow(d, 0, n), part, axes[1:]).concat(x.narrow(d, n, x.shape[d] - n), d)


_MODES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}
kind("scatter.src", "scatter.value")(lambda s, x, dim, index, source: _scattered(s, x, dim, index, source, "set"))
kind("scatter.reduce", "scatter.value_reduce")(
    lambda s, x, dim, index, source, reduce: _scattered(s, x, dim, index, source, _MODES[reduce])
)
kind("scatter_add.default")(lambda s, x, dim, index, source: _scattered(s, x, dim, index, source, "add"))


@kind("scatter_reduce.two")
def _scatter_reduce(s: Site, x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Var:
    x = s.float(x)
    mean = reduce == "mean"
    counts: Any = None
    if mean or not include_self:
        ones = s.b.full(1.0, index.shape, x.dtype)
        counts = _scattered(s, s.b.full(0.0, x.shape, x.dtype), dim, index, ones, "add")
    base = x
    if not include_self:
        neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}[reduce]
        base = s.b.full(neutral, x.shape, x.dtype)
    y = _scattered(s, base, dim, index, source, "add" if mean else _MODES[reduce])
    if mean:
        y = y / (counts + 1.0 if include_self else counts.maximum(1.0))
    # Elements that no source reaches stay as they are.
    return y if include_self else (counts > 0.0).select(y, x)


@kind("index_reduce.default")
def _index_reduce(s: Site, x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Var:
    shape = [1] * source.ndim
    shape[dim] = -1
    whole = _expand(s, s.var(index).reshape([n if n != -1 else index.shape[0] for n in shape]), source.shape)
    return _scatter_reduce(s, x, dim, whole, source, reduce, include_self)


def _slices(s: Site, x: Any, dim: int, index: Any, source: Any, mode: str) -> Var:
    x, index, source = s.float(x), s.var(index), s.float(source)
    return x.scatter(source, index.reshape([1]) if index.ndim == 0 else index, axis=dim % x.ndim, mode=mode, own=False)


@kind("index_add.default")
def _index_add(s: Site, x: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Var:
    source = s.float(source)
    return _slices(s, x, dim, index, source if alpha == 1 else source * float(alpha), "add")


kind("index_copy.default")(lambda s, x, dim, index, source: _slices(s, x, dim, index, source, "set"))


@kind("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(s: Site, x: Any, dim: int, index: Any, value: Any) -> Var:
    shape = list(x.shape)
    shape[dim] = index.shape[0] if index.ndim else 1
    return _slices(s, x, dim, index, _expand(s, s.float(value), shape), "set")


@kind("one_hot.default")
def _one_hot(s: Site, index: Var, classes: int = -1) -> Var:
    if classes < 0:
        raise Refused("one_hot of classes that follow from the data: give num_classes=")
    return index.one_hot(classes, "i64")


@kind("take.default")
def _take(s: Site, x: Any, index: Any) -> Var:
    x = s.var(x)
    return x.flatten().gather(_wrapped(s, index, x.size), 0)


@kind("put.default")
def _put(s: Site, x: Any, index: Any, source: Any, accumulate: bool = False) -> Var:
    x = s.float(x)
    at = _wrapped(s, index, x.size).flatten()
    y = x.flatten().scatter(s.float(source).flatten(), at, axis=0, mode="add" if accumulate else "set", own=False)
    return y.reshape(x.shape)


@kind("masked_scatter.default")
def _masked_scatter(s: Site, x: Any, mask: Any, source: Any) -> Var:
    x, mask = s.float(x), _expand(s, mask, x.shape)
    order = mask.flatten().cast("i64").cumsum(0) - 1
    at = mask.flatten().select(order, order.full_like(0.0))
    return mask.select(s.float(source).flatten().gather(at, 0).reshape(x.shape), x)


@kind("bincount.default", "nonzero.default", "masked_select.default", "unique.default", "_unique2.default")
def _data_dependent(s: Site, *_: Any) -> Var:
    raise Refused("a size that follows from the data")



