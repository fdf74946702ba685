"""What torch does differently while it captures a call."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import warnings
from typing import Any, Iterator

import torch

from .._errors import make
from ._lines import failed, lines_of_functions
from ._packed import kept_padded
from ._replaced import replaced


@contextlib.contextmanager
def _own_derivatives_refused() -> Iterator[None]:
    """Export records what `torch.autograd.Function` computes, not its derivative, and no hooks: a call of one is an error."""
    function: Any = torch.autograd.Function
    tensor: Any = torch.Tensor
    engine: Any = torch.autograd
    apply, hook, run = function.__dict__["apply"], tensor.register_hook, engine._engine_run_backward
    here = threading.get_ident()

    def differentiate(outputs: Any, seeds: Any, retain: Any, create_graph: Any, *rest: Any, **how: Any) -> Any:
        """A derivative within a call. Export would differentiate it again, also if it is to be a constant."""
        if threading.get_ident() != here:
            return run(outputs, seeds, retain, create_graph, *rest, **how)
        if how.get("accumulate_grad"):
            raise make("derivative", "backward() within a call is not captured: torch.autograd.grad gives a value")
        found = run(outputs, seeds, retain, create_graph, *rest, **how)
        return found if create_graph else tuple(x if x is None else x.detach() for x in found)

    def refuse_hook(x: Any, f: Any) -> Any:
        if threading.get_ident() != here:
            return hook(x, f)
        raise make("derivative", "register_hook() on a tensor's gradient, which torch.export does not record")

    def refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
        library = cls.__name__.startswith("GeneratedBackwardFor_")  # an op of torch.library, which stays whole
        if library or threading.get_ident() != here:
            return apply.__get__(None, cls)(*args, **kwargs)
        text = f"{cls.__qualname__} is a torch.autograd.Function, whose derivative torch.export does not record"
        raise make("derivative", text + ": write it as a torch.library op, and give ag.torch.register() its counterpart")

    function.apply, tensor.register_hook = classmethod(refuse), refuse_hook
    engine._engine_run_backward = differentiate
    try:
        yield
    finally:
        function.apply, tensor.register_hook = apply, hook
        engine._engine_run_backward = run


@contextlib.contextmanager
def _in_less_time() -> Iterator[None]:
    """Torch prepares a capture for thirty namespaces of ops and ten kinds of devices, which takes longer than a small model
    itself: it finds its ops once, and prepares for CPUs."""
    exporting: Any = torch.export.exported_program
    changes: list[tuple[Any, str, Any]] = [(torch._export.utils, "_materialize_cpp_cia_ops", functools.cache)]
    for name in ("_AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE", "_BACKEND_KEYS_TO_OVERRIDE"):
        changes.append((exporting, name, lambda keys: [key for key in keys if re.search("CPU|Meta", str(key))]))
    with contextlib.ExitStack() as undo:
        for owner, name, change in changes:
            was = getattr(owner, name, None)
            if was is not None:
                setattr(owner, name, change(was))
                undo.callback(setattr, owner, name, was)
        yield


@contextlib.contextmanager
def _masks_as_given() -> Iterator[None]:
    """`nn.TransformerEncoder` and its decoder would look whether a mask's values are causal, which changes no result."""
    layers: Any = torch.nn.modules.transformer
    own = layers._detect_is_causal_mask
    layers._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        layers._detect_is_causal_mask = own


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """What torch is to do differently while it captures. Its errors become errors with the user's line."""
    checked = torch.distributions.Distribution._validate_args
    changes = _own_derivatives_refused(), kept_padded(), lines_of_functions(), _masks_as_given(), replaced(), _in_less_time()
    with warnings.catch_warnings(), contextlib.ExitStack() as undo:
        for change in changes:
            undo.enter_context(change)
        warnings.simplefilter("ignore")
        # Checks of values, some of which branch on them; a graph drops the others.
        torch.distributions.Distribution.set_default_validate_args(False)
        try:
            yield
        except Exception as e:
            raise failed(e) from e
        finally:
            torch.distributions.Distribution.set_default_validate_args(checked)
