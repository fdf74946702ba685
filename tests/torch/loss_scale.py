"""Steps under `torch.amp.GradScaler`: the fixture of `tests/programs/loss_scale.rs`.

    python tests/torch/loss_scale.py          writes loss_scale.safetensors beside it (torch, safetensors)

A two-layer net in f64 makes steps whose loss is multiplied by a factor; an infinite or NaN factor makes every gradient
infinite or NaN. Stored are the params at first, the batch, the factors, and for each optimiser, after each step, the
scale and all params.
"""

import pathlib

import torch
from safetensors.torch import save_file

FACTORS = [1.0, 1.0, float("inf"), 1.0, 1.0, 1.0, float("nan"), float("-inf"), 1.0, 0.5, 1.0, 1.0, 1.0, 1.0]
NUMBERS = {"init_scale": 1024.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3}
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    x = torch.randn(8, 4)
    first = {"fc1.weight": torch.randn(6, 4), "fc1.bias": torch.randn(6), "fc2.weight": torch.randn(1, 6), "fc2.bias": torch.randn(1)}
    out = {"x": x, "factors": torch.tensor(FACTORS)} | {f"start.{n}": p.clone() for n, p in first.items()}
    for name, make in OPTIMISERS.items():
        params = {n: p.clone().requires_grad_() for n, p in first.items()}
        optimiser, scaler = make(list(params.values())), torch.amp.GradScaler("cpu", **NUMBERS)
        scales = []
        for i, factor in enumerate(FACTORS):
            h = torch.tanh(x @ params["fc1.weight"].T + params["fc1.bias"])
            loss = (h @ params["fc2.weight"].T + params["fc2.bias"]).square().mean() * factor
            optimiser.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            scales.append(scaler.get_scale())
            out |= {f"{name}.{i}.{n}": p.detach().clone() for n, p in params.items()}
        out[f"{name}.scales"] = torch.tensor(scales)
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
