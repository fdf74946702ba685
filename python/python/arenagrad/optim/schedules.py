"""Schedules of learning rates, with torch's formulas and defaults.

Made by tools/write_ops.py from the tables of the extension. Do not edit it.
"""

from __future__ import annotations

from .._arenagrad import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def Constant() -> Schedule:  # noqa: E501, N802
    """The schedule `constant`, with torch's defaults. It has no settings."""
    return Schedule("constant")


def ConstantFactor(*, factor: Any = None, total_iters: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `constant-factor`, with torch's defaults. Settings: `factor` (0.3333333333333333), `total_iters` (5)."""
    return Schedule("constant-factor", factor=factor, total_iters=total_iters)


def Step(*, step_size: Any, gamma: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `step`, with torch's defaults. Settings: `step_size`, `gamma` (0.1)."""
    return Schedule("step", step_size=step_size, gamma=gamma)


def MultiStep(*, milestones: Any, gamma: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `multi-step`, with torch's defaults. Settings: `milestones`, `gamma` (0.1)."""
    return Schedule("multi-step", milestones=milestones, gamma=gamma)


def Linear(*, start_factor: Any = None, end_factor: Any = None, total_iters: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `linear`, with torch's defaults. Settings: `start_factor` (0.3333333333333333), `end_factor` (1.0), `total_iters`."""
    return Schedule("linear", start_factor=start_factor, end_factor=end_factor, total_iters=total_iters)


def Polynomial(*, total_iters: Any = None, power: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `polynomial`, with torch's defaults. Settings: `total_iters`, `power` (1.0)."""
    return Schedule("polynomial", total_iters=total_iters, power=power)


def InverseSqrt(*, warmup: Any = None, start_factor: Any = None, timescale: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `inverse-sqrt`, with torch's defaults. Settings: `warmup` (0), `start_factor` (0.3333333333333333), `timescale`."""
    return Schedule("inverse-sqrt", warmup=warmup, start_factor=start_factor, timescale=timescale)


def Cosine(*, warmup: Any = None, start_factor: Any = None, min_lr: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `cosine`, with torch's defaults. Settings: `warmup` (0), `start_factor` (0.3333333333333333), `min_lr` (0.0)."""
    return Schedule("cosine", warmup=warmup, start_factor=start_factor, min_lr=min_lr)


def CosineRestarts(*, t_0: Any, t_mult: Any = None, min_lr: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `cosine-restarts`, with torch's defaults. Settings: `t_0`, `t_mult` (1), `min_lr` (0.0)."""
    return Schedule("cosine-restarts", t_0=t_0, t_mult=t_mult, min_lr=min_lr)


def OneCycle(*, pct_start: Any = None, div_factor: Any = None, final_div_factor: Any = None) -> Schedule:  # noqa: E501, N802
    """The schedule `one-cycle`, with torch's defaults. Settings: `pct_start` (0.3), `div_factor` (25.0), `final_div_factor` (10000.0)."""
    return Schedule("one-cycle", pct_start=pct_start, div_factor=div_factor, final_div_factor=final_div_factor)


def Chained(*, part: Any) -> Schedule:  # noqa: E501, N802
    """The schedule `chained`, with torch's defaults. Settings: `part`."""
    return Schedule("chained", part=part)


def Sequential(*, part: Any, milestones: Any) -> Schedule:  # noqa: E501, N802
    """The schedule `sequential`, with torch's defaults. Settings: `part`, `milestones`."""
    return Schedule("sequential", part=part, milestones=milestones)
