"""Prints what torch's optimisers make of given gradients: the fixture that `tests/torch.rs` compares ours with.

    python tests/torch/optimisers.py        writes tests/torch/optimisers.safetensors (torch, numpy, safetensors)

Two parameters, eight steps, gradients of changing size (exact zeros among them, for the moments' corners).
"""

import pathlib

import torch
from safetensors.torch import save_file

STEPS = 8
SHAPES = {"a": (23,), "b": (5, 3)}
LR = 0.05

VARIANTS = {
    "sgd": (torch.optim.SGD, {}, None),
    "sgd_decay": (torch.optim.SGD, {"weight_decay": 0.1}, None),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}, None),
    "sgd_dampening": (torch.optim.SGD, {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05}, None),
    "sgd_nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, None),
    "adam": (torch.optim.Adam, {}, None),
    "adam_decay": (torch.optim.Adam, {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}, None),
    "adamw": (torch.optim.AdamW, {}, None),
    "adamw_decay": (torch.optim.AdamW, {"betas": (0.7, 0.9), "eps": 1e-5, "weight_decay": 0.3}, None),
    "sgd_clipped": (torch.optim.SGD, {"momentum": 0.9}, 0.5),
    "adamw_clipped": (torch.optim.AdamW, {}, 0.5),
}


def main():
    torch.manual_seed(0)
    start = {k: torch.randn(s, dtype=torch.float64).float() for k, s in SHAPES.items()}
    grads = {k: torch.randn((STEPS, *s), dtype=torch.float64).float() for k, s in SHAPES.items()}
    for k in grads:
        grads[k] *= torch.tensor([1.0, 0.1, 3.0, 0.0, 1e-3, 1.0, 10.0, 0.5]).reshape(-1, *[1] * len(SHAPES[k]))
    out = {f"start.{k}": v for k, v in start.items()} | {f"grad.{k}": v for k, v in grads.items()}
    for name, (make, options, clip) in VARIANTS.items():
        for dtype, tag in ((torch.float32, "f32"), (torch.float64, "f64")):
            params = {k: torch.nn.Parameter(v.to(dtype, copy=True)) for k, v in start.items()}
            opt = make(params.values(), lr=LR, foreach=False, **options)
            path = {k: [] for k in params}
            for step in range(STEPS):
                for k, p in params.items():
                    p.grad = grads[k][step].to(dtype, copy=True)
                if clip is not None:
                    torch.nn.utils.clip_grad_norm_(params.values(), clip, foreach=False)
                opt.step()
                for k, p in params.items():
                    path[k].append(p.detach().clone())
            for k, p in path.items():
                out[f"{name}.{tag}.{k}"] = torch.stack(p)
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
