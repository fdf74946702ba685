"""Training on several ranks: processes that `mpirun` or `torchrun` starts, on one machine or on many.

Each rank has all params and a share of each batch. A step takes the mean of the gradients over the ranks, and all ranks
make the same update, to the same bits. Needs mpi4py: `pip install "arenagrad[mpi]"`, and an MPI such as Debian's
`openmpi-bin` and `libopenmpi-dev`.

    mpirun -n 4 python train.py

>>> import arenagrad as ag
>>> world = ag.mpi.join()  # doctest: +SKIP
>>> with ag.build("net") as b:  # doctest: +SKIP
...     rows = 32 // world.size
...     loss = ag.nn.linear("fc", b.input("x", (rows, 4)), 1).mse(b.input("y", (rows, 1)))
...     b.output("loss", loss)
>>> program = ag.mpi.compile(b.graph, "loss", ag.optim.AdamW(1e-3))  # doctest: +SKIP
>>> program.init(0)  # doctest: +SKIP
>>> ag.mpi.fit(program, batches_of_32, steps=100)  # doctest: +SKIP
<Fitted: 100 steps, 4 epochs, ended: steps>
"""

from __future__ import annotations

import hashlib
import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

import numpy as np

from ._arenagrad import Graph, Optimiser, Program, Schedule, _Parallel, _train_split
from ._compile import compile as _compile
from ._errors import make
from ._fit import Files, Fitted, run_fit
from ._world import Communicator, World, ends_all, join

if TYPE_CHECKING:
    from ._fit import Batches

__all__ = ["Communicator", "World", "compile", "fit", "join"]

# The ranks of each program that `compile` made.
_RANKS: weakref.WeakKeyDictionary[Program, _Parallel] = weakref.WeakKeyDictionary()


def compile(
    graph: Graph, loss: str, optimiser: Optimiser, *, shard_states: bool = False, reduce: str = "mean", **choices: Any
) -> Program:
    """The program of one rank's training step: methods `grads` and `update`. All ranks call this.

    `graph` is for this rank's share of a batch: 32 examples over 4 ranks are 8 rows. `loss` is a mean over the batch, or
    with `reduce="sum"` a sum. `shard_states` shares out the states of the optimiser over the ranks, to the same bits.
    `choices` are those of `ag.compile`.

    A rank that has another graph ends all ranks, and is named.
    """
    world = join()
    with ends_all():
        world.begin()
        shard = (world.rank, world.size) if shard_states and world.size > 1 else None
        split = _train_split(graph, loss, optimiser, shard)
        program = _compile(split.graphs(), **choices)
        _RANKS[program] = _Parallel(program, world.comm, split, reduce)
    return program


def _why(error: BaseException) -> str:
    """An exception as one line."""
    return f"{type(error).__name__}: {error}"


class _Rank:
    """A program on this rank, as the loop of `fit` uses one. All ranks call the same functions in the same order."""

    def __init__(self, program: Program, world: World, share: bool, rescale: bool) -> None:
        if program not in _RANKS:
            raise make("usage", "mpi.fit: the program is not of ag.mpi.compile")
        self.program = program
        self.world = world
        self.ranks = _RANKS[program]
        self.shapes = {name: spec.shape for name, spec in program.inputs.specs.items()}
        self.share = share
        self.rescale = rescale
        self.begun = False
        self.first = b""

    def mean(self, own: Callable[[], float]) -> float:
        """The mean of a number over the ranks. An exception of one is one of all."""
        number, failed = 0.0, None
        try:
            number = float(own())
        except Exception as e:
            failed = e
        try:
            return self.ranks.mean(number, None if failed is None else _why(failed))
        except Exception as e:
            raise e from failed

    def own_part(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's rows of a batch: those whose number is the rank, modulo the number of ranks."""
        if not self.share or self.world.size == 1:
            return dict(batch)
        rank, size = self.world.rank, self.world.size
        own: dict[str, Any] = {}
        for name, value in batch.items():
            shape, array = self.shapes.get(name), np.asarray(value)
            if shape is None or array.shape == shape:
                own[name] = value
                continue
            differ = [a for a, (theirs, ours) in enumerate(zip(array.shape, shape)) if theirs != ours]
            if array.ndim != len(shape) or len(differ) != 1 or array.shape[differ[0]] != size * shape[differ[0]]:
                text = f"input {name!r}: the array is {array.shape}, and a rank's part {shape}; an axis has {size} times"
                raise make("shape", f"{text} its rows, or none")
            own[name] = array[(slice(None),) * differ[0] + (slice(rank, None, size),)]
        return own

    def batches(self, items: Callable[[], Iterator[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
        """This rank's parts of the batches; all ranks have equally many."""
        it: list[Iterator[Mapping[str, Any]]] = []
        part: dict[str, Any] = {}

        def there_is_one() -> float:
            nonlocal part
            if not it:
                it.append(items())
            for batch in it[0]:
                part = self.own_part(batch)
                if not self.begun and self.share:
                    digest = hashlib.blake2b()
                    for name in sorted(batch):
                        digest.update(name.encode())
                        digest.update(np.ascontiguousarray(batch[name]).tobytes())
                    self.first = digest.digest()
                return 1.0
            return 0.0

        while True:
            have = self.mean(there_is_one)
            if have == 0.0:
                return
            if have < 1.0:
                raise make("data", "mpi.fit: some ranks have a batch and others have none; all need equally many")
            if not self.begun and self.share:
                self.ranks.agree("first batch (with share=False batches are each rank's own)", self.first)
            self.begun = True
            yield part

    def step(self, **batch: Any) -> dict[str, float]:
        """One step. Gives the mean of the ranks' losses."""
        lr = batch.pop("lr", None)
        return {"loss": self.ranks.step(self.program, batch, lr)}

    @property
    def params(self) -> Any:
        return self.program.params

    def checkpoint(self, path: str, **numbers: float) -> None:
        self.ranks.sync_states(self.program)
        self.ranks.checkpoint(self.program, path, **numbers, ranks=float(self.world.size))

    def resume(self, path: str) -> dict[str, float]:
        return self.ranks.resume(self.program, path, None if self.rescale else float(self.world.size))

    def save(self, path: str) -> None:
        self.ranks.sync_states(self.program)

        def written() -> float:
            if self.world.rank == 0:
                self.program.save(path)
            return 0.0

        self.mean(written)


class _RankFiles(Files):
    """The files of a run, which rank 0 writes."""

    def __init__(self, out: Any, tensorboard: Any, first: bool) -> None:
        super().__init__(out if first else None, tensorboard if first else None)
        self.folder = None if out is None else os.fspath(out)
        self.first = first

    def begin(self, done: int, epoch: int) -> None:
        if self.first:
            super().begin(done, epoch)

    def report(self, numbers: Mapping[str, float]) -> None:
        if self.first:
            super().report(numbers)


class _Epochs:
    """Batches that are gone through again and again."""

    def __init__(self, rank: _Rank, batches: Any) -> None:
        self.rank = rank
        self.items = batches

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rank.batches(lambda: iter(self.items))


def fit(
    program: Program,
    batches: Batches,
    *,
    share: bool = True,
    rescale: bool = False,
    steps: int | None = None,
    epochs: int | None = None,
    schedule: Schedule | None = None,
    lr: float | None = None,
    val: Callable[[Program], float] | None = None,
    val_every: int | None = None,
    report_every: int = 50,
    checkpoint_every: int | None = None,
    out: Any = None,
    resume: bool = False,
    tensorboard: Any = None,
    progress: bool = True,
    callback: Callable[[int, Program], bool | None] | None = None,
) -> Fitted:
    """Trains `program`, of `ag.mpi.compile`, on this rank. All ranks call this with the same arguments, those of `ag.fit`.

    * `batches` are those of one process: the same on all ranks, for all ranks together. A rank takes the rows whose
      number is its rank modulo the number of ranks, along the axis that is as much longer than its input's; an array of
      the input's own shape is for all ranks. With `share=False` batches are each rank's own rows.
    * Losses are means over the ranks, and so are the numbers of `val`. If `callback` returns True on one rank, the run ends
      on all.
    * Rank 0 writes files and shows progress. `resume=True` reads the checkpoint on all ranks; it takes the same number
      of ranks, or any with `rescale=True`: then sums of gradients have other last bits.
    * A rank that raises, exits or is killed ends all ranks, and the reason is printed with its number.
    """
    world = join()
    with ends_all():
        world.begin()
        rank = _Rank(program, world, share, rescale)
        given = (steps, epochs, str(schedule), lr, val_every, report_every, checkpoint_every, share, rescale, resume)
        there = resume and out is not None and os.path.exists(os.path.join(out, "checkpoint.safetensors"))
        asked = repr((given, there, [x is None for x in (val, out, tensorboard, callback)]))
        rank.ranks.agree("choice of arguments of fit, or of a checkpoint to resume,", asked.encode())
        own: Any = _Epochs(rank, batches)
        if callable(batches):
            of_epoch = batches
            own = lambda epoch: rank.batches(lambda: iter(of_epoch(epoch)))
        elif iter(batches) is batches:
            own = iter(own)
        return run_fit(
            rank,
            own,
            files=_RankFiles(out, tensorboard, world.rank == 0),
            steps=steps,
            epochs=epochs,
            schedule=schedule,
            lr=lr,
            loss="loss",
            val=None if val is None else lambda _: rank.mean(lambda: val(program)),
            val_every=val_every,
            report_every=report_every,
            checkpoint_every=checkpoint_every,
            resume=resume,
            progress=progress and world.rank == 0,
            callback=None
            if callback is None
            else lambda step, _: rank.mean(lambda: float(bool(callback(step, program)))) > 0.0,
        )
