"""A workload in JAX, as a worker: one compiled step, whose params are given away."""

import os

import worker

ARGS = worker.arguments()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if ARGS.threads == 1:
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false").strip()

import jax
import jax.numpy as jnp
import numpy as np

if ARGS.workload == "w14":
    jax.config.update("jax_enable_x64", True)
jax.devices()
import models_jax as models
from safetensors.numpy import load_file

IMPORTED = worker.status("VmRSS")


def batches_of(data: dict) -> list[dict]:
    """The batches, one after another."""
    arrays = {k: v for k, v in data.items() if not k.startswith("p.")}
    if ARGS.workload == "w10":
        arrays["x"] = arrays["x"].transpose(0, 1, 3, 2)
    arrays = {k: np.ascontiguousarray(models.batch_layout(v)) for k, v in arrays.items()}
    return [{k: jnp.asarray(v[i]) for k, v in arrays.items()} for i in range(len(next(iter(arrays.values()))))]


def build():
    """The step, and the bytes of the batches."""
    workload = ARGS.workload
    data = load_file(ARGS.file)
    raw = {k[2:]: v for k, v in data.items() if k.startswith("p.")}
    params = {k: jnp.asarray(np.ascontiguousarray(models.layout(workload, k, v))) for k, v in raw.items()}
    batches, stats = batches_of(data), models.statistics(raw)
    start, update = models.update(workload, raw)

    def step(p, s, state, t, d):
        def loss_of(p):
            moved = dict(s)
            return models.LOSSES[workload](p, moved, d, jax.random.fold_in(jax.random.key(0), t)), moved

        (loss, s), g = jax.value_and_grad(loss_of, has_aux=True)(p)
        t = t + 1
        p, state = update(p, state, g, t)
        return p, s, state, t, loss

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    kept = [params, stats, start(params), jnp.zeros((), jnp.int32)]
    count = 0

    def run() -> float:
        nonlocal count
        *kept[:], loss = compiled(*kept, batches[count % len(batches)])
        count += 1
        return float(loss)

    return run, sum(x.nbytes for b in batches for x in b.values())


worker.serve(build, f"jax {jax.__version__}", IMPORTED)
