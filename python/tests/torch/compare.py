"""The compiled step beside torch's own."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import torch
from torch import nn

import arenagrad.torch as agt

torch.set_num_threads(1)

# torch's derivative of hardsigmoid has 1/6 as an f32, also for f64, and its fake quantisation computes in f32.
ROUGH = {"mobilenet": 1e-7, "fake_quantised": 1e-6}
# Rates at which ten steps neither diverge nor multiply the differences of rounding.
RATES = {"shapes_and_indices": 1e-4, "kept_statistics": 1e-3, "resnet18": 1e-5}


def without_draws(module: nn.Module) -> nn.Module:
    """The module with all probabilities of dropping 0."""
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) or type(part).__name__ in ("StochasticDepth", "DropPath"):
            for name in ("p", "drop_prob"):
                if hasattr(part, name):
                    setattr(part, name, 0.0)
        for name in ("dropout", "attention_dropout", "drop_rate"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def wide(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x


def gradients(module: nn.Module, args: tuple[Any, ...]) -> float:
    """The largest relative difference of a gradient in f64: that of one step of gradient descent with rate 1."""
    module, args = copy.deepcopy(module).double(), tuple(map(wide, args))
    own = copy.deepcopy(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = agt.compile_step(module, None, torch.optim.SGD(trained(module), lr=1.0), args)
    loss = step(*args)
    step.sync()
    theirs = own(*args)
    theirs.backward()
    worst = abs(loss - theirs.item()) / max(abs(loss), 1e-3)
    pairs = [(p, q) for p, q in zip(module.parameters(), own.parameters()) if q.requires_grad]
    assert all(bool(q.grad.isfinite().all()) for _, q in pairs)
    largest = max(float(q.grad.abs().max()) for _, q in pairs)
    for p, q in pairs:
        # A gradient that is 0 up to rounding, such as that of a bias before batch norm, is compared with the others.
        size = max(float(q.grad.abs().max()), 1e-4 * largest)
        assert bool(p.isfinite().all())
        worst = max(worst, float((q.detach() - p.detach() - q.grad).abs().max()) / size)
    return max(worst, _furthest(module, own))


def _furthest(mine: nn.Module, other: nn.Module) -> float:
    """The largest difference of the buffers."""
    pairs = zip(mine.buffers(), other.buffers())
    return max((float((x.double() - y.double()).abs().max()) for x, y in pairs), default=0.0)


def training(module: nn.Module, args: tuple[Any, ...], steps: int = 10, lr: float = 0.01) -> tuple[float, float, float]:
    """Differences in f32 after steps of gradient descent: of losses, of buffers, and of the output in eval mode.

    Buffers may instead be those of torch's steps in f64: torch's own in f32 are further from them than 1e-6 for some
    models and processors (2e-6 for the ResNet-18, where ours are 5e-7 away).
    """
    module = copy.deepcopy(module)
    own = copy.deepcopy(module)
    exact = copy.deepcopy(module)
    theirs = torch.optim.SGD(trained(own), lr=lr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = agt.compile_step(module, None, torch.optim.SGD(trained(module), lr=lr), args)
    losses = 0.0
    for _ in range(steps):
        theirs.zero_grad()
        loss = own(*args)
        loss.backward()
        theirs.step()
        given = step(*args)
        assert math.isfinite(given)
        losses = max(losses, abs(given - loss.item()) / max(abs(loss.item()), 1e-3))
    step.sync()
    buffers = _furthest(module, own)
    if buffers > 1e-6:
        exact.double()
        wider = torch.optim.SGD(trained(exact), lr=lr)
        for _ in range(steps):
            wider.zero_grad()
            exact(*map(wide, args)).backward()
            wider.step()
        buffers = min(buffers, _furthest(module, exact))
    # The same weights on both sides: what differs is the evaluation alone.
    was = module.training
    module.eval()
    expected = module(*args).detach()
    module.train(was)
    evals = float((step.eval(*args) - expected).abs().max()) / max(float(expected.abs().max()), 1e-3)
    return losses, buffers, evals
