"""The memory that a module, an optimizer and a step have in common.

The tensors of the module and of the optimizer's state lie in the program, where each step changes them; what torch writes
into them is read by the next step. A tensor that has come to lie elsewhere (`x.data = …`, another step of the same module,
`optimizer.load_state_dict`) is copied back into its place before a step reads it. A tensor that is a part of another one, or
that processes share, stays where it is, and is copied in and out by each step. So torch's tensors are right at all times.
"""

from __future__ import annotations

from typing import Any, Mapping

import torch

from .._arenagrad import Program, _Watch
from .._errors import make
from ._attributes import check_apart, owners
from ._evaluate import array_of
from ._graph import Leaf
from ._optim import Bridge

_place = torch.Tensor.data_ptr


def _form(x: torch.Tensor) -> str:
    return f"{x.dtype} {list(x.shape)}"


def _stays(x: torch.Tensor) -> bool:
    """Whether others see a tensor's memory: it is a part of a larger one, or processes share it."""
    return x.untyped_storage().nbytes() != x.numel() * x.element_size() or x.is_shared()


class Shared:
    """The tensors of a module that lie in a program, and those of its optimizer's state."""

    def __init__(self, program: Program, module: torch.nn.Module, leaves: Mapping[str, Leaf], bridge: Bridge | None) -> None:
        self._program = program
        self._module = module
        self._leaves = leaves
        self._forms = {name: _form(leaf.value) for name, leaf in leaves.items()}
        self._state = _State(program, bridge) if bridge is not None else None
        self._tensors: list[torch.Tensor] = []
        self._places: list[int] = []
        # What stays outside, with its place in the program.
        self._outside: list[tuple[torch.Tensor, torch.Tensor]] = []
        # Where modules hold buffers: a call in torch may put other tensors there.
        self._buffers: list[tuple[dict[str, Any], str, Leaf]] = []

    @torch.inference_mode(False)
    def move(self) -> None:
        """Moves the module's tensors into the program, one after another: no two copies of all weights are there at a time."""
        found = self._found()
        check_apart((name, leaf.value) for _, name, leaf in found)
        for values, name, leaf in found:
            form = _form(leaf.value)
            if form != self._forms[name]:
                raise make("data", f"{name!r} is {form} now, and the step is compiled for {self._forms[name]}: compile a step anew")
            values[name] = array_of(leaf.value)
            if not _stays(leaf.value):
                leaf.value.data = torch.from_numpy(values[name])
        self._note()

    def load(self) -> None:
        """Reads all that is shared, and moves it into the program."""
        self.move()
        if self._state is not None:
            self._state.move()

    @torch.inference_mode(False)
    def give(self) -> None:
        """Gives module and optimizer the program's tensors, whatever they have now."""
        for values, name, leaf in self._found():
            if _stays(leaf.value):
                leaf.value.detach().copy_(torch.from_numpy(values[name]))
            else:
                leaf.value.data = torch.from_numpy(values[name])
        self._note()
        if self._state is not None:
            self._state.give()

    def _found(self) -> list[tuple[Any, str, Leaf]]:
        """The tensors of the module that the program has, each with the group that has it there, and its name."""
        groups = (self._program.params, self._program.states)
        return [(values, name, leaf) for values in groups for name, leaf in self._leaves.items() if name in values]

    def _note(self) -> None:
        self._tensors = [leaf.value for _, _, leaf in self._found()]
        self._places = list(map(_place, self._tensors))
        self._outside = [(leaf.value, torch.from_numpy(values[name])) for values, name, leaf in self._found() if _stays(leaf.value)]
        ids = {id(leaf.value): leaf for leaf in self._leaves.values() if leaf.role == "buffer"}
        places = [(owner, key) for role, _, owner in owners(self._module) if role == "buffer" for key in owner]
        self._buffers = [(owner, key, ids[id(owner[key])]) for owner, key in places if id(owner[key]) in ids]
        self._watch = _Watch([(owner, key, leaf.value) for owner, key, leaf in self._buffers])

    def follow(self) -> None:
        """Moves what lies elsewhere now back into the program."""
        if not self._watch.same():
            for owner, key, leaf in self._buffers:
                x = owner.get(key)
                if not isinstance(x, torch.Tensor):
                    raise make("usage", f"buffer {leaf.name!r} is no tensor now: put it back, or compile a step anew")
                leaf.value = x
            self.move()
        elif self._places != list(map(_place, self._tensors)):  # by `x.data = …`
            self.move()
        for x, place in self._outside:
            place.copy_(x.detach())
        if self._state is not None and self._state.left():
            self._state.move()

    def stepped(self) -> None:
        """Tells torch what a step has changed: what it computed with the weights before has no derivative any more."""
        torch.autograd.graph.increment_version(self._tensors)
        for x, place in self._outside:
            x.detach().copy_(place)
        if self._state is not None:
            self._state.stepped()

    @torch.inference_mode(False)
    def release(self) -> None:
        """Gives the tensors memory of their own, so that they do not keep the program's."""
        tensors, places = self._tensors, self._places
        if self._state is not None:
            tensors, places = tensors + self._state.tensors, places + self._state.places
        stay = [id(x) for x, _ in self._outside]
        for x, place in zip(tensors, places):
            if x.data_ptr() == place and id(x) not in stay:
                x.data = x.detach().clone()


class _State:
    """The tensors of an optimizer's state that lie in a program, and its numbers of steps."""

    def __init__(self, program: Program, bridge: Bridge) -> None:
        self._program = program
        self._bridge = bridge
        self._kind = type(bridge.optimizer).__name__
        # The tensors that lie in the program, and where.
        self.tensors: list[torch.Tensor] = []
        self.places: list[int] = []

    def move(self) -> None:
        """Reads the optimizer's state, and moves it into the program."""
        self._bridge.load(self._program)
        self.give()

    @torch.inference_mode(False)
    def give(self) -> None:
        """Gives the optimizer the program's tensors."""
        bridge, states = self._bridge, self._program.states
        bridge.read_counts(states)
        # Torch counts by param. The numbers of params that share all counts lie one after another, and are written at once;
        # they are the first of a state.
        products = bridge.products(states, self._program.params)
        shared: dict[tuple[int, str], list[str]] = {}
        for name, number in bridge.number_of.items() if self._kind != "SGD" else ():
            shared.setdefault((number, products.get(name, "")), []).append(name)
        self._numbers: list[torch.Tensor] = []
        self._runs = []
        for (number, product), names in shared.items():
            kinds = {"step": torch.zeros(len(names))} | ({"mu_product": torch.zeros(len(names))} if product else {})
            for key, numbers in kinds.items():
                for name, x in zip(names, numbers.unbind()):
                    bridge.optimizer.state[bridge.params[name]][key] = x
            self._numbers += kinds.values()
            self._runs.append((number, states[product] if product else None, [x.numpy() for x in kinds.values()]))
        self.tensors = []
        for p, key, name in bridge.pairs(states):
            value = torch.from_numpy(states[name])
            if bridge.begun(p, value):
                bridge.optimizer.state[p][key] = value
                self.tensors.append(value)
        self.places = list(map(_place, self.tensors))
        # Views, which each step reads.
        self._counted = bridge.counted(states)
        # What torch writes into its numbers counts as a version; what is written into arrays does not.
        self._versions = [x._version for x in self._numbers]
        self._write()
        self._watch = self._noted()

    def _write(self) -> None:
        """Writes how many steps there were."""
        counts = self._bridge.counts
        for number, count in self._counted:
            counts[number] = int(count)
        for number, product, arrays in self._runs:
            arrays[0].fill(counts[number])
            if product is not None:
                arrays[1].fill(float(product))
        if self._kind == "SparseAdam":
            for name, number in self._bridge.number_of.items():
                self._bridge.optimizer.state[self._bridge.params[name]]["step"] = counts[number]
            self._watch = self._noted()

    def _noted(self) -> _Watch:
        """What the optimizer's state consists of."""
        optimizer = self._bridge.optimizer
        state = optimizer.state
        inner = [(own, key, x) for own in state.values() for key, x in own.items()]
        entries = [(vars(optimizer), "state", state), *((state, p, own) for p, own in state.items()), *inner]
        return _Watch(entries, [state, *state.values()])

    def stepped(self) -> None:
        """Notes a step of the program. The first one, which may have been interrupted here, begins the momentum of SGD."""
        if self._kind == "SGD" and min(self._bridge.counts) <= 2:
            self.give()
        self._write()

    def left(self) -> bool:
        """Whether the optimizer has other tensors, or has counted other steps, than the program."""
        return not self._watch.same() or self._versions != [x._version for x in self._numbers]
