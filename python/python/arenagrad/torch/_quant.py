"""Kinds of training for integers: numbers rounded to a grid, with torch's derivative."""

from __future__ import annotations

from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, kind


def _rounded(s: Site, x: Any, scale: Any, zero: Any, low: int, high: int, axis: int | None = None) -> tuple[Var, None]:
    """The numbers; whether each was cut off is kept for torch's derivative alone."""
    x = s.float(x)
    if isinstance(scale, float):  # torch computes with it in f32
        scale = torch.tensor(scale, dtype=torch.float32)
    how = {} if axis is None else {"axis": axis % x.ndim}
    scale, zero = s.var(scale, x.dtype), s.var(zero, "i32")
    if axis is None:
        scale, zero = scale.reshape([]), zero.reshape([])
    return x.fake_quantize(scale, zero, lo=low, hi=high, ste="saturated", **how), None


kind("fake_quantize_per_tensor_affine_cachemask.default")(_rounded)


@kind("fake_quantize_per_channel_affine_cachemask.default")
def _by_channel(s: Site, x: Any, scale: Any, zero: Any, axis: int, low: int, high: int) -> tuple[Var, None]:
    return _rounded(s, x, scale, zero, low, high, axis)


@kind("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def _by_tensors(s: Site, x: Any, scale: Any, zero: Any, enabled: Any, low: int, high: int) -> tuple[Var, None]:
    if isinstance(enabled, Var) or not bool((enabled == 1).all()):
        raise Refused("fake quantisation that a tensor switches")
    return _rounded(s, x, scale, zero, low, high)
