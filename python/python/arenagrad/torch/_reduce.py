"""Kinds that reduce axes, and order."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, axes_of, kind
from ._shape import _expand


def _over(x: Var, dims: Any, keep: bool, f: Any) -> Var:
    """`f` over axes; a scalar has none, so that it stays."""
    return f(x, axes_of(x, dims), keep) if x.ndim else f(x.reshape([1]), [0], False)


def _simple(name: str) -> Any:
    def rule(s: Site, x: Any, dims: Any = None, keep: bool = False, *_: Any) -> Var:
        x = s.float(x)
        if s.dtype[0] in "iu" and name in ("sum", "prod"):
            x = s.var(x, s.dtype)
        return _over(x, dims, keep, lambda x, axes, keep: getattr(x, name)(axes, keep))

    return rule


_rules = {"sum": _simple("sum"), "mean": _simple("mean"), "prod": _simple("prod")}
for _name in ("sum", "mean", "prod"):
    kind(f"{_name}.default")(lambda s, x, dtype=None, rule=_rules[_name]: rule(s, x))
kind("sum.dim_IntList")(_rules["sum"])
kind("mean.dim")(_rules["mean"])
kind("prod.dim_int")(_rules["prod"])


def _extreme(name: str) -> Any:
    """The largest or smallest elements. False is less than True."""

    def rule(s: Site, x: Any, dims: Any = None, keep: bool = False) -> Var:
        if s.dtype == "bool":
            return _holds("any" if name == "amax" else "all")(s, x, dims, keep)
        x = _ordered(s, s.var(x))
        return s.float(_over(x, dims, keep, lambda x, axes, keep: getattr(x, name)(axes, keep)))

    return rule


kind("amax.default", "max.default")(_extreme("amax"))
kind("amin.default", "min.default")(_extreme("amin"))
kind("nansum.default")(
    lambda s, x, dims=None, keep=False, *_: _rules["sum"](s, x.isnan().select(x.full_like(0.0), x), dims, keep)
)


def _by_position(s: Site, x: Var, dim: int, keep: bool, at: Var) -> tuple[Var, Var]:
    """The elements at one position of each row. Only they get the gradient, as in torch."""
    dim %= x.ndim
    shape = [1 if d == dim else n for d, n in enumerate(x.shape)]
    values = x.take_along_axis(at.reshape(shape), dim)
    if keep:
        return values, at.reshape(shape)
    return values.reshape(at.shape), at


def _ordered(s: Site, x: Var) -> Var:
    """`x` in a type that has an order here."""
    return s.var(x, "i32") if x.dtype in ("bool", "u8", "i8", "i16") else x


kind("max.dim")(lambda s, x, dim, keep=False: _by_position(s, x, dim, keep, _ordered(s, x).arg_max(dim)))
kind("min.dim")(lambda s, x, dim, keep=False: _by_position(s, x, dim, keep, _ordered(s, x).arg_min(dim)))


def _arg(name: str) -> Any:
    def rule(s: Site, x: Var, dim: int | None = None, keep: bool = False) -> Var:
        x = _ordered(s, x)
        if dim is None:
            at = getattr(x.flatten() if x.ndim else x.reshape([1]), name)(0)
            return at.reshape([1] * x.ndim) if keep else at
        at = getattr(x, name)(dim)
        return at.reshape([1 if d == dim % x.ndim else n for d, n in enumerate(x.shape)]) if keep else at

    return rule


kind("argmax.default")(_arg("arg_max"))
kind("argmin.default")(_arg("arg_min"))


def _spread(name: str) -> Any:
    def rule(s: Site, x: Var, dims: Any = None, correction: Any = 1, keep: bool = False) -> Var:
        correction = 1 if correction is None else correction
        if correction == int(correction):
            return _over(x, dims, keep, lambda x, axes, keep: getattr(x, name)(axes, int(correction), keep))
        n = math.prod(x.shape[axis] for axis in axes_of(x, dims) if x.ndim)
        factor = n / (n - correction) if n > correction else math.inf
        y = _over(x, dims, keep, lambda x, axes, keep: getattr(x, name)(axes, 0, keep))
        return y * (factor if name == "var" else factor**0.5)

    return rule


for _name in ("var", "std"):
    kind(f"{_name}.correction")(lambda s, x, dims=None, correction=1, keep=False, f=_spread(_name): f(s, x, dims, correction, keep))
    kind(f"{_name}.default")(lambda s, x, unbiased=True, f=_spread(_name): f(s, x, None, int(unbiased)))
    kind(f"{_name}.dim")(
        lambda s, x, dims, unbiased=True, keep=False, f=_spread(_name): f(s, x, dims, int(unbiased), keep)
    )
    kind(f"{_name}_mean.correction")(
        lambda s, x, dims=None, correction=1, keep=False, f=_spread(_name): (
            f(s, x, dims, correction, keep),
            _rules["mean"](s, x, dims, keep),
        )
    )


@kind("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar")
def _norm(s: Site, x: Any, p: Any = 2, dims: Any = None, keep: bool = False, *_: Any) -> Var:
    x, p = s.float(x), 2.0 if p is None else float(p)

    def over(x: Var, axes: list[int], keep: bool) -> Var:
        y = abs(x).amax(axes, keep) if p == math.inf else abs(x).amin(axes, keep) if p == -math.inf else x.norm(p, axes)
        return y.reshape([1 if d in axes else n for d, n in enumerate(x.shape)]) if keep else y

    return _over(x, dims, keep, over)


@kind("logsumexp.default")
def _logsumexp(s: Site, x: Var, dims: Any, keep: bool = False) -> Var:
    return _over(x, dims, keep, lambda x, axes, keep: s.b.op("logsumexp", x, axes=axes, keep=keep))


def _running(name: str) -> Any:
    return lambda s, x, dim, dtype=None: getattr(s.float(x), name)(dim)


for _name in ("cumsum", "cumprod", "logcumsumexp"):
    kind(f"{_name}.default")(_running(_name))
for _name in ("cummax", "cummin"):
    kind(f"{_name}.default")(lambda s, x, dim, name=_name: [s.var(y, d) for y, d in zip(getattr(x, name)(dim), (x.dtype, "i64"))])


def _holds(name: str) -> Any:
    def rule(s: Site, x: Any, dims: Any = None, keep: bool = False) -> Var:
        x = s.var(x, "bool")
        y = getattr(x, name)(axes_of(x, dims)) if x.ndim else x
        return y.reshape([1 if d in axes_of(x, dims) else n for d, n in enumerate(x.shape)]) if keep else y

    return rule


for _name in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        kind(f"{_name}.{_overload}")(_holds(_name))
kind("count_nonzero.default", "count_nonzero.dim_IntList")(
    lambda s, x, dims=None: s.var(s.var(x, "bool").count_nonzero(axes_of(x, dims)), "i64")
)


@kind("topk.default")
def _topk(s: Site, x: Var, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> tuple[Var, Var]:
    if largest:
        values, at = x.top_k(k, dim)
        return values, s.var(at, "i64")
    at = x.arg_sort(dim).narrow(dim, 0, k)
    return x.take_along_axis(at, dim), s.var(at, "i64")


@kind("sort.default", "sort.stable")
def _sort(s: Site, x: Var, *rest: Any) -> tuple[Var, Var]:
    stable = rest[:1] if len(rest) == 3 else ()
    dim, descending = rest[len(stable) :] if rest else (-1, False)
    if x.ndim == 0:
        return x, s.b.full(0.0, (), "i64")
    values, at = x.sort(dim, bool(descending))
    return values, s.var(at, "i64")


kind("argsort.default")(lambda s, x, dim=-1, descending=False: _sort(s, x, dim, descending)[1])
kind("argsort.stable")(lambda s, x, stable, dim=-1, descending=False: _sort(s, x, dim, descending)[1])


def _ranked(s: Site, x: Var, dim: int, keep: bool, rank: int) -> tuple[Var, Var]:
    at = s.var(x.arg_sort(dim), "i64").narrow(dim, rank, 1)
    values = x.take_along_axis(at, dim)
    shape = [n for d, n in enumerate(x.shape) if keep or d != dim % x.ndim]
    shape = list(values.shape) if keep else shape
    return values.reshape(shape), at.reshape(shape)


kind("median.dim")(lambda s, x, dim, keep=False: _ranked(s, x, dim, keep, (x.shape[dim] - 1) // 2))
kind("median.default")(lambda s, x: _ranked(s, x.flatten(), 0, False, (x.size - 1) // 2)[0])
kind("kthvalue.default")(lambda s, x, k, dim=-1, keep=False: _ranked(s, x, dim, keep, k - 1))


@kind("histc.default")
def _histc(s: Site, x: Var, bins: int = 100, low: float = 0, high: float = 0) -> Var:
    if low == high:
        raise Refused("bounds that follow from the data: give min= and max=")
    x = x if x.dtype[0] == "f" else s.var(x, "f32")
    bounds = [s.b.full(float(v), (), x.dtype) for v in (low, high)]
    counts = s.b.op("histogram", x.flatten(), *bounds, bins=bins)
    return s.var(counts, s.dtype)


def _count_below(s: Site, x: Var, boundaries: Var, right: bool) -> Var:
    if boundaries.shape[-1] > 1024:
        raise Refused(f"{boundaries.shape[-1]} boundaries; at most 1024 are compared")
    b = boundaries.reshape([1] * x.ndim + [boundaries.shape[-1]]) if boundaries.ndim == 1 else boundaries
    b = b.reshape([*b.shape[:-1], 1, b.shape[-1]]) if boundaries.ndim > 1 else b
    x = x.reshape([*x.shape, 1])
    below = b <= x if right else b < x
    return s.var(s.var(below, "i64").sum(x.ndim - 1), s.dtype)


@kind("bucketize.Tensor")
def _bucketize_tensor(s: Site, x: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Var:
    return _count_below(s, s.var(x), s.var(boundaries), right)


@kind("searchsorted.Tensor")
def _searchsorted(
    s: Site, boundaries: Any, x: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Var:
    if sorter is not None:
        raise Refused("searchsorted with a sorter")
    return _count_below(s, s.var(x), s.var(boundaries), right or side == "right")


@kind("cosine_similarity.default")
def _cosine_similarity(s: Site, a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Var:
    a, b = s.float(a), s.float(b)
    shape = torch.broadcast_shapes(tuple(a.shape), tuple(b.shape))

    def unit(x: Var) -> Var:
        x = _expand(s, x, list(shape))
        size = _norm(s, x, 2, [dim % x.ndim], True)
        # As in torch, the bound is no part of the derivative.
        return x / (size + (size.maximum(eps) - size).stop_gradient())

    return (unit(a) * unit(b)).sum(dim % len(shape))


def _normalised(name: str) -> Any:
    def rule(s: Site, x: Any, dim: int, *_: Any) -> Var:
        x = s.float(x)
        if x.ndim == 0:
            return x.full_like(0.0 if name == "log_softmax" else 1.0)
        return getattr(x, name)(dim)

    return rule


for _name in ("softmax", "log_softmax"):
    kind(f"{_name}.int", f"_{_name}.default")(_normalised(_name))
