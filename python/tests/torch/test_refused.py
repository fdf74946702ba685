"""What the bridge refuses, by name and line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import arenagrad as ag
import arenagrad.torch as agt


class Of(nn.Module):
    """A linear layer, then a function."""

    def __init__(self, f: Any) -> None:
        super().__init__()
        self.l = nn.Linear(4, 3)
        self.f = f

    def forward(self, x: torch.Tensor) -> Any:
        return self.f(self.l(x), x)


X, Y = torch.randn(5, 4), torch.randint(0, 3, (5,))


def compiled(f: Any, loss: Any = F.cross_entropy) -> Any:
    m = Of(f)
    return agt.compile_step(m, loss, torch.optim.SGD(m.parameters(), 0.1), X, Y)


def test_another_device() -> None:
    m = nn.Linear(4, 3, device="meta")
    with pytest.raises(ag.DataError, match="'weight' is on meta"):
        agt.compile_step(m, F.cross_entropy, ag.optim.Sgd(0.1), X, Y)


def test_complex_params() -> None:
    m = nn.Linear(4, 3, dtype=torch.complex64)
    with pytest.raises(ag.DataError, match="complex params"):
        agt.compile_step(m, F.cross_entropy, ag.optim.Sgd(0.1), X, Y)


def test_half_precision() -> None:
    m = nn.Linear(4, 3).half()
    with pytest.raises(ag.DataError, match="float16.*float()"):
        agt.compile_step(m, F.cross_entropy, ag.optim.Sgd(0.1), X.half(), Y)


@pytest.mark.parametrize(
    "f",
    [
        lambda z, x: z[z[:, 0] > 0].sum(),
        lambda z, x: z.nonzero().sum() + z.sum(),
        lambda z, x: z * torch.zeros(int(x.max().item())).sum(),
        lambda z, x: z.sum() if x.sum() > 0 else -z.sum(),
        lambda z, x: torch.masked_select(z, z > 0).sum(),
    ],
)
def test_shapes_and_branches_of_the_data(f: Any, capfd: Any) -> None:
    with pytest.raises(ag.Error, match=r"follows? from the data.*test_refused.py:\d+"):
        compiled(f, lambda out, y: out)
    assert "def forward" not in capfd.readouterr().err  # torch would print the whole graph


def test_writing_into_an_input() -> None:
    def f(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x.add_(1.0)
        return z

    with pytest.raises(ag.UsageError, match="in place"):
        compiled(f)


def test_a_param_without_a_gradient() -> None:
    m = nn.Sequential(nn.Linear(4, 3))
    m.add_module("idle", nn.Identity())
    m.idle.extra = nn.Parameter(torch.zeros(2))
    with pytest.raises(ag.DerivativeError, match=r"idle.extra.*requires_grad_.*test_refused.py:\d+"):
        agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), X, Y)


def test_a_param_behind_detach() -> None:
    with pytest.raises(ag.DerivativeError, match="l.weight"):
        compiled(lambda z, x: z.detach() + x[:, :3])


def test_an_optimizer_of_another_module() -> None:
    other = nn.Linear(2, 2)
    with pytest.raises(ag.UsageError, match="does not have"):
        agt.compile_step(nn.Linear(4, 3), F.cross_entropy, torch.optim.SGD(other.parameters(), 0.1), X, Y)


def test_an_optimizer_without_counterpart() -> None:
    m = nn.Linear(4, 3)
    with pytest.raises(ag.UsageError, match="LBFGS.*SGD"):
        agt.compile_step(m, F.cross_entropy, torch.optim.LBFGS(m.parameters()), X, Y)


def test_hooks_of_an_optimizer() -> None:
    m = nn.Linear(4, 3)
    o = torch.optim.SGD(m.parameters(), 0.1)
    o.register_step_post_hook(lambda *_: None)
    with pytest.raises(ag.UsageError, match="hooks on its steps"):
        agt.compile_step(m, F.cross_entropy, o, X, Y)


def test_eval_mode_warns() -> None:
    m = nn.Linear(4, 3).eval()
    with pytest.warns(UserWarning, match="eval mode"):
        agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), X, Y)


def test_a_loss_of_many_numbers() -> None:
    with pytest.raises(ag.ShapeError, match="one number"):
        compiled(lambda z, x: z, lambda out, y: out)


def test_kinds_without_counterpart_are_named_at_once_with_their_lines() -> None:
    def f(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        a = torch.special.i0e(z)
        b = torch.special.i1e(z)
        return a + b + torch.special.i0e(b)

    with pytest.raises(agt.UnmappedError, match="special_i0e") as raised:
        compiled(f)
    kinds = {r.kind: r for r in raised.value.refusals}
    assert set(kinds) == {"aten.special_i0e.default", "aten.special_i1e.default"}
    assert kinds["aten.special_i0e.default"].count == 2
    assert all("test_refused.py" in str(r.where) for r in raised.value.refusals)
    report = agt.report(Of(f), X)
    assert not report.complete
    assert len(report.refusals) == 2
    assert report.kinds["aten.linear.default"] == 1
    assert "special_i1e" in str(report)


def test_lines_are_those_of_losses_and_of_functions() -> None:
    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return helped(out)

    def helped(out: torch.Tensor) -> torch.Tensor:
        return torch.special.i0e(out).mean()

    first = helped.__code__.co_firstlineno
    m = nn.Linear(4, 3)
    with pytest.raises(agt.UnmappedError, match=rf"special_i0e.*test_refused.py:{first + 1}$"):
        agt.compile_step(m, loss, torch.optim.SGD(m.parameters(), 0.1), X, Y)


def test_derivatives_through_statistics_within_a_call() -> None:
    for norm in (nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4)):

        def steep(z: torch.Tensor, x: torch.Tensor, norm: Any = norm) -> torch.Tensor:
            x = x.clone().requires_grad_()
            return z * torch.autograd.grad(norm(x).sin().sum(), x, create_graph=True)[0].sum()

        with pytest.raises(ag.DerivativeError, match=r"within the call goes through native_\w+_norm.*test_refused.py:\d+$"):
            compiled(steep)


def test_calls_that_differentiate_have_one_size_and_no_params_from_elsewhere() -> None:
    net = nn.Linear(4, 3)
    own = list(net.parameters())

    def steep(x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(F.linear(x, *own).tanh().sum(), x, create_graph=True)[0].square().sum()

    how = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ag.UsageError, match="without sizes="):
        agt.compile_step(net, lambda out, x: out.sum() + steep(x), how, X, X, sizes={"rows": (1, 5)})
    with pytest.raises(ag.DerivativeError, match="'weight' is read from a list"):
        agt.compile_step(net, lambda out, x: out.sum() + steep(x), how, X, X)


def test_derivatives_of_ones_own() -> None:
    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.round()

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    with pytest.raises(ag.DerivativeError, match="Straight is a torch.autograd.Function"):
        compiled(lambda z, x: Straight.apply(z))


def test_hooks_on_gradients() -> None:
    m = nn.Linear(4, 3)
    m.weight.register_hook(lambda g: g * 2)
    with pytest.raises(ag.DerivativeError, match="hook"):
        agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), X, Y)


def test_no_grad_holds() -> None:
    def f(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w = z.exp()
        return z * w

    m = Of(f)
    before = m.l.weight.detach().clone()
    m(X).sum().backward()
    step = agt.compile_step(m, lambda out, y: out.sum(), torch.optim.SGD(m.parameters(), 1.0), X, Y)
    step(X, Y)
    step.sync()
    assert torch.allclose(before - m.l.weight.detach(), m.l.weight.grad, rtol=1e-4, atol=1e-5)


def test_calls_of_another_form() -> None:
    step = compiled(lambda z, x: z)
    with pytest.raises(ag.DataError, match=r"input \"input_0\" is f32\[5,4\]"):
        step(torch.randn(6, 4), Y)
    with pytest.raises(ag.DataError, match="2 values"):
        step(X)
    with pytest.raises(ag.DataError, match="float64"):
        step(X.double(), Y)
    with pytest.raises(ag.DataError, match="on meta"):
        step(X.to("meta"), Y)
    with pytest.raises(ag.Error, match="7"):
        step(X, torch.full((5,), 7))
