"""Four networks trained by torch for 20 steps in f32 and f64: the fixture of `tests/programs/networks.rs`.

    python tests/torch/networks.py      writes tests/torch/networks.safetensors (torch, numpy, safetensors)

Weights and batches are not stored: both sides draw them from one integer hash (`numbers`). Stored are, for each network and
type, the loss of each step, and a summary (see `summary`) of each param's first gradient and of its value after the last step.
"""

import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

STEPS = 20
SAMPLES = 12


def unit(name, n):
    """n numbers in [0, 1): SplitMix64's finaliser over FNV-1a of the name."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(h) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def numbers(name, shape):
    """Numbers of f32 between -1 and 1, in f64."""
    n = int(np.prod(shape))
    return torch.from_numpy((2 * unit(name, n) - 1).astype(np.float32).astype(np.float64).reshape(shape))


def indices(name, shape, below):
    return torch.from_numpy(np.floor(unit(name, int(np.prod(shape))) * below).astype(np.int64).reshape(shape))


def fill(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            u = numbers(name, p.shape)
            if p.ndim > 1:
                u = u * float(np.float32((3 * p.shape[0] / p.numel()) ** 0.5))
            else:
                u = u * 0.125 + (1.0 if name.endswith("weight") else 0.0)
            p.copy_(u.to(torch.float32))


def summary(name, t):
    """Three sums with weights from the hash, the root of the squares' sum, and elements at even distances."""
    t = t.detach().to(torch.float64).reshape(-1)
    sums = [(t * numbers(f"{name}.{k}", (t.numel(),))).sum() for k in range(3)]
    at = [i * t.numel() // SAMPLES for i in range(SAMPLES)]
    return torch.stack(sums + [t.norm()] + [t[i] for i in at])


class Block(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.attn = nn.ModuleDict(dict(c_attn=nn.Linear(c, 3 * c), c_proj=nn.Linear(c, c)))
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(c, 4 * c), c_proj=nn.Linear(4 * c, c)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.attn.c_attn(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.attn.c_proj(y)
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    """nanoGPT's model: 29 tokens, context 16, 2 blocks of 4 heads, width 32, the head tied to the embedding."""

    def __init__(self):
        super().__init__()
        h = nn.ModuleList([Block(32, 4) for _ in range(2)])
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(29, 32), wpe=nn.Embedding(16, 32), h=h, ln_f=nn.LayerNorm(32)))

    def loss(self, i, dtype):
        x, y = indices(f"gpt.x{i}", (4, 16), 29), indices(f"gpt.y{i}", (4, 16), 29)
        t = self.transformer
        h = t.wte(x) + t.wpe(torch.arange(16))
        for block in t.h:
            h = block(h)
        return F.cross_entropy(F.linear(t.ln_f(h), t.wte.weight).view(-1, 29), y.view(-1))

    def optimiser(self):
        ps = list(self.parameters())
        groups = [dict(params=[p for p in ps if p.ndim > 1], weight_decay=0.1), dict(params=[p for p in ps if p.ndim == 1], weight_decay=0.0)]
        return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95)), 1.0


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def loss(self, i, dtype):
        x, y = numbers(f"lenet.x{i}", (8, 1, 28, 28)).to(dtype), indices(f"lenet.y{i}", (8,), 10)
        h = F.max_pool2d(F.relu(self.conv1(x)), 2)
        h = F.max_pool2d(F.relu(self.conv2(h)), 2).flatten(1)
        return F.cross_entropy(self.fc3(F.relu(self.fc2(F.relu(self.fc1(h))))), y)

    def optimiser(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9), None


class Recurrent(nn.Module):
    """A GRU over 12 steps of 6 numbers; the last state is classified."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(6, 24), nn.Linear(24, 5)

    def loss(self, i, dtype):
        x, y = numbers(f"gru.x{i}", (12, 8, 6)).to(dtype), indices(f"gru.y{i}", (8,), 5)
        return F.cross_entropy(self.head(self.gru(x)[1][0]), y)

    def optimiser(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2), None


class Basic(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet(nn.Module):
    """Two residual blocks, named as in torchvision."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.layer1, self.layer2 = nn.Sequential(Basic(8, 8, 1)), nn.Sequential(Basic(8, 16, 2))
        self.fc = nn.Linear(16, 10)

    def loss(self, i, dtype):
        x, y = numbers(f"resnet.x{i}", (8, 3, 16, 16)).to(dtype), indices(f"resnet.y{i}", (8,), 10)
        h = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))
        return F.cross_entropy(self.fc(h.mean((2, 3))), y)

    def optimiser(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4), None


def main():
    torch.set_num_threads(1)
    out = {}
    for name, make in dict(gpt=Gpt, lenet=LeNet, gru=Recurrent, resnet=ResNet).items():
        for kind, dtype in dict(f32=torch.float32, f64=torch.float64).items():
            model = make()
            fill(model)
            model.to(dtype)
            opt, clip = model.optimiser()
            losses = []
            for i in range(STEPS):
                opt.zero_grad()
                loss = model.loss(i, dtype)
                loss.backward()
                if i == 0:
                    out.update({f"{name}.{kind}.grad.{k}": summary(k, p.grad) for k, p in model.named_parameters()})
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                opt.step()
                losses.append(loss.item())
            print(name, kind, losses[0], losses[-1])
            out[f"{name}.{kind}.losses"] = torch.tensor(losses, dtype=torch.float64)
            kept = [(k, t) for k, t in model.state_dict().items() if t.is_floating_point()]
            out.update({f"{name}.{kind}.last.{k}": summary(k, t) for k, t in kept})
    save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
