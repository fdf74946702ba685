"""What tests share."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest

import arenagrad as ag


def _absent(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return True
    return False


# `check` installs both.
_NEEDED = {"torch": "torch", "test_onnx_runtime.py": "onnxruntime"}
collect_ignore = [path for path, package in _NEEDED.items() if _absent(package)]


@pytest.fixture
def double():
    """y = 2x of f32[3]."""
    with ag.build("double") as b:
        b.output("y", b.input("x", (3,)) * 2.0)
    return ag.compile(b.graph)


def mlp(rows: int = 8) -> ag.Graph:
    """A network of two layers with its loss, from x f32[rows,4] and labels y i32[rows]."""
    with ag.build("mlp") as b:
        h = ag.nn.linear("fc1", b.input("x", (rows, 4)), 16).tanh()
        loss = ag.nn.linear("fc2", h, 3).cross_entropy(b.input("y", (rows,), "i32"))
        b.output("loss", loss)
    return b.graph


def batch(rows: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """A batch for `mlp`."""
    draw = np.random.default_rng(seed)
    return {"x": draw.normal(size=(rows, 4)).astype(np.float32), "y": draw.integers(0, 3, rows).astype(np.int32)}


@pytest.fixture
def trained():
    """A program that trains `mlp`, with start values."""
    program = ag.compile(ag.train(mlp(), "loss", ag.optim.AdamW(1e-2, clip_norm=1.0)))
    program.init(0)
    return program
