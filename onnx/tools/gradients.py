"""Compares the gradients of models that torch exported with torch's own, in f32. Needs what `exports.py` needs, and the
package `arenagrad`.

    python onnx/tools/gradients.py [NAME...]

The loss is a sum of outputs times fixed numbers. A gradient's error is its largest difference as a part of its largest
element, or of a hundredth of the largest of all gradients: that of a bias before a norm is 0 but for rounding. Params that
the exporter renames or changes, those of some recurrent layers, are compared where they keep name and shape.
"""

import pathlib
import sys
import tempfile

import numpy as np
import torch
from exports import MODELS

import arenagrad as ag
import arenagrad.onnx

NAMES = ["mlp", "lenet", "audio", "unet", "gru", "encoder", "gpt"]
LIMIT = 1e-5


def theirs(net, operands, weights):
    """torch's gradients of params, by name."""
    net.zero_grad()
    (net(*operands) * weights).sum().backward()
    return {name: p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None}


def ours(path, operands, weights):
    """The gradients of the exported model, by name."""
    model = ag.onnx.load(path)
    (output,) = model.graph.outputs
    with model.graph.extend() as b:
        b.output("loss", (b.value(output) * b.constant(weights.numpy())).sum())
    graph = b.graph.grad("loss", missing="zero")
    p = ag.compile(graph)
    model.init(p)
    found = dict(p.step(**{name: x.numpy() for name, x in zip(model.graph.inputs, operands)}).items())
    return {name: found[f"grad.{name}"] for name in model.weights if f"grad.{name}" in found}


def main():
    """Prints a line for each model; fails if a gradient differs."""
    wrong = False
    for name in sys.argv[1:] or NAMES:
        torch.manual_seed(0)
        net, operands = MODELS[name]()
        net.eval()
        with torch.no_grad():
            weights = torch.randn_like(net(*operands))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            torch.onnx.export(net, operands, path, dynamo=True, optimize=False, verbose=False)
            here = ours(path, operands, weights)
        there = theirs(net, operands, weights)
        both = [k for k in there if k in here and here[k].shape == there[k].shape]
        size = {k: float(np.abs(there[k]).max()) for k in both}
        least = max(size.values(), default=1.0) / 100
        errors = {k: float(np.abs(here[k] - there[k]).max()) / max(size[k], least) for k in both}
        worst = max(errors, key=errors.get, default=None)
        wrong |= worst is None or errors[worst] > LIMIT
        print(f"{name:10} {len(both)} of {len(there)} params, largest error {errors.get(worst, 1):.1e} in {worst}", flush=True)
    sys.exit(wrong)


main()
