"""Kinds that are losses."""

from __future__ import annotations

import math
from typing import Any

from .. import nn
from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._shape import _expand

_REDUCTIONS = ("none", "mean", "sum")


def _reduced(x: Var, reduction: int) -> Var:
    return x if reduction == 0 else x.mean() if reduction == 1 else x.sum()


def _classes_last(x: Var, labels: Var) -> tuple[Var, Var, list[int]]:
    """Scores as rows of classes, labels or probabilities like them, and the shape of the losses."""
    if x.ndim == 1:
        x, labels = x.unsqueeze(0), labels.unsqueeze(0)
        shape: list[int] = []
    else:
        shape = [x.shape[0], *x.shape[2:]]

    def rows(x: Var) -> Var:
        moved = x.movedim([1], [x.ndim - 1]) if x.ndim > 2 else x
        return moved.reshape([math.prod(moved.shape[:-1]), moved.shape[-1]])

    probabilities = labels.dtype[0] == "f"
    return rows(x), rows(labels) if probabilities else labels.flatten(), shape


@kind("cross_entropy_loss.default")
def _cross_entropy(
    s: Site,
    x: Any,
    labels: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> Var:
    x, labels, shape = _classes_last(s.var(x), s.var(labels))
    how = {"reduction": _REDUCTIONS[reduction], "weight": None if weight is None else s.var(weight)}
    loss = x.cross_entropy(labels, ignore, smoothing, **how)
    return loss.reshape(shape) if reduction == 0 else loss


@kind("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def _nll_loss(s: Site, x: Any, labels: Any, weight: Any = None, reduction: int = 1, ignore: int = -100) -> Var:
    x, labels, shape = _classes_last(s.var(x), s.var(labels))
    loss = nn.nll_loss(x, labels, ignore, _REDUCTIONS[reduction], None if weight is None else s.var(weight))
    return loss.reshape(shape) if reduction == 0 else loss


def _same_shape(s: Site, a: Any, b: Any) -> tuple[Var, Var]:
    a, b = s.float(a), s.float(b)
    if a.ndim >= b.ndim and a.shape != b.shape:
        return a, _expand(s, b, a.shape)
    return (a, b) if a.shape == b.shape else (_expand(s, a, b.shape), b)


@kind("mse_loss.default")
def _mse_loss(s: Site, a: Any, b: Any, reduction: int = 1) -> Var:
    a, b = _same_shape(s, a, b)
    return a.mse(b, _REDUCTIONS[reduction])


@kind("l1_loss.default")
def _l1_loss(s: Site, a: Any, b: Any, reduction: int = 1) -> Var:
    return nn.l1_loss(*_same_shape(s, a, b), _REDUCTIONS[reduction])


@kind("smooth_l1_loss.default")
def _smooth_l1_loss(s: Site, a: Any, b: Any, reduction: int = 1, beta: float = 1.0) -> Var:
    if beta == 0:
        return _l1_loss(s, a, b, reduction)
    return nn.smooth_l1_loss(*_same_shape(s, a, b), beta, _REDUCTIONS[reduction])


@kind("huber_loss.default")
def _huber_loss(s: Site, a: Any, b: Any, reduction: int = 1, delta: float = 1.0) -> Var:
    return nn.huber_loss(*_same_shape(s, a, b), delta, _REDUCTIONS[reduction])


@kind("binary_cross_entropy.default")
def _bce(s: Site, x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Var:
    x, target = _same_shape(s, x, target)
    if weight is None:
        return x.bce(target, _REDUCTIONS[reduction])
    return _reduced(x.bce(target, "none") * s.float(weight), reduction)


@kind("binary_cross_entropy_with_logits.default")
def _bce_logits(s: Site, x: Any, target: Any, weight: Any = None, positive: Any = None, reduction: int = 1) -> Var:
    x, target = _same_shape(s, x, target)
    if weight is None and positive is None:
        return x.bce_with_logits(target, _REDUCTIONS[reduction])
    if positive is None:
        each = x.bce_with_logits(target, "none")
    else:
        factor = (s.float(positive) - 1.0) * target + 1.0
        each = (1.0 - target) * x + factor * (-x).softplus()
    return _reduced(each if weight is None else each * s.float(weight), reduction)


@kind("kl_div.default")
def _kl_div(s: Site, x: Any, target: Any, reduction: int = 1, of_logs: bool = False) -> Var:
    x, target = _same_shape(s, x, target)
    if of_logs:
        return _reduced(target.exp() * (target - x), reduction)
    return nn.kl_div(x, target, _REDUCTIONS[reduction])


@kind("soft_margin_loss.default")
def _soft_margin(s: Site, x: Any, target: Any, reduction: int = 1) -> Var:
    return _reduced((-s.float(target) * s.float(x)).exp().log1p(), reduction)


@kind("multi_margin_loss.default")
def _multi_margin(
    s: Site, x: Any, labels: Any, p: float = 1, margin: float = 1, weight: Any = None, reduction: int = 1
) -> Var:
    x, labels = s.float(x), s.var(labels)
    n, classes = x.shape
    own = labels.reshape([n, 1])
    short = (x - x.take_along_axis(own, 1) + float(margin)).relu()
    short = short if p == 1 else short.square()
    if weight is not None:
        short = short * s.float(weight).gather(labels, 0).reshape([n, 1])
    others = labels.one_hot(classes, "u8").equal(s.b.full(0.0, (), "u8"))
    return _reduced(others.select(short, short.full_like(0.0)).sum(1) * (1.0 / classes), reduction)


@kind("_ctc_loss.default", "_ctc_loss.Tensor", "ctc_loss.IntList", "ctc_loss.Tensor")
def _no_ctc(s: Site, *_: Any) -> Var:
    raise Refused("use arenagrad.torch.losses.ctc_loss")


@kind("multilabel_margin_loss_forward.default")
def _no_multilabel(s: Site, *_: Any) -> Var:
    raise Refused("lists of labels that end where the data says")
