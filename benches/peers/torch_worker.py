"""A workload in PyTorch, as a worker. Variants: `eager`; `channels-last`; `compile`; `sparse` (gradients of tables are
their read rows); `forward` (derivatives of inputs forward)."""

import worker

ARGS = worker.arguments()

import models_torch as models
import torch
from safetensors.numpy import load_file

torch.set_num_threads(ARGS.threads)
torch.set_num_interop_threads(1)
IMPORTED = worker.status("VmRSS")


def batches_of(data: dict, last: bool) -> list[dict]:
    """The batches, one after another."""
    arrays = {k: torch.from_numpy(v) for k, v in data.items() if not k.startswith("p.")}
    count = len(next(iter(arrays.values())))

    def one(name: str, rows: torch.Tensor) -> torch.Tensor:
        if rows.dtype == torch.int32:
            return rows.long()
        images = last and rows.dim() == 4
        return rows.contiguous(memory_format=torch.channels_last if images else torch.contiguous_format).clone()

    return [{k: one(k, v[i]) for k, v in arrays.items()} for i in range(count)]


def build():
    """The step, and the bytes of the batches."""
    workload, variant = ARGS.workload, ARGS.variant
    data = load_file(ARGS.file)
    module = models.Dlrm(sparse=True) if variant == "sparse" else models.MODELS[workload]()
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.from_numpy(data["p." + models.file_name(workload, name)]))
    last = variant == "channels-last"
    if last:
        module = module.to(memory_format=torch.channels_last)
    batches = batches_of(data, last)
    params = list(module.parameters())
    optimiser, clip = models.optimiser(workload, params, variant == "sparse")
    loss_of = module.forward_mode if variant == "forward" else module
    if variant == "compile":
        loss_of = torch.compile(module, fullgraph=True)
    module.train()
    count = 0

    def step() -> float:
        nonlocal count
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(**batches[count % len(batches)])
        count += 1
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimiser.step()
        return loss.item()

    return step, sum(x.numel() * x.element_size() for b in batches for x in b.values())


worker.serve(build, f"torch {torch.__version__}", IMPORTED)
