"""Models that are written, run by onnxruntime: the networks of the built-in tasks, whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import arenagrad as ag
import arenagrad.onnx


def chargpt() -> ag.Graph:
    """The network of `train chargpt` in evaluation, from tokens to the loss of each one."""
    with ag.build("chargpt") as b:
        b.training(False)
        tokens, following = b.input("tokens", (2, 64), "i32"), b.input("next", (128,), "i32")
        logits = ag.nn.gpt(tokens, 65, 64, 4, 4, 128).reshape([128, 65])
        b.output("logits", logits)
        b.output("losses", logits.cross_entropy(following, reduction="none"))
    return b.graph


def digits() -> ag.Graph:
    """The convnet of `train digits`."""
    with ag.build("digits") as b:
        h = ag.nn.conv2d("conv1", b.input("images", (4, 1, 8, 8)), 16, 3, padding=1).relu()
        h = ag.nn.max_pool2d(ag.nn.conv2d("conv2", h, 32, 3, padding=1).relu(), 2)
        b.output("logits", ag.nn.linear("fc2", ag.nn.linear("fc1", h.flatten(1), 64).relu(), 10))
    return b.graph


def lstm() -> ag.Graph:
    """Two layers in both directions, over sequences of several lengths."""
    with ag.build("lstm") as b:
        y, h, c = ag.nn.lstm("r", b.input("x", (7, 3, 5)), 8, 2, True, lengths=b.input("lengths", (3,), "i64"))
        for name, value in {"y": y, "h": h, "c": c}.items():
            b.output(name, value)
    return b.graph


INPUTS = {
    "tokens": lambda r: r.integers(0, 65, (2, 64)).astype(np.int32),
    "next": lambda r: r.integers(0, 65, 128).astype(np.int32),
    "images": lambda r: r.random((4, 1, 8, 8), np.float32),
    "x": lambda r: r.normal(size=(7, 3, 5)).astype(np.float32),
    "lengths": lambda r: np.array([7, 2, 5]),
}


@pytest.mark.parametrize("make", [chargpt, digits, lstm])
def test_onnxruntime_gives_what_the_program_gives(make, tmp_path: Path) -> None:
    graph = make()
    program = ag.compile(graph)
    program.init(seed=3)
    ag.onnx.save(tmp_path / "model.onnx", graph, program)
    draw = np.random.default_rng(0)
    feed = {name: INPUTS[name](draw) for name in graph.inputs}
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(list(graph.outputs), feed)
    expected = program.step(**feed)
    for name, value in zip(graph.outputs, found):
        assert np.abs(expected[name]).max() > 1e-2
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("mode", ["set", "add", "mul", "max", "min"])
def test_orders_and_updates_are_written(mode, tmp_path: Path) -> None:
    """Sorted rows, single elements and slices that are joined in, and coordinates as positions."""
    with ag.build("order") as b:
        x, at = b.input("x", (3, 4)), b.input("at", (3, 2), "i64")
        b.output("falling", x.sort(-1, True)[0])
        b.output("places", x.arg_sort(0))
        b.output("elements", x.scatter(x.narrow(1, 0, 2), at, axis=1, mode=mode, own=True))
        rows = at.narrow(1, 0, 1).flatten()
        b.output("rows", x.scatter(x * 2.0, rows, axis=0, mode=mode, own=False))
        b.output("rest", x.remainder(x.full_like(-0.7)))
        b.output("rest of small numbers", (x * 1e-9).remainder(x.full_like(0.7)) * 1e9)
        b.output("rest of integers", at.remainder(at.full_like(-3.0)))
        b.output("sums", x.cumsum(0, True, True))
        b.output("points", b.op("ravel_index", at, sizes=[3, 4]))
    program = ag.compile(b.graph)
    program.init()
    ag.onnx.save(tmp_path / "model.onnx", b.graph, program)
    feed = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), "at": np.array([[2, 0], [0, 3], [1, 2]])}
    model = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    ours = program.step(**feed)
    for name, value in zip(b.graph.outputs, model.run(list(b.graph.outputs), feed)):
        assert np.allclose(ours[name], value, atol=1e-6), name
        assert ours[name].dtype == value.dtype, name
