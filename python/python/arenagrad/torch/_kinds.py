"""The table of kinds: what each op of torch is here. One entry a kind; `register` adds to it."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .._arenagrad import Build, Var
from .._errors import Error
from ._values import constant, dtype_of, name_of

Rule = Callable[..., Any]
TABLE: dict[str, Rule] = {}


class Refused(Exception):
    """A node has no counterpart: the reason, in a few words."""


class Site:
    """A node that is being mapped: its builder, and what its operands are in torch and its results are to be."""

    def __init__(self, b: Build, results: Any, used: Callable[[int], bool], given: Any = ()) -> None:
        self.b = b
        self.given = given
        self.results = results
        self.used = used
        # What an error of a step at this node's line means.
        self.note = ""

    @property
    def dtype(self) -> str:
        """The element type of the result, or of the first one."""
        first = self.results[0] if isinstance(self.results, (tuple, list)) else self.results
        return name_of(first.dtype, "a result")

    def var(self, x: Any, dtype: str | torch.dtype | None = None) -> Var:
        """`x` as a value, of this element type."""
        if isinstance(dtype, torch.dtype):
            dtype = name_of(dtype)
        if isinstance(x, torch.Tensor):
            return constant(self.b, x, dtype)
        if isinstance(x, (bool, int, float)):
            kind = "bool" if isinstance(x, bool) else "i64" if isinstance(x, int) else "f32"
            return self.b.full(float(x), (), dtype or kind)
        if not isinstance(x, Var):
            raise Refused(f"an operand is {type(x).__name__}")
        return x if dtype is None or x.dtype == dtype else cast(x, dtype)

    def float(self, x: Any) -> Var:
        """`x` in the result's element type."""
        return self.var(x, self.dtype)


def cast(x: Var, dtype: str) -> Var:
    """`x` as `dtype`; a bool is whether it differs from 0, as in torch."""
    if dtype == "bool" and x.dtype != "bool":
        return x.not_equal(0.0)
    return x.cast(dtype)


def kind(*names: str) -> Callable[[Rule], Rule]:
    """Adds a rule under names of ATen, without their prefix, or under `library::name`."""

    def add(rule: Rule) -> Rule:
        for name in names:
            TABLE[name.replace("::", ".") if "::" in name else "aten." + name] = rule
        return rule

    return add


def register(name: str, rule: Rule) -> None:
    """Maps an op of a library of torch's: `register("mylib::scale", lambda site, x, by: x * by)`.

    The rule gets a site (`site.b` is the builder, `site.var(x)` makes a value of a constant or a number) and the
    arguments in the order of the op's schema; it gives one value, or a tuple of values.
    """
    if "::" not in name:
        raise ValueError(f"{name!r} is no name of an op, such as 'namespace::op'")
    space, op = name.split("::", 1)
    TABLE[f"{space}.{op}" if "." in op else f"{space}.{op}.default"] = rule


def arguments(node: torch.fx.Node, values: Callable[[Any], Any]) -> list[Any]:
    """The arguments of a node in the order of its schema, with defaults."""
    schema = node.target._schema.arguments
    given = list(node.args)
    out = [values(x) for x in given]
    for argument in schema[len(given) :]:
        out.append(values(node.kwargs[argument.name]) if argument.name in node.kwargs else argument.default_value)
    return out


def axes_of(x: Any, dims: Any) -> list[int]:
    """Axes from the front; all for None or none."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(x.ndim))
    dims = [dims] if isinstance(dims, int) else dims
    return [d % max(x.ndim, 1) for d in dims]


__all__ = ["Error", "Refused", "Rule", "Site", "TABLE", "arguments", "axes_of", "cast", "dtype_of", "kind", "register"]
