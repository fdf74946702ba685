"""What torch's convolutions and losses make of given numbers, in f64: the fixture of `tests/ops/layers.rs`.

    python tests/torch/layers.py        writes tests/torch/layers.safetensors (torch, safetensors)

For each case: its inputs, its output y, and the gradients of the sum of y's squares (of y itself where it is a scalar).
"""

import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file


def rand(*shape):
    return torch.randn(shape, requires_grad=True)


def main():
    torch.manual_seed(2)
    torch.set_default_dtype(torch.float64)
    sign = torch.tensor([1.0, -1.0, -1.0, 1.0])
    labels = torch.tensor([2, 0, 1, 2])
    t = torch.softmax(torch.randn(4, 3), 1)
    t[1, 2] = 0.0
    cases = {
        "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, dilation=2, groups=2),
                   dict(x=rand(2, 4, 9), w=rand(6, 2, 3), b=rand(6))),
        "causal": (lambda x, w, b: F.conv1d(F.pad(x, (3, 0)), w, b, groups=3),
                   dict(x=rand(2, 3, 7), w=rand(3, 1, 4), b=rand(3))),
        "transpose": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2),
                      dict(x=rand(2, 4, 3, 2), w=rand(4, 3, 3, 2), b=rand(6))),
        "dilated": (lambda x, w, b: F.conv_transpose2d(x, w, b, dilation=(2, 1)),
                    dict(x=rand(1, 2, 3, 4), w=rand(2, 5, 2, 3), b=rand(5))),
        "l1": (lambda a, b: F.l1_loss(a, b), dict(a=rand(4, 3), b=rand(4, 3))),
        "huber": (lambda a, b: F.huber_loss(a, b, delta=0.7), dict(a=rand(4, 3), b=rand(4, 3))),
        "nll": (lambda a: F.nll_loss(torch.log_softmax(a, 1), labels), dict(a=rand(4, 3))),
        "kl": (lambda a: F.kl_div(torch.log_softmax(a, 1), t, reduction="sum"), dict(a=rand(4, 3))),
        "cosine": (lambda a, b: F.cosine_embedding_loss(a, b, sign, margin=0.1), dict(a=rand(4, 3), b=rand(4, 3))),
        "hinge": (lambda a: F.hinge_embedding_loss(a, sign.reshape(4, 1).expand(4, 3), margin=0.8), dict(a=rand(4, 3))),
    }
    out = {"labels": labels.to(torch.int32), "t": t, "sign": sign}
    for name, (f, inputs) in cases.items():
        y = f(**inputs)
        (y if y.ndim == 0 else (y * y).sum()).backward()
        out[f"{name}.y"] = y.detach()
        for k, v in inputs.items():
            out[f"{name}.in.{k}"], out[f"{name}.grad.{k}"] = v.detach(), v.grad
    save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
