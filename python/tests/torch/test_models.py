"""Gradients, training and evaluation of all models beside torch's own."""

from __future__ import annotations

import pytest
import torch
from compare import RATES, ROUGH, gradients, training
from outside_models import MODELS, RANDOM

import arenagrad.torch as agt

EXACT = [name for name in MODELS if name not in RANDOM]


@pytest.mark.parametrize("name", EXACT)
def test_gradients_are_torchs(name: str) -> None:
    torch.manual_seed(0)
    assert gradients(*MODELS[name]()) <= ROUGH.get(name, 1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_ten_steps_and_an_evaluation_are_torchs(name: str) -> None:
    torch.manual_seed(0)
    losses, buffers, evals = training(*MODELS[name](), lr=RATES.get(name, 0.01))
    assert losses <= 1e-5
    assert buffers <= 1e-6
    assert evals <= 1e-6


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_models_that_draw_learn(name: str) -> None:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    step = agt.compile_step(module, None, torch.optim.Adam(module.parameters(), lr=3e-3), args, seed=1)
    losses = [step(*args) for _ in range(150)]
    assert len(set(losses)) > 100
    assert sum(losses[-10:]) < 0.95 * sum(losses[:10])


def test_there_are_enough_models() -> None:
    assert len(MODELS) >= 40
