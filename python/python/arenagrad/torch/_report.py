"""What of a module is mapped, and what is not."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import torch

from .._arenagrad import Build
from ._capture import WithLoss, check_module, exported
from ._graph import Refusal, Writer, leaves_of, names_of


@dataclasses.dataclass
class Report:
    """Kinds of a module: how often each is mapped, and those without counterpart."""

    kinds: dict[str, int]
    refusals: list[Refusal]

    @property
    def complete(self) -> bool:
        """Whether all kinds are mapped."""
        return not self.refusals

    def __str__(self) -> str:
        lines = [f"{len(self.kinds)} kinds are mapped, {len(self.refusals)} are not"]
        lines += [f"  {count:5} {name}" for name, count in sorted(self.kinds.items(), key=lambda x: (-x[1], x[0]))]
        return "\n".join(lines + [f"  refused: {refusal}" for refusal in self.refusals])


def report_of(writer: Writer) -> Report:
    """The report of what a writer has written."""
    return Report(dict(writer.kinds), list(writer.refusals))


def report(module: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None = None) -> Report:
    """All kinds that a call `module(*args, **kwargs)` uses, and those that have no counterpart, with their lines.

    It does not stop at the first.
    """
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    check_module(module)
    whole = WithLoss(module, lambda out: out, len(args))
    program = exported(whole, args, dict(kwargs or {}))
    inputs = [f"input_{i}" for i in range(len(torch.utils._pytree.tree_leaves((args, dict(kwargs or {})))))]
    b = Build("report")
    b.training(module.training)
    writer = Writer(b, lambda name: True, collect=True)
    writer.write(program, leaves_of(program, names_of(whole), whole, inputs))
    return report_of(writer)
