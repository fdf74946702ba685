"""A module, its loss and its optimiser as one compiled step."""

from __future__ import annotations

import warnings
from typing import Any, Mapping

import torch
from torch.utils import _pytree as pytree

from .. import _compile
from .._arenagrad import Build, Graph, Optimiser, Program, SizedProgram, _Watch, train
from .._errors import Error, make
from ._attributes import check_apart, watch_of
from ._capture import WithLoss, check_module, exported, text_of
from ._evaluate import Evaluation, array_of, given_back, load_leaves, opened
from ._graph import Leaf, Writer, explained, leaves_of, names_of, tensors_of
from ._held import Held, Written
from ._lines import caller
from ._optim import Bridge
from ._report import Report, report_of
from ._shared import Shared

# Eval programs of the last few shapes are kept.
_KEPT = 8


class Step:
    """A compiled training step; `compile_step` makes it.

    `step(x, y)` runs it and gives the loss. `program`, `graph` and `report` show what was compiled.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        module: torch.nn.Module,
        loss: Any,
        optimizer: torch.optim.Optimizer | Optimiser,
        inputs: tuple[Any, ...],
        targets: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        seed: int,
        sizes: Mapping[str, tuple[int, int]] | None,
        share: bool | None,
        unused: str,
        choices: Mapping[str, Any],
    ) -> None:
        check_module(module)
        if share and sizes:
            raise make("usage", "share=True with sizes=: a program of varying sizes moves its tensors")
        share = not sizes if share is None else share
        if unused not in ("error", "skip"):
            raise make("usage", f"unused is {unused!r}; it may be 'error' or 'skip'")
        self.module = module
        self._unused = unused
        self._idle: set[str] = set()
        self._choices = dict(choices)
        self._whole = WithLoss(module, loss, len(inputs))
        check_module(self._whole.others)
        self._names = names_of(self._whole)
        self._tensors: _Watch | None = None
        self._kwargs = dict(kwargs)
        if not module.training:
            warnings.warn("the module is in eval mode: it is trained as it is, without dropout; call module.train()", stacklevel=3)
        self._bridge = Bridge(optimizer, self._names) if isinstance(optimizer, torch.optim.Optimizer) else None
        self._rate: float | None = None
        flat, self._spec = pytree.tree_flatten(((*inputs, *targets), self._kwargs))
        self._examples = flat
        n = len(pytree.tree_leaves(inputs))
        m = len(pytree.tree_leaves(targets))
        self._inputs = [f"input_{i}" if i < n else f"target_{i - n}" if i < n + m else f"input_{i - m}" for i in range(len(flat))]
        for name, x in zip(self._inputs, flat):
            if isinstance(x, torch.Tensor) and x.requires_grad:
                raise make("derivative", f"{name} requires a gradient; only params get one")
        self._optimizer = optimizer
        self._limits = dict(sizes or {})
        self._others = others = {id(p) for p in self._whole.others.parameters()} - {id(p) for p in module.parameters()}
        self._frozen = {self._names[id(p)]: p.requires_grad and id(p) not in others for p in self._whole.parameters()}
        # Whether others require gradients changes nothing.
        listed = {id(p) for p in self._bridge.listed()} if self._bridge else set(map(id, self._whole.parameters())) - others
        self._params = [p for p in self._whole.parameters() if id(p) in listed]
        self._asks = [p.requires_grad for p in self._params]
        self._captured: dict[bool, Any] = {}
        self._texts: dict[bool, str] = {}
        self._notes: dict[str, str] = {}
        self._leaves: dict[str, Leaf] = {}
        self._moved: set[str] = set()
        self._written: Written | None = None
        self._changes = 0
        self._evals: dict[Any, Evaluation] = {}
        self._shared: Shared | None = None
        with given_back():
            if self._limits:
                self.program: Program | SizedProgram = self._sized(seed)
            else:
                self.graph = self._graph(None)
                self.program = _compile.compile(self.graph, **self._choices)
                if share:
                    self._shared = Shared(self.program, self._whole, self._leaves, self._bridge)
                    self._shared.move()
                self.program.init_rest(seed)
                # What was captured is needed for batches of other sizes only; of the examples, calls are compared with shapes.
                self._captured.clear()
                self._examples = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in flat]
        # A tensor that the loss does not depend on is no input of the program.
        self._read = frozenset(self.graph.inputs)
        self._held = self._hold()
        self.sync_from()

    def _hold(self) -> Held:
        """What of module and loss is compiled into the step."""
        kept = {id(x) for x in self._whole.parameters()} | {id(x.value) for x in self._leaves.values()}
        return Held(self._whole, self._whole.loss, self._whole.effects.places, kept)

    def _trained(self, name: str) -> bool:
        return name not in self._idle and self._asked(name)

    def _asked(self, name: str) -> bool:
        """Whether the optimizer is to train a param."""
        return name in self._bridge.params if self._bridge else self._frozen.get(name, False)

    def _capture(self, single: bool) -> Any:
        """The captured graph and its operands. A batch of one example is captured on its own: torch treats 1 as a number."""
        if single not in self._captured:
            values = list(self._examples)
            if single:
                values = [x[:1] if isinstance(x, torch.Tensor) else x for x in values]
            args, kwargs = pytree.tree_unflatten(values, self._spec)
            shapes = None
            if self._limits and not single:
                (name, (low, high)) = next(iter(self._limits.items()))
                dim = torch.export.Dim(name, min=max(low, 2), max=high)
                form = pytree.tree_map(lambda x: {0: dim} if isinstance(x, torch.Tensor) else None, (args, kwargs))
                shapes = {"args": form[0]} | ({"kwargs": form[1]} if kwargs else {})
            program = exported(self._whole, args, kwargs, shapes)
            self._texts[single] = text_of(program)
            leaves = leaves_of(program, self._names, self._whole, self._inputs)
            self._check_used(program, leaves)
            self._captured[single] = (program, leaves)
        return self._captured[single]

    def _graph(self, batch: int | None) -> Graph:
        """The training step, for a batch of this size if it varies."""
        program, leaves = self._capture(batch == 1)
        places = [n for n in program.graph.nodes if n.op == "placeholder"]
        symbols: dict[Any, int] = {}
        for node, leaf in zip(places, leaves):
            x = node.meta["val"]
            if leaf.role == "input" and isinstance(x, torch.Tensor) and x.ndim and isinstance(x.shape[0], torch.SymInt):
                symbols[x.shape[0].node.expr] = batch or 0
        with Build("step") as b:
            writer = Writer(b, self._trained, sizes=symbols)
            unread = {x.name for node, x in zip(places, leaves) if id(x.value) in self._others and not node.users}
            results = writer.write(program, [Leaf("idle", x.name, None) if x.name in self._idle | unread else x for x in leaves])
            loss = results[0] if len(results) == 1 else None
            if loss is None or getattr(loss, "shape", None) != ():
                shown = ", ".join(str(getattr(r, "shape", r)) for r in results)
                raise make("shape", f"the loss is to be one number; the module and loss give {shown}")
            b.output("loss", loss)
        self.report: Report = report_of(writer)
        self._notes |= writer.notes
        self._leaves |= {x.name: x for x in leaves if x.role in ("param", "buffer")}
        self._moved |= writer.moved
        return train(b.graph, "loss", self._bridge.rule() if self._bridge else self._optimizer)

    def _sized(self, seed: int) -> SizedProgram:
        """The program for batches of several sizes."""
        if len(self._limits) != 1:
            raise make("usage", f"sizes names {len(self._limits)} sizes; one varies: that of the first axis of all tensors")
        name, limits = next(iter(self._limits.items()))
        tensors = [x for x in self._examples if isinstance(x, torch.Tensor)]
        batch = tensors[0].shape[0] if tensors and tensors[0].ndim else 0
        if any(x.ndim == 0 or x.shape[0] != batch for x in tensors) or batch < 2:
            raise make("shape", f"the first axis of all examples is {name!r}, of one size that is 2 or more")
        if not 1 <= limits[0] <= batch <= limits[1]:
            raise make("usage", f"{name!r} goes from {limits[0]} to {limits[1]}, and the examples have {batch}")
        self.graph = self._graph(batch)
        program = _compile.compile_sized(lambda **sizes: self._graph(sizes[name]), **self._choices)
        program.init({name: batch}, seed)
        return program

    def _check_used(self, program: Any, leaves: list[Leaf]) -> None:
        """Skips params that the loss does not read, or raises an error that names them."""
        places = [n for n in program.graph.nodes if n.op == "placeholder"]
        used = {x.name for n, x in zip(places, leaves) if n.users}
        idle = [name for name in self._frozen if self._asked(name) and name not in used]
        if self._unused == "skip":
            self._idle.update(idle)
            if self._bridge is not None:
                self._bridge.skip(idle)
        elif idle:
            shown = ", ".join(idle[:8]) + (f" and {len(idle) - 8} more" if len(idle) > 8 else "")
            place = caller()
            text = f"the loss does not depend on {shown}: requires_grad_(False) or unused='skip' leaves params as they are, at {place}"
            raise make("derivative", text, place)

    def _feed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a call by the names of the program's inputs."""
        if kwargs or len(args) != len(self._inputs):
            flat, spec = pytree.tree_flatten((args, dict(kwargs)))
            if spec != self._spec:
                raise make("data", f"the step takes {len(self._inputs)} values as in the example; {len(flat)} are given")
        else:
            flat = list(args)
        feed = {}
        for name, x, example in zip(self._inputs, flat, self._examples):
            if isinstance(x, torch.Tensor):
                if name in self._read:
                    feed[name] = array_of(x)
            elif isinstance(example, torch.Tensor):
                raise make("data", f"{name} is {type(x).__name__}; the example is a tensor")
            elif x != example:
                raise make("data", f"{name} is {x!r}; the step is compiled for {example!r}")
        return feed

    def __call__(self, *args: Any, **kwargs: Any) -> float:
        """Runs one step: forward, backward, update. Gives the loss before the update."""
        feed = self._feed(args, kwargs)
        if self._shared is not None:
            self._shared.follow()
        self._check_held(args, kwargs)
        if self._bridge is not None:
            feed |= {name: rate for name, rate in self._bridge.rates().items() if name in self._read}
        elif self._rate is not None:
            feed["lr"] = self._rate
        try:
            if isinstance(self.program, SizedProgram):
                loss = self.program.step(self._size(feed), **feed)["loss"]
            else:
                loss = self.program.step(**feed).item("loss")
            self._stepped()
        except Error as e:
            raise explained(e, self._notes)
        except KeyboardInterrupt:  # most often Python raises it when the step, which goes on to its end, gives its result
            self._stepped()
            raise
        return float(loss)

    def _stepped(self) -> None:
        """Counts a step, and tells torch of it. Doing so twice does no harm."""
        if self._bridge is not None:
            self._bridge.made_step()
        if self._shared is not None:
            self._shared.stepped()

    def _check_held(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """An error if the step, as it was compiled, is no longer what module, loss and optimizer are to compute."""
        same = self._held.unchanged() and [p.requires_grad for p in self._params] == self._asks
        if not same or self._bridge is not None and not self._bridge.unchanged():
            self._explain(args, kwargs)
        if self._written is not None and (written := self._written.name()) is not None:
            text = f"{written!r} was written by others since the step read it: sync_from() reads it, sync() writes the step's"
            raise make("usage", text)

    def _explain(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raises what is another one now, unless the module still computes what it did."""
        why = self._held.replaced() or self._held.written()
        if why is None and [p.requires_grad for p in self._params] != self._asks:
            pairs = zip(self._params, self._asks)
            why = next(f"{self._names[id(p)]!r} has requires_grad={not asked} now" for p, asked in pairs if p.requires_grad != asked)
        if why is None and self._bridge is not None:
            why = self._bridge.changed()
        if why is None and (why := self._held.changed()) is not None and self._same(args, kwargs):
            self._warn(why)
            self._held, why = self._hold(), None
        if why is not None:
            raise _other(why)

    def _warn(self, why: str) -> None:
        """Tells of the third change without effect: each captures the module once more."""
        self._changes += 1
        if self._changes == 3:
            text = f"{why}, which changes nothing that the step computes, but each such change captures the module once more"
            warnings.warn(text + ": keep it elsewhere, or make it an input", stacklevel=5)

    def _same(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether the module computes what it did when it was captured."""
        texts, self._texts, self._captured = self._texts, {}, {}
        examples = self._examples
        self._find()
        try:
            if not self._limits:
                self._examples = [x.detach() if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves((args, dict(kwargs)))]
            for single in texts:
                self._capture(single)
            return self._texts == texts
        finally:
            self._examples, self._texts = examples, texts
            if not self._limits:
                self._captured = {}

    def _size(self, feed: Mapping[str, Any]) -> dict[str, int]:
        """The size of a batch. The program checks that all inputs have it."""
        name, (low, high) = next(iter(self._limits.items()))
        n = next(len(feed[key]) for key in self._inputs if key in feed)
        if not low <= n <= high:
            raise make("data", f"{name!r} is {n}; it goes from {low} to {high}")
        return {name: n}

    def set_rate(self, rate: float) -> None:
        """The learning rate of later steps. With an optimizer of torch, its groups have the rate."""
        if self._bridge is not None:
            raise make("usage", "the rate is that of the optimizer: set it in its param_groups, or by a scheduler")
        self._rate = float(rate)

    def _find(self) -> None:
        """Finds the module's tensors anew: `module.mean = …` puts another buffer into the place of one."""
        why = self._held.replaced()
        if why is not None:
            raise _other(why)
        if self._tensors is not None and self._tensors.same():
            return
        self._names = names_of(self._whole)
        now = {name: x for x, name in tensors_of(self._whole)}
        for leaf in self._leaves.values():
            if leaf.name not in now and leaf.role == "buffer":
                raise _other(f"buffer {leaf.name!r} is no tensor now")
            leaf.value = now.get(leaf.name, leaf.value)
        self._tensors = watch_of(self._whole)

    def _read_all(self) -> None:
        """Notes that program and module agree."""
        self._written = Written({name: x.value for name, x in self._leaves.items() if name not in self._moved}, self._whole)

    def sync(self) -> None:
        """Writes weights, buffers and the optimizer's state back into the module and the optimizer."""
        self._find()
        if self._shared is not None:
            self._shared.give()
            return
        with opened(self.program, write=False) as program, torch.no_grad():
            for values in (program.params, program.states):
                for name, leaf in self._leaves.items():
                    if name in values:
                        leaf.value.copy_(torch.from_numpy(values[name]))
            if self._bridge is not None:
                self._bridge.store(program)
        self._read_all()

    def sync_from(self) -> None:
        """Reads weights, buffers and the optimizer's state from the module and the optimizer, as each shared step does."""
        self._find()
        why = self._held.written()
        if why is not None:
            raise _other(why)
        if self._shared is not None:
            self._shared.load()
            return
        check_apart((name, leaf.value) for name, leaf in self._leaves.items())
        with opened(self.program) as program:
            load_leaves(program, self._leaves)
            if self._bridge is not None:
                self._bridge.load(program)
        self._read_all()

    def release(self) -> None:
        """Gives module and optimizer memory of their own: the step goes on as with `share=False`.

        A tensor that lies in a step keeps its whole arena, also when the step is gone.
        """
        if self._shared is not None:
            self._shared.follow()
            self._shared.release()
            self._shared = None
            self._read_all()

    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives in eval mode with the step's weights. Each shape of inputs is compiled once."""
        if self._shared is not None:
            self._shared.follow()
        self._find()
        flat, form = list(args), str(len(args))
        if kwargs or not all(isinstance(x, torch.Tensor) for x in args):
            flat, spec = pytree.tree_flatten((args, kwargs))
            form = str(spec)
        key = (form, tuple((x.dtype, x.shape) if isinstance(x, torch.Tensor) else (type(x), x) for x in flat))
        found = self._evals.pop(key, None)
        if found is None or found.stale():
            if len(self._evals) >= _KEPT:
                self._evals.pop(next(iter(self._evals)))
            args, kwargs = pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, (args, kwargs))
            with given_back():
                found = Evaluation(self.module, args, kwargs, self._choices)
        self._evals[key] = found
        with opened(self.program, write=found.writes) as trained:
            try:
                return found.run(trained, flat)
            except Error as e:
                raise explained(e, found.notes)

    def __repr__(self) -> str:
        return f"<Step of {type(self.module).__name__}: {len(self.graph.params)} params>"


def _other(why: str) -> Exception:
    return make("usage", f"{why}, and the step is compiled without that: put it back, or compile a step anew")
