"""Rows that a constant mask chooses."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.overrides import TorchFunctionMode

# What combines masks.
_OF_MASKS = frozenset("__invert__ __and__ __or__ __xor__ bitwise_not logical_not logical_and logical_or logical_xor".split())


class MasksKnown(TorchFunctionMode):
    """Indexes by a mask that is a constant, such as that of a graph's nodes to train on, by the places where it is true: of these,
    torch knows how many there are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(map(_known_mask, items)):
                with _in_values():
                    places = [x.nonzero(as_tuple=True) if _known_mask(x) else (x,) for x in items]
                args = (args[0], tuple(x for some in places for x in some))
        elif getattr(func, "__name__", "") in _OF_MASKS and all(map(_known_mask, args)):
            with _in_values():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _in_values() -> Iterator[None]:
    """Computes with the values of constants, and records nothing."""
    with disable_proxy_modes_tracing(), unset_fake_temporarily():
        yield


def _known_mask(x: Any) -> bool:
    return type(x) is torch.Tensor and x.dtype == torch.bool and x.ndim > 0 and not is_fake(x)
