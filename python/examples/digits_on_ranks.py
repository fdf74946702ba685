"""Trains a small net on the built-in digits, on several ranks.

`mpirun -n 4 python digits_on_ranks.py [--steps N] [--batch N] [--shard-states]`, or
`torchrun --nproc-per-node 4 digits_on_ranks.py`. The batch is that of all ranks together.
"""

from __future__ import annotations

import argparse
from typing import Iterator

import numpy as np

import arenagrad as ag


def net(b: ag.Build, rows: int) -> ag.Var:
    h = ag.nn.linear("fc1", b.input("x", (rows, 1, 8, 8)).flatten(1), 64).relu()
    return ag.nn.linear("fc2", h, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shard-states", action="store_true")
    args = parser.parse_args()

    world = ag.mpi.join()  # from here on a failure of one rank ends all
    (x, y), (x_test, y_test) = ag.digits()
    with ag.build("learn") as b:
        rows = args.batch // world.size  # this rank's share
        b.output("loss", net(b, rows).cross_entropy(b.input("y", (rows,), "i32")))
    program = ag.mpi.compile(b.graph, "loss", ag.optim.AdamW(3e-3), shard_states=args.shard_states)
    program.init(0)

    def batches(epoch: int) -> Iterator[dict[str, np.ndarray]]:
        order = np.random.default_rng(epoch).permutation(len(y))  # the same on all ranks
        for at in range(0, len(y) - args.batch + 1, args.batch):
            rows = order[at : at + args.batch]
            yield {"x": x[rows], "y": y[rows]}

    schedule = ag.optim.schedules.OneCycle()
    ag.mpi.fit(program, batches, steps=args.steps, schedule=schedule, lr=3e-3)
    if world.rank == 0:
        with ag.build("test") as b:
            b.output("logits", net(b, len(y_test)))
        test = ag.compile(b.graph)
        test.load_state_dict({name: program.params[name] for name in test.params})
        right = (test.step(x=x_test)["logits"].argmax(1) == y_test).mean()
        print(f"{right:.1%} of {len(y_test)} test images are right")


main()
