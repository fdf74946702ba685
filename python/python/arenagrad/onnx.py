"""ONNX models: `load` gives a graph and its weights, `save` writes a graph of inference. Needs no other package.

>>> import tempfile, pathlib
>>> import numpy as np
>>> import arenagrad as ag
>>> import arenagrad.onnx
>>> with ag.build("line") as b:
...     b.output("y", ag.nn.linear("fc", b.input("x", (2, 3)), 4))
>>> p = ag.compile(b.graph)
>>> p.init(seed=0)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "line.onnx"
>>> ag.onnx.save(path, b.graph, p)
>>> model = ag.onnx.load(path)
>>> sorted(model.weights)
['fc.bias', 'fc.weight']
>>> again = ag.compile(model.graph)
>>> model.init(again)
>>> x = np.ones((2, 3), np.float32)
>>> bool((p.step(x=x)["y"] == again.step(x=x)["y"]).all())
True
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Iterable, Mapping

import numpy as np

from ._arenagrad import Graph, Program, _onnx_read, _onnx_write

__all__ = ["Model", "load", "save"]

_NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool"}
_NAMES |= {f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_TYPES = {ours: theirs for theirs, ours in _NAMES.items()}


class Model:
    """A model that was read: `graph`, the arrays `weights` by name, the inputs `given` as values, which the graph has
    not, and `notes` for the user."""

    def __init__(
        self, graph: Graph, weights: dict[str, np.ndarray[Any, Any]], given: list[str], notes: list[str]
    ) -> None:
        self.graph = graph
        self.weights = weights
        self.given = given
        self.notes = notes

    def __repr__(self) -> str:
        return f"<arenagrad.onnx.Model: {self.graph!r}, {len(self.weights)} weights>"

    def init(self, program: Program, seed: int = 0) -> None:
        """Gives the params of `program`, compiled from this graph or from one made of it, the model's weights, and all
        others their start values."""
        program.init(seed=seed)
        for name in program.params:
            if name in self.weights:
                program.params[name] = self.weights[name]


def load(
    path: str | os.PathLike[str],
    *,
    trainable: bool | Iterable[str] = True,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    values: Mapping[str, Any] | None = None,
) -> Model:
    """Reads a model of opset 6 to 28.

    Initialisers of floats become params by their names. `trainable` says which of them training changes: all, none, or
    those whose names match one of the patterns, in which `*` stands for any characters. `sizes` gives named dimensions
    their sizes, and those without a name, as `{"x.0": 32}`; `batch` is that of first axes without another size.
    `values` are those of inputs that shapes depend on; the error of a model that needs them names them.
    """
    if isinstance(trainable, bool):
        patterns: list[str] | None = None if trainable else []
    else:
        patterns = list(trainable)
    arrays = {name: np.asarray(value) for name, value in (values or {}).items()}
    given = [
        (name, _NAMES.get(a.dtype.name, a.dtype.name), list(a.shape), np.ascontiguousarray(a).tobytes())
        for name, a in arrays.items()
    ]
    found = _onnx_read(os.fspath(path), patterns, list((sizes or {}).items()), batch, given)
    graph, weights, known, notes = found
    read = {name: np.frombuffer(data, _TYPES[dtype]).reshape(dims) for name, dtype, dims, data in weights}
    return Model(graph, read, known, notes)


def save(path: str | os.PathLike[str], graph: Graph, program: Program) -> None:
    """Writes `graph`, which updates nothing, as a model of opset 20, with the params and states of `program`."""
    pathlib.Path(path).write_bytes(_onnx_write(graph, program))
