"""Kinds that resize images, and that read them between their pixels."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._values import TORCH

_aten: Any = torch.ops.aten


def along(x: Var, axis: int, matrix: Var) -> Var:
    """The product of the rows along one axis with a matrix."""
    x = x.movedim([axis], [x.ndim - 1])
    y = x.reshape([math.prod(x.shape[:-1]), x.shape[-1]]) @ matrix
    return y.reshape([*x.shape[:-1], matrix.shape[1]]).movedim([x.ndim - 1], [axis])


def _nearest(exact: bool, axes: int) -> Any:
    """Which pixel is the nearest follows from torch's own roundings."""
    op = _aten._upsample_nearest_exact1d.vec if exact else _aten.upsample_nearest1d.vec

    def rule(s: Site, x: Any, size: Any, scales: Any = None) -> Var:
        x = s.var(x)
        plain, places = True, []
        for i, n in enumerate(x.shape[-axes:]):
            given = torch.arange(n, dtype=TORCH[x.dtype])[None, None]
            place = op(given, size and [size[i]], scales and [scales[i]])[0, 0].long()
            out = torch.arange(len(place))
            plain = plain and torch.equal(place, (2 * out + 1) * n // (2 * len(place)) if exact else out * n // len(place))
            places.append(place)
        if plain:
            return x.interpolate(list(map(len, places)), "nearest_exact" if exact else "nearest")
        for i, place in enumerate(places):
            x = x.gather(s.var(place), x.ndim - axes + i)
        return x

    return rule


def _smooth(mode: str, axes: int) -> Any:
    matrices = _matrices(_aten.upsample_bicubic2d.vec if mode == "cubic" else _aten.upsample_bilinear2d.vec)

    def rule(s: Site, x: Any, size: Any, aligned: bool = False, scales: Any = None) -> Var:
        x = s.var(x)
        own = x.shape[-axes:]
        out = size or [math.floor(k * f) for k, f in zip(own, scales)]
        if aligned or size or all(k * f == n for k, f, n in zip(own, scales, out)):
            return x.interpolate(list(out), mode + ("_aligned" if aligned else ""))
        # A scale that gives no whole size is not the ratio of the sizes.
        return matrices(s, x, axes, lambda i, n: (None, False, [1.0, scales[i]]))

    return rule


def _matrices(op: Any) -> Any:
    """Resizes each axis by a matrix, which is what torch makes of the unit vectors."""

    def resized(s: Site, x: Var, axes: int, arguments: Any) -> Var:
        for i in range(axes):
            axis = x.ndim - axes + i
            n = x.shape[axis]
            units = torch.eye(n, dtype=TORCH[x.dtype])[None, None]
            x = along(x, axis, s.var(op(units, *arguments(i, n))[0, 0]))
        return x

    return resized


def _smoothed(op: Any) -> Any:
    """Pixels that are averaged where an image becomes smaller (antialias=True)."""
    matrices = _matrices(op)

    def rule(s: Site, x: Any, size: Any, aligned: bool = False, *scales: Any) -> Var:
        return matrices(s, s.var(x), 2, lambda i, n: ([n, size[i]], aligned, None, scales[i] if scales else None))

    return rule


for _axes, _of_linear in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    kind(f"upsample_{_of_linear}.vec")(_smooth("linear", _axes))
    kind(f"upsample_nearest{_axes}d.vec")(_nearest(False, _axes))
    kind(f"_upsample_nearest_exact{_axes}d.vec")(_nearest(True, _axes))
kind("upsample_bicubic2d.vec")(_smooth("cubic", 2))
for _name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    kind(f"{_name}.default")(_smoothed(getattr(_aten, _name).default))


@kind("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def _grid_sampler(s: Site, x: Any, grid: Any, mode: int = 0, padding: int = 0, aligned: bool = False) -> Var:
    modes, outside = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return s.var(x).grid_sample(s.var(grid), modes[mode], outside[padding], bool(aligned))
