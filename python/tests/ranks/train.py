"""A run of a small net on all ranks, with a fault on one of them: what `test_mpi.py` starts under `mpirun`.

`train.py FAULT FOLDER [--steps N] [--optimiser NAME] [--shard]`: the fault is `none`, or happens on rank 1 in step 5. Rank 0
prints the last loss and a digest of the weights.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys

import numpy as np

import arenagrad as ag

BATCH = 24
STEP = 5
OPTIMISERS = {
    "sgd": lambda: ag.optim.Sgd(0.05, momentum=0.9),
    "clipped": lambda: ag.optim.AdamW(0.01, clip_norm=0.5),
    "accumulated": lambda: ag.optim.Adam(0.01, accumulate=2),
}


def fail(fault: str) -> None:
    """What is wrong with rank 1 in step `STEP`."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        sys.exit(0)
    if fault == "leave":
        os._exit(0)
    if fault == "raise":
        raise OSError("batch 5: no such file")


def net(rows: int, hidden: int) -> ag.Graph:
    with ag.build("net") as b:
        h = ag.nn.linear("fc1", b.input("x", (rows, 2)), hidden).tanh()
        b.output("loss", ag.nn.linear("fc2", h, 1).mse(b.input("y", (rows, 1))))
    return b.graph


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--optimiser", default="clipped")
    parser.add_argument("--shard", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--rescale", action="store_true")
    args = parser.parse_args()
    world = ag.mpi.join()
    faulty = world.rank == 1
    if faulty and args.fault == "early":
        sys.exit(0)
    graph = net(BATCH // world.size, 65 if faulty and args.fault == "graph" else 64)
    program = ag.mpi.compile(graph, "loss", OPTIMISERS[args.optimiser](), shard_states=args.shard)
    program.init(8 if faulty and args.fault == "values" else 7)

    def batches(epoch: int):
        draw = np.random.default_rng(epoch)
        for k in range(9 if faulty and args.fault == "fewer" else 10):
            if faulty and epoch == 0 and k + 1 == STEP:
                fail(args.fault)
            micro = (2,) if args.optimiser == "accumulated" else ()
            x = draw.normal(size=(*micro, BATCH, 2)).astype(np.float32)
            if faulty and args.fault == "data":
                x[0, 0] += 1
            y = x[..., :1] * x[..., 1:] + np.float32(0.5)
            yield {"x": x[:, :1] if faulty and args.fault == "shape" and k + 1 == STEP else x, "y": y}

    def val(p: ag.Program) -> float:
        if faulty and args.fault == "val":
            raise ValueError("no such image")
        return float(world.rank)

    fitted = ag.mpi.fit(
        program,
        batches,
        steps=args.steps,
        out=args.folder,
        val=val,
        checkpoint_every=3,
        callback=(lambda step, p: step == 15) if args.fault == "callback" and faulty else (lambda step, p: False),
        resume=args.resume,
        rescale=args.rescale,
        progress=False,
    )
    if faulty and args.fault == "again":
        sys.exit(0)
    if args.fault == "again":
        ag.mpi.fit(program, batches, steps=args.steps, progress=False)
    digest = hashlib.sha256(b"".join(program.params[name].tobytes() for name in sorted(program.params)))
    if world.rank == 0:
        vals = {r["val"] for r in fitted.history if "val" in r}
        loss = [r["loss"] for r in fitted.history if "loss" in r][-1]
        print(f"loss {loss:.9f} steps {fitted.steps} val {vals} weights", digest.hexdigest()[:16])


main()
