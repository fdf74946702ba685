"""The time of a compiled step beside torch's own, one thread: `measure_torch.py [NAME...] [--seconds N]`.

Steps of both take turns; the least of many is compared, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

import arenagrad.torch as agt

Case = tuple[nn.Module, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]


def mlp() -> Case:
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return net, F.cross_entropy, (torch.randn(32, 64),), (torch.randint(0, 10, (32,)),)


class Gpt(nn.Module):
    """Two layers of width 32."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.qkv = nn.ModuleList(nn.Linear(32, 96, bias=False) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(5))
        self.up = nn.ModuleList(nn.Linear(32, 128) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(128, 32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t = x.shape
        h = self.words(x) + self.places(torch.arange(t))
        for k in range(2):
            q, key, v = (z.view(b, t, 4, 8).transpose(1, 2) for z in self.qkv[k](self.norms[k](h)).split(32, 2))
            y = F.scaled_dot_product_attention(q, key, v, is_causal=True).transpose(1, 2).reshape(b, t, 32)
            h = h + self.out[k](y)
            h = h + self.down[k](F.gelu(self.up[k](self.norms[2 + k](h))))
        return self.norms[4](h) @ self.words.weight.t()


def gpt() -> Case:
    x, y = torch.randint(0, 64, (4, 16)), torch.randint(0, 64, (4, 16))
    return Gpt(), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()), (x,), (y,)


class Lstm(nn.Module):
    """Words, one layer, the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.r, self.f = nn.Embedding(100, 32), nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self.r(self.e(x))[0][:, -1])


def lstm() -> Case:
    return Lstm(), F.cross_entropy, (torch.randint(0, 100, (16, 32)),), (torch.randint(0, 10, (16,)),)


class Encoder(nn.Module):
    """Two of torch's own encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.e, self.t, self.f = nn.Embedding(100, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self.t(self.e(x)).mean(1))


def encoder() -> Case:
    return Encoder(), F.cross_entropy, (torch.randint(0, 100, (8, 32)),), (torch.randint(0, 10, (8,)),)


def _vision(name: str) -> Case:
    import torchvision

    net = getattr(torchvision.models, name)(num_classes=10)
    return net, F.cross_entropy, (torch.randn(8, 3, 64, 64),), (torch.randint(0, 10, (8,)),)


def resnet18() -> Case:
    return _vision("resnet18")


def mobilenet_v3_small() -> Case:
    return _vision("mobilenet_v3_small")


CASES = {f.__name__: f for f in (mlp, gpt, lstm, encoder, resnet18, mobilenet_v3_small)}


def measure(name: str, seconds: float) -> None:
    """Prints the least times of a step."""
    torch.manual_seed(0)
    net, loss, inputs, targets = CASES[name]()
    own = copy.deepcopy(net)
    theirs = torch.optim.AdamW(own.parameters(), lr=1e-3)
    began = time.perf_counter()
    step = agt.compile_step(net, loss, torch.optim.AdamW(net.parameters(), lr=1e-3), inputs, targets)
    compiled = time.perf_counter() - began
    best = [float("inf")] * 2
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        t = time.perf_counter()
        theirs.zero_grad()
        loss(own(*inputs), *targets).backward()
        theirs.step()
        u = time.perf_counter()
        step(*inputs, *targets)
        best = [min(best[0], u - t), min(best[1], time.perf_counter() - u)]
    mib = step.program.plan.arena_bytes / 2**20
    ratio = best[1] / best[0]
    print(f"{name:20} torch {best[0] * 1e6:9.0f} µs  here {best[1] * 1e6:9.0f} µs  ratio {ratio:.3f}  "
          f"arena {mib:.1f} MiB  capture and compile {compiled:.1f} s", flush=True)  # fmt: skip


def main() -> None:
    """Measures the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names:
        measure(name, args.seconds)


main()
