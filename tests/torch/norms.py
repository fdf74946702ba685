"""What torch's normalising layers make of given numbers, in f64: the fixture of `tests/ops/norms.rs`.

    python tests/torch/norms.py        writes tests/torch/norms.safetensors (torch, safetensors)

Each layer runs three steps of plain gradient descent on the sum of squares of its output with a fixed target.
"""

import pathlib

import torch
from safetensors.torch import save_file

STEPS, LR = 3, 0.05


def main():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    x, target = torch.randn(STEPS, 4, 6, 5), torch.randn(4, 6, 5)
    out = {"x": x, "target": target}
    layers = {
        "layer": torch.nn.LayerNorm(5, eps=1e-5),
        "rms": torch.nn.RMSNorm(5, eps=1e-6),
        "group": torch.nn.GroupNorm(3, 6, eps=1e-5),
        "instance": torch.nn.InstanceNorm1d(6, eps=1e-5),
        "batch": torch.nn.BatchNorm1d(6, eps=1e-5, momentum=0.2),
    }
    for name, layer in layers.items():
        for p in layer.parameters():
            torch.nn.init.normal_(p, 1.0, 0.5)
            out[f"{name}.start.{[n for n, q in layer.named_parameters() if q is p][0]}"] = p.detach().clone()
        opt = torch.optim.SGD(list(layer.parameters()) or [torch.zeros(1)], lr=LR)
        losses, dx = [], []
        for step in range(STEPS):
            input = x[step].clone().requires_grad_()
            loss = ((layer(input) - target) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.detach())
            dx.append(input.grad)
        out[f"{name}.losses"], out[f"{name}.dx"] = torch.stack(losses), torch.stack(dx)
        for key, value in layer.state_dict().items():
            out[f"{name}.end.{key}"] = value.detach().clone()
    layer.eval()
    out["batch.eval"] = layer(x[0]).detach()
    save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
