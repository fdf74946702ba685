"""Kinds of linear algebra beside torch's."""

from __future__ import annotations

import copy

import pytest
import torch
from test_step import differences
from torch import nn
from torch.nn.utils import parametrizations

import arenagrad.torch as agt


class Reflected(nn.Module):
    """Products of Householder's reflections: two batches, each of 4×3, by `count` vectors."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.a, self.tau = nn.Linear(6, 24), nn.Linear(6, 2 * count)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.householder_product(self.a(x).view(2, 4, 3), self.tau(x).tanh().view(2, -1))


NETS = {
    "one reflection": lambda: Reflected(1),
    "three reflections": lambda: Reflected(3),
    "a wide layer": lambda: parametrizations.orthogonal(nn.Linear(6, 4)),
    "a tall layer": lambda: parametrizations.orthogonal(nn.Linear(6, 8)),
}


@pytest.mark.parametrize("name", NETS)
def test_householders_products(name: str) -> None:
    torch.manual_seed(0)
    ours = NETS[name]().double()
    theirs, x = copy.deepcopy(ours), torch.randn(6, dtype=torch.float64)
    a, b = (torch.optim.SGD(m.parameters(), 0.1) for m in (ours, theirs))

    def loss(out: torch.Tensor) -> torch.Tensor:
        return (out.flatten() * torch.linspace(0.1, 1.0, out.numel(), dtype=out.dtype)).sin().sum()

    step = agt.compile_step(ours, loss, a, x)
    for _ in range(3):
        b.zero_grad()
        value = loss(theirs(x))
        value.backward()
        b.step()
        assert step(x) == pytest.approx(value.item(), rel=1e-9)
    assert differences(ours, theirs) < 1e-9
