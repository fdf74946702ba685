"""Kinds beside torch in f64: values, gradients by steps, and evaluation."""

from __future__ import annotations

import copy
from typing import Any, Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import arenagrad as ag
import arenagrad.torch as agt


class Of(nn.Module):
    """A function of the input times a param."""

    def __init__(self, f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
        super().__init__()
        self.f = f
        self.w = nn.Parameter(torch.ones_like(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(x * self.w)


def weighed(y: torch.Tensor) -> torch.Tensor:
    return (y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)).sum()


def check(m: nn.Module, x: torch.Tensor, tolerance: float = 1e-10) -> None:
    """Three steps and an evaluation beside torch's."""
    theirs = copy.deepcopy(m)
    a, b = (torch.optim.SGD(n.parameters(), 0.01) for n in (m, theirs))
    step = agt.compile_step(m, weighed, a, x)
    for _ in range(3):
        b.zero_grad()
        loss = weighed(theirs(x))
        loss.backward()
        b.step()
        assert step(x) == pytest.approx(loss.item(), rel=tolerance, abs=tolerance)
    for (name, p), q in zip(m.state_dict().items(), theirs.state_dict().values()):
        assert torch.allclose(p, q, rtol=tolerance, atol=tolerance), name
    assert torch.allclose(step.eval(x), theirs.eval()(x).detach(), rtol=tolerance, atol=tolerance)


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "variance by a fraction": (lambda x: x.var(0, correction=0.5), (5, 4)),
    "deviation by a fraction": (lambda x: x.std(0, correction=1.5), (5, 4)),
    "cosines below the bound": (lambda x: F.cosine_similarity(x * 1e-3, x.roll(1, 0) * 2e-3 + 0.1, dim=0, eps=0.1), (5, 4)),
    "cosines of other shapes": (lambda x: F.cosine_similarity(x, x[0] + 0.3, dim=0), (5, 4)),
    "sizes of fractions": (lambda x: F.interpolate(x, scale_factor=(0.7, 2.3), mode="bilinear"), (2, 3, 5, 7)),
    "bicubic sizes of fractions": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), (2, 3, 5, 7)),
    "antialias": (lambda x: F.interpolate(x, size=(2, 9), mode="bicubic", antialias=True), (2, 3, 5, 7)),
    "pseudoinverse": (torch.linalg.pinv, (2, 3, 4)),
    "pseudoinverse by a bound": (lambda x: torch.linalg.pinv(x, rtol=0.3), (5, 4)),
    "least squares": (lambda x: torch.linalg.lstsq(x, torch.ones(5, 2, dtype=x.dtype)).solution, (5, 4)),
    "LU factors": (lambda x: torch.linalg.lu_factor(x)[0], (2, 4, 4)),
    "parts of LU": (lambda x: torch.cat(torch.linalg.lu(x)), (2, 4, 4)),
    "solutions by LU": (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x[:, :2], left=False), (2, 4, 4)),
    "volumes at places": (
        lambda x: F.grid_sample(x, torch.linspace(-1.3, 1.2, 36, dtype=x.dtype).reshape(2, 2, 3, 1, 3) + x.mean(), align_corners=False),
        (2, 3, 5, 6, 4),
    ),
    "covariance": (lambda x: torch.cov(x), (3, 4)),
    "correlations": (lambda x: x.corrcoef(), (3, 4)),
    "diagonal": (lambda x: x.diagonal_scatter(x.diagonal(1).sin(), 1), (4, 5)),
    "polar": (lambda x: torch.view_as_real(torch.polar(x.abs() + 0.1, x)), (3,)),
    "order of a number": (lambda x: x.sum().sort().values, (3,)),
    "slope of a number": (lambda x: F.prelu(x.sum(), torch.tensor([0.3], dtype=x.dtype)), (3,)),
    "distances of many points": (lambda x: torch.cdist(x, x).amax(1), (30, 4)),
    "distances of many points from others": (lambda x: torch.cdist(x[:14] * 2, x[2:]), (30, 4)),
    "a large unit matrix": (lambda x: x + torch.eye(300, dtype=x.dtype)[:5, :4], (5, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    f, shape = FUNCTIONS[name]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    check(Of(f, x), x)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch norm of all batches": (lambda: nn.BatchNorm1d(3, momentum=None), (5, 3)),
    "instance norm with statistics": (lambda: nn.InstanceNorm1d(3, momentum=0.3, affine=True, track_running_stats=True), (2, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    layer, shape = LAYERS[name]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    check(nn.Sequential(Of(torch.sin, x), layer()).double(), x)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_lstms_with_a_projection(both: bool, given: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.LSTM(4, 5, 2, given, batch_first=True, bidirectional=both, proj_size=3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            runs = 4 if both else 2
            starts = [torch.linspace(-1, 1, runs * 3 * n, dtype=x.dtype).reshape(runs, 3, n) for n in (3, 5)]
            y, (h, c) = self.r(x, tuple(starts) if given else None)
            return torch.cat([y.flatten(), h.flatten(), c.flatten()])

    torch.manual_seed(0)
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    check(Net().double(), x)


def test_distances_to_a_nan_are_nan() -> None:
    x = torch.zeros(30, 3)
    x[4, 1] = float("nan")
    m = Of(lambda x: torch.cdist(x, x), x)
    step = agt.compile_step(m, weighed, torch.optim.SGD(m.parameters(), 0.1), x)
    assert torch.equal(step.eval(x).isnan(), torch.cdist(x, x).isnan()) and step(x) != step(x)


def test_evaluations_tell_numbers_by_their_types() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor, k: float = 1) -> torch.Tensor:
            return x * self.w * (k if isinstance(k, float) else 10 * k)

    m, x = Net(), torch.ones(2)
    step = agt.compile_step(m, torch.sum, torch.optim.SGD(m.parameters(), 0.0), x)
    assert [step.eval(x, k)[0].item() for k in (1, 1.0, 2.0, 1)] == [10.0, 1.0, 2.0, 10.0]


@pytest.mark.parametrize("share", [False, True])
def test_a_buffer_that_is_none_is_refused_in_each_evaluation(share: bool) -> None:
    m, x = nn.BatchNorm1d(3), torch.randn(5, 3)
    step = agt.compile_step(m, weighed, torch.optim.SGD(m.parameters(), 0.1), x, share=share)
    step.eval(x)
    m.running_mean = None
    for _ in range(2):
        with pytest.raises(ag.UsageError, match="buffer 'running_mean' is no tensor now"):
            step.eval(x)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_bags_of_several_sizes(mode: str, dtype: torch.dtype) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(9, 3, mode=mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bag(x, torch.tensor([0, 0, 4, 5, 8], dtype=dtype))

    torch.manual_seed(0)
    check(Net().double(), torch.tensor([3, 1, 1, 0, 8, 2, 3, 7], dtype=dtype))


def test_gradients_by_frequency() -> None:
    torch.manual_seed(0)
    m = nn.Embedding(4, 3, padding_idx=1, scale_grad_by_freq=True).double()
    check(m, torch.tensor([[0, 2, 1], [2, 3, 1]]))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_pixel_is_that_of_torch(mode: str) -> None:
    """Of 26 pixels to 22, a rounding of torch's decides."""
    pairs = [(26, 22), (28, 46), (4, 41), (30, 53), (5, 10)]
    x = torch.arange(60.0).reshape(1, 1, 60)
    m = Of(lambda x: torch.cat([F.interpolate(x[..., :n], size=k, mode=mode) for n, k in pairs], -1), x)
    step = agt.compile_step(m, torch.sum, torch.optim.SGD(m.parameters(), 0.0), x)
    assert torch.equal(step.eval(x), m(x).detach())


WINDOWS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, dict[str, Any]]] = {
    "conv1d": ((2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    "conv2d": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": 2}),
    "conv3d": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": 1}),
    "conv_transpose1d": ((2, 4, 5), (4, 3, 3), {"stride": 2, "output_padding": 1}),
    "conv_transpose2d": ((2, 4, 5, 4), (4, 2, 3, 3), {"stride": (2, 1), "padding": 1, "groups": 2}),
    "conv_transpose3d": ((1, 2, 3, 4, 3), (2, 3, 2, 2, 3), {"stride": 2}),
    "max_pool1d": ((2, 3, 9), None, {"stride": 1}),
    "max_pool2d": ((2, 3, 9, 8), None, {"padding": 1, "ceil_mode": True}),
    "max_pool3d": ((1, 2, 6, 6, 7), None, {"stride": (2, 1, 2), "dilation": (1, 2, 1)}),
    "avg_pool1d": ((2, 3, 9), None, {}),
    "avg_pool2d": ((2, 3, 9, 8), None, {"padding": 1, "count_include_pad": False}),
    "avg_pool3d": ((1, 2, 6, 6, 7), None, {"stride": 1, "divisor_override": 3}),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("options", [False, True])
def test_windows_are_methods_with_torchs_options(name: str, options: bool) -> None:
    size, weight, given = WINDOWS[name]
    given = given if options else {"groups": given["groups"]} if "groups" in given else {}
    x = torch.randn(size, dtype=torch.float64)
    w = 2 if weight is None else torch.randn(weight, dtype=torch.float64)
    with ag.build("windows") as b:
        other = w if weight is None else b.input("w", weight, "f64")
        b.output("y", getattr(b.input("x", size, "f64"), name)(other, **given))
    program = ag.compile(b.graph)
    ours = program.step(x=x.numpy()) if weight is None else program.step(x=x.numpy(), w=w.numpy())
    theirs = getattr(F, name)(x, w, **given)
    np.testing.assert_allclose(ours["y"], theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools_without_a_counterpart_in_torch_have_the_same_options(n: int) -> None:
    with ag.build("pools") as b:
        x = b.input("x", (2, 3, *(6, 7, 8)[:n]), "f64")
        b.output("low", getattr(x, f"min_pool{n}d")(3, 2, padding=1) + getattr(-x, f"max_pool{n}d")(3, 2, padding=1))
        b.output("sum", getattr(x, f"sum_pool{n}d")(2) - getattr(x, f"avg_pool{n}d")(2) * 2.0**n)
    got = ag.compile(b.graph).step(x=np.random.default_rng(0).standard_normal((2, 3, *(6, 7, 8)[:n])))
    assert not got["low"].any() and abs(got["sum"]).max() < 1e-14
