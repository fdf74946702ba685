"""Kinds that draw. Draws are those of the program: its seed, the step and the place in the graph decide them."""

from __future__ import annotations

from typing import Any

from .._arenagrad import Var
from ._kinds import Refused, Site, kind


@kind("native_dropout.default")
def _native_dropout(s: Site, x: Any, p: float, train: bool | None = True) -> Any:
    x = s.float(x)
    if not train or p == 0.0:
        return x, s.b.full(1.0, x.shape, "bool") if s.used(1) else None
    if s.used(1):
        kept = x.full_like(1.0 - p).bernoulli()
        return kept.select(x / (1.0 - p), x.full_like(0.0)) if p < 1.0 else x * 0.0, kept
    return x.dropout(p), None


kind("dropout.default")(lambda s, x, p, train: _native_dropout(s, x, p, train)[0])


@kind("bernoulli.p")
def _bernoulli(s: Site, x: Any, p: float = 0.5, *_: Any) -> Var:
    return s.var(s.b.full(p, x.shape, s.dtype).bernoulli(), s.dtype)


kind("bernoulli.default")(lambda s, x, *_: s.var(s.var(x).bernoulli(), s.dtype))
kind("rand_like.default")(lambda s, x, *_: s.b.uniform(x.shape, s.dtype))
kind("randn_like.default")(lambda s, x, *_: s.b.normal(x.shape, s.dtype))
kind("rand.default")(lambda s, size, *_: s.b.uniform(tuple(size), s.dtype))
kind("randn.default")(lambda s, size, *_: s.b.normal(tuple(size), s.dtype))
kind("randint.default")(lambda s, high, size, *_: s.var(s.b.randint(tuple(size), 0, high, "i64"), s.dtype))
kind("randint.low")(lambda s, low, high, size, *_: s.var(s.b.randint(tuple(size), low, high, "i64"), s.dtype))
kind("randint_like.default")(lambda s, x, high, *_: s.var(s.b.randint(x.shape, 0, high, "i64"), s.dtype))
kind("randint_like.low_dtype")(lambda s, x, low, high, *_: s.var(s.b.randint(x.shape, low, high, "i64"), s.dtype))
kind("randperm.default")(lambda s, n, *_: s.var(s.b.permutation(n), s.dtype))


@kind("uniform.default")
def _uniform(s: Site, x: Any, low: float = 0, high: float = 1, *_: Any) -> Var:
    return s.b.uniform(x.shape, s.dtype) * float(high - low) + float(low)


@kind("normal_functional.default")
def _normal(s: Site, x: Any, mean: float = 0, std: float = 1, *_: Any) -> Var:
    return s.b.normal(x.shape, s.dtype) * float(std) + float(mean)


@kind("exponential.default")
def _exponential(s: Site, x: Any, rate: float = 1, *_: Any) -> Var:
    return (1.0 - s.b.uniform(x.shape, s.dtype)).log() * (-1.0 / rate)


@kind("rrelu_with_noise_functional.default")
def _rrelu(s: Site, x: Any, noise: Any, low: float = 1 / 8, high: float = 1 / 3, train: bool = False, *_: Any) -> Any:
    if s.used(1):
        raise Refused("the noise of rrelu is read")
    x = s.float(x)
    slope: Any = s.b.uniform(x.shape, x.dtype) * (high - low) + low if train else (low + high) / 2
    return (x > 0.0).select(x, x * slope), None


@kind("multinomial.default")
def _multinomial(s: Site, x: Any, n: int, replacement: bool = False, *_: Any) -> Var:
    if n != 1:
        raise Refused(f"multinomial of {n} draws; one is drawn")
    at = s.float(x).log().categorical(-1, "i64") if s.dtype[0] == "f" else s.var(x).log().categorical(-1, "i64")
    return at.reshape([*at.shape, 1])



