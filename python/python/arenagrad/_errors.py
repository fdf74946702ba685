"""The exceptions of arenagrad. All are ``ag.Error``, and so ``ValueError``."""

from __future__ import annotations


class Error(ValueError):
    """An error of arenagrad.

    ``kind`` is its class as a word; ``location`` is the line at fault, as ``"net.py:12"``, or None.

    >>> import arenagrad as ag
    >>> try:
    ...     ag.parse("graph @g { return y=%x }")
    ... except ag.Error as e:
    ...     print(e.kind, "|", e)
    name | 1:21: %x is not defined before this line in this region
    """

    kind: str = "error"
    location: str | None = None


class ShapeError(Error):
    """The shapes, dtypes or attributes of an op do not match."""


class ArityError(Error):
    """An op has too few or too many operands."""


class StageError(Error):
    """The stage of the graph does not allow the op."""


class NameError_(Error):
    """A name is unknown, used twice, or reserved."""


class SyntaxError_(Error):
    """Text, a file or a configuration cannot be read."""


class DerivativeError(Error):
    """The requested derivative does not exist."""


class VerifyError(Error):
    """A graph breaks an invariant of the verifier."""


class PlanError(Error):
    """A memory plan breaks an invariant of the checker, or no plan fits."""


class DataError(Error):
    """Bad data at run time: an index out of range, a wrong length, a wrong dtype."""


class IoError(Error, OSError):
    """A file operation or another system call failed."""


class DiskFullError(IoError):
    """The disk, or the user's share of it, is full."""


class MemoryPlanError(Error, MemoryError):
    """The system has no memory for the arena."""


class DivergedError(Error):
    """The loss of a training run is NaN or infinite, or a value of a step that looks for NaN."""


class UsageError(Error):
    """An object is used in a way that it does not support, as a program in two threads at once."""


_CLASSES = {
    "shape": ShapeError,
    "arity": ArityError,
    "stage": StageError,
    "name": NameError_,
    "syntax": SyntaxError_,
    "derivative": DerivativeError,
    "verify": VerifyError,
    "plan": PlanError,
    "data": DataError,
    "io": IoError,
    "full": DiskFullError,
    "memory": MemoryPlanError,
    "diverged": DivergedError,
    "usage": UsageError,
}


def make(kind: str, text: str, location: str | None = None) -> Error:
    """The exception of this kind."""
    error = _CLASSES.get(kind, Error)(text)
    error.kind = kind
    error.location = location
    return error
