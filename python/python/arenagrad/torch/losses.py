"""Losses that `torch.export` cannot capture in torch's own form, as ops of a library that it keeps whole.

They compute what torch's do, also outside of a compiled step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .. import nn
from ._kinds import Site, register

_REDUCTIONS = ("none", "mean", "sum")


@torch.library.custom_op("arenagrad::ctc_loss", mutates_args=())
def _ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> torch.Tensor:
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


@_ctc_loss.register_fake
def _(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any, reduction: Any, zero_infinity: Any) -> Any:
    return log_probs.new_empty((log_probs.shape[1],) if reduction == "none" else ())


def _ctc_keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.rest = inputs[4:]


def _ctc_backward(ctx: Any, grad: torch.Tensor) -> Any:
    log_probs, *others = ctx.saved_tensors
    with torch.enable_grad():
        x = log_probs.detach().requires_grad_()
        loss = F.ctc_loss(x, *others, *ctx.rest)
        (dx,) = torch.autograd.grad(loss, x, grad)
    return dx, None, None, None, None, None, None


_ctc_loss.register_autograd(_ctc_backward, setup_context=_ctc_keep)


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.ctc_loss` of log-probabilities [T, N, classes] and labels [N, S]."""
    _check(reduction)
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


@torch.library.custom_op("arenagrad::gaussian_nll_loss", mutates_args=())
def _gaussian_nll_loss(
    x: torch.Tensor, target: torch.Tensor, var: torch.Tensor, full: bool, eps: float, reduction: str
) -> torch.Tensor:
    return F.gaussian_nll_loss(x, target, var, full=full, eps=eps, reduction=reduction)


@_gaussian_nll_loss.register_fake
def _(x: Any, target: Any, var: Any, full: Any, eps: Any, reduction: Any) -> Any:
    return x.new_empty(torch.broadcast_shapes(x.shape, target.shape) if reduction == "none" else ())


def _gaussian_keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.rest = inputs[3:]


def _gaussian_backward(ctx: Any, grad: torch.Tensor) -> Any:
    full, eps, reduction = ctx.rest
    with torch.enable_grad():
        xs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        loss = F.gaussian_nll_loss(xs[0], xs[1], xs[2], full=full, eps=eps, reduction=reduction)
        grads = torch.autograd.grad(loss, xs, grad)
    return *grads, None, None, None


_gaussian_nll_loss.register_autograd(_gaussian_backward, setup_context=_gaussian_keep)


def gaussian_nll_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """`torch.nn.functional.gaussian_nll_loss` of a tensor of variances."""
    _check(reduction)
    return _gaussian_nll_loss(x, target, var, full, eps, reduction)


def _check(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it may be {', '.join(_REDUCTIONS)}")


def _ctc_rule(s: Site, x: Any, targets: Any, steps: Any, lengths: Any, blank: int, reduction: str, zero: bool) -> Any:
    return nn.ctc_loss(s.var(x), s.var(targets), s.var(steps), s.var(lengths), blank, reduction, zero)


def _gaussian_rule(s: Site, x: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> Any:
    return nn.gaussian_nll_loss(s.var(x), s.var(target), s.var(var), full, eps, reduction)


register("arenagrad::ctc_loss", _ctc_rule)
register("arenagrad::gaussian_nll_loss", _gaussian_rule)
