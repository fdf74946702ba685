"""ONNX models: reading, training on, writing."""

import numpy as np
import pytest

import arenagrad as ag
import arenagrad.onnx


@pytest.fixture
def line(tmp_path):
    """A model with its program, as a file."""
    with ag.build("line") as b:
        x = b.input("x", (4, 3))
        b.output("y", ag.nn.linear("fc", x, 2).tanh())
    p = ag.compile(b.graph)
    p.init(seed=1)
    path = tmp_path / "line.onnx"
    ag.onnx.save(path, b.graph, p)
    return path, p


def test_a_model_is_read_with_its_weights(line):
    path, p = line
    model = ag.onnx.load(path)
    assert sorted(model.weights) == ["fc.bias", "fc.weight"]
    assert model.graph.inputs["x"].shape == (4, 3) and list(model.graph.outputs) == ["y"]
    again = ag.compile(model.graph)
    model.init(again)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_array_equal(p.step(x=x)["y"], again.step(x=x)["y"])


def test_a_model_is_trained_on(line):
    model = ag.onnx.load(line[0], trainable=["fc.bias"])
    with model.graph.extend() as b:
        b.output("loss", (b.value("y") - 1.0).square().mean())
        with pytest.raises(ag.NameError_, match='there is no value "z"; there are "y", "x"'):
            b.value("z")
    p = ag.compile(ag.train(b.graph, "loss", ag.optim.Sgd(0.1)))
    model.init(p)
    x = np.ones((4, 3), np.float32)
    first = float(p.step(x=x)["loss"])
    assert float(p.step(x=x)["loss"]) < first
    np.testing.assert_array_equal(p.params["fc.weight"], model.weights["fc.weight"])


def test_wrong_files_are_refused_by_name(tmp_path, line):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ag.Error, match="this is no ONNX model"):
        ag.onnx.load(broken)
    with pytest.raises(ag.Error, match="gone.onnx"):
        ag.onnx.load(tmp_path / "gone.onnx")
    with pytest.raises(ag.Error, match="a value is given for \"z\""):
        ag.onnx.load(line[0], values={"z": np.zeros(2, np.int64)})
