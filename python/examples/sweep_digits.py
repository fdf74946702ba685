"""Looks for a good rate and width of a net for the built-in digits, with many trainings side by side on Ray.

`python sweep_digits.py [--trials N] [--steps N]`. On a cluster: `ray.init(address="auto")` before the sweep.
"""

from __future__ import annotations

import argparse
from typing import Any, Iterator

import numpy as np

import arenagrad as ag


def build(settings: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Trains with these settings; yields the part of test images that are right, eight times."""
    (x, y), (x_test, y_test) = ag.digits()
    learn, test = ag.build("learn"), ag.build("test")

    def net(b: ag.Build, rows: int) -> ag.Var:
        h = ag.nn.linear("fc1", b.input("x", (rows, 1, 8, 8)).flatten(1), settings["width"]).relu()
        return ag.nn.linear("fc2", h, 10)

    loss = net(learn, 32).cross_entropy(learn.input("y", (32,), "i32"))
    step = ag.train(learn.finish(loss=loss), "loss", ag.optim.AdamW(settings["lr"]))
    p = ag.compile({"learn": step, "test": test.finish(logits=net(test, len(y_test)))}, threads=1)
    p.init(0)
    draw = np.random.default_rng(0)
    for _ in range(8):
        for _ in range(settings["steps"] // 8):
            rows = draw.integers(0, len(y), 32)
            p.run("learn", x=x[rows], y=y[rows])
        yield {"right": float((p.run("test", x=x_test)["logits"].argmax(1) == y_test).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    space = {"lr": ag.ray.log_uniform(1e-4, 1e-1), "width": [16, 32, 64], "steps": args.steps}
    stop = ag.ray.below_median(after=3, rising=True)
    swept = ag.ray.sweep(build, space, args.trials, cpus=0.5, stop=stop, metric="right", mode="max")
    best = swept.best
    print(f"{best.value:.1%} of 359 test images are right, with {best.settings}")


main()
