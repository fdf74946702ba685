"""Calls that differentiate: `torch.autograd.grad(…, create_graph=True)` and `torch.func`, as for a loss of derivatives.

torch.export records above autograd, and does not see what autograd keeps of layers. Such a call is traced below autograd first:
what it computes is a list of plain ops then, those of its derivatives among them, and this list is exported.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .._errors import make

# Derivatives that are formulas in the operands and the result. Those of norms and attention also read statistics, through which
# no gradient would go.
_FORMULAS = frozenset(
    f"{name}_backward"
    for name in "tanh sigmoid threshold gelu silu elu softplus leaky_relu hardtanh hardswish hardsigmoid mish softshrink hardshrink logit glu "
    "mse_loss smooth_l1_loss huber_loss binary_cross_entropy soft_margin_loss select slice".split()
)
_PLAIN = _FORMULAS | {f"{name}_backward" for name in ("embedding_dense", "convolution", "avg_pool2d", "_adaptive_avg_pool2d")}
_OF_SHAPES = {torch.ops.aten.ones_like.default: 1.0, torch.ops.aten.zeros_like.default: 0.0}
_WITH_STATISTICS = ("native_layer_norm", "native_group_norm", "native_batch_norm", "fused_rms_norm", "scaled_dot_product")


class _Detached(TorchFunctionMode):
    """Computes `detach()` as what is kept from the gradient: below autograd it is an alias as any other."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "detach_":
            raise make("derivative", "detach_() in a call that differentiates: use detach()")
        data = name == "__get__" and getattr(func, "__self__", None) is torch.Tensor.data
        with torch.no_grad() if name == "detach" or data else contextlib.nullcontext():
            return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _modes_noted() -> Iterator[None]:
    """Nodes keep whether gradients were recorded when they were made."""
    tracer: Any = proxy_tensor.PythonKeyTracer
    own = tracer.__dict__.get("create_node")
    create = tracer.create_node

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = create(self, *args, **kwargs)
        node.meta["recorded"] = torch.is_grad_enabled()
        return node

    tracer.create_node = noted
    try:
        yield
    finally:
        if own is None:
            del tracer.create_node
        else:
            tracer.create_node = own


class _Replay(torch.fx.Interpreter):
    """Runs a list of ops anew, each with gradients as it was made, and derivatives as their formulas."""

    def run_node(self, node: Any) -> Any:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return super().run_node(node)
        alias = node.target in (torch.ops.aten.alias.default, torch.ops.aten.detach.default)
        if alias and node.meta["recorded"]:  # what autograd has kept of a value
            return self.fetch_args_kwargs_from_env(node)[0][0]
        if node.target in _OF_SHAPES:  # no operand is read
            x = self.fetch_args_kwargs_from_env(node)[0][0]
            return torch.full(x.shape, _OF_SHAPES[node.target], dtype=node.meta["val"].dtype)
        # Each change of the mode costs torch a pass over the graph: what changes no operand is detached afterwards.
        with torch.no_grad() if node.target._schema.is_mutable and not node.meta["recorded"] else contextlib.nullcontext():
            out = super().run_node(node)
        kept = node.meta["recorded"] or node.target._schema.is_mutable
        return out if kept else pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, out)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        formula = torch._decomp.decomposition_table.get(target) if getattr(target, "_opname", "") in _FORMULAS else None
        return (formula or target)(*args, **kwargs)


def _checked(graph: torch.fx.Graph, place_of: Callable[[Any], tuple[str, int] | None]) -> None:
    """An error with the user's line for derivatives whose own derivative would not be torch's."""
    for node in graph.nodes:
        name = getattr(node.target, "_opname", "")
        statistics = name.strip("_").startswith(_WITH_STATISTICS) and any(u.args[1] > 0 and u.users for u in node.users)
        if statistics or name.endswith("_backward") and name not in _PLAIN:
            place = place_of(node)
            where = f"{place[0]}:{place[1]}" if place else None
            text = f"a derivative within the call goes through {name}, whose derivative has none here"
            raise make("derivative", text + (f", at {where}" if where else ""), where)


def replayed(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], place_of: Callable[[Any], tuple[str, int] | None]
) -> Callable[..., Any]:
    """What a call of the module computes, derivatives among it, as a function of the same arguments."""

    def tensors() -> dict[str, torch.Tensor]:
        return {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def call(values: Any, args: Any, kwargs: Any) -> Any:
        with _Detached():
            return torch.func.functional_call(module, values, args, kwargs)

    with _modes_noted():
        trace = proxy_tensor.make_fx(call, tracing_mode="fake", _allow_non_fake_inputs=True, record_stack_traces=True)
        traced = trace(tensors(), args, kwargs)
    _checked(traced.graph, place_of)

    def replay(*args: Any, **kwargs: Any) -> Any:
        with torch.fx.traceback.preserve_node_meta():
            return _Replay(traced).run(tensors(), args, kwargs)

    return replay
