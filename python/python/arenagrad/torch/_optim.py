"""Optimisers of torch as optimisers here: settings, groups and state."""

from __future__ import annotations

from typing import Any

import torch

from .. import optim as ours
from .._arenagrad import Optimiser, Program, _Watch
from .._errors import make

# A class of torch: what it is here, and its settings under their names here.
_KINDS: dict[str, tuple[Any, dict[str, str]]] = {
    "SGD": (ours.Sgd, {"momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov"}),
    "Adam": (ours.Adam, {"betas": "betas", "eps": "eps", "amsgrad": "amsgrad"}),
    "AdamW": (ours.AdamW, {"betas": "betas", "eps": "eps", "amsgrad": "amsgrad"}),
    "SparseAdam": (ours.SparseAdam, {"betas": "betas", "eps": "eps"}),
    "Adamax": (ours.Adamax, {"betas": "betas", "eps": "eps"}),
    "RAdam": (ours.RAdam, {"betas": "betas", "eps": "eps", "decoupled_weight_decay": "decoupled_weight_decay"}),
    "RMSprop": (
        ours.RmsProp,
        {"alpha": "alpha", "eps": "eps", "momentum": "momentum", "centered": "centered"},
    ),
    # The initial value is a part of the sum, which torch makes with the optimizer.
    "Adagrad": (ours.Adagrad, {"lr_decay": "lr_decay", "eps": "eps"}),
    "Adadelta": (ours.Adadelta, {"rho": "rho", "eps": "eps"}),
    "NAdam": (ours.NAdam, {"betas": "betas", "eps": "eps", "momentum_decay": "momentum_decay"}),
}
# What a state of torch's is called there, in torch's order; here it is `opt.<name>.<param>`.
_STATES = (
    "exp_avg exp_avg_sq max_exp_avg_sq exp_inf square_avg momentum_buffer grad_avg sum acc_delta".split()
)
# How many steps were made, and what NAdam multiplies at each. The first has no number.
_STEP, _PRODUCT = "opt.step", "opt.mu_product"


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


def _rule(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> Optimiser:
    """The settings of one group."""
    name = type(optimizer).__name__
    if type(optimizer).__module__.split(".")[0] != "torch" or name not in _KINDS:
        known = ", ".join(_KINDS)
        raise make("usage", f"the optimizer is {name}; {known} of torch.optim are taken, and those of arenagrad.optim")
    kind, settings = _KINDS[name]
    if group.get("differentiable"):
        raise make("usage", f"{name}(differentiable=True): no gradient goes through a step")
    decoupled = group.get("decoupled_weight_decay", False)
    if name == "Adam" and decoupled:
        kind = ours.AdamW
    if name == "NAdam" and decoupled:
        kind = ours.NAdamW
    given = {here: group[there] for there, here in settings.items() if there in group}
    given = {k: [_number(v) for v in x] if isinstance(x, (tuple, list)) else _number(x) for k, x in given.items()}
    if given.get("momentum") == 0:
        given.pop("nesterov", None)
        given.pop("dampening", None)
    rule: Optimiser = kind(float(_number(group["lr"])), weight_decay=float(_number(group.get("weight_decay", 0.0))), **given)
    return rule


# What of a group may change: rates are read at each step, and the others say how torch computes.
_FREE = frozenset(
    "lr initial_lr max_lr min_lr base_lr max_momentum base_momentum swa_lr params param_names foreach fused capturable "
    "differentiable".split()
)


def _moves(group: dict[str, Any]) -> bool:
    """Whether a scheduler moves the momentum of a group, as OneCycleLR and CyclicLR do."""
    return "max_momentum" in group and "base_momentum" in group


def _momentum(group: dict[str, Any]) -> Any:
    return group["betas"][0] if "betas" in group else group["momentum"]


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group that are compiled into a step."""
    fixed = {key: x for key, x in group.items() if key not in _FREE}
    if _moves(group):
        fixed.pop("momentum", None)
        if "betas" in fixed:
            fixed["betas"] = fixed["betas"][1]
    return fixed


class Bridge:
    """An optimizer of torch: its rule here, its rates, and its state in both directions."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
        self.optimizer = optimizer
        self.params: dict[str, torch.nn.Parameter] = {}
        hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
        if any(getattr(optimizer, name, None) for name in hooks):
            raise make("usage", "the optimizer has hooks on its steps, which would not be called")
        # Schedulers of torch put a counter there.
        if "step" in vars(optimizer) and not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            raise make("usage", "the optimizer has a step() of its own, which would not be called")
        groups = optimizer.param_groups
        for group in groups:
            for p in group["params"]:
                if id(p) not in names:
                    raise make("usage", f"the optimizer has a param of shape {list(p.shape)} that the module does not have")
                if p.requires_grad:
                    self.params[names[id(p)]] = p
        if len({_moves(g) for g in groups}) > 1:
            raise make("usage", "a scheduler moves the momentum of some groups of the optimizer; it moves that of all, or of none")
        self.moves = _moves(groups[0])
        if len({bool(g.get("maximize", False)) for g in groups}) > 1:
            raise make("usage", "groups of the optimizer differ in maximize; all rise, or none does")
        self.names = names
        # Params that have had as many updates share a count. The number of each param's, and the counts.
        made = {name: self._made(p) for name, p in self.params.items()}
        self.counts = list(dict.fromkeys(made.values())) or [0]
        self.number_of = {name: self.counts.index(n) for name, n in made.items()}
        self._note()
        self._compiled = [{**_settings(group)} for group in groups]

    def _made(self, p: torch.nn.Parameter) -> int:
        """The updates that a param has had. SGD keeps no number: its rule reads whether there was one."""
        state = self.optimizer.state.get(p, {})
        return int(_number(state["step"])) if "step" in state else int(state.get("momentum_buffer") is not None)

    def listed(self) -> list[torch.nn.Parameter]:
        """The params of all groups."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _note(self) -> None:
        """Notes the groups and the state that are read."""
        self._groups = self.optimizer.param_groups
        self._state = self.optimizer.state
        # Each setting by itself, as each step looks at all of them. Of betas, the first may move.
        self._now = [(i, group, key, x) for i, group in enumerate(self._groups) for key, x in _settings(group).items()]
        self._part = "betas" if self.moves else None
        self._count = len(self._groups)
        # One look shows whether all are the same objects, as they nearly always are.
        own = [(vars(self.optimizer), "state", self._state), (vars(self.optimizer), "param_groups", self._groups)]
        self._watch = _Watch(own + [(group, key, x) for _, group, key, x in self._now if key != self._part])
        # What the names of the inputs of each group end with.
        self._suffixes = [f".{i}" if i else "" for i in range(self._count)]

    def unchanged(self) -> bool:
        """Whether nothing of the optimizer is another one now."""
        return len(self._groups) == self._count and self._part is None and self._watch.same() or self.changed() is None

    def changed(self) -> str | None:
        """What of the optimizer is another now than when it was compiled or read, in words."""
        if self.optimizer.state is not self._state or self.optimizer.param_groups is not self._groups:
            raise make("usage", "the optimizer has loaded another state: sync_from() reads it")
        if len(self._groups) != self._count:
            return f"the optimizer has {len(self._groups)} groups now, and had {self._count}"
        for i, group, key, was in self._now:
            now = group.get(key)
            if key == self._part and now is not None:
                now = now[1]
            if now is not was and now != was:
                hint = " (a scheduler that moves it is to be made before the step)" if key in ("betas", "momentum") else ""
                return f"{key} of the optimizer's group {i} was {was}, and is {now} now{hint}"
        return None

    def skip(self, names: list[str]) -> None:
        """Leaves params out: as in torch, one without a gradient has no state and no weight decay."""
        for name in names:
            self.params.pop(name, None)
            self.number_of.pop(name, None)

    def rule(self) -> Optimiser:
        """The optimiser with a group for each param that is not of the first one, or of another count. Groups have rates
        of their own."""
        first = self.optimizer.param_groups[0]
        rule = _rule(self.optimizer, first)
        for number, group in enumerate(self.optimizer.param_groups):
            own = _rule(self.optimizer, group)
            for name in (self.names[id(p)] for p in group["params"]):
                count = self.number_of.get(name, 0)
                if name in self.params and (number or count):
                    rule = rule.group(name, rate=number or None, count=count or None, rule=own)
        rule = rule.moving_momentum() if self.moves else rule
        return rule.maximize() if first.get("maximize", False) else rule

    def rates(self) -> dict[str, float]:
        """The rates of the next step, and momenta that move, by the names of the program's inputs."""
        groups = self.optimizer.param_groups
        rates = {"opt.lr" + suffix if suffix else "lr": float(_number(group["lr"])) for suffix, group in zip(self._suffixes, groups)}
        if self.moves:
            rates |= {"opt.momentum" + suffix: float(_momentum(group)) for suffix, group in zip(self._suffixes, groups)}
        return rates

    def made_step(self) -> None:
        """Counts a step, for state and schedulers."""
        self.counts = [n + 1 for n in self.counts]
        self.optimizer._opt_called = True

    def _counts(self, group: dict[str, Any]) -> bool:
        """Whether a param's update depends on how many it has had. A state of zeros is that of none."""
        kind = type(self.optimizer).__name__
        counts = {"SGD": group.get("dampening"), "Adagrad": group.get("lr_decay"), "RMSprop": False, "Adadelta": False}
        return bool(counts.get(kind, True))

    def pairs(self, states: Any) -> list[tuple[torch.nn.Parameter, str, str]]:
        """Each tensor of the state that program and optimizer have: its param, its name in torch, and that in the program."""
        found = [(p, key, f"opt.{key}.{name}") for name, p in self.params.items() for key in _STATES]
        return [x for x in found if x[2] in states]

    def counted(self, states: Any) -> list[tuple[int, Any]]:
        """The numbers of the counts that the program has, with their tensors."""
        names = [f"{_STEP}.{i}" if i else _STEP for i in range(len(self.counts))]
        return [(i, states[name]) for i, name in enumerate(names) if name in states]

    def products(self, states: Any, order: Any) -> dict[str, str]:
        """What the program calls NAdam's product of each param. It has its params in this order."""
        if _PRODUCT not in states:
            return {}
        group_of = {self.names[id(p)]: group for group in self._groups for p in group["params"]}
        schedules: list[Any] = []
        found = {}
        for name in (name for name in order if name in self.params):
            own = (group_of[name]["betas"][0], group_of[name]["momentum_decay"], self.number_of[name])
            if own not in schedules:
                schedules.append(own)
            i = schedules.index(own)
            found[name] = f"{_PRODUCT}.{i + 1}" if i else _PRODUCT
        return found

    def read_counts(self, states: Any) -> None:
        """Reads the program's counts. One that was resumed has made other steps than this object has counted."""
        for i, count in self.counted(states):
            self.counts[i] = int(count)

    def load(self, program: Program) -> None:
        """Writes the optimizer's state into the program."""
        states = program.states
        for name, product in self.products(states, program.params).items():
            states[product][...] = float(_number(self.optimizer.state.get(self.params[name], {}).get("mu_product", 1.0)))
        for p, key, name in self.pairs(states):
            value = self.optimizer.state.get(p, {}).get(key)
            if value is None and key == "sum":
                raise make("usage", f"the optimizer has no sum for {name.removeprefix('opt.sum.')!r}, which Adagrad makes when it is built")
            states[name][...] = 0.0 if value is None else value.detach().numpy()
        for i in range(len(self.counts)):
            made = {self._made(self.params[name]) for name, number in self.number_of.items() if number == i}
            if len(made) > 1 and any(map(self._counts, self.optimizer.param_groups)):
                text = f"params of the optimizer have had {sorted(made)} updates, and had as many when the step was compiled"
                raise make("usage", text + ": compile a step anew")
            self.counts[i] = max(made, default=0)
        if [_settings(group) for group in self.optimizer.param_groups] != self._compiled:
            raise make("usage", "the optimizer has other settings than when the step was compiled: compile a step anew")
        self._note()
        for i, count in self.counted(states):
            count[...] = self.counts[i]

    def begun(self, p: torch.nn.Parameter, value: torch.Tensor) -> bool:
        """Whether torch has a tensor of a param's state: SGD has no momentum before its first step."""
        made = self.counts[self.number_of[self.names[id(p)]]]
        return type(self.optimizer).__name__ != "SGD" or bool(made) or bool(value.any())

    def store(self, program: Program) -> None:
        """Writes the program's state into the optimizer."""
        states = program.states
        self.read_counts(states)
        kind = type(self.optimizer).__name__
        products = self.products(states, program.params)
        for name, p in self.params.items() if kind != "SGD" else ():
            state, made = self.optimizer.state[p], self.counts[self.number_of[name]]
            state["step"] = made if kind == "SparseAdam" else torch.tensor(float(made))
            if name in products:
                state["mu_product"] = torch.tensor(float(states[products[name]]))
        for p, key, name in self.pairs(states):
            state, value = self.optimizer.state[p], torch.from_numpy(states[name])
            if isinstance(state.get(key), torch.Tensor):
                state[key].copy_(value)
            elif self.begun(p, value):
                state[key] = value.clone()
