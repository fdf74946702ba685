"""Sweeps over Ray: many trainings with other settings, side by side on the cores of one machine or of many.

Needs Ray: `pip install "arenagrad[ray]"`. For gradients of one run on several machines there is `arenagrad.mpi`.

>>> import arenagrad as ag
>>> space = {"lr": ag.ray.log_uniform(1e-4, 1e-1), "width": [16, 32, 64]}
>>> ag.ray.settings(space, trials=2, seed=1)  # what a sweep tries
[{'lr': 0.000159..., 'width': 32}, {'lr': 0.000104..., 'width': 32}]
>>> def build(settings):
...     '''Trains a net, and yields what it has reached now and then.'''
...     for step in range(3):
...         yield {"val": settings["lr"] * step}
>>> ag.ray.sweep(build, space, trials=20).best.settings  # doctest: +SKIP
{'lr': 0.00011, 'width': 32}
"""

from __future__ import annotations

import itertools
import math
import random
import traceback
from importlib import import_module
from typing import Any, Callable, Iterator, Mapping, Sequence

from ._errors import make

__all__ = ["Sweep", "Trial", "below_median", "integers", "log_uniform", "settings", "sweep", "uniform"]


class Draw:
    """A setting that is drawn: `uniform`, `log_uniform` or `integers`."""

    def __init__(self, shown: str, draw: Callable[[random.Random], Any]) -> None:
        self.shown = shown
        self.draw = draw

    def __repr__(self) -> str:
        return self.shown


def _bounds(kind: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise make("syntax", f"{kind}({low}, {high}): the bounds are finite, the lower one first")


def uniform(low: float, high: float) -> Draw:
    """A number from `low` to `high`."""
    _bounds("uniform", low, high)
    return Draw(f"uniform({low}, {high})", lambda r: r.uniform(low, high))


def log_uniform(low: float, high: float) -> Draw:
    """A number from `low` to `high`, both above 0, whose logarithm is uniform: for rates."""
    _bounds("log_uniform", low, high)
    if low <= 0:
        raise make("syntax", f"log_uniform({low}, {high}): the bounds are above 0")
    return Draw(f"log_uniform({low}, {high})", lambda r: math.exp(r.uniform(math.log(low), math.log(high))))


def integers(low: int, high: int) -> Draw:
    """An integer from `low` to `high`, both included."""
    _bounds("integers", low, high)
    return Draw(f"integers({low}, {high})", lambda r: r.randint(low, high))


class Trial:
    """One training of a sweep: its `settings`, the `reports` that it gave, its `value`, and how it `ended`: `done`,
    `stopped` or `failed`, with an `error`."""

    def __init__(self, number: int, settings: dict[str, Any]) -> None:
        self.number = number
        self.settings = settings
        self.reports: list[dict[str, Any]] = []
        self.values: list[float] = []
        self.value = math.nan
        self.ended = ""
        self.error = ""

    def __repr__(self) -> str:
        return f"<Trial {self.number}: {self.value:.6g} after {len(self.reports)} reports, {self.ended}, {self.settings}>"


class Sweep:
    """What a sweep gave: all `trials`, and the `best` one."""

    def __init__(self, trials: list[Trial], rising: bool) -> None:
        self.trials = trials
        known = [t for t in trials if t.ended != "failed" and not math.isnan(t.value)]
        if not known:
            raise make("data", f"sweep: no trial gave a number; the first says: {trials[0].error or 'nothing'}")
        self.best = max(known, key=lambda t: t.value) if rising else min(known, key=lambda t: t.value)

    def __repr__(self) -> str:
        return f"<Sweep: {len(self.trials)} trials, best {self.best!r}>"


def settings(space: Mapping[str, Any], trials: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """The settings that a sweep tries. Lists are choices; other values are the same for all.

    Without `trials`, all combinations of the lists; then nothing is drawn, so `space` has no ranges. With `trials`, that
    many draws, the same for the same `seed`.
    """
    ranges = [name for name, values in space.items() if isinstance(values, Draw)]
    lists = {name: list(values) for name, values in space.items() if isinstance(values, (list, tuple))}
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise make("syntax", f"sweep: {empty[0]!r} has no choices")
    if trials is None:
        if ranges:
            raise make("syntax", f"sweep: {ranges[0]!r} is drawn from {space[ranges[0]]}: give the number of trials")
        combinations = itertools.product(*lists.values())
        return [{**space, **dict(zip(lists, chosen))} for chosen in combinations]
    if trials < 1:
        raise make("syntax", f"sweep: trials is {trials}; it is 1 or more")

    def drawn(trial: int, name: str, values: Any) -> Any:
        # Of each setting and trial alone, so that another setting or more trials change no draw.
        draw = random.Random(f"{seed}/{trial}/{name}")
        if isinstance(values, Draw):
            return values.draw(draw)
        return draw.choice(lists[name]) if name in lists else values

    return [{name: drawn(trial, name, values) for name, values in space.items()} for trial in range(trials)]


Stop = Callable[[Trial, Sequence[Trial]], bool]


def below_median(after: int = 3, rising: bool = False) -> Stop:
    """A rule that stops a trial whose last value is worse than the median of the other trials' values after as many
    reports, from report `after` on; `rising` if large values are good."""

    def stop(trial: Trial, trials: Sequence[Trial]) -> bool:
        n = len(trial.values)
        others = sorted(t.values[n - 1] for t in trials if t is not trial and len(t.values) >= n)
        if n < after or len(others) < 2:
            return False
        median = others[len(others) // 2] if rising else others[(len(others) - 1) // 2]
        value = trial.values[-1]
        return math.isnan(value) or (value < median if rising else value > median)

    return stop


class _Worker:
    """One trial, in a process of Ray."""

    def __init__(self, build: Callable[[dict[str, Any]], Iterator[Mapping[str, Any]]], chosen: dict[str, Any]) -> None:
        self.build = build
        self.settings = chosen
        self.run: Iterator[Mapping[str, Any]] | None = None

    def advance(self) -> tuple[str, Any]:
        """Trains until the next report. Gives it, or says that there is none, or why the trial failed."""
        try:
            if self.run is None:
                self.run = iter(self.build(self.settings))
            for report in self.run:
                return "report", dict(report)
            return "done", None
        except Exception as e:
            return "failed", f"{type(e).__name__}: {e}\n{traceback.format_exc()}"


def sweep(
    build: Callable[[dict[str, Any]], Iterator[Mapping[str, Any]]],
    space: Mapping[str, Any],
    trials: int | None = None,
    *,
    cpus: float = 0.5,
    stop: Stop | None = None,
    metric: str = "val",
    mode: str = "min",
    seed: int = 0,
    at_once: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Trains by `build` with each of the `settings` of `space`, in processes of Ray that take `cpus` cores each.

    * `build` gets the settings of a trial as a dictionary. It is a generator: it trains with `threads=1`, and yields a report now
      and then: a dictionary with the number `metric`. The last number is the trial's value.
    * `mode` is `"min"` or `"max"`: which values are best.
    * `stop(trial, trials)` is asked after each report; True ends that trial. `below_median()` is such a rule.
    * At most `at_once` trials run at a time, by default as many as the cores of the cluster allow.
    * A trial that raises, or whose process dies, has `failed`; the others go on. If all fail, that is an error.

    Ray is started on this machine if the program has not called `ray.init()`.
    """
    if mode not in ("min", "max"):
        raise make("syntax", f"sweep: mode is {mode!r}; it may be 'min' or 'max'")
    if not cpus > 0:
        raise make("syntax", f"sweep: cpus is {cpus}; it is above 0")
    waiting = [Trial(i, chosen) for i, chosen in enumerate(settings(space, trials, seed))]
    try:
        ray: Any = import_module("ray")
    except ImportError as e:
        raise make("usage", f'arenagrad.ray needs Ray: pip install "arenagrad[ray]": {e}') from e
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    cores = float(ray.cluster_resources().get("CPU", 1.0))
    if cpus > cores:
        raise make("syntax", f"sweep: a trial takes {cpus} cores, and the cluster has {cores:g}")
    most = max(1, int(cores / cpus)) if at_once is None else max(1, at_once)
    worker = ray.remote(num_cpus=cpus, max_restarts=0)(_Worker)
    all_trials = list(waiting)
    running: dict[Any, tuple[Trial, Any]] = {}
    shared = ray.put(build)
    try:
        while waiting or running:
            while waiting and len(running) < most:
                trial = waiting.pop(0)
                actor = worker.remote(shared, trial.settings)
                running[actor.advance.remote()] = (trial, actor)
            ready, _ = ray.wait(list(running), num_returns=1)
            trial, actor = running.pop(ready[0])
            if _took(ray, trial, ready[0], metric) and not (stop is not None and stop(trial, all_trials)):
                running[actor.advance.remote()] = (trial, actor)
                continue
            trial.ended = trial.ended or "stopped"
            ray.kill(actor)
            if progress:
                print(trial, flush=True)
    finally:
        for _, actor in running.values():
            ray.kill(actor)
    return Sweep(all_trials, mode == "max")


def _took(ray: Any, trial: Trial, answer: Any, metric: str) -> bool:
    """Takes what a worker has answered. Whether the trial may go on."""
    try:
        kind, what = ray.get(answer)
    except ray.exceptions.RayError as e:
        kind, what = "failed", f"the process of the trial has ended: {e}"
    if kind == "report" and not isinstance(what.get(metric), (int, float)):
        try:
            what[metric] = float(what[metric])
        except (KeyError, TypeError, ValueError):
            kind, what = "failed", f"a report has no number {metric!r}: {what}"
    if kind == "report":
        trial.reports.append(what)
        trial.value = float(what[metric])
        trial.values.append(trial.value)
        return True
    trial.ended = kind
    if kind == "failed":
        trial.error = what
    elif not trial.values:
        trial.ended, trial.error = "failed", "the trial gave no report"
    return False
