"""Sweeps: what is tried, which trials go on, and what becomes of those that fail."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import arenagrad as ag

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def test_settings_are_draws_or_all_combinations():
    space = {"lr": ag.ray.log_uniform(1e-4, 1e-1), "width": [8, 16], "depth": ag.ray.integers(1, 3), "name": "net"}
    drawn = ag.ray.settings(space, trials=40, seed=3)
    assert drawn == ag.ray.settings(space, trials=40, seed=3)
    assert drawn[:10] == ag.ray.settings(space, trials=10, seed=3)
    assert drawn != ag.ray.settings(space, trials=40, seed=4)
    assert all(1e-4 <= s["lr"] <= 1e-1 and s["name"] == "net" for s in drawn)
    assert {s["width"] for s in drawn} == {8, 16} and {s["depth"] for s in drawn} == {1, 2, 3}
    assert len(ag.ray.settings({"a": [1, 2, 3], "b": (4, 5), "c": 6})) == 6
    for call, text in [
        (lambda: ag.ray.settings(space), "'lr' is drawn from log_uniform"),
        (lambda: ag.ray.settings({"a": []}), "'a' has no choices"),
        (lambda: ag.ray.settings(space, trials=0), "trials is 0"),
        (lambda: ag.ray.uniform(1.0, 0.0), "the lower one first"),
        (lambda: ag.ray.log_uniform(0.0, 1.0), "above 0"),
        (lambda: ag.ray.sweep(lambda s: iter(()), {}, mode="least"), "mode is 'least'"),
        (lambda: ag.ray.sweep(lambda s: iter(()), {}, cpus=0), "cpus is 0"),
    ]:
        with pytest.raises(ag.SyntaxError_, match=text):
            call()


def test_a_trial_below_the_median_stops():
    trials = [ag.ray.Trial(i, {}) for i in range(4)]
    for trial, value in zip(trials, (1.0, 2.0, 3.0, 4.0)):
        trial.values = [9.0, value]
    stop = ag.ray.below_median(after=2)
    assert [stop(t, trials) for t in trials] == [False, False, True, True]
    assert not ag.ray.below_median(after=3)(trials[3], trials)
    assert [ag.ray.below_median(2, rising=True)(t, trials) for t in trials] == [True, True, False, False]
    trials[0].values = [9.0, math.nan]
    assert stop(trials[0], trials)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=1)
    yield ray
    ray.shutdown()


def _trainer():
    """A function that processes of Ray get as it is, as those of a program."""

    def line(settings):
        """Trains a line by SGD; reports the loss."""
        if settings["fails"] == "raise":
            raise ValueError("no such data")
        with ag.build("line") as b:
            x, y = b.input("x", (8, 1)), b.input("y", (8, 1))
            b.output("loss", ag.nn.linear("fc", x, 1).mse(y))
        p = ag.compile(ag.train(b.graph, "loss", ag.optim.Sgd(settings["lr"])))
        p.init(0)
        import numpy as np

        xs = np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)
        for k in range(4):
            if settings["fails"] == "die" and k == 1:
                os._exit(1)
            for _ in range(20):
                out = p.step(x=xs, y=3 * xs)
            yield {"val": out.item("loss"), "report": k}

    return line


def test_a_sweep_finds_the_best_and_goes_on_after_failures(ray):
    space = {"lr": [0.001, 0.3], "fails": ["", "raise", "die"]}
    swept = ag.ray.sweep(_trainer(), space, cpus=0.5, progress=False)
    assert swept.best.settings == {"lr": 0.3, "fails": ""}
    assert [t.ended for t in swept.trials] == ["done", "failed", "failed"] * 2
    assert [len(t.reports) for t in swept.trials] == [4, 0, 1] * 2
    assert "ValueError: no such data" in swept.trials[1].error
    assert "the process of the trial has ended" in swept.trials[2].error

    stopped = ag.ray.sweep(
        _trainer(), {"lr": [0.3, 0.001], "fails": ""}, stop=lambda t, _: t.values[-1] > 0.1, progress=False, at_once=1
    )
    assert [t.ended for t in stopped.trials] == ["done", "stopped"] and len(stopped.trials[1].reports) == 1
    with pytest.raises(ag.DataError, match="no trial gave a number; the first says: ValueError"):
        ag.ray.sweep(_trainer(), {"fails": ["raise"]}, progress=False)


def test_reports_need_the_metric(ray):
    with pytest.raises(ag.DataError, match="a report has no number 'accuracy'"):
        ag.ray.sweep(_trainer(), {"lr": [0.1], "fails": ""}, metric="accuracy", progress=False)


@pytest.mark.parametrize("name", ["sweep_digits.py", "ray_actor.py"])
def test_examples_run(name):
    done = subprocess.run([sys.executable, EXAMPLES / name, "--steps", "20"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "of 359 test images are right" in done.stdout
