"""A net that learns in an actor of Ray while other programs send it examples and ask it for predictions.

`python ray_actor.py [--steps N]`. The actor's program stays compiled between calls; arrays travel as Ray's objects. A call
takes a large part of a millisecond, so each brings many examples.
"""

from __future__ import annotations

import argparse

import numpy as np
import ray

import arenagrad as ag


@ray.remote(num_cpus=1)
class Learner:
    """A net for the digits: `learn` on 64 examples at a time, `right` on the test images."""

    def __init__(self) -> None:
        learn, test = ag.build("learn"), ag.build("test")
        loss = self.net(learn, 64).cross_entropy(learn.input("y", (64,), "i32"))
        step = ag.train(learn.finish(loss=loss), "loss", ag.optim.AdamW(3e-3))
        self.program = ag.compile({"learn": step, "test": test.finish(logits=self.net(test, 359))})
        self.program.init(0)

    @staticmethod
    def net(b: ag.Build, rows: int) -> ag.Var:
        h = ag.nn.linear("fc1", b.input("x", (rows, 1, 8, 8)).flatten(1), 64).relu()
        return ag.nn.linear("fc2", h, 10)

    def learn(self, x: np.ndarray, y: np.ndarray) -> float:
        """The mean loss of the steps on these examples, the last ones that are no whole batch left out."""
        losses = [
            self.program.run("learn", x=x[at : at + 64], y=y[at : at + 64]).item("loss")
            for at in range(0, len(y) - 63, 64)
        ]
        return sum(losses) / len(losses)

    def right(self, x: np.ndarray, y: np.ndarray) -> float:
        """The part of these 359 images that are right."""
        return float((self.program.run("test", x=x)["logits"].argmax(1) == y).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30, help="calls of learn")
    args = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=1)
    (x, y), (x_test, y_test) = ag.digits()
    learner = Learner.remote()
    draw = np.random.default_rng(0)
    for k in range(args.steps):
        rows = draw.permutation(len(y))[:640]
        loss = ray.get(learner.learn.remote(x[rows], y[rows]))
        if k % 10 == 0:
            print(f"call {k:3}: loss {loss:.4f}", flush=True)
    print(f"{ray.get(learner.right.remote(x_test, y_test)):.1%} of {len(y_test)} test images are right")


main()
