"""Single kernels in PyTorch, beside those of `cargo bench -p arenagrad-benches --bench kernels -- --json`.

    cargo bench -p arenagrad-benches --bench kernels -- --json > ours.jsonl
    python benches/peers/kernels_torch.py ours.jsonl

reads lines of JSON, times the same cases with as many threads, and prints the ratio of the times. A case that names its
own measure (`beside_ms`) is compared with that. `--keep FILE` stores the times of PyTorch and reads those that are
stored. A time is the least of many calls.
"""

import argparse
import json
import pathlib

import torch
from conv_torch import least_ms

# Seconds for which a case is called again.
SECONDS = 0.3


def indices() -> torch.Tensor:
    """The indices of the cases of `take_along_axis`."""
    return (torch.arange(4096 * 256) * 7919 % 251).reshape(4096, 256)


def ops() -> dict:
    """The function of each case, and the dims of its operand."""
    i, affine = indices(), torch.randn(64)
    return {
        "top_k 256x32000 50": ([256, 32000], lambda x: torch.topk(x, 50)[0]),
        "top_k 64x1000 5": ([64, 1000], lambda x: torch.topk(x, 5)[0]),
        "take_along_axis 4096x256 1": ([4096, 256], lambda x: torch.gather(x, 1, i)),
        "take_along_axis 4096x256 0": ([4096, 256], lambda x: torch.gather(x, 0, i)),
        "gelu 1048576": ([1 << 20], torch.nn.functional.gelu),
        "sort 256x4096": ([256, 4096], lambda x: torch.sort(x, stable=True)),
        "sort 64x1000": ([64, 1000], lambda x: torch.sort(x, stable=True)),
        "svd 1024x8x8": ([1024, 8, 8], lambda x: torch.linalg.svd(x, full_matrices=False)),
        "svd 256x16x16": ([256, 16, 16], lambda x: torch.linalg.svd(x, full_matrices=False)),
        "rfft 256x1024": ([256, 1024], torch.fft.rfft),
        "rfft 64x4096": ([64, 4096], torch.fft.rfft),
        "group_norm 16x64x32x32 8": ([16, 64, 32, 32], lambda x: torch.nn.functional.group_norm(x, 8, affine, affine)),
    }


def adamw():
    """AdamW's step of a param of ten million numbers, by PyTorch's one kernel for all of it."""
    p = torch.nn.Parameter(torch.randn(10_000_000))
    p.grad = torch.randn(10_000_000)
    return torch.optim.AdamW([p], lr=1e-3, fused=True).step


def call_of(name: str):
    """The case as a function without arguments."""
    if name.startswith("adamw"):
        return adamw()
    plain = name.removesuffix(" gradient")
    dims, op = ops()[plain]
    if plain == name:
        x = torch.rand(dims) * 4 - 2
        return lambda: op(x)
    x = (torch.rand(dims) * 4 - 2).requires_grad_()
    dy = torch.rand_like(op(x))
    return lambda: torch.autograd.grad(op(x), x, dy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path, help="lines of JSON of the bench")
    parser.add_argument("--keep", type=pathlib.Path, help="file of times of PyTorch")
    options = parser.parse_args()
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for line in options.ours.read_text().splitlines():
        case = json.loads(line)
        torch.set_num_threads(case["threads"])
        name, beside, what = case["case"], case["beside_ms"], "beside"
        if beside is None:
            key = f"{name} {case['threads']}"
            if key not in kept:
                with torch.set_grad_enabled(name.endswith(" gradient")):
                    kept[key] = least_ms(call_of(name), SECONDS)
            beside, what = kept[key], "PyTorch"
        print(f"{name:40} ours {case['ms']:9.4f} ms  {what:7} {beside:9.4f}  ratio {case['ms'] / beside:5.2f}")
    if options.keep:
        options.keep.write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
