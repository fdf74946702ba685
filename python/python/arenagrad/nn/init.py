"""Start values by their names in `torch.nn.init`, for weights laid out [outputs, inputs, …].

>>> import arenagrad as ag
>>> ag.nn.init.kaiming_uniform((128, 12), gain=2.0)
Uniform(1.0)
"""

from __future__ import annotations

from .._arenagrad import Init, _init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

__all__ = [
    "Init",
    "constant",
    "dirac",
    "eye",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "trunc_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]


def xavier_uniform(shape: Sequence[int], gain: float = 1.0) -> Init:
    """Uniform in ±gain·√(6 / (inputs + outputs))."""
    return _init("xavier_uniform", [gain], list(shape))


def xavier_normal(shape: Sequence[int], gain: float = 1.0) -> Init:
    """Normal with σ = gain·√(2 / (inputs + outputs))."""
    return _init("xavier_normal", [gain], list(shape))


def kaiming_uniform(shape: Sequence[int], gain: float = 2**0.5) -> Init:
    """Uniform in ±gain·√(3 / inputs); √2 is the gain for ReLU."""
    return _init("kaiming_uniform", [gain], list(shape))


def kaiming_normal(shape: Sequence[int], gain: float = 2**0.5) -> Init:
    """Normal with σ = gain / √inputs; √2 is the gain for ReLU."""
    return _init("kaiming_normal", [gain], list(shape))


def uniform(low: float = 0.0, high: float = 1.0) -> Init:
    """Uniform from `low` to `high`."""
    return _init("uniform", [low, high], [])


def normal(mean: float = 0.0, deviation: float = 1.0) -> Init:
    """Normal with this mean and standard deviation."""
    return _init("normal", [mean, deviation], [])


def trunc_normal(mean: float = 0.0, deviation: float = 1.0, low: float = -2.0, high: float = 2.0) -> Init:
    """Normal, from `low` to `high` alone."""
    return _init("trunc_normal", [mean, deviation, low, high], [])


def constant(value: float) -> Init:
    """All elements are `value`."""
    return _init("constant", [value], [])


def orthogonal(gain: float = 1.0) -> Init:
    """`gain` times a matrix with orthonormal rows or columns."""
    return _init("orthogonal", [gain], [])


def eye() -> Init:
    """The identity matrix."""
    return _init("eye", [], [])


def dirac(groups: int = 1) -> Init:
    """The identity of a convolution."""
    return _init("dirac", [groups], [])
