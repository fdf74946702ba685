"""Exported programs: files that open without compiling."""

from __future__ import annotations

import os

from ._arenagrad import Program, _open
from ._compile import check_casting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


def open(path: str | os.PathLike[str], *, casting: Literal["no", "same_kind"] | None = None) -> Program:
    """The program that `Program.export` or `arenagrad export` wrote to `path`. Nothing is compiled.

    Params and states are mapped from the file: they are read when a step first uses them, and the file stays as it is.
    It must not be cut while the program lives. `casting` is that of `compile`.

    Raises `SyntaxError_` for a damaged file, and `PlanError` for one of another version, or for another CPU:
    `arenagrad export FILE -o NEW` compiles the graph in it again.

    >>> import arenagrad as ag, os, tempfile
    >>> with ag.build("double") as b:
    ...     b.output("y", b.input("x", (3,)) * 2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "double.agp")
    ...     ag.compile(b.graph).export(path)
    ...     p = ag.open(path, casting="same_kind")
    ...     p.step(x=[1.0, 2.0, 3.0])["y"].tolist()
    [2.0, 4.0, 6.0]
    """
    check_casting(casting)
    return _open(os.fspath(path), casting)
