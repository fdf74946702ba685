"""Modules as graphs of ATen kinds: export, and what torch.export would lose without a word."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from .._errors import Error, make
from ._attributes import Attributes, Effects
from ._capturing import capturing
from ._held import digest, networks
from ._lines import failed, files_given_back, place_of
from ._masks import MasksKnown
from ._within import replayed

# What stays whole, because one op or layer here computes it. All else is decomposed.
KEEP = frozenset(
    "linear layer_norm rms_norm group_norm instance_norm scaled_dot_product_attention conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d lstm gru rnn_tanh rnn_relu cross_entropy_loss nll_loss "
    "nll_loss_nd mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "gelu silu elu selu celu mish hardswish hardsigmoid hardtanh relu6 leaky_relu prelu softplus softshrink hardshrink "
    "threshold log_sigmoid glu softmax log_softmax embedding embedding_bag max_pool1d max_pool2d max_pool3d avg_pool1d "
    "avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "upsample_trilinear3d upsample_bicubic2d pixel_shuffle pixel_unshuffle matmul addmm bmm einsum pad im2col col2im "
    "grid_sampler logsumexp std var flip roll tril triu split chunk unbind index_add scatter_reduce stack meshgrid detach "
    "repeat_interleave diag_embed linalg_cross linalg_vector_norm logaddexp xlogy nan_to_num soft_margin_loss "
    "multi_margin_loss cosine_similarity one_hot count_nonzero lerp linspace logspace _euclidean_dist".split()
)


# Torch captures in one thread at a time; what is put in place of its functions meanwhile is the process's.
_ONE = threading.RLock()


class WithLoss(torch.nn.Module):
    """A module and its loss as one module, with the networks that they read from outside."""

    def __init__(self, module: torch.nn.Module, loss: Any, inputs: int) -> None:
        super().__init__()
        self.module = module
        self.loss = loss
        self.inputs = inputs
        self.training = module.training
        # Their weights may change, so they are no constants.
        self.others = torch.nn.ModuleDict(networks(self, loss))
        self.effects = Effects()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with self.effects.call(self), MasksKnown():
                out = self.module(*args[: self.inputs], **kwargs)
                if self.loss is None:
                    return getattr(out, "loss", out)
                return self.loss(out, *args[self.inputs :])
        except RuntimeError as e:
            if "data-dependent" not in str(e):
                raise
            raise failed(e) from e  # torch would print the whole graph first


def _opname(op: Any) -> str:
    return getattr(op, "_opname", None) or str(op).split(".")[1]


def decompositions() -> Any:
    """torch's table of decompositions without the kinds that stay whole."""
    table = torch.export.default_decompositions()
    for op in list(table):
        if _opname(op) in KEEP:
            table.pop(op)
    return table


def check_module(module: torch.nn.Module) -> None:
    """An error for what no capture shows: other devices, complex params, hooks on gradients."""
    for what, tensors in (("param", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, x in tensors:
            if x.device.type != "cpu":
                raise make("data", f"{what} {name!r} is on {x.device}: call module.cpu() (or .to_empty() for meta) first")
            if what == "param" and x.dtype.is_complex:
                raise make("data", f"param {name!r} is {x.dtype}: complex params are not trained; use real and imaginary parts")
            if getattr(x, "_backward_hooks", None) or getattr(x, "_post_accumulate_grad_hooks", None):
                raise make("derivative", f"{what} {name!r} has a hook on its gradient, which would not be called")
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise make("derivative", f"module {name!r} has backward hooks, which would not be called")


def _kept_from_gradient(graph_module: torch.fx.GraphModule) -> None:
    """Marks what is computed under `torch.no_grad()` by `detach`: decompositions inline such a part as any other."""
    wrapped = torch.ops.higher_order.wrap_with_set_grad_enabled
    for node in list(graph_module.graph.nodes):
        if node.op != "call_function" or node.target is not wrapped or node.args[0]:
            continue
        inner = getattr(graph_module, node.args[1].target)
        for deep in inner.modules():
            for n in deep.graph.nodes if isinstance(deep, torch.fx.GraphModule) else ():
                if n.target is wrapped and n.args[0]:
                    raise make("derivative", "torch.enable_grad() inside of torch.no_grad() is not captured")
        for item in list(node.users):
            with graph_module.graph.inserting_after(item):
                stop = graph_module.graph.call_function(torch.ops.aten.detach.default, (item,))
            stop.meta = dict(item.meta)
            item.replace_all_uses_with(stop, delete_user_cb=lambda user, stop=stop: user is not stop)
    graph_module.recompile()


def _nothing() -> None:
    pass


def exported(
    module: WithLoss, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any = None, between: Callable[[], Any] = _nothing
) -> ExportedProgram:
    """The graph of a call of the module, without mutation, in the kinds of the table. The module stays as it is, but for its
    modes, which `between`, what stands between two calls, may set."""
    # Torch takes a tensor that is given twice for one operand.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    with _ONE:
        before = Attributes(module)
        try:
            program = _followed(module, args, kwargs, shapes, before)
            if module.effects.names:
                before.restore()
                with module.effects.again(between):
                    _check_stateless(module, program, args, kwargs, shapes, before)
            return program
        finally:
            before.restore()


def _followed(
    module: WithLoss, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, before: Attributes
) -> ExportedProgram:
    """The graph of a call, which may differentiate."""
    try:
        return _exported(module, args, kwargs, shapes)
    except Error as e:
        if not _differentiates(e):
            raise
        if shapes:  # they would be numbers in the list of ops
            raise make("usage", f"a call that differentiates is captured for one size of batch, without sizes=: {e}", e.location) from e
        before.restore()
        return _exported_within(module, args, kwargs)


def _exported(module: WithLoss, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> ExportedProgram:
    with capturing():
        with files_given_back():
            program = torch.export.export(module, args, kwargs or None, dynamic_shapes=shapes, strict=False)
            _kept_from_gradient(program.graph_module)
        with files_given_back():
            return program.run_decompositions(decompositions())


def _differentiates(e: Error) -> bool:
    """Whether torch.export does not follow a derivative within the call."""
    text = str(e)
    return any(sign in text for sign in ("fake tensor in the exported program constant", "attribute 'constant'", "functorch"))


def _exported_within(module: WithLoss, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """The graph of a call that differentiates."""
    with capturing():
        replay = replayed(module, args, kwargs, place_of)
    module.forward = replay  # type: ignore[method-assign]
    try:
        return _exported(module, args, kwargs, None)
    finally:
        del module.forward


def _check_stateless(
    module: WithLoss, program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, before: Attributes
) -> None:
    """An error if what a call leaves in attributes makes the next call another one."""
    names = ", ".join(map(repr, module.effects.names[:8]))
    try:
        again = _followed(module, args, kwargs, shapes, before)
        why = "" if text_of(again) == text_of(program) else "the next call is another one then"
    except Error as e:
        why = str(e)
    if why:
        text = f"the call changes {names} of the module, which a step does not: {why}. A buffer (register_buffer) is kept by the"
        raise make("usage", text + " step; a module that only prepares itself is to be called once before")


def text_of(program: ExportedProgram) -> str:
    """What two captures of one computation have in common."""
    parts = [m.code for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    bits = [(x.dtype, x.shape, digest(x)) for x in program.constants.values() if isinstance(x, torch.Tensor)]
    return repr((parts, bits, [(s.kind, s.target) for s in program.graph_signature.output_specs]))
