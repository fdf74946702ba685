"""`torch.compile(model, backend="arenagrad")`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
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


LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "batch norm without statistics": (lambda: torch.nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 6, 7)),
    "instance norm": (lambda: torch.nn.InstanceNorm2d(4, affine=True), (2, 4, 6, 7)),
    "average pool with ceil": (lambda: torch.nn.AvgPool2d(3, 2, 1, True, False), (2, 4, 6, 7)),
    "average pool of volumes": (lambda: torch.nn.AvgPool3d((2, 3, 2), 2, 1, divisor_override=3), (2, 4, 5, 6, 4)),
    "adaptive pool of volumes": (lambda: torch.nn.AdaptiveAvgPool3d((2, 3, 1)), (2, 4, 5, 6, 4)),
    "largest of volumes": (lambda: torch.nn.MaxPool3d(2, 1), (2, 4, 5, 6, 4)),
    "replicated edges": (lambda: torch.nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate"), (2, 4, 6, 7)),
    "reflected edges": (lambda: torch.nn.ReflectionPad3d(1), (1, 2, 3, 4, 3)),
    "circular edges": (lambda: torch.nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), (2, 4, 6, 7)),
    "convolution of volumes": (lambda: torch.nn.Conv3d(4, 8, (2, 3, 2), (1, 2, 2), (1, 0, 2), (2, 1, 1), 2), (2, 4, 5, 6, 4)),
    "much output padding": (lambda: torch.nn.ConvTranspose2d(4, 3, 3, 1, 1, 1, dilation=2), (2, 4, 6, 7)),
    "much output padding of volumes": (lambda: torch.nn.ConvTranspose3d(4, 3, 2, 1, 1, 1, dilation=2), (1, 4, 3, 4, 3)),
    "its transpose": (lambda: torch.nn.ConvTranspose3d(4, 8, (2, 3, 2), 2, 1, 1, 2), (2, 4, 5, 6, 4)),
}


def compare(ours: Any, theirs: Any, shape: tuple[int, ...]) -> None:
    """The result and all gradients beside torch's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, y = (v.double().requires_grad_() for v in [torch.randn(shape)] * 2)
    out, expected = torch.compile(ours, backend=arenagrad, dynamic=False, fullgraph=True)(x), theirs(y)
    weights = torch.linspace(0.5, 1.5, expected.numel(), dtype=torch.float64).reshape(expected.shape)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    assert torch.allclose(out, expected, rtol=1e-10, atol=1e-10)
    assert torch.allclose(x.grad, y.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    layer, shape = LAYERS[name]
    torch.manual_seed(0)
    ours = layer().double()
    theirs = copy.deepcopy(ours)
    compare(ours, theirs, shape)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(p.grad, q.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    f = lambda x: torch.cdist(x, x.flip(0) * 1.5 + 0.3, p=p)  # noqa: E731
    compare(f, f, (2, 3, 4))


def square(x: torch.Tensor) -> torch.Tensor:
    return x + 2 * torch.eye(4, dtype=x.dtype)


def solved_by_factors(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lu_solve(*torch.linalg.lu_factor(square(x)), x[..., :2], left=True, adjoint=True)


AT = torch.tensor([[0, 2, 1, 2], [5, 5, 3, 0], [4, 1, 1, 0]])
BAGS = torch.tensor([0, 2, 2, 9])
MASK = torch.tensor([[True, False, True], [False, True, True]])
PLACES = torch.linspace(-1.3, 1.2, 36, dtype=torch.float64)
# Each of one tensor: an adaptive pool, for instance, has windows of several sizes.
FUNCTIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "largest of a row's windows": (lambda x: F.adaptive_max_pool1d(x, 3), (2, 3, 7)),
    "largest of windows": (lambda x: F.adaptive_max_pool2d(x.round() + x - x.detach(), (3, 2)), (2, 3, 7, 5)),
    "largest of a volume's windows": (lambda x: F.adaptive_max_pool3d(x, (3, 2, 2)), (2, 3, 7, 5, 4)),
    "images at places": (lambda x: F.grid_sample(x, PLACES.reshape(2, 3, 3, 2) + x.mean(), align_corners=False), (2, 3, 5, 6)),
    "cubic images at places": (
        lambda x: F.grid_sample(x, PLACES.reshape(2, 3, 3, 2) + x.mean(), "bicubic", "reflection", align_corners=True),
        (2, 3, 5, 6),
    ),
    "nearest of images": (lambda x: F.grid_sample(x, PLACES.reshape(2, 3, 3, 2), "nearest", "border", align_corners=True), (2, 3, 5, 6)),
    "volumes at places": (lambda x: F.grid_sample(x, PLACES.reshape(2, 2, 3, 1, 3) + x.mean(), align_corners=False), (2, 3, 5, 6, 4)),
    "smooth halves": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), (2, 3, 5, 7)),
    "distances of pairs": (lambda x: F.pdist(x, 3.0), (5, 3)),
    "largest distances of pairs": (lambda x: F.pdist(x, float("inf")), (5, 3)),
    "sums of bags": (lambda x: F.embedding_bag(AT, x, mode="sum"), (6, 3)),
    "weighed bags": (lambda x: F.embedding_bag(AT, x, mode="sum", per_sample_weights=x[:3, :1].expand(3, 4).exp()), (6, 3)),
    "means of bags": (lambda x: F.embedding_bag(AT.flatten(), x, BAGS, mode="mean", padding_idx=2), (6, 3)),
    "largest of bags": (lambda x: F.embedding_bag(AT.flatten(), x, BAGS, mode="max"), (6, 3)),
    "elements by a mask": (lambda x: (x * 2).masked_scatter(MASK, x.flip(0).exp()), (2, 3)),
    "solutions": (lambda x: torch.linalg.solve(square(x), x[..., :2]), (2, 4, 4)),
    "solutions from the right": (lambda x: torch.linalg.solve(square(x), x[:, :3], left=False), (2, 4, 4)),
    "solutions of a transpose": (lambda x: torch.linalg.solve(square(x).mT, x[..., 0]), (2, 4, 4)),
    "inverses": (lambda x: torch.linalg.inv(square(x)), (2, 4, 4)),
    "determinants": (lambda x: torch.linalg.det(x), (2, 4, 4)),
    "determinants of a transpose": (lambda x: torch.linalg.det(square(x).mT), (2, 4, 4)),
    "logarithms of determinants": (lambda x: torch.linalg.slogdet(x)[1], (2, 4, 4)),
    "halves of a product": (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4, dtype=x.dtype)), (2, 4, 4)),
    "LU factors": (lambda x: torch.linalg.lu_factor(x)[0], (2, 4, 4)),
    "LU factors of zeros": (lambda x: torch.linalg.lu_factor_ex(x.tril())[0], (2, 3, 3)),
    "parts of LU": (lambda x: torch.cat(torch.linalg.lu(x)), (2, 4, 4)),
    "solutions by factors": (solved_by_factors, (2, 4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    f, shape = FUNCTIONS[name]
    compare(f, f, shape)


def test_pivots_are_those_of_torch() -> None:
    torch._dynamo.reset()
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    x[1] = torch.ones(5).diag().flip(0)
    x[1, 2] = 0.0  # singular
    got, expected = (f(x) for f in (torch.compile(torch.linalg.lu_factor_ex, backend=arenagrad), torch.linalg.lu_factor_ex))
    assert torch.equal(got.pivots, expected.pivots)
    assert torch.allclose(got.LU, expected.LU)
    assert torch.equal(got.info, expected.info) and expected.info[1] > 0


def test_what_is_not_mapped_is_named() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.special.i0e, backend=arenagrad)
    with pytest.raises(Exception, match="special_i0e") as raised:
        compiled(torch.randn(3))
    assert isinstance(raised.value.__cause__ or raised.value, Exception)
    assert agt.UnmappedError.__name__ in repr(raised.value) or "without counterpart" in str(raised.value)
