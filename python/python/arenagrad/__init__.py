"""A training engine for CPUs: graphs as columns, one planned arena, steps without allocation.

>>> import arenagrad as ag
>>> with ag.build("line") as b:
...     x, y = b.input("x", (8, 1)), b.input("y", (8, 1))
...     loss = ag.nn.linear("fc", x, 1).mse(y)
...     b.output("loss", loss)
>>> step = ag.train(b.graph, "loss", ag.optim.Sgd(0.1))
>>> p = ag.compile(step)
>>> p.init(seed=0)
>>> import numpy as np
>>> xs = np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)
>>> for _ in range(200):
...     out = p.step(x=xs, y=3 * xs)
>>> bool(out["loss"] < 1e-6)
True
"""

from __future__ import annotations

import os as _os
from _collections_abc import Mapping as _Mapping

from . import nn, optim
from ._arenagrad import (
    Build,
    Graph,
    Optimiser,
    Plan,
    Program,
    Schedule,
    SizedProgram,
    Spec,
    Tensors,
    Trace,
    Var,
    __version__,
    _forked,
    train,
)
from ._compile import compile, compile_sized, parse
from ._errors import (
    ArityError,
    DataError,
    DerivativeError,
    DiskFullError,
    DivergedError,
    Error,
    IoError,
    MemoryPlanError,
    NameError_,
    PlanError,
    ShapeError,
    StageError,
    SyntaxError_,
    UsageError,
    VerifyError,
)
from ._exported import open
from ._fit import Fitted, demo, digits, fit
from ._ops import BuilderOps as _BuilderOps
from ._ops import VarOps as _VarOps

__all__ = [
    "ArityError",
    "Build",
    "DataError",
    "DerivativeError",
    "DiskFullError",
    "DivergedError",
    "Error",
    "Fitted",
    "Graph",
    "IoError",
    "MemoryPlanError",
    "NameError_",
    "Optimiser",
    "Plan",
    "PlanError",
    "Program",
    "Schedule",
    "ShapeError",
    "SizedProgram",
    "Spec",
    "StageError",
    "SyntaxError_",
    "Tensors",
    "Trace",
    "UsageError",
    "Var",
    "VerifyError",
    "build",
    "compile",
    "compile_sized",
    "demo",
    "digits",
    "fit",
    "nn",
    "open",
    "optim",
    "parse",
    "train",
]


def build(name: str = "graph", *, sizes: dict[str, int] | None = None) -> Build:
    """A builder of a graph called `name`. As a context, it finishes the graph at its end.

    `sizes` are what `builder.symbol` gives.

    >>> import arenagrad as ag
    >>> with ag.build("double") as b:
    ...     b.output("y", b.input("x", (3,)) * 2.0)
    >>> b.graph.outputs
    {'y': f32[3]}
    """
    return Build(name, sizes=None if sizes is None else list(sizes.items()))


def _adopt(cls: type, ops: type) -> None:
    """Gives `cls` the functions of `ops`, which are made from the tables of the library."""
    for name, function in vars(ops).items():
        if not name.startswith("__"):
            setattr(cls, name, function)


TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name):
        """`ag.mpi`, `ag.onnx`, `ag.ray`, `ag.sklearn` and `ag.torch` are imported when they are first named."""
        if name not in ("mpi", "onnx", "ray", "sklearn", "torch"):
            raise AttributeError(f"module 'arenagrad' has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"arenagrad.{name}")


_adopt(Var, _VarOps)
_adopt(Build, _BuilderOps)
_Mapping.register(Tensors)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forked)
