"""Optimisers, with torch's names, formulas and defaults.

Made by tools/write_ops.py from the tables of the extension. Do not edit it.
"""

from __future__ import annotations

from .._arenagrad import Optimiser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def Sgd(lr: float, *, momentum: Any = None, dampening: Any = None, nesterov: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `sgd`, with torch's defaults. Settings: `momentum` (0.0), `dampening` (0.0), `nesterov` (false), `weight_decay` (0.0)."""
    return Optimiser("Sgd", lr, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Adam(lr: float, *, betas: Any = None, eps: Any = None, amsgrad: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adam`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `amsgrad` (false), `weight_decay` (0.0)."""
    return Optimiser("Adam", lr, betas=betas, eps=eps, amsgrad=amsgrad, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def AdamW(lr: float, *, betas: Any = None, eps: Any = None, amsgrad: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adamw`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `amsgrad` (false), `weight_decay` (0.01)."""
    return Optimiser("AdamW", lr, betas=betas, eps=eps, amsgrad=amsgrad, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def SparseAdam(lr: float, *, betas: Any = None, eps: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `sparseadam`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `weight_decay` (0.0)."""
    return Optimiser("SparseAdam", lr, betas=betas, eps=eps, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Adamax(lr: float, *, betas: Any = None, eps: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adamax`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `weight_decay` (0.0)."""
    return Optimiser("Adamax", lr, betas=betas, eps=eps, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def RAdam(lr: float, *, betas: Any = None, eps: Any = None, decoupled_weight_decay: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `radam`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `decoupled_weight_decay` (false), `weight_decay` (0.0)."""
    return Optimiser("RAdam", lr, betas=betas, eps=eps, decoupled_weight_decay=decoupled_weight_decay, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def RmsProp(lr: float, *, alpha: Any = None, eps: Any = None, momentum: Any = None, centered: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `rmsprop`, with torch's defaults. Settings: `alpha` (0.99), `eps` (1e-8), `momentum` (0.0), `centered` (false), `weight_decay` (0.0)."""
    return Optimiser("RmsProp", lr, alpha=alpha, eps=eps, momentum=momentum, centered=centered, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Adagrad(lr: float, *, lr_decay: Any = None, initial_accumulator_value: Any = None, eps: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adagrad`, with torch's defaults. Settings: `lr_decay` (0.0), `initial_accumulator_value` (0.0), `eps` (1e-10), `weight_decay` (0.0)."""
    return Optimiser("Adagrad", lr, lr_decay=lr_decay, initial_accumulator_value=initial_accumulator_value, eps=eps, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Adadelta(lr: float, *, rho: Any = None, eps: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adadelta`, with torch's defaults. Settings: `rho` (0.9), `eps` (1e-6), `weight_decay` (0.0)."""
    return Optimiser("Adadelta", lr, rho=rho, eps=eps, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def NAdam(lr: float, *, betas: Any = None, eps: Any = None, momentum_decay: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `nadam`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `momentum_decay` (0.004), `weight_decay` (0.0)."""
    return Optimiser("NAdam", lr, betas=betas, eps=eps, momentum_decay=momentum_decay, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def NAdamW(lr: float, *, betas: Any = None, eps: Any = None, momentum_decay: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `nadamw`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-8), `momentum_decay` (0.004), `weight_decay` (0.01)."""
    return Optimiser("NAdamW", lr, betas=betas, eps=eps, momentum_decay=momentum_decay, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Lion(lr: float, *, betas: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `lion`, with torch's defaults. Settings: `betas` ([0.9, 0.99]), `weight_decay` (0.0)."""
    return Optimiser("Lion", lr, betas=betas, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Lamb(lr: float, *, betas: Any = None, eps: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `lamb`, with torch's defaults. Settings: `betas` ([0.9, 0.999]), `eps` (1e-6), `weight_decay` (0.01)."""
    return Optimiser("Lamb", lr, betas=betas, eps=eps, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Adafactor(lr: float, *, beta2_decay: Any = None, eps1: Any = None, eps2: Any = None, d: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `adafactor`, with torch's defaults. Settings: `beta2_decay` (-0.8), `eps1`, `eps2` (0.001), `d` (1.0), `weight_decay` (0.0)."""
    return Optimiser("Adafactor", lr, beta2_decay=beta2_decay, eps1=eps1, eps2=eps2, d=d, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Muon(lr: float, *, momentum: Any = None, nesterov: Any = None, ns_steps: Any = None, ns_coefficients: Any = None, eps: Any = None, adjust_lr: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `muon`, with torch's defaults. Settings: `momentum` (0.95), `nesterov` (true), `ns_steps` (5), `ns_coefficients` ([3.4445, -4.775, 2.0315]), `eps` (1e-7), `adjust_lr` ("original"), `weight_decay` (0.1)."""
    return Optimiser("Muon", lr, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps, ns_coefficients=ns_coefficients, eps=eps, adjust_lr=adjust_lr, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)


def Lbfgs(lr: float, *, history_size: Any = None, weight_decay: Any = None, clip_value: Any = None, clip_norm: Any = None, norm_type: Any = None, clip_each: Any = None, ema: Any = None, loss_scale: Any = None, accumulate: Any = None, decay_from_rank: Any = None, group: Any = None) -> Optimiser:  # noqa: E501, N802
    """The optimiser `lbfgs`, with torch's defaults. Settings: `history_size` (100), `weight_decay` (0.0)."""
    return Optimiser("Lbfgs", lr, history_size=history_size, weight_decay=weight_decay, clip_value=clip_value, clip_norm=clip_norm, norm_type=norm_type, clip_each=clip_each, ema=ema, loss_scale=loss_scale, accumulate=accumulate, decay_from_rank=decay_from_rank, group=group)
