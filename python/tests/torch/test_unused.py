"""Params that the loss does not read: an error that names them, or left as they are, as torch's optimizers do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import arenagrad as ag
import arenagrad.torch as agt


class Encoder(nn.Module):
    """Gives a head's scores, and a pooler's, which the loss does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.pooler = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.body(x).tanh()
        return self.head(h), self.pooler(h).tanh()


X, Y = torch.randn(5, 4), torch.randint(0, 3, (5,))


def loss(out: Any, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out[0], y)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.1),
    "groups": lambda m: torch.optim.AdamW(
        [{"params": m.body.parameters()}, {"params": m.pooler.parameters(), "lr": 0.5}, {"params": m.head.parameters(), "lr": 0.02}], lr=0.01
    ),
}


def test_they_are_an_error_that_names_them() -> None:
    m = Encoder()
    with pytest.raises(ag.DerivativeError, match=r"pooler.weight, pooler.bias: .*unused='skip'"):
        agt.compile_step(m, loss, torch.optim.SGD(m.parameters(), 0.1), X, Y)
    with pytest.raises(ag.UsageError, match="unused is 'drop'; it may be 'error' or 'skip'"):
        agt.compile_step(m, loss, torch.optim.SGD(m.parameters(), 0.1), X, Y, unused="drop")


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_skipped_ones_stay_as_torch_leaves_them(name: str, share: bool) -> None:
    m = Encoder()
    own = copy.deepcopy(m)
    optimizer, theirs = OPTIMIZERS[name](m), OPTIMIZERS[name](own)
    step = agt.compile_step(m, loss, optimizer, X, Y, unused="skip", share=share)
    assert "pooler.weight" not in step.program.params
    for half in range(2):
        for _ in range(5):
            theirs.zero_grad()
            loss(own(X), Y).backward()
            theirs.step()
            step(X, Y)
        step.sync()
        for (key, p), q in zip(m.named_parameters(), own.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6, msg=key)
        assert m.pooler.weight not in optimizer.state
        assert set(optimizer.state) == {p for key, p in m.named_parameters() if "pooler" not in key}
        if not half:  # and on from torch's state
            step.sync_from()
    out = step.eval(X)
    torch.testing.assert_close(out[1], own(X)[1], rtol=1e-5, atol=1e-6)


def test_batches_of_several_sizes_and_an_optimizer_of_ours() -> None:
    m = Encoder()
    was = copy.deepcopy(m.pooler.state_dict())
    step = agt.compile_step(m, loss, ag.optim.AdamW(0.01), X, Y, unused="skip", sizes={"batch": (1, 8)})
    losses = [step(X[:n], Y[:n]) for n in (5, 3, 1, 5, 5)]
    assert losses[-1] < losses[0]
    step.sync()
    assert all(torch.equal(was[key], x) for key, x in m.pooler.state_dict().items())
