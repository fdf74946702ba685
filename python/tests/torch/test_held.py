"""What a captured step cannot follow is an error: state in attributes, and what the caller changes later."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

import arenagrad as ag
import arenagrad.torch as agt
from arenagrad._arenagrad import _Watch

torch.manual_seed(0)
X, Y = torch.randn(8, 6), torch.randint(0, 3, (8,))


class Of(nn.Module):
    """A linear layer, then a function of the module and the layer's output."""

    def __init__(self, f: Callable[[Any, torch.Tensor], torch.Tensor] = lambda self, h: h) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.l = nn.Linear(6, 3)
        self.f = f
        self.number, self.tensor, self.found, self.items = 1.0, torch.ones(3), None, [1.0, 2.0]
        self.register_buffer("mean", torch.ones(3))
        self.register_buffer("turn", torch.zeros(3))
        self.register_buffer("order", torch.arange(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self, self.l(x))


def sgd(m: nn.Module, **how: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(m.parameters(), 0.1, **how)


def torch_step(m: nn.Module, o: torch.optim.Optimizer, loss: Any = F.cross_entropy) -> float:
    o.zero_grad()
    value = loss(m(X), Y)
    value.backward()
    o.step()
    return value.item()


def furthest(a: nn.Module, b: nn.Module) -> float:
    pairs = zip(a.state_dict().values(), b.state_dict().values())
    return max(float((x.double() - y.double()).abs().max()) for x, y in pairs)


def assigned(self: Any, h: torch.Tensor) -> torch.Tensor:
    self.mean = 0.5 * self.mean + 0.5 * h.detach().abs().mean(0)
    self.mean, self.turn = self.turn + 1, self.mean  # each gets what the other was
    return h / (self.mean.abs() + 1)


def written_first(self: Any, h: torch.Tensor) -> torch.Tensor:
    self.found, self.items = h.pow(2).mean(), []
    self.items.append(h.sum())
    return h * self.found + self.items[0]


@pytest.mark.parametrize("f", [assigned, written_first])
def test_buffers_are_assigned_and_attributes_written_before_they_are_read(f: Any) -> None:
    ours, theirs = Of(f), Of(f)
    a, b = sgd(ours), sgd(theirs)
    step = agt.compile_step(ours, F.cross_entropy, a, X, Y)
    assert ours.found is None and ours.items == [1.0, 2.0]  # the capture leaves no trace
    for _ in range(4):
        assert step(X, Y) == pytest.approx(torch_step(theirs, b), rel=1e-5)
    step.sync()
    assert furthest(ours, theirs) < 1e-6


def counted(self: Any, h: torch.Tensor) -> torch.Tensor:
    self.number += 1
    return h / self.number


def recurrent(self: Any, h: torch.Tensor) -> torch.Tensor:
    self.tensor = h.detach()[0] + self.tensor
    return h + self.tensor


def appended(self: Any, h: torch.Tensor) -> torch.Tensor:
    self.items.append(self.items[-1] / 2)
    return h * self.items[-1]


def first_call_only(self: Any, h: torch.Tensor) -> torch.Tensor:
    if self.found is None:
        h, self.found = h * 2, True
    return h


@pytest.mark.parametrize("f, name", [(counted, "number"), (recurrent, "tensor"), (appended, "items"), (first_call_only, "found")])
def test_a_call_that_follows_from_the_call_before_is_refused(f: Any, name: str) -> None:
    m = Of(f)
    with pytest.raises(ag.UsageError, match=f"changes '{name}'"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    assert (m.number, m.items, m.found) == (1.0, [1.0, 2.0], None) and bool((m.tensor == 1).all())


def test_a_module_that_prepares_itself_may_be_called_once_before() -> None:
    m = Of(first_call_only)
    m(X)
    expected = F.cross_entropy(m(X), Y).item()
    assert agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)(X, Y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_numbers_of_other_generators_are_refused(draw: Any) -> None:
    m = Of(lambda self, h: h * draw())
    with pytest.raises(ag.UsageError, match="random numbers"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)


def test_a_hook_on_a_gradient_in_a_call_is_refused() -> None:
    def hooked(self: Any, h: torch.Tensor) -> torch.Tensor:
        h.register_hook(lambda g: g * 0.1)
        return h

    m = Of(hooked)
    with pytest.raises(ag.DerivativeError, match="register_hook.*test_held.py"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    m = Of()
    m.l.weight.register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(ag.DerivativeError, match="hook on its gradient"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)


def test_params_in_a_list_are_no_constants() -> None:
    m = Of()
    params = list(m.parameters())
    with pytest.raises(ag.DerivativeError, match="'l.weight' is read from a list"):
        agt.compile_step(m, lambda out, y: F.cross_entropy(out, y) + sum(p.pow(2).sum() for p in params), sgd(m), X, Y)


def read(self: Any, h: torch.Tensor) -> torch.Tensor:
    h = F.dropout(h, 0.0 if self.training else 0.5, training=self.training)
    return h[:, self.order] * self.tensor * self.items[0] / self.number * (1.0 if self.training else 2.0)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "number": lambda m, o: setattr(m, "number", 2.0),
    "items": lambda m, o: m.items.__setitem__(0, 3.0),
    "tensor' was": lambda m, o: setattr(m, "tensor", torch.zeros(3)),
    "tensor 'tensor'": lambda m, o: m.tensor.mul_(2),
    "tensor 'order'": lambda m, o: m.order.copy_(torch.tensor([2, 1, 0])),
    "'order' is another": lambda m, o: setattr(m, "order", torch.tensor([2, 1, 0])),
    "training": lambda m, o: m.eval(),
    "requires_grad": lambda m, o: m.l.requires_grad_(False),
    "'l' is another": lambda m, o: setattr(m, "l", nn.Linear(6, 3)),
    "l.weight' is another": lambda m, o: m.load_state_dict(copy.deepcopy(m.state_dict()), assign=True),
    "other hooks": lambda m, o: m.l.register_forward_hook(lambda layer, args, out: out * 2),
    "another forward": lambda m, o: setattr(m.l, "forward", lambda x: F.linear(x, m.l.weight, -m.l.bias)),
    "l.weight' was written": lambda m, o: nn.init.zeros_(m.l.weight),
    "l.bias' was written": lambda m, o: m.l.bias.data.clamp_(-0.01, 0.01),
    "mean' was written": lambda m, o: m.mean.fill_(2.0),
    "'mean' was written": lambda m, o: setattr(m, "mean", torch.zeros(3)),
    "weight_decay": lambda m, o: o.param_groups[0].update(weight_decay=0.1),
    "made before the step": lambda m, o: o.param_groups[0].update(momentum=0.5),
    "2 groups now": lambda m, o: o.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    "loaded another state": lambda m, o: o.load_state_dict(copy.deepcopy(o.state_dict())),
}


# What a step that shares its memory follows.
FOLLOWED = [name for name in CHANGES if "written" in name or "loaded" in name]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_after_compiling_is_an_error(name: str, share: bool) -> None:
    if share and name in FOLLOWED:
        return
    m = Of(lambda self, h: read(self, h) + self.mean)
    o = sgd(m, momentum=0.9)
    step = agt.compile_step(m, F.cross_entropy, o, X, Y, share=share)
    step(X, Y)
    CHANGES[name](m, o)
    with pytest.raises(ag.UsageError, match=name):
        step(X, Y)


def test_what_is_written_goes_on_after_it_is_read() -> None:
    ours, theirs = Of(), Of()
    a, b = sgd(ours, momentum=0.9), sgd(theirs, momentum=0.9)
    step = agt.compile_step(ours, F.cross_entropy, a, X, Y, share=False)
    for _ in range(3):
        step(X, Y)
        step.sync()
        torch_step(theirs, b)
        for m in (ours, theirs):
            m.l.weight.data.clamp_(-0.2, 0.2)
        step.sync_from()
    step(X, Y)
    step.sync()
    torch_step(theirs, b)
    assert furthest(ours, theirs) < 1e-6


def test_changes_without_effect_are_none() -> None:
    ours, theirs = Of(), Of()  # it reads no attribute, and has no modes
    a, b = sgd(ours), sgd(theirs)
    step = agt.compile_step(ours, F.cross_entropy, a, X, Y)
    seen: list[Any] = []
    changes: list[Callable[[], Any]] = [ours.eval, lambda: setattr(ours, "order", torch.arange(3)), lambda: setattr(ours, "number", 5.0), lambda: ours.items.append(1.0)]
    for change in [*changes, lambda: ours.l.register_forward_hook(lambda layer, args, out: seen.append(out.shape))]:
        change()
        assert step(X, Y) == pytest.approx(torch_step(theirs, b), rel=1e-5)


def test_masks_that_are_constants_are_known() -> None:
    """As in networks of graphs: a loss of some rows. They are those of the capture, or it is an error."""
    trained = torch.tensor([True, False] * 4)

    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(out[trained], y[trained]) + out[~trained, 1:].pow(2).mean() + out[:, wide[0]].mean() + out[wide].sum()

    wide = torch.ones(8, 3) > torch.arange(3)
    ours, theirs = Of(), Of()
    a, b = sgd(ours), sgd(theirs)
    step = agt.compile_step(ours, loss, a, X, Y)
    for _ in range(3):
        assert step(X, Y) == pytest.approx(torch_step(theirs, b, loss), rel=1e-5)
    assert furthest(ours, theirs) < 1e-6
    trained[0] = False
    with pytest.raises(ag.UsageError, match="'trained' has other values"):
        step(X, Y)


def test_changes_at_each_step_are_warned_of() -> None:
    m = Of()
    step = agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    for k in range(3):
        m.number = 2.0 + k
        if k == 2:
            with pytest.warns(UserWarning, match="'number' was 3.0, and is 4.0 now, which changes nothing"):
                step(X, Y)
        else:
            step(X, Y)


def test_a_number_of_the_loss_may_not_change() -> None:
    weight = 0.0
    m = Of()
    step = agt.compile_step(m, lambda out, y: F.cross_entropy(out, y) + weight * out.pow(2).mean(), sgd(m), X, Y)
    step(X, Y)
    weight = 1.0
    with pytest.raises(ag.UsageError, match="'weight' was 0.0, and is 1.0"):
        step(X, Y)


def scaled(h: torch.Tensor) -> torch.Tensor:
    return h * FACTORS["scale"] * SETTINGS.scale


FACTORS, SETTINGS = {"scale": 2.0}, SimpleNamespace(scale=1.0, name="a")


def test_numbers_that_helpers_and_objects_hold_may_not_change() -> None:
    m = Of(lambda self, h: scaled(h) * self.settings.scale)
    m.settings = SimpleNamespace(scale=1.0, name="b")
    step = agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    m.settings.name = SETTINGS.name = "c"  # nothing reads these
    step(X, Y)
    for owner, text in ((m.settings, "settings.scale"), (SETTINGS, "SETTINGS.scale")):
        owner.scale = 3.0
        with pytest.raises(ag.UsageError, match=f"'{text}' was 1.0, and is 3.0"):
            step(X, Y)
        owner.scale = 1.0
    FACTORS["scale"] = 1.0
    with pytest.raises(ag.UsageError, match="'FACTORS' was dict"):
        step(X, Y)
    FACTORS["scale"] = 2.0

    def counted(self: Any, h: torch.Tensor) -> torch.Tensor:
        self.settings.scale += 1
        return h * self.settings.scale

    m = Of(counted)
    m.settings = SimpleNamespace(scale=1.0)
    with pytest.raises(ag.UsageError, match="'settings.scale' of the module"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)


def test_tensors_of_module_and_loss_may_have_one_name() -> None:
    class Weighed(nn.Module):
        def __init__(self, weight: list[float]) -> None:
            super().__init__()
            self.register_buffer("weight", torch.tensor(weight))

        def forward(self, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(out * self.weight, y)

    def net() -> Any:
        m = Of(lambda self, h: h + self.loss.weight)
        m.loss = Weighed([1.0, 2.0, 3.0])
        return m

    ours, theirs, loss = net(), net(), Weighed([3.0, -2.0, 1.0])
    step = agt.compile_step(ours, loss, sgd(ours), X, Y)
    assert step(X, Y) == pytest.approx(torch_step(theirs, sgd(theirs), loss), rel=1e-5)


def test_evaluations_follow_attributes_draw_and_write_buffers() -> None:
    def f(self: Any, h: torch.Tensor) -> torch.Tensor:
        if self.training:
            return h
        self.mean += 1
        return F.dropout(h * self.tensor / self.number + self.mean, 0.5, training=True)

    m, other = Of(f), Of(f)
    step = agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    first, second = step.eval(X), step.eval(X)
    assert bool((first == 0).any()) and bool(((first == 0) != (second == 0)).any())
    m.number = 0.25
    m.tensor.mul_(0.5)
    third = step.eval(X)
    step.sync()
    assert bool((m.mean == 4).all())
    whole = other.l(X) * 2 + 4
    assert torch.allclose(third, torch.where(third == 0, 0, whole * 2), atol=1e-5)


class Cached(Of):
    """Keeps what evaluations compute of its weights, as the LeViT of timm and of transformers do."""

    def __init__(self, clears: bool) -> None:
        super().__init__()
        self.cache: dict[str, torch.Tensor] = {}
        self.clears = clears

    def train(self, mode: bool = True) -> Any:
        if mode and self.clears:
            self.cache = {}
        return super().train(mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            return self.l(x) + self.l.weight.sum()
        if "sum" not in self.cache:
            self.cache["sum"] = self.l.weight.sum()
        return self.l(x) + self.cache["sum"]


def test_evaluations_fill_a_cache_that_training_clears() -> None:
    ours, theirs = Cached(True), Cached(True)
    step, o = agt.compile_step(ours, F.cross_entropy, sgd(ours), X, Y), sgd(theirs)
    for _ in range(3):
        step(X, Y)
        torch_step(theirs, o)
        torch.testing.assert_close(step.eval(X), theirs.eval()(X).detach(), rtol=1e-5, atol=1e-5)
        assert ours.training and not ours.cache
        theirs.train()
    # A cache that is there is read, until it is cleared.
    ours.eval()(X)
    ours.cache["sum"] += 1
    kept = step.eval(X)
    torch.testing.assert_close(kept, ours(X).detach(), rtol=1e-5, atol=1e-5)
    ours.train()
    torch.testing.assert_close(step.eval(X), kept - 1, rtol=1e-5, atol=1e-5)


def test_a_cache_that_nothing_clears_is_refused() -> None:
    m = Cached(False)
    step = agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)
    with pytest.raises(ag.UsageError, match="changes 'cache'.*has left in an attribute"):
        step.eval(X)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "pruned twice": lambda l: prune.ln_structured(prune.l1_unstructured(l, "weight", 0.3), "weight", 0.2, 2, 0),
    "weight_norm": lambda l: torch.nn.utils.weight_norm(l),
    "spectral_norm": lambda l: torch.nn.utils.spectral_norm(l),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", HOOKS)
def test_weights_that_a_hook_computes(name: str) -> None:
    """Of params and buffers, before each call: training, an evaluation, and steps of torch afterwards."""

    def net() -> Any:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        HOOKS[name](m[0])
        return m

    ours, theirs, x = net(), net(), X.double()
    a, b = (torch.optim.AdamW(m.parameters(), 0.01) for m in (ours, theirs))
    step = agt.compile_step(ours, F.cross_entropy, a, x, Y)
    compiled = lambda: step(x, Y)

    def eager(m: Any, o: Any) -> float:
        o.zero_grad()
        loss = F.cross_entropy(m(x), Y)
        loss.backward()
        o.step()
        return loss.item()

    for run in (compiled, compiled, lambda: eager(ours, a), compiled):
        assert run() == pytest.approx(eager(theirs, b), rel=1e-9)
    assert furthest(ours, theirs) < 1e-9
    torch.testing.assert_close(step.eval(x), theirs.eval()(x).detach(), rtol=1e-9, atol=1e-9)
    if name == "pruned twice":
        prune.remove(ours[0], "weight")
        with pytest.raises(ag.UsageError, match="compile a step anew"):
            step(x, Y)


def test_layers_are_trained_later() -> None:
    ours, theirs = (nn.Sequential(Of(), nn.Tanh(), nn.Linear(3, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    a, b = sgd(ours, momentum=0.9), sgd(theirs, momentum=0.9)
    for trains in (False, True):
        for m in (ours, theirs):
            m[0].requires_grad_(trains)
        step = agt.compile_step(ours, F.cross_entropy, a, X, Y)
        for _ in range(3):
            step(X, Y)
            torch_step(theirs, b)
        step.sync()
    assert furthest(ours, theirs) < 1e-6


def test_a_step_of_ones_own_is_refused() -> None:
    m = Of()
    o = sgd(m)
    step = o.step
    setattr(o, "step", lambda: step())  # noqa: B010
    with pytest.raises(ag.UsageError, match="step.. of its own"):
        agt.compile_step(m, F.cross_entropy, o, X, Y)


@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_a_step_that_is_resumed_gives_the_optimizer_its_state(rule: str, tmp_path: Path) -> None:
    def optimizer(m: nn.Module) -> torch.optim.Optimizer:
        return sgd(m, momentum=0.9) if rule == "sgd" else torch.optim.AdamW(m.parameters(), 0.01)

    ours, later, theirs = Of(), Of(), Of()
    a, b, c = map(optimizer, (ours, later, theirs))
    first = agt.compile_step(ours, F.cross_entropy, a, X, Y)
    for _ in range(4):
        first(X, Y)
        torch_step(theirs, c)
    first.program.checkpoint(tmp_path / "step.agc")
    second = agt.compile_step(later, F.cross_entropy, b, X, Y)
    second.program.resume(tmp_path / "step.agc")
    second.sync()
    for _ in range(3):
        assert torch_step(later, b) == pytest.approx(torch_step(theirs, c), rel=1e-5)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_derivative_within_a_call_is_a_constant_without_create_graph(create_graph: bool) -> None:
    def slope(self: Any, h: torch.Tensor) -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        return h * torch.autograd.grad((h * x).pow(2).sum(), x, create_graph=create_graph)[0]

    ours, theirs = Of(slope), Of(slope)
    step = agt.compile_step(ours, F.cross_entropy, sgd(ours), X, Y)
    assert step(X, Y) == pytest.approx(torch_step(theirs, sgd(theirs)), rel=1e-5)
    step.sync()
    assert furthest(ours, theirs) < 1e-5

    def backward(self: Any, h: torch.Tensor) -> torch.Tensor:
        x = torch.ones(3, requires_grad=True)
        (h * x).sum().backward(retain_graph=True)
        return h * x.grad

    m = Of(backward)
    with pytest.raises(ag.DerivativeError, match="backward.. within a call"):
        agt.compile_step(m, F.cross_entropy, sgd(m), X, Y)


def test_hooks_that_a_first_call_installs_are_installed_once() -> None:
    """As models of transformers do, which record their hidden states so."""

    class Recorded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not getattr(self, "ready", False):
                self.a.register_forward_hook(lambda layer, given, out: 2 * out)
                self.ready = True
            return self.b(self.a(x))

    torch.manual_seed(0)
    net = Recorded()
    start = copy.deepcopy(net)
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    step = agt.compile_step(net, F.mse_loss, torch.optim.SGD(net.parameters(), lr=0.1), (x,), (y,))
    loss = step(x, y)
    assert len(net.a._forward_hooks) == 0
    assert loss == pytest.approx(F.mse_loss(start(x), y).item(), rel=1e-6)
    assert torch.allclose(step.eval(x), net(x), atol=1e-6)
    assert len(net.a._forward_hooks) == 1
    step(x, y)
    assert torch.allclose(step.eval(x), net(x), atol=1e-6)


def test_a_watch_sees_objects_numbers_of_them_and_keys_that_are_not_to_be_there() -> None:
    value: list[int] = []
    place: dict[str, Any] = {"a": value}
    watch = _Watch([(place, "a", value)], [place], [(place, "b")])
    assert watch.same()
    place["a"] = []
    assert not watch.same()
    place["a"] = value
    place["c"] = 1
    assert not watch.same()
    del place["c"], place["a"]
    place["b"] = value
    assert not watch.same()
    assert not _Watch([(place, "a", value)]).same()
    assert not _Watch([], [], [(place, "b")]).same()
    with pytest.raises(TypeError, match="unhashable"):
        _Watch([(place, [], value)]).same()
