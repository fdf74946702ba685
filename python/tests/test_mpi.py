"""Ranks: equal losses and stable bits under mpirun; what a failure of one says; torchrun."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import batch, mlp

import arenagrad as ag

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "ranks" / "train.py"
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# A run that a rank ends, from the fault on.
LIMIT = 5.0


def launch(ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A run of Python under mpirun."""
    mpirun = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
    command = [*mpirun, sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


def run(ranks: int, folder: Path, *arguments: str) -> tuple[float, str]:
    """The last loss and the rest of what a run without a fault prints."""
    done = launch(ranks, SCRIPT, "none", folder, *arguments)
    assert done.returncode == 0, done.stderr
    found = re.search(r"loss (\S+) (.*)", done.stdout)
    assert found, done.stdout
    return float(found[1]), found[2]


@pytest.mark.parametrize("optimiser", ["clipped", "accumulated"])
def test_ranks_learn_what_one_process_learns(optimiser, tmp_path):
    one, _ = run(1, tmp_path / "1", "--optimiser", optimiser)
    for ranks in (2, 4):
        loss, rest = run(ranks, tmp_path / f"{ranks}", "--optimiser", optimiser)
        assert abs(loss - one) < 1e-6
        assert run(ranks, tmp_path / "again", "--optimiser", optimiser) == (loss, rest)
        again = run(ranks, tmp_path / "shard", "--optimiser", optimiser, "--shard")
        assert again == (loss, rest)


def test_one_rank_has_the_bits_of_ag_fit(tmp_path):
    run(1, tmp_path / "ranks")
    # The same net and batches, without ranks.
    graph = _net(24)
    p = ag.compile(ag.train(graph, "loss", ag.optim.AdamW(0.01, clip_norm=0.5)))
    p.init(7)
    ag.fit(p, _batches, steps=20, progress=False, out=tmp_path / "fit")
    ours, theirs = (tmp_path / d / "weights.safetensors" for d in ("fit", "ranks"))
    assert ours.read_bytes() == theirs.read_bytes()


def _net(rows: int) -> ag.Graph:
    with ag.build("net") as b:
        h = ag.nn.linear("fc1", b.input("x", (rows, 2)), 64).tanh()
        b.output("loss", ag.nn.linear("fc2", h, 1).mse(b.input("y", (rows, 1))))
    return b.graph


def _batches(epoch: int):
    draw = np.random.default_rng(epoch)
    for _ in range(10):
        x = draw.normal(size=(24, 2)).astype(np.float32)
        yield {"x": x, "y": x[:, :1] * x[:, 1:] + np.float32(0.5)}


def test_a_run_goes_on_at_the_same_number_of_ranks(tmp_path):
    whole = run(2, tmp_path / "whole", "--shard", "--steps", "20")
    run(2, tmp_path / "parts", "--shard", "--steps", "9")
    assert run(2, tmp_path / "parts", "--shard", "--steps", "20", "--resume") == whole
    refused = launch(3, SCRIPT, "none", tmp_path / "parts", "--resume")
    assert refused.returncode != 0
    assert "the checkpoint has number of ranks 2, this run has 3" in refused.stderr
    rescaled = launch(3, SCRIPT, "none", tmp_path / "parts", "--resume", "--rescale", "--steps", "22")
    assert rescaled.returncode == 0, rescaled.stderr


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("kill", "signal 9"),
        ("exit", "rank 1 of 3 ended: it exited with 0 before the run was finished"),
        ("leave", "rank 1"),
        ("raise", "rank 1: OSError: batch 5: no such file"),
        ("shape", r"rank 1: .*input .x.: the array is \(24, 1\)"),
        ("val", "rank 1: ValueError: no such image"),
        ("graph", "rank 1 of 3 has another graph of gradients"),
        ("values", "rank 1 of 3 has another value of params and states"),
        ("data", "rank 1 of 3 has another first batch"),
        ("fewer", "some ranks have a batch and others have none"),
        ("early", "rank 1 of 3 ended: it exited, and other ranks begin a run|rank 1 exited, and this rank begins"),
        ("again", "rank 1 of 3 ended: it exited, and other ranks begin a run|rank 1 exited, and this rank begins"),
    ],
)
def test_a_rank_that_fails_ends_all_and_says_why(fault, says, tmp_path):
    start = time.monotonic()
    base = launch(3, "-c", "import arenagrad as ag; ag.mpi.join()")
    starting = time.monotonic() - start
    assert base.returncode == 0, base.stderr
    start = time.monotonic()
    done = launch(3, SCRIPT, fault, tmp_path, "--steps", "1000000" if fault != "again" else "20")
    took = time.monotonic() - start
    assert done.returncode != 0, done.stdout
    assert re.search(says, done.stderr + done.stdout), done.stderr
    assert took < LIMIT + starting, f"{took:.1f} s, of which starting takes {starting:.1f} s"
    if fault in ("kill", "exit", "leave", "raise", "shape"):
        ag.compile(ag.train(_net(8), "loss", ag.optim.AdamW(0.01, clip_norm=0.5))).resume(
            tmp_path / "checkpoint.safetensors"
        )


def test_a_callback_of_one_rank_ends_the_run_on_all(tmp_path):
    done = launch(2, SCRIPT, "callback", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "steps 15 val {0.5}" in done.stdout


def test_mpich_gives_the_bits_of_open_mpi(tmp_path):
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={**os.environ, "PATH": "/sbin:/usr/bin"})
    library = re.search(r"libmpich\.so\.12 .*=> (\S+)", listed.stdout)
    if library is None or shutil.which("mpirun.mpich") is None:
        pytest.skip("there is no MPICH: apt-get install --no-install-recommends mpich")
    # The wheel of mpi4py asks for MPICH's library by the name that it has outside of Debian.
    (tmp_path / "libmpi.so.12").symlink_to(library[1])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "MPI4PY_MPIABI": "mpich"}
    for ranks in (2, 4):
        command = ["mpirun.mpich", "-n", str(ranks), sys.executable, SCRIPT, "none", tmp_path / f"mpich{ranks}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        loss, rest = run(ranks, tmp_path / f"open{ranks}")
        assert f"loss {loss:.9f} {rest}" in done.stdout


def test_torchrun_starts_ranks(tmp_path):
    pytest.importorskip("torch")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*torchrun, SCRIPT, "none", tmp_path / "2"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    by_mpirun = run(2, tmp_path / "mpi")
    assert f"loss {by_mpirun[0]:.9f} {by_mpirun[1]}" in done.stdout
    failed = subprocess.run([*torchrun, SCRIPT, "raise", tmp_path], capture_output=True, text=True, timeout=120)
    assert failed.returncode != 0
    assert "rank 1: OSError: batch 5: no such file" in failed.stderr


def test_a_process_that_nothing_has_started_is_one_rank(tmp_path):
    with pytest.raises(ag.UsageError, match="not of ag.mpi.compile"):
        p = ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(0.1)))
        ag.mpi.fit(p, [batch()], steps=1, progress=False)
    p = ag.mpi.compile(mlp(), "loss", ag.optim.Sgd(0.1))
    p.init(0)
    fitted = ag.mpi.fit(p, [batch()], steps=30, progress=False, out=tmp_path)
    assert fitted.steps == 30 and fitted.history[-1]["loss"] < fitted.history[0]["loss"]
    assert (tmp_path / "weights.safetensors").exists()
    with pytest.raises(ag.SyntaxError_, match="reduce is .max.; it may be mean, sum"):
        ag.mpi.compile(mlp(), "loss", ag.optim.Sgd(0.1), reduce="max")
