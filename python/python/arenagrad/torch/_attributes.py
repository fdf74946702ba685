"""Attributes of modules that a call of the module itself changes.

A captured graph changes params and buffers, and nothing else: not `self.count += 1`, not `self.hidden = h`. So a call's
changes are looked for while it is captured. If there are some, the module is captured again with the values that the call
has left; where the graph is another one then, or reads a tensor that was left, the module is refused by name. An
attribute that each call writes before it reads it, such as `self.loss`, is no state.
"""

from __future__ import annotations

import contextlib
import copy
import random
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import numpy as np
import torch

from .._arenagrad import _Watch
from .._errors import make

# What each module has; `training` is the caller's.
_OWN = frozenset(torch.nn.Module().__dict__)
_PLAIN = (bool, int, float, complex, str, bytes)
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict, Counter)
_ABSENT = object()
# Objects with more fields are compared by their identity alone.
_FIELDS = 128
_PACKAGES = frozenset(("torch", "arenagrad", "numpy", "builtins", "collections", "math", "typing"))


class _Left(torch.Tensor):
    """Stands for a tensor that the call before has left. What reads it is refused."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise make("usage", "the call reads a tensor that the call before has left in an attribute")


_LEFT = torch.empty(0).as_subclass(_Left)


def plain(x: Any) -> bool:
    """Whether a value is a number, a text or None."""
    return x is None or isinstance(x, _PLAIN)


def same(a: Any, b: Any) -> bool:
    """Whether a value is still what it was: the same object, an equal number, or a container of such."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b or a != a and b != b)
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) in _CONTAINERS and isinstance(a, dict):
        return a.keys() == b.keys() and all(same(x, b[key]) for key, x in a.items())
    return isinstance(a, set) and a == b


def own_name(name: str) -> str:
    """A name in a step without what the step itself calls the user's module, or the networks that this reads from outside."""
    return name.removeprefix("module.") if name.startswith("module.") else name.removeprefix("others.")


def check_apart(named: Iterable[tuple[str, torch.Tensor]]) -> None:
    """An error for a param whose memory another tensor has, too: torch would update it for both, and a step has two."""
    places: dict[int, tuple[str, torch.Tensor]] = {}
    for name, x in named:
        other, y = places.setdefault(x.data_ptr(), (name, x))
        if y is not x and x.numel() and y.numel() and (x.requires_grad or y.requires_grad):
            raise make("usage", f"{other!r} and {name!r} are two tensors with the same memory: let both names be one param, or clone one")


def foreign(x: Any) -> bool:
    """Whether a function or a class belongs to a package that reads nothing which a user changes."""
    return (x.__module__ or "").split(".")[0] in _PACKAGES


def has_fields(x: Any) -> bool:
    """Whether a value is an object with a few fields, such as a configuration: no function, class or module."""
    if callable(x) or isinstance(x, types.ModuleType) or foreign(type(x)):
        return False
    return 0 < len(getattr(x, "__dict__", ())) <= _FIELDS


def owners(module: torch.nn.Module) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The dictionaries that hold the values of a tree of modules and of the objects that are its attributes: what each holds,
    and the prefix of its names."""
    seen: set[int] = set()
    for name, part in module.named_modules():
        prefix = own_name(f"{name}.") if name else ""
        yield "attribute", prefix, part.__dict__
        for key in attributes(part.__dict__):
            if has_fields(x := part.__dict__[key]) and id(x) not in seen:
                seen.add(id(x))
                yield "attribute", f"{prefix}{key}.", vars(x)
        yield "buffer", prefix, part._buffers
        yield "param", prefix, part._parameters
        yield "module", prefix, part._modules


def watch_of(module: torch.nn.Module) -> _Watch:
    """Tells whether a tree of modules has the tensors and layers that it has now."""
    parts = [owner for role, _, owner in owners(module) if role != "attribute"]
    return _Watch([(owner, key, x) for owner in parts for key, x in owner.items()], parts)


def attributes(owner: dict[str, Any]) -> list[str]:
    """The names in a module's dictionary that are not those of every module."""
    return [key for key in owner if key not in _OWN]


def _own(owner: dict[str, Any]) -> dict[str, Any]:
    return {key: x for key, x in owner.items() if key not in _OWN}


class Change(NamedTuple):
    """A value that is another one than before."""

    role: str
    name: str
    owner: dict[str, Any]
    key: str
    was: Any
    now: Any


class Attributes:
    """The values of a tree of modules as they are now."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._owners: list[tuple[str, str, Any, dict[Any, Any]]]
        self._owners = [(role, prefix, owner, _own(owner)) for role, prefix, owner in owners(module)]
        # Models of transformers install hooks when they are called for the first time, and note so in an attribute.
        self._owners += [
            ("hook", f"{name}.{kind}.", hooks, dict(hooks))
            for name, part in module.named_modules()
            for kind, hooks in vars(part).items()
            if kind.startswith(("_forward_hooks", "_forward_pre_hooks"))
        ]
        self._contents: dict[int, tuple[str, Any, Any]] = {}
        for _, prefix, _, values in self._owners:
            for key, x in values.items():
                self._keep(f"{prefix}{key}", x)

    def _keep(self, name: str, x: Any) -> None:
        if type(x) in _CONTAINERS and id(x) not in self._contents:
            self._contents[id(x)] = (name, x, copy.copy(x))
        elif not isinstance(x, tuple):
            return
        for y in x.values() if isinstance(x, dict) else x:
            self._keep(name, y)

    def changed(self) -> list[Change]:
        """The values that are others now."""
        changes = [
            Change(role, f"{prefix}{key}", owner, key, values.get(key, _ABSENT), owner.get(key, _ABSENT))
            for role, prefix, owner, values in self._owners
            for key in {**values, **_own(owner)}
        ]
        return [c for c in changes if not same(c.was, c.now)]

    def filled(self) -> list[tuple[str, Any, Any]]:
        """Name, container and content now of the containers whose content is another one now."""
        return [(name, x, copy.copy(x)) for name, x, was in self._contents.values() if not same(x, was)]

    def restore(self) -> None:
        """Puts all values back: the same objects, with the same content."""
        for _, _, owner, values in self._owners:
            for key in _own(owner).keys() - values.keys():
                del owner[key]
            owner.update(values)
        for _, x, was in self._contents.values():
            refill(x, was)


def refill(x: Any, content: Any) -> None:
    """Gives a container another content."""
    x.clear()
    x.update(content) if isinstance(x, (dict, set)) else x.extend(content)


def _left(x: Any) -> Any:
    """A value as the next call finds it: tensors are there, and must not be read."""
    if isinstance(x, torch.Tensor):
        return _LEFT
    if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return x.node.hint
    if isinstance(x, tuple) and type(x) is not tuple:
        return x
    if isinstance(x, (tuple, list, set, deque)):
        return type(x)(map(_left, x))
    if type(x) in _CONTAINERS:
        other = copy.copy(x)
        for key, value in x.items():
            other[key] = _left(value)
        return other
    return x


class Effects:
    """What a captured call has changed beside buffers. No part of a module, which torch would copy and restore."""

    def __init__(self) -> None:
        # The names of the changes, and the places of the attributes among them.
        self.names: list[str] = []
        self.places: set[tuple[int, str]] = set()
        self._after: list[tuple[dict[str, Any], str, Any]] = []
        self._filled: list[tuple[Any, Any]] = []
        self._again: Callable[[], Any] | None = None

    @contextlib.contextmanager
    def again(self, between: Callable[[], Any]) -> Iterator[None]:
        """Calls find what the last one has left, after `between`."""
        self._again = between
        try:
            yield
        finally:
            self._again = None

    @contextlib.contextmanager
    def call(self, module: torch.nn.Module) -> Iterator[None]:
        """Looks at a call of the module: writes what it assigns to buffers into them, and keeps its other changes."""
        if self._again:
            for x, content in self._filled:
                refill(x, _left(content))
            for owner, key, value in self._after:
                owner.pop(key, None) if value is _ABSENT else owner.__setitem__(key, _left(value))
            self._again()
        before, drawn = Attributes(module), _drawn()
        yield
        if drawn != _drawn():
            text = "the call draws from Python's or NumPy's random numbers, which would be the same in each step: draw by torch"
            raise make("usage", text)
        filled = before.filled()
        _write_buffers([c for c in before.changed() if c.role == "buffer"])
        changed = before.changed()
        for c in changed:
            if c.role in ("param", "module"):
                raise make("usage", f"the call makes another {c.role} of {c.name!r}: call the module once before")
        names = [c.name for c in changed] + [name for name, _, _ in filled]
        self.names += [name for name in names if name not in self.names]
        self.places |= {(id(c.owner), c.key) for c in changed}
        self._after = [(c.owner, c.key, c.now) for c in changed]
        self._filled = [(x, content) for _, x, content in filled]


def _drawn() -> Any:
    numpy = np.random.get_state(legacy=False)
    return random.getstate(), str(numpy["bit_generator"]), numpy["state"]["pos"], numpy["state"]["key"].tobytes()


def _write_buffers(changed: list[Change]) -> None:
    """`self.mean = …` puts another tensor into the place of a buffer; a graph writes into the one that is there."""
    changed = [c for c in changed if isinstance(c.was, torch.Tensor) and isinstance(c.now, torch.Tensor)]
    values = [c.now.detach().clone() for c in changed]
    for c, value in zip(changed, values):
        if (c.was.shape, c.was.dtype) != (c.now.shape, c.now.dtype):
            forms = [f"{x.dtype} {list(x.shape)}" for x in (c.now, c.was)]
            raise make("shape", f"the call makes buffer {c.name!r} {forms[0]}; it was {forms[1]}, and has one form")
        c.owner[c.key] = c.was
        c.was.copy_(value)
