"""Kinds that work element by element."""

from __future__ import annotations

from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, cast, kind
from ._values import name_of, promoted


def _method(name: str) -> Any:
    return lambda s, x, *_: getattr(s.float(x), name)()


_SAME = (
    "acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp2 expm1 lgamma log log10 log1p log2 neg "
    "rsqrt sigmoid sin sinh sqrt tan tanh sinc relu6 silu mish hardswish hardsigmoid selu sign"
)
for _name in _SAME.split():
    kind(f"{_name}.default")(_method(_name))


@kind("exp.default")
def _exp(s: Site, x: Any) -> Var:
    x = s.float(x)
    if x.dtype[0] != "c":
        return x.exp()
    size, angle = x.real().exp(), x.imag()
    return (size * angle.cos()).complex(size * angle.sin())


kind("polygamma.default")(lambda s, n, x: s.float(x).polygamma(order=n))
kind("dist.default")(lambda s, a, b, p=2.0: (s.float(a) - s.float(b)).norm(float(p)))
kind("reciprocal.default")(_method("recip"))
kind("log_sigmoid.default")(_method("logsigmoid"))
kind("special_erfcx.default", "special_i0.default")(lambda s, x: _refuse("it has no counterpart"))


def _refuse(why: str) -> Any:
    raise Refused(why)


def _rounded(name: str) -> Any:
    # Integers are whole already.
    return lambda s, x: getattr(x, name)() if s.dtype[0] == "f" else x


for _name in ("floor", "ceil", "round", "trunc"):
    kind(f"{_name}.default")(_rounded(_name))


kind("abs.default")(lambda s, x: x.real().hypot(x.imag()) if x.dtype[0] == "c" else x.abs())
kind("angle.default")(lambda s, x: s.var(x).angle())


@kind("round.decimals")
def _round_decimals(s: Site, x: Any, decimals: int = 0) -> Var:
    factor = 10.0 ** abs(decimals)
    return (x * factor).round() / factor if decimals >= 0 else (x / factor).round() * factor


@kind("sgn.default")
def _sgn(s: Site, x: Var) -> Var:
    return x.sign() if x.dtype[0] != "c" else _refuse("the sign of complex numbers")


for _name in ("isnan", "isinf", "isfinite"):
    kind(f"{_name}.default")(lambda s, x, name=_name: getattr(s.var(x, x.dtype if x.dtype[0] == "f" else "f32"), name)())


@kind("add.Tensor", "add.Scalar")
def _add(s: Site, a: Any, b: Any, alpha: float = 1) -> Var:
    b = s.float(b) if alpha == 1 else s.float(b) * float(alpha)
    return _either(s, a, b, lambda a, b: a.logical_or(b) if a.dtype == "bool" else a + b)


@kind("sub.Tensor", "sub.Scalar")
def _sub(s: Site, a: Any, b: Any, alpha: float = 1) -> Var:
    b = s.float(b) if alpha == 1 else s.float(b) * float(alpha)
    return s.float(a) - b


@kind("rsub.Tensor", "rsub.Scalar")
def _rsub(s: Site, a: Any, b: Any, alpha: float = 1) -> Var:
    return _sub(s, b, a, alpha)


@kind("mul.Tensor", "mul.Scalar")
def _mul(s: Site, a: Any, b: Any) -> Var:
    return _either(s, a, b, lambda a, b: a.logical_and(b) if a.dtype == "bool" else a * b)


def _either(s: Site, a: Any, b: Any, f: Any) -> Var:
    """`f` of both in the result's type. A number stays one, which needs no node of its own."""
    if isinstance(b, (int, float)) and s.dtype[0] in "fc":
        return f(s.float(a), float(b))
    return f(s.float(a), s.float(b))


@kind("div.Tensor", "div.Scalar", "true_divide.Tensor")
def _div(s: Site, a: Any, b: Any) -> Var:
    return _either(s, a, b, lambda a, b: a / b)


@kind("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(s: Site, a: Any, b: Any, rounding_mode: str | None = None) -> Var:
    if rounding_mode is None:
        return _div(s, a, b)
    x, y = s.float(a), s.float(b)
    if rounding_mode == "floor":
        return x // y
    if s.dtype[0] == "f":
        return (x / y).trunc()
    # Toward 0: the quotient of absolute values, with the sign of the exact one.
    return (abs(x) // abs(y)) * (x.sign() * y.sign())


@kind("floor_divide.default", "floor_divide.Scalar")
def _floor_divide(s: Site, a: Any, b: Any) -> Var:
    return s.float(a) // s.float(b)


@kind("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def _remainder(s: Site, a: Any, b: Any) -> Var:
    return s.float(a) % s.float(b)


def _pair(name: str) -> Any:
    return lambda s, a, b: _of_bools(s, name)(_spread(s.float(a), b), _spread(s.float(b), a))


def _of_bools(s: Site, name: str) -> Any:
    """A method of two values. False is less than True."""
    name = {"maximum": "logical_or", "minimum": "logical_and"}.get(name, name) if s.dtype == "bool" else name
    return lambda a, b: getattr(a, name)(b)


def _spread(x: Var, other: Any) -> Var:
    """`x` in the shape that it and `other` have together."""
    shape = torch.broadcast_shapes(x.shape, tuple(getattr(other, "shape", ())))
    return x if x.shape == tuple(shape) else x.broadcast(shape)


for _name, _ours in {
    "fmod": "fmod",
    "maximum": "maximum",
    "minimum": "minimum",
    "fmax": "fmax",
    "fmin": "fmin",
    "atan2": "atan2",
    "hypot": "hypot",
    "copysign": "copysign",
    "xlogy": "xlogy",
    "logaddexp": "logaddexp",
    "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_right_shift": "bitwise_right_shift",
}.items():
    for _overload in ("default", "Tensor", "Scalar"):
        kind(f"{_name}.{_overload}")(_pair(_ours))


@kind("pow.Tensor_Scalar")
def _pow_number(s: Site, x: Any, p: float) -> Var:
    x = s.float(x)
    special: dict[float, Any] = {0.5: x.sqrt, 1: lambda: x, 2: x.square, -1: x.recip, -0.5: x.rsqrt} 
    special = special if s.dtype[0] == "f" else {2: x.square}
    if p in special:
        return special[p]()
    return x.square() * x if p == 3 else x ** float(p)


@kind("pow.Tensor_Tensor", "pow.Scalar")
def _pow(s: Site, a: Any, b: Any) -> Var:
    return s.float(a) ** s.float(b)


def _compare(name: str) -> Any:
    def rule(s: Site, a: Any, b: Any) -> Var:
        dtype = promoted(a, b)
        dtype = torch.uint8 if dtype == torch.bool else dtype
        x = s.var(a, dtype)
        return getattr(x, name)(float(b) if isinstance(b, float) and x.dtype[0] == "f" else s.var(b, dtype))

    return rule


for _name, _ours in {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "__lt__",
    "le": "__le__",
    "gt": "__gt__",
    "ge": "__ge__",
}.items():
    for _overload in ("Tensor", "Scalar"):
        kind(f"{_name}.{_overload}")(_compare(_ours))


def _as_bool(s: Site, x: Any) -> Var:
    x = s.var(x)
    return x if x.dtype == "bool" else cast(x, "bool")


kind("logical_not.default")(lambda s, x: _as_bool(s, x).logical_not())
kind("logical_and.default")(lambda s, a, b: _as_bool(s, a).logical_and(_as_bool(s, b)))
kind("logical_or.default")(lambda s, a, b: _as_bool(s, a).logical_or(_as_bool(s, b)))
kind("logical_xor.default")(lambda s, a, b: s.var(_as_bool(s, a), "u8").not_equal(s.var(_as_bool(s, b), "u8")))
kind("bitwise_not.default")(lambda s, x: ~x)


def _bits(name: str) -> Any:
    def rule(s: Site, a: Any, b: Any) -> Var:
        x, y = s.float(a), s.float(b)
        if s.dtype != "bool":
            return getattr(x, f"bitwise_{name}")(y)
        if name == "xor":
            return s.var(x, "u8").not_equal(s.var(y, "u8"))
        return x.logical_and(y) if name == "and" else x.logical_or(y)

    return rule


for _name in ("and", "or", "xor"):
    for _overload in ("Tensor", "Scalar", "Scalar_Tensor"):
        kind(f"bitwise_{_name}.{_overload}")(_bits(_name))


@kind("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(s: Site, condition: Any, a: Any, b: Any) -> Var:
    return _choose(s, s.var(condition), s.float(a), s.float(b))


def _choose(s: Site, condition: Var, a: Var, b: Var) -> Var:
    """`a` where the condition holds; all three broadcast."""
    shape = torch.broadcast_shapes(condition.shape, a.shape, b.shape)
    a, b, condition = (x if x.shape == tuple(shape) else x.broadcast(shape) for x in (a, b, condition))
    return condition.select(a, b)


@kind("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(s: Site, x: Any, mask: Any, value: Any) -> Var:
    return _choose(s, s.var(mask), s.float(value), s.float(x))


@kind("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor", "clip.default")
def _clamp(s: Site, x: Any, low: Any = None, high: Any = None) -> Var:
    # At a bound the gradient is the element's, as in torch.
    x = s.float(x)
    if low is not None:
        low = s.float(low)
        x = _choose(s, x < low, low, x)
    if high is not None:
        high = s.float(high)
        x = _choose(s, x > high, high, x)
    return x


kind("clamp_max.default", "clamp_max.Tensor")(lambda s, x, high: _clamp(s, x, None, high))


@kind("hardtanh.default")
def _hardtanh(s: Site, x: Any, low: float = -1, high: float = 1) -> Var:
    return s.float(x).clamp(float(low), float(high))


@kind("gelu.default")
def _gelu(s: Site, x: Any, approximate: str = "none") -> Var:
    return s.float(x).gelu_tanh() if approximate == "tanh" else s.float(x).gelu()


@kind("elu.default")
def _elu(s: Site, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Var:
    x = s.float(x)
    if scale == 1 and input_scale == 1:
        return x.elu(float(alpha))
    below = ((x * float(input_scale)).expm1() * float(alpha)) * float(scale)
    return _choose(s, x > 0.0, x * float(scale), below)


kind("celu.default")(lambda s, x, alpha=1.0: s.float(x).celu(float(alpha)))
kind("relu.default")(lambda s, x: x.relu() if s.dtype[0] == "f" else x.maximum(0.0))
kind("leaky_relu.default")(lambda s, x, slope=0.01: s.float(x).leaky_relu(float(slope)))
kind("softshrink.default")(lambda s, x, limit=0.5: s.float(x).softshrink(float(limit)))
kind("hardshrink.default")(lambda s, x, limit=0.5: s.float(x).hardshrink(float(limit)))
kind("threshold.default")(lambda s, x, at, value: s.float(x).threshold(float(at), float(value)))
kind("logit.default")(lambda s, x, eps=None: (x if eps is None else _clamp(s, x, eps, 1 - eps)).logit())
kind("nan_to_num.default")(lambda s, x, nan=None, high=None, low=None: x.nan_to_num(nan or 0.0, high, low))


@kind("softplus.default")
def _softplus(s: Site, x: Any, beta: float = 1, threshold: float = 20) -> Var:
    x = s.float(x)
    scaled = x if beta == 1 else x * float(beta)
    soft = scaled.softplus() if beta == 1 else scaled.softplus() / float(beta)
    return _choose(s, scaled > float(threshold), x, soft)


@kind("prelu.default", "_prelu_kernel.default")
def _prelu(s: Site, x: Any, slope: Any) -> Var:
    slope = s.var(slope)
    if slope.ndim == 1 and x.ndim > 1:
        slope = slope.reshape([1, slope.shape[0]] + [1] * (x.ndim - 2))
    if x.ndim == 0:
        slope = slope.reshape([])
    return _choose(s, x > 0.0, x, x * slope)


@kind("glu.default")
def _glu(s: Site, x: Var, dim: int = -1) -> Var:
    a, gate = x.chunk(2, dim)
    return a * gate.sigmoid()


@kind("lerp.Scalar", "lerp.Tensor")
def _lerp(s: Site, a: Any, end: Any, weight: Any) -> Var:
    a = s.float(a)
    return a + (float(weight) if isinstance(weight, (int, float)) else s.float(weight)) * (s.float(end) - a)


@kind("addcmul.default")
def _addcmul(s: Site, x: Any, a: Any, b: Any, value: float = 1) -> Var:
    return s.float(x) + s.float(a) * s.float(b) * float(value)


@kind("addcdiv.default")
def _addcdiv(s: Site, x: Any, a: Any, b: Any, value: float = 1) -> Var:
    return s.float(x) + s.float(a) / s.float(b) * float(value)


@kind("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default", "_convert_element_type.default")
def _to(s: Site, x: Any, *_: Any) -> Var:
    return s.var(x, name_of(s.results.dtype))


@kind("clone.default", "contiguous.default", "alias.default", "lift_fresh_copy.default", "lift.default", "positive.default")
def _same(s: Site, x: Any, *_: Any) -> Var:
    return s.var(x)


kind("detach.default", "detach_copy.default")(lambda s, x: s.var(x).stop_gradient())
kind("polar.default")(lambda s, size, angle: (s.var(size) * s.var(angle).cos()).complex(s.var(size) * s.var(angle).sin()))
kind("complex.default")(lambda s, re, im: _spread(s.var(re), im).complex(_spread(s.var(im), re)))
kind("ldexp.Tensor")(lambda s, x, by: s.float(x) * s.float(by).exp2())
kind("real.default")(lambda s, x: x.real() if x.dtype[0] == "c" else x)
kind("imag.default")(lambda s, x: x.imag())
kind("_conj.default", "conj.default", "_conj_physical.default")(lambda s, x: x.conj())
kind("view_as_real.default")(lambda s, x: x.real().stack(x.imag(), x.ndim))
kind("view_as_complex.default")(lambda s, x: x[..., 0].complex(x[..., 1]))
