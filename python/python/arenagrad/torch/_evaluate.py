"""A module in eval mode as a program, on the weights of a step."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import linecache
import os
from types import SimpleNamespace
from typing import Any, Iterator, Mapping

import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from .. import _compile
from .._arenagrad import Build, Program, SizedProgram
from .._errors import make
from ._attributes import watch_of
from ._capture import WithLoss, check_module, exported
from ._graph import Leaf, Writer, leaves_of, names_of, tensors_of
from ._held import Held


def array_of(x: torch.Tensor) -> Any:
    """The tensor's memory as an array of NumPy."""
    try:
        return x.numpy()
    except (RuntimeError, TypeError):
        pass  # it requires a gradient, is conjugated, or is elsewhere
    if x.device.type != "cpu":
        raise make("data", f"a tensor is on {x.device}; call .cpu() first")
    if x.layout != torch.strided:
        raise make("data", f"a tensor is {x.layout}; call .to_dense() first")
    return x.detach().resolve_conj().resolve_neg().numpy()


@contextlib.contextmanager
def given_back() -> Iterator[None]:
    """Gives the memory of what is captured meanwhile back to the system: its nodes refer to one another in circles.

    What was there before is not searched for circles, which would take longer than the capture of a small model. Torch keeps
    the text of each graph that it makes; those of graphs that are gone are dropped.
    """
    texts: dict[str, str] = getattr(getattr(torch.fx.graph_module, "_loader", None), "eval_cache", {})
    before = set(texts)
    apart = gc.get_freeze_count() == 0
    if apart:
        gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        if apart:
            gc.unfreeze()
        for name in [name for name in texts if name not in before]:
            texts.pop(name, None)
            linecache.cache.pop(name, None)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def opened(program: Any, write: bool = True) -> contextlib.AbstractContextManager[Any]:
    """Params and states as arrays: views of a program's own, or copies of a sized one's, which are written back."""
    return _copies(program, write) if isinstance(program, SizedProgram) else contextlib.nullcontext(program)


@contextlib.contextmanager
def _copies(program: SizedProgram, write: bool) -> Iterator[Any]:
    values = program.state_dict()
    yield SimpleNamespace(params=values, states=values)
    if write:
        program.load_state_dict(values)


def load_leaves(program: Any, leaves: Mapping[str, Leaf]) -> None:
    """Writes the tensors of a module into a program."""
    for values in (program.params, program.states):
        for name in values:
            if name in leaves:
                values[name][...] = array_of(leaves[name].value)


# Where a param or a state lies in a program, and what it is written from: an array, or else a tensor.
_Source = tuple[Any, Any, torch.Tensor | None]


class Evaluation:
    """A module in eval mode, compiled for inputs of these shapes."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
        check_module(module)
        self._module = module
        modes = {part: part.training for part in module.modules()}
        module.eval()
        try:
            # Torch's class of captured modules has attributes of its own, such as `code`, which a child's name would meet.
            whole = WithLoss(module, lambda out: out, len(args))
            # What train() clears, such as a cache, no evaluation leaves for the next.
            program = exported(whole, args, dict(kwargs), between=lambda: (module.train(), module.eval()))
            self._form = program.call_spec.out_spec
        finally:
            for part, mode in modes.items():
                part.training = mode
        flat = pytree.tree_leaves((args, dict(kwargs)))
        self._inputs = [f"input_{i}" for i in range(len(flat))]
        leaves = leaves_of(program, names_of(whole), whole, self._inputs)
        self._fixed: list[Any] = []
        with Build("eval") as b:
            writer = Writer(b, lambda name: True)
            for i, value in enumerate(writer.write(program, leaves)):
                if hasattr(value, "builder"):
                    b.output(f"output_{i}", value)
                    value = None
                self._fixed.append(value)
        self.notes = writer.notes
        self._program = _compile.compile(b.graph, **choices)
        self._program.init()
        self._read = frozenset(self._program.inputs.specs)
        self._sources: list[_Source] = []
        self._trained: Program | None = None
        self._tensors = watch_of(whole)
        # The buffers that the module writes in eval mode, such as a cache.
        by_target = {s.target: x for s, x in zip(program.graph_signature.input_specs, leaves)}
        outs = program.graph_signature.output_specs
        self._written = [by_target[s.target] for s in outs if s.kind == OutputKind.BUFFER_MUTATION]
        kept = {id(x) for x in whole.parameters()} | {id(x.value) for x in leaves if x.role == "buffer"}
        self._whole = whole
        self._held = Held(whole, None, whole.effects.places, kept, modes=False)

    def stale(self) -> bool:
        """Whether the module computes something else now."""
        return not self._held.unchanged() and bool(self._held.replaced() or self._held.written() or self._held.changed())

    def _found(self, trained: Any) -> list[_Source]:
        """What params and states are written from. Those of the module are the trained program's, others are torch's."""
        if self._trained is trained and self._tensors.same():
            return self._sources
        tensors = watch_of(self._whole)
        now = {name: x for x, name in tensors_of(self._whole)}
        mine = {*map(id, self._module.parameters()), *map(id, self._module.buffers())}
        sources: list[_Source] = []
        for values, own in ((self._program.params, trained.params), (self._program.states, trained.states)):
            for name in values:
                if name in now:  # and no state of draws, which are others in each call
                    array = own[name] if name in own and id(now[name]) in mine else None
                    sources.append((values[name], array, None if array is not None else now[name]))
        if isinstance(trained, Program):  # what a sized one gives are copies, of this call
            self._trained, self._sources, self._tensors = trained, sources, tensors
        return sources

    def run(self, trained: Any, flat: list[Any]) -> Any:
        """The outputs as tensors in the module's form; params and states are those of `trained`, or else the module's."""
        for into, array, x in self._found(trained):
            into[...] = array_of(x) if array is None else array
        feed = {n: array_of(x) for n, x in zip(self._inputs, flat) if n in self._read and isinstance(x, torch.Tensor)}
        got = self._program.step(**feed)
        if self._written:
            now = {name: x for x, name in tensors_of(self._whole)}
            for leaf in self._written:
                into = trained.states[leaf.name] if leaf.name in trained.states else array_of(now[leaf.name])
                into[...] = self._program.states[leaf.name]
        results = [
            torch.from_numpy(got[f"output_{i}"].copy()) if value is None and f"output_{i}" in got else value
            for i, value in enumerate(self._fixed)
        ]
        return results[0] if self._form.is_leaf() else pytree.tree_unflatten(results, self._form)

    @property
    def writes(self) -> bool:
        """Whether it changes buffers."""
        return bool(self._written)
