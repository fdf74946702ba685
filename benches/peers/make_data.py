"""Writes params and batches of workloads: `make_data.py DIR WORKLOAD...`.

DIR/WORKLOAD.safetensors is what `arenagrad bench --data DIR` reads: params under `p.PARAM`, and the batches under the
names of the inputs, with a leading axis over batches.
"""

import pathlib
import sys

import models_torch as models
import numpy as np
import torch
from safetensors.numpy import save_file


def main() -> None:
    """Writes the files that are not there."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for workload in sys.argv[2:]:
        path = folder / f"{workload}.safetensors"
        if path.exists():
            continue
        seed = list(models.MODELS).index(workload)
        torch.manual_seed(seed)
        module = models.MODELS[workload]()
        named = {"p." + models.file_name(workload, k): v for k, v in module.named_parameters()}
        data = {k: np.ascontiguousarray(v.detach().numpy()) for k, v in named.items()}
        drawn = models.inputs(workload, np.random.default_rng(100 + seed))
        save_file(data | {k: np.ascontiguousarray(v) for k, v in drawn.items()}, path)


main()
