"""Modules of torch as compiled steps.

`step = arenagrad.torch.compile_step(module, loss, optimizer, inputs, targets)` turns forward, backward and update of a
module into one planned program, in whose memory module and optimizer have their tensors; `step(x, y)` runs it.

`pip install "arenagrad[torch]"` brings torch; `import arenagrad` does not import it.
"""

from __future__ import annotations

from typing import Any, Mapping

import torch as _torch

from .._arenagrad import Optimiser
from . import losses
from ._graph import Refusal, UnmappedError
from ._kinds import Site, register
from ._report import Report, report
from ._step import Step

__all__ = ["Refusal", "Report", "Site", "Step", "UnmappedError", "compile_step", "losses", "register", "report"]


def compile_step(
    module: _torch.nn.Module,
    loss: Any,
    optimizer: _torch.optim.Optimizer | Optimiser,
    example_inputs: Any,
    example_targets: Any = (),
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    seed: int = 0,
    threads: int = 1,
    max_memory: int | str | None = None,
    precision: str = "f32",
    convolutions: str = "direct",
    keep: str | None = None,
    find_nan: bool = False,
    share: bool | None = None,
    unused: str = "error",
) -> Step:
    """A module, its loss and its optimizer as one step.

    * `loss(output, *targets)` gives one number; `None` if the module itself gives the loss.
    * `optimizer` is one of torch, whose settings, groups, rates and state are taken over, or one of `arenagrad.optim`.
    * `example_inputs`, `example_targets` and `example_kwargs` fix the shapes of what the step takes.
    * `sizes={"batch": (1, 64)}`: the first axis of all tensors is called so, and its size varies within these bounds.
    * `share=True`, the default unless there are `sizes`, keeps weights once: the tensors of the module and of the optimizer's
      state lie in the program. Each step changes them, and reads what torch has written into them. With `share=False` the
      step has its own, which `sync()` writes into module and optimizer, and `sync_from()` reads.
    * A param that the loss does not read, such as a pooler's, is an error; with `unused="skip"` it stays as it is, without
      weight decay, as torch's optimizers leave a param without a gradient.
    * `seed` is that of dropout; the other choices are those of `arenagrad.compile`.

    A kind without counterpart is an `UnmappedError`, which names all of them with their lines.
    """
    choices = {
        "threads": threads,
        "max_memory": max_memory,
        "precision": precision,
        "convolutions": convolutions,
        "keep": keep,
        "find_nan": find_nan,
    }

    def values(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, (tuple, list)) else (x,)

    inputs, targets = values(example_inputs), values(example_targets)
    return Step(module, loss, optimizer, inputs, targets, example_kwargs or {}, seed, sizes, share, unused, choices)
