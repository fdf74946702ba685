"""The loop of a training run, and the built-in digits."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time

from . import nn, optim
from ._arenagrad import Build, Program, Schedule, _digits, _EventFile, _permutation, train
from ._compile import compile
from ._errors import DivergedError, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, Mapping, Union

    import numpy as np

    Batches = Union[Iterable[Mapping[str, Any]], Callable[[int], Iterable[Mapping[str, Any]]]]


class Fitted:
    """What a run gave: `steps`, `epochs`, the `history` of its reports, and why it `ended`."""

    def __init__(self, steps: int, epochs: int, history: list[dict[str, float]], ended: str) -> None:
        self.steps = steps
        self.epochs = epochs
        self.history = history
        self.ended = ended

    def __repr__(self) -> str:
        return f"<Fitted: {self.steps} steps, {self.epochs} epochs, ended: {self.ended}>"


class _Lines:
    """Progress as plain lines, at most one a second, on standard error."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.last = 0.0

    def show(self, step: int, text: str, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self.last >= 1.0:
            self.last = now
            of = "" if self.total is None else f"/{self.total}"
            print(f"step {step}{of}: {text}", file=sys.stderr)

    def close(self) -> None:
        pass


class _Bar:
    """Progress as a bar of tqdm."""

    def __init__(self, tqdm: Any, total: int | None, done: int) -> None:
        self.bar = tqdm(total=total, initial=done, unit="step")
        self.done = done

    def show(self, step: int, text: str, force: bool = False) -> None:
        self.bar.update(step - self.done)
        self.done = step
        self.bar.set_postfix_str(text, refresh=force)

    def close(self) -> None:
        self.bar.close()


def _progress(wanted: bool, total: int | None, done: int) -> _Lines | _Bar | None:
    if not wanted:
        return None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return _Lines(total)
    return _Bar(tqdm, total, done)


def _keep_until(path: str, done: int, epoch: int) -> None:
    """Leaves out the lines of what comes after step `done` of this epoch, which will be written again, and a line that
    was cut off."""
    import json

    def holds(line: str) -> bool:
        try:
            numbers = json.loads(line)
            # The validation at the end of an epoch has the number of the next one.
            return bool(numbers["step"] <= done and numbers["epoch"] <= epoch)
        except (ValueError, KeyError, TypeError):
            return False

    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except FileNotFoundError:
        return
    kept = [line.rstrip("\n") + "\n" for line in lines if holds(line)]
    if kept != lines:
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.writelines(kept)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)


class Files:
    """The files of a run: `metrics.jsonl`, `checkpoint.safetensors` and `weights.safetensors` in a folder; event
    files of TensorBoard in another."""

    def __init__(self, out: str | os.PathLike[str] | None, tensorboard: str | os.PathLike[str] | None) -> None:
        self.tensorboard = tensorboard
        self.events: _EventFile | None = None
        self.folder = None if out is None else os.fspath(out)
        if self.folder is not None:
            try:
                os.makedirs(self.folder, exist_ok=True)
            except OSError as e:
                raise make("io", f"{self.folder}: {e.strerror}") from e

    def path(self, name: str) -> str:
        return os.path.join(self.folder or "", name)

    def report(self, numbers: Mapping[str, float]) -> None:
        if self.folder is not None:
            import json

            # JSON has no NaN and no infinity.
            known = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
            with open(self.path("metrics.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(known) + "\n")
        if self.events is not None:
            step = int(numbers["step"])
            self.events.write(step, [(name, x) for name, x in numbers.items() if name != "step"])

    def begin(self, done: int, epoch: int) -> None:
        """Makes place for the reports of what comes after step `done` of this epoch."""
        if self.folder is not None:
            _keep_until(self.path("metrics.jsonl"), done, epoch)
        if self.tensorboard is not None:
            self.events = _EventFile(self.tensorboard, done)

    def checkpoint(self, program: Any, **numbers: float) -> None:
        if self.folder is not None:
            program.checkpoint(self.path("checkpoint.safetensors"), **numbers)


def _epochs(batches: Batches, first: int) -> Iterator[tuple[int, Iterable[Mapping[str, Any]]]]:
    """The epochs from number `first` on: again and again the same iterable, or what a function gives for each."""
    epoch = first
    while True:
        yield epoch, (batches(epoch) if callable(batches) else batches)
        if not callable(batches) and iter(batches) is batches:
            return
        epoch += 1


def fit(
    program: Program,
    batches: Batches,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    schedule: Schedule | None = None,
    lr: float | None = None,
    loss: str = "loss",
    val: Callable[[Program], float] | None = None,
    val_every: int | None = None,
    report_every: int = 50,
    checkpoint_every: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tensorboard: str | os.PathLike[str] | None = None,
    progress: bool = True,
    callback: Callable[[int, Program], bool | None] | None = None,
) -> Fitted:
    """Trains `program` on batches: mappings from names of inputs to arrays.

    `batches` is an iterable, which is gone through again and again, or a function from the number of an epoch to an
    iterable. The run ends after `steps` steps or `epochs` epochs, or when `callback` returns True.

    * `schedule` gives the input `lr` of each step; its base is `lr`. Without one, `lr` holds for all steps.
    * `val` gives a number of the program after each epoch, or after each `val_every` steps.
    * `out` is a folder for `metrics.jsonl`, `checkpoint.safetensors` and, at the end, `weights.safetensors`. An
      interrupt writes the checkpoint and is raised again; `resume=True` goes on from there. Without it, the files of
      an earlier run in that folder make place.
    * `tensorboard` is a folder for event files with the numbers of `metrics.jsonl`: `tensorboard --logdir FOLDER`.
    * A loss that is NaN or infinite ends the run with `DivergedError`, and so does a param when a checkpoint is to be
      written; the checkpoint before it stays.
    * All batches name the same inputs.

    >>> import arenagrad as ag, numpy as np
    >>> with ag.build("line") as b:
    ...     loss = ag.nn.linear("fc", b.input("x", (8, 1)), 1).mse(b.input("y", (8, 1)))
    ...     b.output("loss", loss)
    >>> p = ag.compile(ag.train(b.graph, "loss", ag.optim.Sgd(0.1)))
    >>> p.init(0)
    >>> x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)
    >>> ag.fit(p, [{"x": x, "y": 3 * x}], steps=200, progress=False)
    <Fitted: 200 steps, 200 epochs, ended: steps>
    """
    return run_fit(
        program,
        batches,
        files=Files(out, tensorboard),
        steps=steps,
        epochs=epochs,
        schedule=schedule,
        lr=lr,
        loss=loss,
        val=val,
        val_every=val_every,
        report_every=report_every,
        checkpoint_every=checkpoint_every,
        resume=resume,
        progress=progress,
        callback=callback,
    )


def run_fit(
    program: Any,
    batches: Any,
    *,
    files: Files,
    steps: int | None,
    epochs: int | None,
    schedule: Schedule | None,
    lr: float | None,
    loss: str,
    val: Callable[[Any], float] | None,
    val_every: int | None,
    report_every: int,
    checkpoint_every: int | None,
    resume: bool,
    progress: bool,
    callback: Callable[[int, Any], bool | None] | None,
) -> Fitted:
    """The run of `fit`. `program` has `params` and the functions `step`, `checkpoint`, `resume` and `save` of one."""
    if steps is None and epochs is None:
        raise make("syntax", "fit: give steps or epochs")
    if min(steps or 0, epochs or 0) < 0:
        raise make("syntax", f"fit: steps is {steps} and epochs is {epochs}; neither may be below 0")
    if schedule is not None and (steps is None or lr is None):
        raise make("syntax", "fit: a schedule needs lr, its base or peak rate, and steps, the length of the run")
    run = _Run(program, loss, files, steps, report_every, checkpoint_every)
    rates = None
    if schedule is not None and steps is not None and lr is not None:
        rates = schedule.rates(base=lr, steps=steps)
    if resume:
        run.resume()
    run.files.begin(run.step, run.epoch)
    run.shown = _progress(progress, steps, run.step)
    try:
        ended = run.go(batches, epochs, rates, lr, val, val_every, callback)
    except KeyboardInterrupt:
        # Of params that are not finite there is no checkpoint; what is raised is the interrupt.
        with contextlib.suppress(DivergedError):
            run.checkpoint()
        raise
    finally:
        if run.shown is not None:
            run.shown.close()
    run.checkpoint()
    if files.folder is not None:
        program.save(run.files.path("weights.safetensors"))
    return Fitted(run.step, run.epoch, run.history, ended)


class _Run:
    """The state of a run."""

    def __init__(
        self,
        program: Any,
        loss: str,
        files: Files,
        steps: int | None,
        report_every: int,
        checkpoint_every: int | None,
    ) -> None:
        self.program = program
        self.loss = loss
        self.files = files
        self.steps = steps
        self.report_every = max(1, report_every)
        self.checkpoint_every = checkpoint_every
        self.shown: _Lines | _Bar | None = None
        self.step = 0
        self.epoch = 0
        self.in_epoch = 0
        self.history: list[dict[str, float]] = []
        self.inputs: frozenset[str] | None = None

    def resume(self) -> None:
        """Goes on from the checkpoint, if there is one."""
        path = self.files.path("checkpoint.safetensors")
        if self.files.folder is None:
            raise make("syntax", "fit: resume=True needs out, the folder of the run")
        if os.path.exists(path):
            numbers = self.program.resume(path)
            missing = [n for n in ("step", "epoch", "in_epoch") if n not in numbers]
            if missing:
                raise make("data", f"{path}: the file is no checkpoint of fit: {missing[0]} is missing")
            self.step, self.epoch, self.in_epoch = (int(numbers[n]) for n in ("step", "epoch", "in_epoch"))

    def checkpoint(self) -> None:
        if self.files.folder is None:
            return
        import numpy as np

        params = self.program.params
        wrong = next((n for n in params if not np.isfinite(params[n]).all()), None)
        if wrong is not None:
            raise make("diverged", f"step {self.step}: param {wrong!r} is not finite, so no checkpoint is written")
        self.files.checkpoint(self.program, step=self.step, epoch=self.epoch, in_epoch=self.in_epoch)

    def report(self, loss: float, rate: float | None) -> None:
        numbers = {"step": self.step, "epoch": self.epoch, "loss": loss}
        if rate is not None:
            numbers["lr"] = rate
        self.history.append(numbers)
        self.files.report(numbers)

    def validate(self, val: Callable[[Any], float]) -> None:
        numbers = {"step": self.step, "epoch": self.epoch, "val": float(val(self.program))}
        self.history.append(numbers)
        self.files.report(numbers)
        if self.shown is not None:
            self.shown.show(self.step, f"val {numbers['val']:.4g}", force=True)

    def go(
        self,
        batches: Batches,
        epochs: int | None,
        rates: list[float] | None,
        lr: float | None,
        val: Callable[[Any], float] | None,
        val_every: int | None,
        callback: Callable[[int, Any], bool | None] | None,
    ) -> str:
        """Runs steps until the run ends; why it ended."""
        for epoch, items in _epochs(batches, self.epoch):
            self.epoch = epoch
            if epochs is not None and epoch >= epochs:
                return "epochs"
            skip, seen = self.in_epoch, 0
            for seen, batch in enumerate(items, 1):
                if seen <= skip:
                    continue
                if self.steps is not None and self.step >= self.steps:
                    return "steps"
                rate = lr if rates is None else rates[self.step]
                self.one(batch, rate)
                self.in_epoch = seen
                if val is not None and val_every and self.step % val_every == 0:
                    self.validate(val)
                if self.checkpoint_every and self.step % self.checkpoint_every == 0:
                    self.checkpoint()
                if callback is not None and callback(self.step, self.program):
                    return "callback"
            if seen == 0:
                raise make("data", f"fit: epoch {epoch} has no batch")
            self.epoch, self.in_epoch = epoch + 1, 0
            if val is not None and not val_every:
                self.validate(val)
            if self.steps is not None and self.step >= self.steps:
                return "steps"
        return "batches"

    def one(self, batch: Mapping[str, Any], rate: float | None) -> None:
        """One step."""
        names = frozenset(batch)
        if self.inputs is not None and names != self.inputs:
            differ = ", ".join(sorted(names ^ self.inputs))
            raise make("data", f"fit: the batch of step {self.step + 1} and those before it differ in inputs: {differ}")
        self.inputs = names
        outputs = self.program.step(**batch) if rate is None else self.program.step(**batch, lr=rate)
        self.step += 1
        last = self.steps is not None and self.step >= self.steps
        loss = float(outputs[self.loss])
        if not math.isfinite(loss):
            raise make("diverged", f"step {self.step}: the {self.loss} is {loss}")
        if self.step % self.report_every == 0 or last or self.step == 1:
            self.report(loss, rate)
            if self.shown is not None:
                self.shown.show(self.step, f"{self.loss} {loss:.4g}", force=last)


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The built-in 8×8 handwritten digits: (images, labels) for training, and for testing.

    Images are f32[n,1,8,8] from 0 to 1, labels i32[n]. The split is that of the program `arenagrad`.

    >>> import arenagrad as ag
    >>> (x, y), (x_test, y_test) = ag.digits()
    >>> x.shape, x_test.shape
    ((1438, 1, 8, 8), (359, 1, 8, 8))
    """
    import gzip

    import numpy as np

    rows = np.array([line.split(b",") for line in gzip.decompress(_digits()).split()], dtype=np.float32)
    images = (rows[:, :64] / np.float32(16)).reshape(-1, 1, 8, 8)
    labels = rows[:, 64].astype(np.int32)
    tested = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        order = np.array(_permutation(0, digit, len(members)))
        tested[members[order[: (len(members) + 2) // 5]]] = True
    return (images[~tested], labels[~tested]), (images[tested], labels[tested])


def demo(steps: int = 600, *, progress: bool = True) -> float:
    """Trains a small convnet on the digits. Gives its accuracy on the test images.

    >>> import arenagrad as ag
    >>> ag.demo(100, progress=False) > 0.8
    True
    """
    import numpy as np

    (x, y), (x_test, y_test) = digits()

    def net(b: Build, rows: int) -> Any:
        h = nn.conv2d("conv1", b.input("x", (rows, 1, 8, 8)), 16, 3, padding=1).relu()
        h = nn.max_pool2d(nn.conv2d("conv2", h, 32, 3, padding=1).relu(), 2)
        return nn.linear("fc2", nn.linear("fc1", h.flatten(1), 64).relu(), 10)

    learn, test = Build("learn"), Build("test")
    loss = net(learn, 64).cross_entropy(learn.input("y", (64,), "i32"))
    step = train(learn.finish(loss=loss), "loss", optim.AdamW(4e-3, weight_decay=0.05))
    program = compile({"learn": step, "test": test.finish(logits=net(test, len(y_test)))})
    program.init(0)

    def shuffled(epoch: int) -> Iterator[dict[str, Any]]:
        order = np.array(_permutation(0, epoch, len(y)))
        for at in range(0, len(order) - 63, 64):
            rows = order[at : at + 64]
            yield {"x": x[rows], "y": y[rows]}

    def accuracy(p: Program) -> float:
        return float((p.run("test", x=x_test)["logits"].argmax(1) == y_test).mean())

    schedule = optim.schedules.OneCycle()
    fit(program, shuffled, steps=steps, schedule=schedule, lr=4e-3, progress=progress)
    right = accuracy(program)
    if progress:
        print(f"{right:.1%} of {len(y_test)} test images are right")
    return right
