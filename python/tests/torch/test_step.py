"""Steps: optimisers, schedulers, state in both directions, frozen and tied params, evaluation."""

from __future__ import annotations

import copy
import linecache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import arenagrad as ag
import arenagrad.torch as agt


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(n: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(n, 6), torch.randint(0, 3, (n,))


OPTIMISERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "sgd nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "sgd maximize": lambda p: torch.optim.SGD(p, 0.01, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.99), weight_decay=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, 0.01),
    "radam": lambda p: torch.optim.RAdam(p, 0.01),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05, lr_decay=0.01),
    "adagrad with a start": lambda p: torch.optim.Adagrad(p, 0.05, initial_accumulator_value=0.2),
    "adadelta": lambda p: torch.optim.Adadelta(p),
}


def torch_steps(module: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor, n: int, scheduler: Any = None) -> list[float]:
    losses = []
    for _ in range(n):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def differences(a: nn.Module, b: nn.Module) -> float:
    return max(float((p.detach() - q.detach()).abs().max()) for p, q in zip(a.parameters(), b.parameters()))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_start_stop_and_go_on_in_torch(name: str) -> None:
    """Steps of torch, then of the program, then of torch again: as if all were torch's."""
    x, y = batch()
    x = x.double()
    ours, theirs = net().double(), net().double()
    a, b = OPTIMISERS[name](ours.parameters()), OPTIMISERS[name](theirs.parameters())
    torch_steps(ours, a, x, y, 3)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    got = [step(x, y) for _ in range(4)]
    step.sync()
    got += torch_steps(ours, a, x, y, 3)
    expected = torch_steps(theirs, b, x, y, 10)[3:]
    assert np.allclose(got, expected, rtol=1e-9, atol=0)
    assert differences(ours, theirs) < 1e-9


@pytest.mark.parametrize("how", [{}, {"share": False}, {"sizes": {"batch": (2, 8)}}])
@pytest.mark.parametrize("name", [*OPTIMISERS, "nadam of two betas"])
def test_params_may_be_trained_later_by_the_same_optimizer(name: str, how: Any) -> None:
    """First the head, then all, then all but the head's bias, then all again: each param has had its own number of updates."""
    x, y = batch()
    x = x.double()

    def run(compiled: bool) -> tuple[list[float], Any, Any]:
        m: Any = net().double()
        parts = [{"params": m[0].parameters()}, {"params": m[2].parameters(), "betas": (0.8, 0.99)}]
        o = torch.optim.NAdam(parts, 0.01) if name not in OPTIMISERS else OPTIMISERS[name](m.parameters())
        losses = []
        for layer, trains, n in ((m[0], False, 3), (m[0], True, 3), (m[2].bias, False, 2), (m[2].bias, True, 3)):
            layer.requires_grad_(trains)
            o.zero_grad()
            if compiled:
                step = agt.compile_step(m, F.cross_entropy, o, x, y, **how)
                losses += [step(x, y) for _ in range(n)]
                step.sync()
            else:
                losses += torch_steps(m, o, x, y, n)
        return losses + torch_steps(m, o, x, y, 2), m, o

    (got, ours, a), (expected, theirs, b) = run(True), run(False)
    assert np.allclose(got, expected, rtol=1e-9, atol=0)
    assert differences(ours, theirs) < 1e-9
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert list(a.state[p]) == list(b.state[q])
        for key, value in b.state[q].items():
            if value is not None:
                torch.testing.assert_close(torch.as_tensor(a.state[p][key]), torch.as_tensor(value), rtol=1e-6, atol=1e-12)


def test_one_example_may_stand_for_several_inputs() -> None:
    """As the first states of an LSTM, or rows that an autoencoder gives back. Steps and evaluations get others."""

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.LSTM(6, 3)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.r(x, (h, c))[0]

    torch.manual_seed(0)
    m, zeros = Lstm(), torch.zeros(1, 8, 3)
    step = agt.compile_step(m, F.mse_loss, torch.optim.SGD(m.parameters(), 0.1), (torch.zeros(1, 8, 6), zeros, zeros), zeros)
    x = torch.randn(1, 8, 6)
    h, c, y = (torch.randn(1, 8, 3) for _ in range(3))
    expected = F.mse_loss(m(x, h, c), y).item()
    torch.testing.assert_close(step.eval(x, h, h), m(x, h, h).detach())
    torch.testing.assert_close(step.eval(x, h, c), m(x, h, c).detach())
    assert step(x, h, c, y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_layers_of_transformers_take_masks(causal: bool) -> None:
    """As an input, whose values torch would look at to find a faster way."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, 0.0), 1)
            self.d = nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 8, 0.0), 1)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.d(x, self.e(x, mask), tgt_mask=mask)

    torch.manual_seed(0)
    m, x = Net(), torch.randn(4, 2, 6)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    given = mask if causal else torch.randn(4, 4)
    expected = F.mse_loss(m(x, given), x).item()
    step = agt.compile_step(m, F.mse_loss, torch.optim.SGD(m.parameters(), 0.1), (x, mask), x)
    assert step(x, given, x) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_fresh_optimisers_get_their_state(name: str) -> None:
    x, y = batch()
    ours, theirs = net(), net()
    a, b = OPTIMISERS[name](ours.parameters()), OPTIMISERS[name](theirs.parameters())
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for _ in range(3):
        step(x, y)
    step.sync()
    torch_steps(theirs, b, x, y, 3)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert list(a.state[p]) == list(b.state[q])
        for key, value in b.state[q].items():
            if value is None:
                assert a.state[p][key] is None
            else:
                assert torch.allclose(torch.as_tensor(a.state[p][key]), torch.as_tensor(value), rtol=1e-4, atol=1e-6), key


SPARSE: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05),
    "sparseadam": lambda p: torch.optim.SparseAdam(p, 0.01, betas=(0.8, 0.99)),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_embeddings_are_updated_by_rows(name: str) -> None:
    """Steps of torch, then of the program, then of torch again, on tables with sparse gradients."""
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Embedding(50, 4, sparse=True), nn.Flatten()).double()
    theirs = copy.deepcopy(ours)
    x, y = torch.randint(0, 50, (6, 2)), torch.randint(0, 8, (6,))
    a, b = SPARSE[name](ours.parameters()), SPARSE[name](theirs.parameters())
    torch_steps(ours, a, x, y, 2)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    got = [step(x, y) for _ in range(3)]
    step.sync()
    got += torch_steps(ours, a, x, y, 2)
    assert np.allclose(got, torch_steps(theirs, b, x, y, 7)[2:], rtol=1e-9, atol=0)
    assert differences(ours, theirs) < 1e-9


def test_groups_have_settings_of_their_own() -> None:
    x, y = batch()
    ours, theirs = net(), net()

    def optimizer(m: Any) -> Any:
        return torch.optim.AdamW(
            [{"params": m[0].parameters(), "weight_decay": 0.0}, {"params": m[2].parameters(), "lr": 3e-2, "betas": (0.5, 0.9)}],
            lr=1e-2,
        )

    a, b = optimizer(ours), optimizer(theirs)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    scheduler = torch.optim.lr_scheduler.StepLR(b, 2, 0.5)
    expected = torch_steps(theirs, b, x, y, 6, scheduler)
    own = torch.optim.lr_scheduler.StepLR(a, 2, 0.5)
    for loss in expected:
        assert step(x, y) == pytest.approx(loss, rel=1e-5)
        own.step()
    step.sync()
    assert differences(ours, theirs) < 1e-5


@pytest.mark.parametrize("of", [lambda i: (1 + i) / 4, lambda i: 1.0 / (1 + i), lambda i: i])
@pytest.mark.parametrize("sizes", [None, {"batch": (2, 8)}])
def test_groups_have_rates_of_their_own(of: Any, sizes: Any) -> None:
    """Each group has its schedule: the last of them begins at 0, or falls while the first one rises."""
    x, y = batch()
    ours, theirs = net().double(), net().double()
    x = x.double()

    def both(m: Any) -> Any:
        o = torch.optim.Adam([{"params": m[0].weight}, {"params": m[0].bias, "lr": 0.1}, {"params": m[2].parameters()}], lr=0.02)
        return o, torch.optim.lr_scheduler.LambdaLR(o, [lambda i: (1 + i) / 4, lambda i: 0.5**i, of])

    (a, mine), (b, scheduler) = both(ours), both(theirs)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y, sizes=sizes)
    expected = torch_steps(theirs, b, x, y, 6, scheduler)
    for loss in expected:
        assert step(x, y) == pytest.approx(loss, rel=1e-9)
        mine.step()
    step.sync()
    assert differences(ours, theirs) < 1e-9


def test_a_group_may_be_frozen_and_a_rate_be_changed_by_hand() -> None:
    x, y = batch()
    m: Any = net()
    m[0].requires_grad_(False)
    o = torch.optim.SGD([{"params": m[0].parameters()}, {"params": m[2].parameters(), "lr": 0.2}], lr=0.1)
    step = agt.compile_step(m, F.cross_entropy, o, x, y)
    first = step(x, y)
    o.param_groups[1]["lr"] = 0.0
    assert step(x, y) < first
    assert step(x, y) == step(x, y)


def test_schedulers_drive_the_rate() -> None:
    x, y = batch()
    ours, theirs = net(), net()
    a, b = torch.optim.SGD(ours.parameters(), 0.5), torch.optim.SGD(theirs.parameters(), 0.5)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    mine = torch.optim.lr_scheduler.CosineAnnealingLR(a, 8)
    expected = torch_steps(theirs, b, x, y, 8, torch.optim.lr_scheduler.CosineAnnealingLR(b, 8))
    for loss in expected:
        assert step(x, y) == pytest.approx(loss, rel=1e-5)
        mine.step()


def test_an_optimiser_of_ours() -> None:
    x, y = batch()
    m = net()
    step = agt.compile_step(m, F.cross_entropy, ag.optim.AdamW(1e-2, clip_norm=1.0), x, y)
    first = step(x, y)
    step.set_rate(0.0)
    second = step(x, y)
    assert second < first
    assert step(x, y) == second
    step.sync()
    assert F.cross_entropy(m(x), y).item() == pytest.approx(second, rel=1e-5)


def test_tied_params_are_one() -> None:
    torch.manual_seed(0)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.e.weight

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.head(self.e(i))

    ours = Tied()
    theirs = copy.deepcopy(ours)
    i, y = torch.randint(0, 7, (5,)), torch.randint(0, 7, (5,))
    a, b = torch.optim.SGD(ours.parameters(), 0.1), torch.optim.SGD(theirs.parameters(), 0.1)
    step = agt.compile_step(ours, F.cross_entropy, a, i, y)
    assert list(step.program.params) == ["e.weight"]
    for _ in range(3):
        b.zero_grad()
        F.cross_entropy(theirs(i), y).backward()
        b.step()
        step(i, y)
    step.sync()
    assert ours.head.weight is ours.e.weight
    assert differences(ours, theirs) < 1e-6


def test_frozen_params_and_those_without_an_optimizer_stay() -> None:
    x, y = batch()
    m: Any = net()
    m[0].weight.requires_grad_(False)
    before = {k: v.clone() for k, v in m.state_dict().items()}
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m[2].parameters(), 0.1), x, y)
    step(x, y)
    step.sync()
    changed = {k for k, v in m.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"2.weight", "2.bias"}


def test_weights_of_the_module_are_read_again() -> None:
    x, y = batch()
    m = net()
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.0), x, y)
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(2.0)
    step.sync_from()
    assert step(x, y) == pytest.approx(F.cross_entropy(m(x), y).item(), rel=1e-5)


def test_batch_norm_learns_statistics_and_uses_them_in_eval() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, momentum=0.3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    theirs = copy.deepcopy(ours)
    x, y = torch.randn(5, 2, 6, 6), torch.randint(0, 3, (5,))
    a, b = torch.optim.SGD(ours.parameters(), 0.01), torch.optim.SGD(theirs.parameters(), 0.01)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for _ in range(4):
        step(x, y)
    torch_steps(theirs, b, x, y, 4)
    other = torch.randn(3, 2, 6, 6)
    given = step.eval(other)
    step.sync()
    for (name, p), q in zip(ours.named_buffers(), theirs.buffers()):
        assert torch.allclose(p, q, rtol=1e-6, atol=1e-6), name
    assert ours[1].num_batches_tracked == 4
    assert torch.allclose(given, theirs.eval()(other), rtol=1e-5, atol=1e-6)
    assert ours.training


def test_dropout_is_off_in_eval() -> None:
    x, y = batch()
    m = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 3))
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.0), x, y)
    assert len({step(x, y) for _ in range(5)}) == 5
    assert torch.allclose(step.eval(x), m.eval()(x), atol=1e-6)


def test_tensors_of_any_strides_and_keyword_arguments() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(6, 3)

        def forward(self, *, x: torch.Tensor, labels: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
            return {"loss": F.cross_entropy(self.l(x) * scale, labels)}

    x, y = batch()
    m = Net()
    how = {"x": x.t().contiguous().t(), "labels": y, "scale": 2.0}
    step = agt.compile_step(m, lambda out: out["loss"], torch.optim.SGD(m.parameters(), 0.1), (), example_kwargs=how)
    expected = m(**how)["loss"].item()
    assert step(**how) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ag.DataError, match="compiled for 2.0"):
        step(**{**how, "scale": 3.0})


def test_ops_of_others_are_registered() -> None:
    @torch.library.custom_op("ag_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    scaled.register_autograd(lambda ctx, g: (g * 3.0, None))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scaled(self.l(x), 3.0)

    x, y = batch()
    m = Net()
    o = torch.optim.SGD(m.parameters(), 0.1)
    with pytest.raises(agt.UnmappedError, match="ag_test.scaled"):
        agt.compile_step(m, F.cross_entropy, o, x, y)
    agt.register("ag_test::scaled", lambda site, x, by: x * by)
    expected = F.cross_entropy(m(x), y).item()
    assert agt.compile_step(m, F.cross_entropy, o, x, y)(x, y) == pytest.approx(expected, rel=1e-5)


def test_nodes_have_the_lines_of_the_model() -> None:
    x, y = batch()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.l(x).exp()

    m = Net()
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), x, y)
    assert "test_step.py" in str(step.graph) or "test_step.py" in str(step.program.plan.to_dict())
    assert step.report.kinds["aten.exp.default"] == 1


def test_batches_of_several_sizes() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Conv1d(2, 4, 3, bias=False), nn.BatchNorm1d(4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))
    theirs = copy.deepcopy(ours)
    a, b = torch.optim.Adam(ours.parameters(), 1e-2), torch.optim.Adam(theirs.parameters(), 1e-2)
    x, y = torch.randn(8, 2, 6), torch.randint(0, 3, (8,))
    step = agt.compile_step(ours, F.cross_entropy, a, x, y, sizes={"batch": (1, 8)})
    for n in (8, 5, 8, 1, 3):
        expected = torch_steps(theirs, b, x[:n], y[:n], 1)[0]
        assert step(x[:n], y[:n]) == pytest.approx(expected, rel=1e-4)
    step.sync()
    assert differences(ours, theirs) < 1e-4
    assert torch.allclose(ours[1].running_var, theirs[1].running_var, rtol=1e-4)
    assert step.eval(x[:2]).shape == (2, 3)
    with pytest.raises(ag.DataError, match="from 1 to 8"):
        step(torch.randn(9, 2, 6), torch.randint(0, 3, (9,)))
    with pytest.raises(ag.UsageError, match="examples have 8"):
        agt.compile_step(ours, F.cross_entropy, a, x, y, sizes={"batch": (1, 4)})


def test_attention_over_batches_of_several_sizes() -> None:
    from models import MODELS

    module, args = MODELS["gpt"]()
    module = module.double()
    step = agt.compile_step(module, None, torch.optim.SGD(module.parameters(), 0.0), args, sizes={"batch": (2, 6)})
    for n in (4, 2, 3):
        part = tuple(x[:n] for x in args)
        assert step(*part) == pytest.approx(module(*part).item(), rel=1e-9)


class Wrapped(nn.Module):
    """A child has the name that the step itself gives the module."""

    def __init__(self) -> None:
        super().__init__()
        self.module = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.module(x)
        return result


def test_a_child_called_module_is_evaluated_on_the_weights_of_the_step() -> None:
    model, (x, y) = Wrapped(), batch()
    step = agt.compile_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), 1.0), x, y, share=False)
    for _ in range(3):
        step(x, y)
    found = step.eval(x)
    assert (found - model(x)).abs().max() > 0.1
    step.sync()
    torch.testing.assert_close(found, model(x).detach())


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0, 2.0**17])
def test_exponentials_of_matrices_of_all_sizes(size: float) -> None:
    """Skew ones, whose exponentials are rotations; beyond 2¹⁶ the result is NaN, not a wrong number."""

    class Turn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.randn(2, 5, 5, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            skew = (self.a - self.a.mT) / torch.linalg.matrix_norm(self.a.detach() - self.a.detach().mT, 1)[:, None, None]
            return torch.linalg.matrix_exp(skew * size) @ x

    torch.manual_seed(0)
    m, x = Turn(), torch.randn(5, 1, dtype=torch.float64)
    own = copy.deepcopy(m)
    step = agt.compile_step(m, lambda y: y.square()[:, 0].sum(), torch.optim.SGD(m.parameters(), 1.0), x)
    loss = step(x)
    if size > 2.0**16:
        assert np.isnan(loss)
        return
    step.sync()
    theirs = own(x).square()[:, 0].sum()
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-10)
    torch.testing.assert_close(own.a.detach() - m.a.detach(), own.a.grad, rtol=1e-9, atol=1e-9 * max(size, 1.0))


def test_an_input_may_have_no_axes() -> None:
    ours, theirs, (x, y) = net(), net(), batch()
    a, b = (torch.optim.SGD(m.parameters(), 0.1) for m in (ours, theirs))
    step = agt.compile_step(ours, lambda out, y, by: F.cross_entropy(out * by, y), a, x, (y, torch.tensor(2.0)))
    for by in (torch.tensor(0.5), torch.tensor(3.0)):
        b.zero_grad()
        loss = F.cross_entropy(theirs(x) * by, y)
        loss.backward()
        b.step()
        assert step(x, y, by) == pytest.approx(loss.item(), rel=1e-5)


CYCLES: dict[str, Any] = {
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, [0.05, 0.1], total_steps=8),
    "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, [0.01, 0.02], [0.1, 0.05], step_size_up=3),
}


@pytest.mark.parametrize("rule", ["sgd nesterov", "sgd momentum", "adam", "adamw", "amsgrad"])
@pytest.mark.parametrize("name", CYCLES)
def test_schedulers_may_move_momentum(name: str, rule: str) -> None:
    x, y = batch()
    x = x.double()
    ours, theirs = net().double(), net().double()

    def groups(m: Any) -> list[dict[str, Any]]:
        return [{"params": m[0].parameters()}, {"params": m[2].parameters()}]

    a, b = (OPTIMISERS[rule](groups(m)) for m in (ours, theirs))
    ups, downs = CYCLES[name](a), CYCLES[name](b)
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    got = []
    for _ in range(6):
        got.append(step(x, y))
        ups.step()
    expected = torch_steps(theirs, b, x, y, 6, downs)
    assert np.allclose(got, expected, rtol=1e-9, atol=0)
    assert differences(ours, theirs) < 1e-9


def test_momentum_moves_by_schedulers_alone() -> None:
    x, y = batch()
    m = net()
    o = torch.optim.Adam(m.parameters(), 0.1)
    step = agt.compile_step(m, F.cross_entropy, o, x, y)
    torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=8)
    with pytest.raises(ag.UsageError, match="is to be made before the step"):
        step(x, y)
    step = agt.compile_step(m, F.cross_entropy, o, x, y)
    step(x, y)
    o.param_groups[0]["betas"] = (0.9, 0.5)
    with pytest.raises(ag.UsageError, match="betas of the optimizer's group 0 was 0.999, and is 0.5 now"):
        step(x, y)
    o = torch.optim.RMSprop(m.parameters(), 0.1, momentum=0.9)
    torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=8)
    with pytest.raises(ag.DataError, match="no momentum that moves"):
        agt.compile_step(m, F.cross_entropy, o, x, y)


def test_captures_leave_nothing_behind() -> None:
    """Torch keeps the text of each graph that it makes, which adds up where many steps are made."""
    x, y = batch()

    def made() -> None:
        module = net()
        agt.compile_step(module, F.cross_entropy, torch.optim.SGD(module.parameters(), 0.1), (x,), (y,)).eval(x)

    made()
    texts = len(linecache.cache)
    made()
    assert len(linecache.cache) == texts
