"""Captured graphs, written into a builder."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from typing import Any, Callable, Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from .._arenagrad import Build, Var
from .._errors import Error, make
from . import _backward, _indexing, _layers, _linalg, _losses, _pointwise, _quant, _random, _recurrent, _reduce, _resize, _shape
from ._attributes import check_apart, own_name
from ._kinds import TABLE, Refused, Site, arguments
from ._lines import place_of
from ._values import constant, name_of

_FILES = (_backward, _indexing, _layers, _linalg, _losses, _pointwise, _quant, _random, _recurrent, _reduce, _resize, _shape)
# Checks that torch made of the user's example; shapes are checked here anyway.
_CHECKS = ("_assert_tensor_metadata", "_assert_async", "sym_constrain_range", "_assert_scalar", "_linalg_check_errors")


@dataclasses.dataclass
class Refusal:
    """A kind that has no counterpart."""

    kind: str
    why: str
    where: str | None
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.kind}{times}: {self.why}" + (f", at {self.where}" if self.where else "")


class UnmappedError(Error):
    """A module uses kinds that have no counterpart here. `refusals` lists them."""

    kind = "usage"

    def __init__(self, refusals: list[Refusal]) -> None:
        self.refusals = refusals
        self.location = refusals[0].where
        lines = "\n  ".join(str(r) for r in refusals)
        super().__init__(f"the module has kinds without counterpart:\n  {lines}")


class _Missing:
    """The result of a node that was refused."""


MISSING = _Missing()


@dataclasses.dataclass
class Leaf:
    """An operand of a captured graph: its role (param, buffer, constant, input, token, idle), name and tensor."""

    role: str
    name: str
    value: Any


def tensors_of(whole: torch.nn.Module) -> list[tuple[torch.Tensor, str]]:
    """Params and buffers, each with its name: that of the user's module, or one beside these for those of loss and others."""
    own: dict[str, torch.Tensor] = {}
    named = [*whole.named_parameters(remove_duplicate=False), *whole.named_buffers(remove_duplicate=False)]
    for name, x in sorted(named, key=lambda pair: not pair[0].startswith("module.")):
        name = own_name(name)
        while name in own:
            name = "loss." + name
        own[name] = x
    return [(x, name) for name, x in own.items()]


def names_of(whole: torch.nn.Module) -> dict[int, str]:
    """The name of each param and buffer, by its id: the first, where it has several."""
    names: dict[int, str] = {}
    for x, name in tensors_of(whole):
        names.setdefault(id(x), name)
    return names


def leaves_of(program: ExportedProgram, names: dict[int, str], module: torch.nn.Module, inputs: list[str]) -> list[Leaf]:
    """The operands in order. Params and buffers have the module's names, tied ones the first of theirs."""
    tensors = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    mutated = {s.target for s in program.graph_signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION}
    places = {x.data_ptr(): names[id(x)] for x in tensors.values() if x.numel()}
    check_apart((names[id(x)], x) for x in tensors.values())
    leaves, at = [], 0
    for spec in program.graph_signature.input_specs:
        target = spec.target or ""
        if spec.kind == InputKind.PARAMETER:
            leaves.append(Leaf("param", names[id(tensors[target])], tensors[target]))
        elif spec.kind == InputKind.BUFFER:
            x = tensors[target]
            fixed = target not in mutated and not x.dtype.is_floating_point
            leaves.append(Leaf("constant" if fixed else "buffer", names[id(x)], x))
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            x = program.constants[target]
            if isinstance(x, torch.Tensor) and x.numel() and x.data_ptr() in places:
                text = f"{places[x.data_ptr()]!r} is read from a list or a variable, where a capture takes it for a constant"
                raise make("derivative", text + ": read it from the module, such as by module.parameters()")
            leaves.append(Leaf("constant", target, x))
        elif spec.kind == InputKind.USER_INPUT:
            leaves.append(Leaf("input", inputs[at], None))
            at += 1
        elif spec.kind == InputKind.TOKEN:
            leaves.append(Leaf("token", "", None))
        else:
            raise make("usage", f"the module takes {spec.kind}, which is no tensor")
    return leaves


def _only_checked(node: Any) -> bool:
    """Whether nothing but checks of the example reads a node's result."""
    if any(check in str((node.target, node.args)) for check in _CHECKS):
        return True
    return bool(node.users) and not isinstance(node.meta.get("val"), torch.Tensor) and all(map(_only_checked, node.users))


def explained(e: Error, notes: Mapping[str, str]) -> Exception:
    """An error of a step, in the words of the rule whose check it is."""
    if e.location is None or e.location not in notes:
        return e
    return make(e.kind, f"{notes[e.location]}, at {e.location}", e.location)


def _reads(item: Any, i: int) -> bool:
    """Whether a user of a node is its result `i`, and more than checks read it."""
    if item.target is not operator.getitem or item.args[1] != i:
        return False
    return not item.users or any(not any(check in str((u.target, u.args)) for check in _CHECKS) for u in item.users)


def _folded(target: Any, args: Any, kwargs: Any) -> Any:
    """What torch computes. It decomposes `eye` into an `arange` of a type that it cannot compute with on CPUs."""
    unsigned = kwargs.get("dtype") in (torch.uint16, torch.uint32, torch.uint64)
    if unsigned and str(target).startswith("aten.arange."):
        return target(*args, **{**kwargs, "dtype": torch.int64}).to(kwargs["dtype"])
    return target(*args, **kwargs)


class Writer:
    """Writes a captured graph into a builder. `trained` says which params get gradients."""

    def __init__(
        self, b: Build, trained: Callable[[str], bool], collect: bool = False, sizes: dict[Any, int] | None = None
    ) -> None:
        self.b = b
        # The symbols of the captured graph, with the numbers that it is written for.
        self.sizes = sizes or {}
        self.trained = trained
        self.collect = collect
        self.leaves: dict[str, Var] = {}
        self.refusals: list[Refusal] = []
        self.kinds: Counter[str] = Counter()
        self.constants: dict[str, torch.Tensor] = {}
        # The names of the buffers that the graph writes.
        self.moved: set[str] = set()
        # What errors of a step mean, by their lines.
        self.notes: dict[str, str] = {}

    def leaf(self, leaf: Leaf, node: Any) -> Any:
        """The value of an operand."""
        if leaf.role in ("token", "idle"):  # it orders effects, which no op here has; or nothing reads it
            return None
        if leaf.role == "constant":
            self.constants[leaf.name] = leaf.value
            return leaf.value
        if leaf.role == "input":
            x = node.meta["val"]
            if not isinstance(x, torch.Tensor):
                return x
            return self.b.input(leaf.name, self._shape(x), name_of(x.dtype, f"input {leaf.name!r}"))
        if leaf.name not in self.leaves:
            x = leaf.value
            dtype = name_of(x.dtype, f"{leaf.role} {leaf.name!r}")
            if leaf.role == "param":
                var = self.b.param(leaf.name, tuple(x.shape), "zeros", dtype, not self.trained(leaf.name))
            else:
                var = self.b.buffer(leaf.name, tuple(x.shape), "zeros", dtype)
            self.leaves[leaf.name] = var
        return self.leaves[leaf.name]

    def _shape(self, x: Any, own: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The shape of a tensor of the captured graph, in numbers: those of `own` where torch leaves a size open."""
        shape = []
        for i, n in enumerate(x.shape):
            if isinstance(n, torch.SymInt) and not n.node.has_hint() and i < len(own):
                n = own[i]
            elif isinstance(n, torch.SymInt) and self.sizes:
                n = n.node.expr.xreplace(self.sizes)
            shape.append(int(n))
        return tuple(shape)

    def write(self, program: ExportedProgram, leaves: list[Leaf]) -> list[Any]:
        """Writes all nodes, and updates of buffers; gives the module's results."""
        env: dict[Any, Any] = {}
        places = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node, leaf in zip(places, leaves):
            env[node] = self.leaf(leaf, node)
        results = self._nodes(program.graph_module, env)
        if self.refusals and not self.collect:
            raise UnmappedError(self.refusals)
        own = []
        by_target = dict(zip((s.target for s in program.graph_signature.input_specs), leaves))
        for spec, value in zip(program.graph_signature.output_specs, results):
            if spec.kind == OutputKind.USER_OUTPUT:
                own.append(value)
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                leaf = by_target[spec.target]
                if not isinstance(value, _Missing):
                    self.b.update(self.leaves[leaf.name], self._value(value))
                    self.moved.add(leaf.name)
            elif spec.kind != OutputKind.TOKEN:
                target = spec.target or "an input"
                raise make("usage", f"the module writes into {target} in place ({spec.kind.name.lower()}); return a new tensor")
        return own

    def _value(self, x: Any) -> Var:
        return constant(self.b, x) if isinstance(x, torch.Tensor) else x

    def _nodes(self, module: Any, env: dict[Any, Any]) -> list[Any]:
        for node in module.graph.nodes:
            if node.op == "output":
                return list(torch.fx.map_arg(node.args[0], env.__getitem__))
            if node.op == "get_attr":
                env[node] = operator.attrgetter(node.target)(module)
            elif node.op == "call_function":
                place = place_of(node)
                self.b._place(*place) if place else self.b._place()
                env[node] = self._call(node, env)
        self.b._place()
        return []

    def _refuse(self, node: Any, name: str, why: str) -> Any:
        place = place_of(node)
        where = f"{place[0]}:{place[1]}" if place else None
        for known in self.refusals:
            if known.kind == name and known.why == why:
                known.count += 1
                return MISSING
        self.refusals.append(Refusal(name, why, where))
        return MISSING

    def _call(self, node: Any, env: dict[Any, Any]) -> Any:
        target = node.target
        flat = [env[n] for n in node.all_input_nodes]
        missing = any(isinstance(x, _Missing) for x in flat)
        if _only_checked(node):
            return None
        if target is operator.getitem:
            whole = env[node.args[0]]
            # A check has no result but the token that orders it.
            return MISSING if missing else None if whole is None else whole[node.args[1]]
        if not isinstance(target, torch._ops.OpOverload):
            return self._other(node, env, missing)
        name = str(target)
        if name not in TABLE and not self._folds(target, flat):
            return self._refuse(node, name, "no entry in the table")
        if missing:
            return MISSING
        values: Callable[[Any], Any] = lambda x: torch.fx.map_arg(x, env.__getitem__)
        if self._folds(target, flat):
            try:
                with torch.no_grad():
                    return _folded(target, values(node.args), values(node.kwargs))
            except (Error, RuntimeError, ValueError) as e:
                place = place_of(node)
                where = f"{place[0]}:{place[1]}" if place else None
                raise make("data", f"{name} of constants: {e}" + (f", at {where}" if where else ""), where) from e
        self.kinds[name] += 1
        results = node.meta["val"]
        given = [n.meta.get("val") for n in node.all_input_nodes]
        site = Site(self.b, results, lambda i: any(_reads(u, i) for u in node.users), given)
        try:
            out = TABLE[name](site, *arguments(node, values))
        except Refused as e:
            return self._refuse(node, name, str(e))
        except Error as e:
            return self._refuse(node, name, str(e).removesuffix(f", at {e.location}"))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
            # A form of the arguments that the rule does not know.
            return self._refuse(node, name, f"{type(e).__name__}: {e}")
        place = place_of(node)
        if site.note and place:
            self.notes[f"{place[0]}:{place[1]}"] = site.note
        if isinstance(out, (tuple, list)):
            absent = [i for i, x in enumerate(out) if x is None and isinstance(results[i], torch.Tensor) and site.used(i)]
            if absent:
                return self._refuse(node, name, f"its result {absent[0]} is read, and not computed here")
        return self._checked(node, name, out, results)

    def _folds(self, target: Any, operands: list[Any]) -> bool:
        """Whether torch computes the node now: no operand is a value of the graph, and nothing is drawn."""
        if any(isinstance(x, (Var, _Missing)) for x in operands):
            return False
        return torch.Tag.nondeterministic_seeded not in target.tags

    def _checked(self, node: Any, name: str, out: Any, results: Any) -> Any:
        """`out`, whose types are torch's."""
        pairs = zip(out, results) if isinstance(out, (tuple, list)) else [(out, results)]
        for x, like in pairs:
            if not isinstance(x, Var) or not isinstance(like, torch.Tensor):
                continue
            # A size that torch leaves open, such as that of a count of constants, is what it is here.
            wanted = (self._shape(like, x.shape), name_of(like.dtype))
            if (x.shape, x.dtype) != wanted:
                got = f"{x.dtype}{list(x.shape)}"
                return self._refuse(node, name, f"its result would be {got}, and is {wanted[1]}{list(wanted[0])} in torch")
        return out

    def _other(self, node: Any, env: dict[Any, Any], missing: bool) -> Any:
        name = getattr(node.target, "__name__", str(node.target))
        values = torch.fx.map_arg(node.args, env.__getitem__)
        if missing:
            return MISSING
        if all(isinstance(x, (int, float, bool, torch.SymInt)) for x in values):
            return node.target(*values)
        return self._refuse(node, name, "no entry in the table")


__all__ = ["Leaf", "Refusal", "UnmappedError", "Writer", "leaves_of"]
