"""What a captured graph holds as it was: attributes, modes and layers of modules, and what functions read from outside.

The caller may change these later: `model.eval()`, `model.temperature = 0.5`, `layer.requires_grad_(True)`. A step that went
on as it was compiled would be wrong without a word, so each call looks whether they are still the same.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import itertools
import types
from collections import deque
from typing import Any, Iterator, Mapping

import torch
from torch import nn

from .._arenagrad import _Watch
from ._attributes import attributes, foreign, has_fields, owners, plain, same

_ABSENT = object()
# Layers of torch whose call reads no attribute, nor the mode.
_FIXED = {nn.Linear, nn.Identity, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Tanh, nn.Sigmoid, nn.ReLU, nn.SiLU}
# Containers with more values are compared by their identity alone.
_FEW = 32


def _kept(x: Any) -> bool:
    """Whether a value is compared: a number, a text, a tensor, or a few of them."""
    if isinstance(x, (list, tuple, deque)):
        return len(x) <= _FEW and all(map(_kept, x))
    if type(x) is dict:
        return len(x) <= _FEW and all(map(_kept, x.values()))
    return plain(x) or isinstance(x, torch.Tensor)


def _copied(x: Any) -> Any:
    if isinstance(x, (list, deque)):
        return type(x)(map(_copied, x))
    return {key: _copied(value) for key, value in x.items()} if type(x) is dict else x


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple, deque, dict)):
        for y in x.values() if isinstance(x, dict) else x:
            yield from _tensors(y)


def digest(x: torch.Tensor) -> bytes:
    """What tells the values of a tensor from others."""
    if x.device.type != "cpu" or x.layout != torch.strided:
        return b""
    bits = x.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(bits.numpy(), digest_size=16).digest()


class _Cells:
    """The variables that a function closes over, by name."""

    def __init__(self, f: types.FunctionType) -> None:
        self.cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))

    def get(self, key: str, absent: Any = None) -> Any:
        try:
            return self.cells[key].cell_contents
        except ValueError:
            return absent


def _names_in(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that a function reads, its inner functions too."""
    inner = (x for x in code.co_consts if isinstance(x, types.CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """The global names that a function reads, its inner functions too."""
    yield from (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals_of(inner)


def _outside(f: Any) -> Iterator[tuple[Any, str]]:
    """Where a function reads values that are not its arguments: a dictionary, or the like, and a name."""
    if isinstance(f, functools.partial):
        yield from ((f.keywords, key) for key in f.keywords)
        yield from _outside(f.func)
    elif isinstance(f, types.MethodType):
        yield from _outside(f.__func__)
        if isinstance(f.__self__, nn.Module):
            yield {"self": f.__self__}, "self"
        else:
            yield from ((vars(f.__self__), key) for key in getattr(f.__self__, "__dict__", {}))
    elif isinstance(f, types.FunctionType):
        cells = _Cells(f)
        yield from ((cells, key) for key in cells.cells)
        yield from ((f.__globals__, key) for key in set(_globals_of(f.__code__)))
    elif not isinstance(f, (nn.Module, type)) and callable(f):
        yield from ((vars(f), key) for key in getattr(f, "__dict__", {}))


def _users(f: Any) -> bool:
    return isinstance(f, types.FunctionType) and not foreign(f)


def _functions(f: Any, owner: type | None, seen: set[int]) -> Iterator[Any]:
    """A function, and those of the user's that it calls: by a global name, from a closure, or as a method of `owner`."""
    if id(f) in seen:
        return
    seen.add(id(f))
    yield f
    if isinstance(f, functools.partial):
        yield from _functions(f.func, None, seen)
    elif isinstance(f, types.MethodType):
        yield from _functions(f.__func__, type(f.__self__), seen)
    elif isinstance(f, types.FunctionType):
        named: list[tuple[Any, type | None]] = [(f.__globals__.get(name), None) for name in _names_in(f.__code__)]
        named += [(getattr(owner, name, None), owner) for name in _names_in(f.__code__)] if owner else []
        cells = _Cells(f)
        named += [(cells.get(name, None), None) for name in cells.cells]
        for g, of in named:
            if _users(g):
                yield from _functions(g, of, seen)


def _places(module: nn.Module, f: Any) -> Iterator[tuple[Any, str]]:
    """Where a call of the module and of `f` reads values from outside."""
    seen: set[int] = set()
    kinds = dict.fromkeys(type(part) for part in module.modules() if not foreign(type(part)))
    # Functions may be attributes, too.
    kept = [(x, None) for role, _, owner in owners(module) if role == "attribute" for x in owner.values() if _users(x)]
    for g, owner in [(f, None), *((kind.forward, kind) for kind in kinds), *kept]:
        for function in _functions(g, owner, seen):
            yield from _outside(function)


def networks(module: nn.Module, f: Any) -> dict[str, nn.Module]:
    """The modules that a call reads from outside, such as a target network or a teacher, by name."""
    inside = set(map(id, module.modules()))
    found: dict[str, nn.Module] = {}
    for owner, key in _places(module, f):
        x = owner.get(key, None)
        if isinstance(x, nn.Module) and id(x) not in inside:
            inside |= set(map(id, x.modules()))
            while key in found:
                key += "_"
            found[key] = x
    return found


class Held:
    """What a capture of a module and a function holds: values, layers and constant tensors.

    `apart` are the places of attributes that the module itself changes without harm, `kept` the ids of the tensors that a
    program has as params and states, and `modes` tells whether the modes of the layers are held.
    """

    def __init__(self, module: torch.nn.Module, f: Any, apart: set[tuple[int, str]], kept: set[int], modes: bool = True) -> None:
        # Owner, key, the value and its name.
        self._values: list[tuple[Any, str, Any, str]] = []
        self._parts: list[tuple[Any, str, Any, str]] = []
        # Constants of the graph, with the number of their last write and a digest of their values.
        self._tensors: list[tuple[torch.Tensor, int, bytes, str]] = []
        # Buffers among them, with where modules have them: another one may come there.
        self._buffers: list[tuple[Any, str, torch.Tensor, str]] = []
        self._kept = kept
        self._objects: set[int] = set()
        # Where calls of modules find hooks, and a `forward` of an object's own.
        self._hooks = [d for part in module.modules() for d in (part._forward_pre_hooks, part._forward_hooks)]
        self._dicts = [part.__dict__ for part in module.modules()]
        self._called = self._calls()
        fixed = {id(part.__dict__) for part in module.modules() if type(part) in _FIXED}
        for role, prefix, owner in owners(module):
            if role in ("module", "param"):
                self._parts += [(owner, key, x, prefix + key) for key, x in owner.items()]
                continue
            if id(owner) in fixed:
                continue
            for key in attributes(owner) if role == "attribute" else owner:
                if (id(owner), key) not in apart:
                    self._hold(owner, key, prefix + key, role == "attribute")
                if role == "buffer" and isinstance(owner[key], torch.Tensor) and id(owner[key]) not in kept:
                    self._buffers.append((owner, key, owner[key], prefix + key))
            if role == "attribute" and modes:
                self._hold(owner, "training", prefix + "training")
        for owner, key in _places(module, f):
            x = owner.get(key, None)
            if isinstance(x, nn.Module):
                self._parts.append((owner, key, x, key))
            self._hold(owner, key, key)
        # One look shows whether all objects are the same, as they nearly always are. Of containers, contents are compared.
        entries = [*self._parts, *self._values]
        there = [isinstance(x[0], dict) and x[0].get(x[1]) is x[2] for x in entries]
        found = [x[:3] for x, yes in zip(entries, there) if yes]
        found += [(hooks, key, f) for hooks in self._hooks for key, f in hooks.items()]
        found += [(d, "forward", d["forward"]) for d in self._dicts if "forward" in d]
        self._watch = _Watch(found, self._hooks, [(d, "forward") for d in self._dicts if "forward" not in d])
        self._rest = [x for x, yes in zip(entries, there) if not yes]
        self._layers = _Watch([x[:3] for x, yes in zip(self._parts, there) if yes])
        self._loose = [x for x, yes in zip(self._parts, there) if not yes]

    def unchanged(self) -> bool:
        """Whether nothing is another one now."""
        return self._watch.same() and self.written() is None and _first(self._rest) is None

    def _hold(self, owner: Any, key: str, name: str, value: bool = True) -> None:
        x = owner.get(key, _ABSENT)
        if _kept(x):
            if value:
                self._values.append((owner, key, _copied(x), name))
            for t in _tensors(x):
                if id(t) not in self._kept:
                    self._tensors.append((t, t._version, digest(t), name))
        elif value and has_fields(x) and id(x) not in self._objects:
            # Such as a configuration.
            self._objects.add(id(x))
            self._values.append((owner, key, x, name))
            for field in list(vars(x)):
                if _kept(vars(x)[field]):
                    self._hold(vars(x), field, f"{name}.{field}")

    def _calls(self) -> list[Any]:
        """The hooks of modules, by their numbers, and the functions that are called in place of their classes' `forward`."""
        return [*itertools.chain.from_iterable(filter(None, self._hooks)), *[d["forward"] for d in self._dicts if "forward" in d]]

    def replaced(self) -> str | None:
        """The first param or layer that is another one now, in words. No capture shows it."""
        for owner, key, part, name in self._loose if self._layers.same() else self._parts:
            if owner.get(key) is not part:
                return f"{name!r} is another one now"
        return None

    def written(self) -> str | None:
        """The first constant that has other values now, in words. No capture shows it."""
        for i, (x, version, bits, name) in enumerate(self._tensors):
            if x._version != version:
                if digest(x) != bits:
                    return f"tensor {name!r} has other values now"
                self._tensors[i] = (x, x._version, bits, name)
        for i, (owner, key, x, name) in enumerate(self._buffers):
            now = owner.get(key)
            if now is not x:
                if not isinstance(now, torch.Tensor) or (now.dtype, now.shape, digest(now)) != (x.dtype, x.shape, digest(x)):
                    return f"buffer {name!r} is another one now"
                self._buffers[i] = (owner, key, now, name)
                self._tensors.append((now, now._version, digest(now), name))
        return None

    def changed(self) -> str | None:
        """The first value that is another one now, in words."""
        if self._called != self._calls():
            return "a module has other hooks, or another forward, now"
        return _first(self._values)


def _first(values: list[tuple[Any, str, Any, str]]) -> str | None:
    """The first value that is another one now, in words."""
    for owner, key, was, name in values:
        now = owner.get(key, _ABSENT)
        if now is not was and not same(was, now):
            return f"{name!r} was {_shown(was)}, and is {_shown(now)} now"
    return None


def _shown(x: Any) -> str:
    return "nothing" if x is _ABSENT else repr(x) if plain(x) else type(x).__name__


class Written:
    """Which tensors are written elsewhere. `x.data.clamp_()` leaves no trace but the values, so these are summed up, too:
    at the first call, the second, the fourth …, which costs little, and finds what is done after each step."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], module: nn.Module) -> None:
        self._names, self._tensors = list(tensors), list(tensors.values())
        names = {id(x): name for name, x in tensors.items()}
        buffers = [(owner, key, x) for role, _, owner in owners(module) if role == "buffer" for key, x in owner.items()]
        self._buffers = [(owner, key, x, names[id(x)]) for owner, key, x in buffers if id(x) in names]
        self._were = [x._version for x in self._tensors]
        self._sums = list(map(_sum, self._tensors))
        self._calls, self._next = 0, 1

    def name(self) -> str | None:
        """The first one that has been written since."""
        name = _differs(self._names, self._were, [x._version for x in self._tensors])
        name = name or next((name for owner, key, x, name in self._buffers if owner.get(key) is not x), None)
        self._calls += 1
        if name is None and self._calls == self._next:
            self._next *= 2
            name = _differs(self._names, self._sums, list(map(_sum, self._tensors)))
        return name


def _differs(names: list[str], were: list[int], are: list[int]) -> str | None:
    return None if were == are else next(name for name, a, b in zip(names, were, are) if a != b)


def _sum(x: torch.Tensor) -> int:
    """The sum of a tensor's bits."""
    x = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[x.element_size()]
    return int(x.view(kind).sum())
