"""Steps and torch have one memory: what either writes, the other reads."""

from __future__ import annotations

import copy
import io
import threading
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from test_held import Of, X, Y, furthest, sgd, torch_step
from test_step import OPTIMISERS, SPARSE, batch, differences, net, torch_steps
from torch import nn

import arenagrad as ag
import arenagrad.torch as agt


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_of_both_take_turns(name: str) -> None:
    """Nothing is synced; module, state and numbers of steps are torch's at all times."""
    x, y = batch()
    x = x.double()
    ours, theirs = net().double(), net().double()
    a, b = OPTIMISERS[name](ours.parameters()), OPTIMISERS[name](theirs.parameters())
    params = list(ours.parameters())
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for n in (1, 2, 3):
        got = [step(x, y) for _ in range(n)] + torch_steps(ours, a, x, y, n)
        assert got == pytest.approx(torch_steps(theirs, b, x, y, 2 * n), rel=1e-9)
        assert differences(ours, theirs) < 1e-9
        for p, q in zip(ours.parameters(), theirs.parameters()):
            assert a.state[p].keys() == b.state[q].keys()
            for key, value in b.state[q].items():
                assert value is None or torch.allclose(torch.as_tensor(a.state[p][key]), torch.as_tensor(value), rtol=1e-6)
    assert all(p is q for p, q in zip(params, ours.parameters()))


@pytest.mark.parametrize("name", SPARSE)
def test_tables_with_sparse_gradients_take_turns(name: str) -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Embedding(50, 4, sparse=True), nn.Flatten()).double()
    theirs = copy.deepcopy(ours)
    x, y = torch.randint(0, 50, (6, 2)), torch.randint(0, 8, (6,))
    a, b = SPARSE[name](ours.parameters()), SPARSE[name](theirs.parameters())
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for _ in range(3):
        got = [step(x, y)] + torch_steps(ours, a, x, y, 1)
        assert got == pytest.approx(torch_steps(theirs, b, x, y, 2), rel=1e-9)


def emptied(o: Any) -> None:
    o.state = defaultdict(dict)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "in place": lambda m, o: nn.init.constant_(m.l.weight, 0.1),
    "data in place": lambda m, o: m.l.bias.data.clamp_(-0.01, 0.01),
    "a buffer": lambda m, o: m.mean.fill_(2.0),
    "other memory": lambda m, o: setattr(m.l.weight, "data", torch.full((3, 6), 0.5)),
    "another buffer": lambda m, o: setattr(m, "mean", torch.full((3,), 3.0)),
    "a call": lambda m, o: m(X),
    "there and back": lambda m, o: m.half().float(),
    "a layout": lambda m, o: setattr(m.l.weight, "data", m.l.weight.data.t().contiguous().t()),
    "a file": lambda m, o: m.load_state_dict({k: v + 0.1 for k, v in m.state_dict().items() if k != "order"}, strict=False),
    "state in place": lambda m, o: o.state[m.l.bias]["exp_avg"].zero_(),
    "state of a file": lambda m, o: o.load_state_dict(copy.deepcopy(o.state_dict())),
    "another tensor of the state": lambda m, o: o.state[m.l.bias].update(exp_avg=torch.ones(3)),
    "no state": lambda m, o: emptied(o),
    "cleared state": lambda m, o: o.state.clear(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_torch_writes_is_read(name: str) -> None:
    def moves(self: Any, h: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return h + self.mean

    ours, theirs = Of(moves), Of(moves)
    a, b = (torch.optim.AdamW(m.parameters(), 0.05) for m in (ours, theirs))
    step = agt.compile_step(ours, F.cross_entropy, a, X, Y)
    for _ in range(2):
        for _ in range(2):
            assert step(X, Y) == pytest.approx(torch_step(theirs, b), rel=1e-5)
            assert furthest(ours, theirs) < 1e-5
        assert a.state[ours.l.weight]["step"] == b.state[theirs.l.weight]["step"]
        torch.testing.assert_close(step.eval(X), copy.deepcopy(ours).eval()(X).detach())
        CHANGES[name](ours, a)
        CHANGES[name](theirs, b)


def test_sync_takes_the_values_of_the_step() -> None:
    m, other = Of(), Of()
    a, b = sgd(m, momentum=0.9), sgd(other, momentum=0.9)
    step = agt.compile_step(m, F.cross_entropy, a, X, Y)
    step(X, Y)
    torch_step(other, b)
    m.l.weight.data = torch.zeros(3, 6)
    a.state.clear()
    step.sync()
    assert furthest(m, other) < 1e-6
    assert step(X, Y) == pytest.approx(torch_step(other, b), rel=1e-5)
    assert furthest(m, other) < 1e-6


class Pair(nn.Module):
    """A generator, whose loss a discriminator gives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.g = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
        self.d = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def test_two_steps_of_one_network() -> None:
    """A GAN: the generator's loss reads the discriminator, which its own step trains, on what the generator makes."""
    ours, theirs, z = Pair().double(), Pair().double(), torch.randn(8, 4, dtype=torch.float64)
    x = X.double()

    def losses(net: Pair) -> tuple[Any, Any]:
        def of_d(out: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                fake = net.g(z)
            return F.softplus(-out).mean() + F.softplus(net.d(fake)).mean()

        return of_d, lambda out: F.softplus(-net.d(out)).mean()

    def optimizers(net: Pair) -> tuple[Any, Any]:
        return torch.optim.Adam(net.d.parameters(), 0.01), torch.optim.Adam(net.g.parameters(), 0.02)

    (a_d, a_g), (b_d, b_g) = optimizers(ours), optimizers(theirs)
    of_d, of_g = losses(ours)
    step_d = agt.compile_step(ours.d, of_d, a_d, x, z)
    step_g = agt.compile_step(ours.g, of_g, a_g, z)
    of_d, of_g = losses(theirs)
    for _ in range(4):
        for step, args, optimizer, loss in (
            (step_d, (x, z), b_d, lambda: of_d(theirs.d(x), z)),
            (step_g, (z,), b_g, lambda: of_g(theirs.g(z))),
        ):
            theirs.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            assert step(*args) == pytest.approx(value.item(), rel=1e-9)
            assert differences(ours, theirs) < 1e-9


@pytest.mark.parametrize("share", [True, False])
def test_a_target_network_of_the_loss(share: bool) -> None:
    """Q-learning: the loss reads a network that follows the trained one from time to time."""

    def nets() -> tuple[nn.Module, nn.Module]:
        m = net().double()
        return m, copy.deepcopy(m)

    (ours, target), (theirs, other) = nets(), nets()
    x = X.double()

    def loss_of(target: nn.Module) -> Any:
        def value(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return target(x).max(1).values

        return lambda q, x: F.smooth_l1_loss(q.max(1).values, 0.9 * value(x) + 1.0)

    a, b = (torch.optim.Adam(m.parameters(), 0.01) for m in (ours, theirs))
    step = agt.compile_step(ours, loss_of(target), a, x, x, share=share)
    loss = loss_of(other)
    for i in range(6):
        b.zero_grad()
        value = loss(theirs(x), x)
        value.backward()
        b.step()
        assert step(x, x) == pytest.approx(value.item(), rel=1e-9)
        if i % 2:
            step.sync()
            for t, m in ((target, ours), (other, theirs)):
                t.load_state_dict(m.state_dict())
            if not share:
                with pytest.raises(ag.UsageError, match="'target.0.weight' was written"):
                    step(x, x)
                step.sync_from()
    assert all(p.requires_grad for p in target.parameters()) and differences(target, ours) == 0


@pytest.mark.parametrize("how", ["a part", "processes"])
def test_tensors_that_others_see_stay_where_they_are(how: str) -> None:
    ours, theirs = net(), net()
    flat = torch.nn.utils.parameters_to_vector(ours.parameters()).detach().clone()
    at = 0
    for p in ours.parameters():
        if how == "a part":
            p.data = flat[at : at + p.numel()].view_as(p)
        at += p.numel()
    if how == "processes":
        ours.share_memory()
    places = [p.data_ptr() for p in ours.parameters()]
    x, y = batch()
    a, b = (torch.optim.AdamW(m.parameters(), 0.01) for m in (ours, theirs))
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for _ in range(3):
        assert step(x, y) == pytest.approx(torch_steps(theirs, b, x, y, 1)[0], rel=1e-5)
        step.sync()
        for m in (ours, theirs):
            m[0].bias.data.mul_(0.9)
    step.release()
    assert places == [p.data_ptr() for p in ours.parameters()] and differences(ours, theirs) < 1e-5
    if how == "a part":
        assert torch.equal(flat, torch.nn.utils.parameters_to_vector(ours.parameters()).detach())


@pytest.mark.parametrize("share", [True, False])
def test_params_of_one_memory_are_an_error(share: bool) -> None:
    """Torch would update the memory for each of them; a step would part them."""

    def tied(m: nn.Module) -> nn.Module:
        m[2].weight.data = m[0].weight.data.t()
        return m

    def made(m: nn.Module) -> Any:
        return agt.compile_step(m, F.mse_loss, torch.optim.SGD(m.parameters(), 0.1), X, X, share=share)

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 6))

    text = "'0.weight' and '2.weight' are two tensors with the same memory"
    with pytest.raises(ag.UsageError, match=text):
        made(tied(make()))
    m = make()
    step = made(m)
    tied(m)
    with pytest.raises(ag.UsageError, match=text if share else "'2.weight' was written"):
        step(X, X)
    with pytest.raises(ag.UsageError, match=text):
        step.sync_from()
    made(tied(make()).requires_grad_(False).append(nn.Linear(6, 6)))(X, X)


def test_steps_in_inference_mode() -> None:
    """What is moved there stays a tensor that torch trains on."""
    x, y = batch()
    ours, theirs = net(), net()
    a, b = (torch.optim.AdamW(m.parameters(), 0.01) for m in (ours, theirs))
    with torch.inference_mode():
        step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    for _ in range(2):
        a.load_state_dict(copy.deepcopy(a.state_dict()))
        ours[0].weight.data = ours[0].weight.data.clone()
        with torch.inference_mode():
            got = [step(x, y)]
        got += torch_steps(ours, a, x, y, 1)
        assert got == pytest.approx(torch_steps(theirs, b, x, y, 2), rel=1e-5)
    with torch.inference_mode():
        step.release()
    assert torch_steps(ours, a, x, y, 1) == pytest.approx(torch_steps(theirs, b, x, y, 1), rel=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_an_interrupted_step_is_a_whole_one(name: str) -> None:
    x, y = batch()
    ours, theirs = net(), net()
    ours.share_memory()  # so it is copied out after each step
    a, b = (torch.optim.SGD(m.parameters(), 0.1, 0.9) if name == "sgd" else torch.optim.AdamW(m.parameters(), 0.01) for m in (ours, theirs))
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    own = step.program

    def interrupted(**feed: Any) -> Any:
        own.step(**feed)
        raise KeyboardInterrupt

    step.program = SimpleNamespace(step=interrupted)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            step(x, y)
        torch_steps(theirs, b, x, y, 1)
        assert differences(ours, theirs) < 1e-5
        key = "momentum_buffer" if name == "sgd" else "step"
        torch.testing.assert_close(a.state[ours[0].bias][key], b.state[theirs[0].bias][key], rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_steps_are_compiled_in_several_threads() -> None:
    """Torch captures in one thread at a time, and differentiates as ever in others and afterwards."""
    made, end = [], threading.Event()
    (x, y), nets = batch(), [net() for _ in range(3)]  # seeds are the process's

    def compile_one(m: Any) -> None:
        made.append(agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), x, y))

    def differentiate() -> None:
        x = torch.ones(3, requires_grad=True)
        while not end.is_set():
            y = x * 2
            y.register_hook(lambda g: g)
            y.sum().backward()

    beside = threading.Thread(target=differentiate)
    threads = [threading.Thread(target=compile_one, args=(m,)) for m in nets]
    for t in (beside, *threads):
        t.start()
    for t in threads:
        t.join()
    end.set()
    beside.join()
    differentiate()
    m = net()
    loss = F.cross_entropy(m(x), y)
    loss.backward()
    assert [step(x, y) for step in made] == pytest.approx([loss.item()] * 3, rel=1e-5)


def test_another_target_network_is_an_error() -> None:
    m = net()
    target = copy.deepcopy(m)
    step = agt.compile_step(m, lambda q, x: F.mse_loss(q, target(x).detach()), torch.optim.SGD(m.parameters(), 0.1), X, X)
    step(X, X)
    target = copy.deepcopy(m)
    with pytest.raises(ag.UsageError, match="'target' is another one now"):
        step(X, X)


def test_a_network_that_the_module_reads_from_outside() -> None:
    teacher = nn.Linear(6, 6)
    m = Of(lambda self, h: h + teacher(h.repeat(1, 2))[:, :3])
    o = sgd(m)
    step = agt.compile_step(m, F.cross_entropy, o, X, Y)
    assert agt.report(m, (X,)).refusals == []
    for _ in range(2):
        expected = F.cross_entropy(m(X), Y).item()
        torch.testing.assert_close(step.eval(X), m(X).detach())
        assert step(X, Y) == pytest.approx(expected, rel=1e-5)
        torch.testing.assert_close(step.eval(X), m(X).detach())
        nn.init.constant_(teacher.weight, 0.1)


def test_a_buffer_that_is_gone_is_an_error() -> None:
    m = Of(lambda self, h: h + (0.0 if self.mean is None else self.mean))
    step = agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    m.mean = None
    with pytest.raises(ag.UsageError, match="buffer 'mean' is no tensor now"):
        step(X, Y)


def test_what_was_computed_before_a_step_has_no_derivative() -> None:
    m = net()
    x, y = batch()
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), x, y)
    loss = F.cross_entropy(m(x), y)
    step(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_another_type_is_an_error_by_name() -> None:
    m = net()
    x, y = batch()
    step = agt.compile_step(m, F.cross_entropy, torch.optim.SGD(m.parameters(), 0.1), x, y)
    m.double()
    with pytest.raises(ag.DataError, match=r"'0.weight' is torch.float64 \[8, 6\] now, and the step is compiled for torch.float32"):
        step(x, y)
    m.float()
    step(x, y)


def test_a_released_step_shares_no_memory() -> None:
    ours, theirs = net(), net()
    x, y = batch()
    a, b = (torch.optim.AdamW(m.parameters(), 0.01) for m in (ours, theirs))
    step = agt.compile_step(ours, F.cross_entropy, a, x, y)
    step(x, y)

    def shared() -> list[bool]:
        pairs = [
            (ours[0].weight, step.program.params["0.weight"]),
            (a.state[ours[0].bias]["exp_avg"], step.program.states["opt.exp_avg.0.bias"]),
        ]
        return [x.data_ptr() == own.ctypes.data for x, own in pairs]

    assert shared() == [True, True]
    step.release()
    assert shared() == [False, False]
    got = torch_steps(ours, a, x, y, 2)
    assert got == pytest.approx(torch_steps(theirs, b, x, y, 3)[1:], rel=1e-5)
    step.sync_from()
    assert step(x, y) == pytest.approx(torch_steps(theirs, b, x, y, 1)[0], rel=1e-5)


def test_files_of_torch_have_the_size_of_the_weights() -> None:
    sizes = []
    for compiled in (False, True):
        m = net()
        x, y = batch()
        o = torch.optim.AdamW(m.parameters(), 0.01)
        torch_steps(m, o, x, y, 1)
        step = agt.compile_step(m, F.cross_entropy, o, x, y) if compiled else None
        file = io.BytesIO()
        torch.save([m.state_dict(), o.state_dict()], file)
        sizes.append(file.tell())
        file.seek(0)
        weights, state = torch.load(file)
        assert torch.equal(weights["0.weight"], m[0].weight) and state["state"][0]["step"] == 1
        del step
    assert sizes[1] <= sizes[0]


def test_sharing_changes_no_number() -> None:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    x, y = torch.randn(6, 4), torch.randn(6, 1)
    losses = []
    for share in (False, True):
        own = copy.deepcopy(m)
        step = agt.compile_step(own, F.mse_loss, torch.optim.AdamW(own.parameters(), 0.01), x, y, share=share, seed=3)
        losses.append([step(x, y) for _ in range(10)])
        assert (own[0].weight.data_ptr() == step.program.params["0.weight"].ctypes.data) == share
    assert losses[0] == losses[1]


def test_sizes_that_vary_share_no_memory() -> None:
    m = net()
    x, y = batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    with pytest.raises(ag.UsageError, match="share=True with sizes="):
        agt.compile_step(m, F.cross_entropy, o, x, y, share=True, sizes={"batch": (1, 8)})
    before = m[0].weight.detach().clone()
    step = agt.compile_step(m, F.cross_entropy, o, x, y, sizes={"batch": (1, 8)})
    step(x[:3], y[:3])
    assert torch.equal(m[0].weight, before)
    step.sync()
    assert not torch.equal(m[0].weight, before)
