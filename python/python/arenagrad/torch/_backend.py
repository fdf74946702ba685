"""The backend of `torch.compile`: the graphs of forward and backward that AOTAutograd makes, each a planned program."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import _compile
from .._arenagrad import Build, Var
from .._errors import make
from ._graph import UnmappedError, Writer
from ._evaluate import array_of
from ._values import name_of


def _program(module: torch.fx.GraphModule, examples: Sequence[Any], choices: Mapping[str, Any]) -> Callable[..., Any]:
    """A graph of ATen kinds as a function of tensors."""
    if any(isinstance(x, torch.SymInt) for x in examples):
        raise make("usage", "a size of the graph is left open: torch.compile(..., dynamic=False)")
    places = [n for n in module.graph.nodes if n.op == "placeholder"]
    with Build("graph") as b:
        writer = Writer(b, lambda name: True)
        env: dict[Any, Any] = {}
        for i, (node, x) in enumerate(zip(places, examples)):
            if node.users and all(user.target is torch.ops.higher_order.with_effects for user in node.users):
                env[node] = None  # a token, which orders checks
                continue
            env[node] = b.input(f"input_{i}", tuple(x.shape), name_of(x.dtype, f"input {i}"))
        results = writer._nodes(module, env)
        if writer.refusals:
            raise UnmappedError(writer.refusals)
        for i, value in enumerate(results):
            if isinstance(value, Var):
                b.output(f"output_{i}", value)
    program = _compile.compile(b.graph, **choices)
    program.init()
    read = program.inputs.specs
    given = [(i, f"input_{i}") for i in range(len(places)) if f"input_{i}" in read]
    names = [f"output_{i}" if isinstance(v, Var) else None for i, v in enumerate(results)]

    def run(args: list[Any]) -> list[Any]:
        out = program.step(**{name: array_of(args[i]) for i, name in given})
        values = []
        for name, fixed in zip(names, results):
            if name is None:
                values.append(fixed.clone() if isinstance(fixed, torch.Tensor) else fixed)
            else:
                values.append(torch.from_numpy(out[name].copy()))
        return values

    setattr(run, "_boxed_call", True)  # noqa: B010
    return run


def arenagrad(module: torch.fx.GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """`torch.compile(model, backend="arenagrad", options={"threads": 2})`; options are those of `arenagrad.compile`."""
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    table = dict(core_aten_decompositions())
    # Attention stays whole, with the logarithms that its derivative reads.
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)

    def compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        # Constants are computed now, and torch's compiler computes no numbers.
        with _disable_current_modes():
            return _program(graph, inputs, options or {})

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=table)(
        module, list(examples)
    )
