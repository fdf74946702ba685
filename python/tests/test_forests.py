"""Forests of decision trees in ONNX models, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import arenagrad as ag
import arenagrad.onnx


def forest(draw: np.random.Generator, trees: int, features: int, scores: int) -> dict[str, list]:
    """Random trees of several depths, by the attributes of their ops. A leaf has a weight for each score."""
    nodes = {k: [] for k in ("treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true").split()}
    leaves = {k: [] for k in "treeids nodeids ids weights".split()}
    for tree in range(trees):
        count = 0

        def grow(depth: int) -> int:
            nonlocal count
            me, count = count, count + 1
            leaf = depth == 0 or draw.random() < 0.2
            at = len(nodes["nodeids"])
            mode = "LEAF" if leaf else draw.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
            values = (tree, me, int(draw.integers(features)), float(np.float32(draw.normal())), str(mode), 0, 0, int(draw.integers(2)))
            for key, value in zip(nodes, values):
                nodes[key].append(value)
            if leaf:
                for i in range(scores):
                    for key, value in zip(leaves, (tree, me, i, float(np.float32(draw.normal())))):
                        leaves[key].append(value)
            else:
                nodes["truenodeids"][at], nodes["falsenodeids"][at] = grow(depth - 1), grow(depth - 1)
            return me

        grow(int(draw.integers(1, 7)))
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"target_{k}": v for k, v in leaves.items()}


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("scores", [1, 3])
def test_forests_have_the_scores_of_onnxruntime(aggregate: str, scores: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(scores)
    attributes = forest(draw, 20, 5, scores)
    base = [float(i) for i in range(scores)]
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml",
        n_targets=scores, aggregate_function=aggregate, base_values=base, **attributes,
    )  # fmt: skip
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [50, n]) for name, n in (("x", 5), ("y", scores))]
    graph = onnx.helper.make_graph([node], "forest", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "forest.onnx")
    x = draw.normal(size=(50, 5)).astype(np.float32)
    x[draw.random(x.shape) < 0.1] = np.nan
    (want,) = onnxruntime.InferenceSession(tmp_path / "forest.onnx").run(None, {"x": x})
    program = ag.compile(ag.onnx.load(tmp_path / "forest.onnx").graph)
    np.testing.assert_allclose(program.step(x=x)["y"], want, rtol=1e-5, atol=1e-5)
