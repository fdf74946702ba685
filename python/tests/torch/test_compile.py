"""`torch.compile(model, backend="arenagrad")`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models import MODELS

import arenagrad.torch as agt
from arenagrad.torch._backend import arenagrad

NAMES = "mlp mlp_gelu_norm lenet resnet18 mobilenet unet gpt encoder vit swin gru lora two_towers conv1d_audio dqn".split()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_training_are_torchs(name: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, args = MODELS[name]()
    module = module.double()
    args = tuple(x.double() if x.dtype == torch.float32 else x for x in args)
    theirs = copy.deepcopy(module)
    compiled: Any = torch.compile(module, backend=arenagrad, dynamic=False)
    for _ in range(2):
        loss, expected = compiled(*args), theirs(*args)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
        loss.backward()
        expected.backward()
    largest = max(float(q.grad.abs().max()) for q in theirs.parameters() if q.grad is not None)
    for (key, p), q in zip(module.named_parameters(), theirs.named_parameters()):
        if q[1].grad is not None:
            assert torch.allclose(p.grad, q[1].grad, rtol=1e-7, atol=1e-9 * largest), key


def test_without_gradients_and_with_options() -> None:
    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU()).eval()
    compiled = torch.compile(net, backend=arenagrad, options={"threads": 2})
    x = torch.randn(5, 4)
    with torch.no_grad():
        assert torch.allclose(compiled(x), net(x), atol=1e-6)


def test_gradients_by_frequency() -> None:
    torch._dynamo.reset()
    theirs = torch.nn.Embedding(4, 3, scale_grad_by_freq=True)
    ours = copy.deepcopy(theirs)
    x = torch.tensor([[0, 2, 1], [2, 3, 1]])
    torch.compile(ours, backend=arenagrad, dynamic=False)(x).sum().backward()
    theirs(x).sum().backward()
    assert torch.allclose(ours.weight.grad, theirs.weight.grad)


def test_what_is_not_mapped_is_named() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.special.i0e, backend=arenagrad)
    with pytest.raises(Exception, match="special_i0e") as raised:
        compiled(torch.randn(3))
    assert isinstance(raised.value.__cause__ or raised.value, Exception)
    assert agt.UnmappedError.__name__ in repr(raised.value) or "without counterpart" in str(raised.value)
