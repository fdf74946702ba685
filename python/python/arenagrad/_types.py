"""The types that annotations of the package name. Only checkers of types import it."""

from __future__ import annotations

from typing import Any, Sequence, Union

from ._arenagrad import Var

Shape = Union[int, Sequence[int]]
Axes = Union[int, Sequence[int], None]
DTypeLike = Any
Operand = Union[Var, float]
Vars = Union[Var, Sequence[Var]]
InitLike = Any
