"""Nets at sizes that vary."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import arenagrad as ag


def net(batch: int) -> ag.Graph:
    with ag.build("net") as b:
        loss = ag.nn.linear("fc", b.input("x", (batch, 2)), 1).mse(b.input("y", (batch, 1)))
        b.output("loss", loss)
    return ag.train(b.graph, "loss", ag.optim.Sgd(0.1))


def arrays(n: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((n, 2), np.float32), "y": np.full((n, 1), 3, np.float32)}


def test_all_sizes_share_params(tmp_path):
    p = ag.compile_sized(net)
    assert isinstance(p, ag.SizedProgram)
    p.init({"batch": 4})
    losses = [p.step({"batch": n}, **arrays(n))["loss"].item() for n in (4, 7, 4, 1, 7) * 8]
    assert losses[-1] < 1e-3 < losses[0]
    p.checkpoint(tmp_path / "c.safetensors")
    p.save(tmp_path / "w.safetensors")
    kept = p.state_dict()
    q = ag.compile_sized(net)
    q.resume({"batch": 9}, tmp_path / "c.safetensors")
    np.testing.assert_array_equal(q.state_dict()["fc.weight"], kept["fc.weight"])
    q.load_state_dict({"fc.weight": np.zeros((1, 2), np.float32)})
    assert not q.state_dict()["fc.weight"].any()
    with pytest.raises(ag.Error):
        q.load_state_dict({"fc.weight": np.ones((1, 2), np.float32), "other": np.zeros(1)})
    assert not q.state_dict()["fc.weight"].any()
    assert p.plan({"batch": 4}).arena_bytes > 0


def test_views_are_refused():
    p = ag.compile_sized(net)
    p.init({"batch": 4})
    for view in ("params", "inputs", "outputs"):
        with pytest.raises(ag.UsageError, match="has no views"):
            getattr(p, view)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(p)


def test_faults_are_told():
    p = ag.compile_sized(net)
    p.init({"batch": 4})
    with pytest.raises(ag.DataError, match=r"f32\[5,2\]; float32\[4,2\] is written"):
        p.step({"batch": 5}, **arrays(4))
    with pytest.raises(ag.NameError_, match='there is no input "z"; there are x, y, lr'):
        p.step({"batch": 4}, z=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
        p.step({"rows": 4}, **arrays(4))
    with pytest.raises(ag.UsageError, match="gives no Graph"):
        ag.compile_sized(lambda batch: None).init({"batch": 4})
    # What failed changed nothing.
    p.step({"batch": 4}, **arrays(4))
    with pytest.raises(ag.UsageError, match="compile_sized"):
        ag.compile(net)
