"""Small models of many kinds, each with its loss: what the bridge is tested on.

`MODELS[name]()` gives a module in training mode and the arguments of a call, which gives the loss. Models whose numbers
follow from draws are in `RANDOM`.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[nn.Module, tuple[Any, ...]]
MODELS: dict[str, Callable[[], Case]] = {}
RANDOM: set[str] = set()


def model(f: Callable[[], Case]) -> Callable[[], Case]:
    MODELS[f.__name__] = f
    return f


def drawn(f: Callable[[], Case]) -> Callable[[], Case]:
    RANDOM.add(f.__name__)
    return model(f)


class WithLoss(nn.Module):
    def __init__(self, module: nn.Module, loss: Any) -> None:
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, *args: Any) -> Any:
        return self.loss(self.module(*args[:-1]), args[-1])


def classes(module: nn.Module, *inputs: torch.Tensor, n: int = 10) -> Case:
    return WithLoss(module, nn.CrossEntropyLoss()), (*inputs, torch.randint(0, n, (inputs[0].shape[0],)))


def images(batch: int = 4, channels: int = 3, size: int = 16) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def tokens(batch: int = 4, steps: int = 12, words: int = 50) -> torch.Tensor:
    return torch.randint(1, words, (batch, steps))


@model
def mlp() -> Case:
    return classes(nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10)), torch.randn(8, 64))


@model
def mlp_gelu_norm() -> Case:
    net = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32, bias=False), nn.SiLU(), nn.Linear(32, 10))
    return classes(net, torch.randn(8, 20))


@drawn
def mlp_dropout() -> Case:
    return classes(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10)), torch.randn(8, 20))


@model
def regression() -> Case:
    net = nn.Sequential(nn.Linear(6, 32), nn.Softplus(), nn.Linear(32, 1))
    return WithLoss(net, nn.MSELoss()), (torch.randn(16, 6), torch.randn(16, 1))


@model
def lenet() -> Case:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip
    return classes(net, torch.randn(4, 1, 28, 28))


class Residual(nn.Module):
    def __init__(self, i: int, o: int, stride: int = 1) -> None:
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.n2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride > 1 or i != o else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.n2(self.c2(F.relu(self.n1(self.c1(x)), inplace=True)))
        y += x if self.short is None else self.short(x)
        return F.relu(y)


@model
def resnet18() -> Case:
    widths = [16, 32, 64, 128]
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    before = 16
    for k, width in enumerate(widths):
        layers += [Residual(before, width, 1 if k == 0 else 2), Residual(width, width)]
        before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    return classes(nn.Sequential(*layers), images(8, 3, 64))


class Inverted(nn.Module):
    """A block of MobileNet: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, i: int, o: int, stride: int, act: type[nn.Module]) -> None:
        super().__init__()
        wide = 4 * i
        self.expand = nn.Sequential(nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide, momentum=0.01, eps=1e-3), act())
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 8, 1), nn.ReLU(), nn.Conv2d(8, wide, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o))
        self.same = stride == 1 and i == o

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depth(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.same else y


@model
def mobilenet() -> Case:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish(),
        Inverted(8, 8, 1, nn.Hardswish), Inverted(8, 16, 2, nn.SiLU), Inverted(16, 16, 1, nn.SiLU),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return classes(net, images(4, 3, 32))


@model
def densenet() -> Case:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.layers = nn.ModuleList(
                nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, padding=1)) for k in range(4)
            )
            self.last = nn.Linear(24, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = [self.first(x)]
            for layer in self.layers:
                parts.append(layer(torch.cat(parts, 1)))
            return self.last(F.avg_pool2d(torch.cat(parts, 1), 16).flatten(1))

    return classes(Dense(), images())


@model
def squeezenet() -> Case:
    class Fire(nn.Module):
        def __init__(self, i: int, s: int, e: int) -> None:
            super().__init__()
            self.s, self.a, self.b = nn.Conv2d(i, s, 1), nn.Conv2d(s, e, 1), nn.Conv2d(s, e, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.s(x))
            return torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 1)

    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 4, 8), Fire(16, 4, 8),
        nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False), nn.Conv2d(16, 10, 1),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
    )  # fmt: skip
    return classes(net, images(4, 3, 22))


@model
def unet() -> Case:
    def block(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ELU(), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ELU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.d1, self.d2, self.d3 = block(3, 8), block(8, 16), block(16, 32)
            self.u2, self.c2 = nn.ConvTranspose2d(32, 16, 2, 2), block(32, 16)
            self.u1, self.c1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), block(24, 8)
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            c = self.c2(torch.cat([self.u2(self.d3(F.max_pool2d(b, 2))), b], 1))
            return self.out(self.c1(torch.cat([self.u1(c), a], 1)))

    return WithLoss(UNet(), nn.BCEWithLogitsLoss()), (images(2, 3, 16), torch.rand(2, 1, 16, 16))


@model
def segmentation() -> Case:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1), nn.Conv2d(8, 8, 3, padding=2, dilation=2),
        nn.ReflectionPad2d(1), nn.Conv2d(8, 5, 3), nn.Upsample(size=(16, 16), mode="bilinear"),
    )  # fmt: skip
    return WithLoss(net, nn.CrossEntropyLoss(ignore_index=3)), (images(2), torch.randint(0, 5, (2, 16, 16)))


@model
def diffusion_unet() -> Case:
    class Block(nn.Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.n1, self.c1, self.t = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1), nn.Linear(16, o)
            self.n2, self.c2, self.s = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1), nn.Conv2d(i, o, 1)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
            return self.s(x) + self.c2(F.silu(self.n2(h)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i, self.a, self.down = nn.Conv2d(1, 8, 3, padding=1), Block(8, 16), nn.Conv2d(16, 16, 3, 2, 1)
            self.b, self.c, self.o = Block(16, 16), Block(32, 8), nn.Conv2d(8, 1, 3, padding=1)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            f = torch.exp(-math.log(10000) * torch.arange(8, dtype=x.dtype) / 8)
            e = t[:, None].to(x.dtype) * f[None]
            e = torch.cat([e.sin(), e.cos()], -1)
            h = self.a(self.i(x), e)
            g = F.interpolate(self.b(self.down(h), e), scale_factor=2.0, mode="nearest")
            return self.o(self.c(torch.cat([h, g], 1), e))

    return WithLoss(Net(), nn.MSELoss()), (images(2, 1), torch.randint(0, 1000, (2,)), images(2, 1))


@model
def conv1d_audio() -> Case:
    net = nn.Sequential(
        nn.Conv1d(1, 8, 9, 4), nn.BatchNorm1d(8), nn.ReLU6(), nn.Conv1d(8, 16, 5, 2, padding="valid"), nn.Mish(),
        nn.MaxPool1d(2), nn.ConvTranspose1d(16, 8, 4, 2, 1), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    return classes(net, torch.randn(4, 1, 200))


@model
def conv3d_video() -> Case:
    net = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.PReLU(4), nn.AvgPool3d(2), nn.Conv3d(4, 8, 3, padding="same"),
        nn.AdaptiveMaxPool3d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return classes(net, torch.randn(2, 1, 8, 8, 8))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False, kv_heads: int | None = None) -> None:
        super().__init__()
        self.h, self.kv, self.causal = heads, kv_heads or heads, causal
        self.w = width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, self.kv * self.w), nn.Linear(width, self.kv * self.w)
        self.o = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: Any = None, rope: Any = None) -> torch.Tensor:
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.h, self.w).transpose(1, 2)
        k = self.k(x).view(b, t, self.kv, self.w).transpose(1, 2)
        v = self.v(x).view(b, t, self.kv, self.w).transpose(1, 2)
        if rope is not None:
            q, k = rope(q), rope(k)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.kv != self.h)
        return self.o(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.a = Attention(width, heads, causal)
        self.f = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: Any = None) -> torch.Tensor:
        x = x + self.a(self.n1(x), mask)
        return x + self.f(self.n2(x))


@model
def gpt() -> Case:
    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.p = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.blocks = nn.ModuleList([Block(32, 4, True), Block(32, 4, True)])
            self.n, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)
            self.head.weight = self.w.weight

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.w(x) + self.p(torch.arange(x.shape[1]))
            for block in self.blocks:
                h = block(h)
            return F.cross_entropy(self.head(self.n(h)).view(-1, 50), y.view(-1), ignore_index=-1)

    return Gpt(), (tokens(), tokens())


@model
def gpt_manual_attention() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.qkv, self.head = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)
            self.register_buffer("mask", torch.tril(torch.ones(12, 12, dtype=torch.bool)))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.w(x)
            q, k, v = self.qkv(h).chunk(3, -1)
            s = (q @ k.transpose(-2, -1)) / math.sqrt(32)
            s = s.masked_fill(~self.mask, float("-inf")).softmax(-1)
            return F.nll_loss(F.log_softmax(self.head(h + s @ v), -1).flatten(0, 1), y.flatten())

    return Net(), (tokens(), tokens())


@model
def llama() -> Case:
    class Rope(nn.Module):
        def __init__(self, width: int, steps: int) -> None:
            super().__init__()
            f = 10000.0 ** (-torch.arange(0, width, 2) / width)
            angles = torch.outer(torch.arange(steps).float(), f)
            self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
            self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b = x.chunk(2, -1)
            return x * self.cos + torch.cat([-b, a], -1) * self.sin

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2, self.a = nn.RMSNorm(32, eps=1e-6), nn.RMSNorm(32, eps=1e-6), Attention(32, 4, True, 2)
            self.gate, self.up, self.down = (nn.Linear(*n, bias=False) for n in ((32, 64), (32, 64), (64, 32)))

        def forward(self, x: torch.Tensor, rope: Any) -> torch.Tensor:
            x = x + self.a(self.n1(x), rope=rope)
            y = self.n2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.rope = nn.Embedding(50, 32), Rope(8, 12)
            self.layers, self.n = nn.ModuleList([Layer(), Layer()]), nn.RMSNorm(32)
            self.head = nn.Linear(32, 50, bias=False)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.w(x)
            for layer in self.layers:
                h = layer(h, self.rope)
            return F.cross_entropy(self.head(self.n(h)).flatten(0, 1), y.flatten())

    return Llama(), (tokens(), tokens())


@model
def encoder() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.p = nn.Embedding(50, 32, padding_idx=0), nn.Parameter(torch.randn(1, 12, 32) * 0.1)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.t, self.f = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.f(self.t(self.e(x) + self.p, src_key_padding_mask=x == 0).mean(1))

    x = tokens()
    x[:, -3:] = 0
    return classes(Net(), x)


@model
def transformer_seq2seq() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e = nn.Embedding(50, 32)
            self.t = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
            self.f = nn.Linear(32, 50)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1] - 1, dtype=self.e.weight.dtype)
            out = self.t(self.e(x), self.e(y[:, :-1]), tgt_mask=mask, tgt_is_causal=True)
            return F.cross_entropy(self.f(out).flatten(0, 1), y[:, 1:].flatten())

    return Net(), (tokens(), tokens(4, 9))


@model
def cross_attention() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.f = nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            o, w = self.a(x, y, y, need_weights=True)
            return self.f(o.mean(1)) + w.square().sum()

    return classes(Net(), torch.randn(2, 6, 32), torch.randn(2, 8, 32))


@model
def vit() -> Case:
    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.cls = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.zeros(1, 1, 32))
            self.pos = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
            self.blocks, self.n, self.head = nn.Sequential(Block(32, 4), Block(32, 4)), nn.LayerNorm(32), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
            return self.head(self.n(self.blocks(x))[:, 0])

    return classes(Vit(), images())


@model
def swin() -> Case:
    class Window(nn.Module):
        """Attention in windows of 4 × 4, shifted by 2, with a bias by relative position."""

        def __init__(self, shift: int) -> None:
            super().__init__()
            self.shift, self.qkv, self.o = shift, nn.Linear(16, 48), nn.Linear(16, 16)
            self.table = nn.Parameter(torch.randn(49, 2) * 0.02)
            at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
            d = (at[:, :, None] - at[:, None]) + 3
            self.register_buffer("index", d[0] * 7 + d[1])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, h, w, c = x.shape
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            q, k, v = self.qkv(x).reshape(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
            bias = self.table[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)
            s = (q * (c // 2) ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
            y = self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c))
            y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            return torch.roll(y, (self.shift, self.shift), (1, 2))

    class Swin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.a, self.b = nn.Conv2d(3, 16, 2, 2), Window(0), Window(2)
            self.n1, self.n2, self.merge = nn.LayerNorm(16), nn.LayerNorm(16), nn.Linear(64, 16)
            self.head = nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patch(x).permute(0, 2, 3, 1)
            x = x + self.a(self.n1(x))
            x = x + self.b(self.n2(x))
            x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
            return self.head(self.merge(x).mean((1, 2)))

    return classes(Swin(), images())


@model
def mixer() -> Case:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(24), nn.LayerNorm(24)
            self.t = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.c = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.t(self.n1(x).mT).mT
            return x + self.c(self.n2(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p, self.l, self.h = nn.Conv2d(3, 24, 4, 4), nn.Sequential(Layer(), Layer()), nn.Linear(24, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.h(self.l(self.p(x).flatten(2).mT).mean(1))

    return classes(Net(), images())


@model
def convnext() -> Case:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.d, self.n = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.LayerNorm(16, eps=1e-6)
            self.a, self.b, self.g = nn.Linear(16, 64), nn.Linear(64, 16), nn.Parameter(torch.full((16,), 0.1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.d(x).permute(0, 2, 3, 1)
            return x + (self.g * self.b(F.gelu(self.a(self.n(y))))).permute(0, 3, 1, 2)

    return classes(nn.Sequential(nn.Conv2d(3, 16, 4, 4), Layer(), Layer(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), images())


class Recurrent(nn.Module):
    def __init__(self, kind: str, **how: Any) -> None:
        super().__init__()
        self.e, self.r = nn.Embedding(50, 16, padding_idx=0), getattr(nn, kind)(16, 24, batch_first=True, **how)
        self.f = nn.Linear(24 * (2 if how.get("bidirectional") else 1), 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self.r(self.e(x))[0][:, -1])


@model
def lstm() -> Case:
    return classes(Recurrent("LSTM"), tokens())


@model
def lstm_both_directions() -> Case:
    return classes(Recurrent("LSTM", num_layers=2, bidirectional=True), tokens())


@drawn
def lstm_dropout() -> Case:
    return classes(Recurrent("LSTM", num_layers=2, dropout=0.2), tokens())


@model
def gru() -> Case:
    return classes(Recurrent("GRU", num_layers=2), tokens())


@model
def rnn() -> Case:
    return classes(Recurrent("RNN", bias=False), tokens())


@model
def rnn_relu() -> Case:
    return classes(Recurrent("RNN", nonlinearity="relu"), tokens())


@model
def lstm_cell_unrolled() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.f = nn.LSTMCell(8, 16), nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = c = torch.zeros(x.shape[0], 16, dtype=x.dtype)
            for t in range(x.shape[1]):
                h, c = self.c(x[:, t], (h, c))
            return self.f(h)

    return classes(Net(), torch.randn(4, 5, 8))


@model
def seq2seq_attention() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.enc, self.dec = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True), nn.GRU(16, 16, batch_first=True)
            self.f = nn.Linear(32, 50)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            keys, h = self.enc(self.e(x))
            out, _ = self.dec(self.e(y[:, :-1]), h)
            w = torch.softmax(torch.einsum("bth,bsh->bts", out, keys), -1)
            logits = self.f(torch.cat([out, torch.einsum("bts,bsh->bth", w, keys)], -1))
            return F.cross_entropy(logits.transpose(1, 2), y[:, 1:])

    return Net(), (tokens(), tokens(4, 8))


@drawn
def vae() -> Case:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.m, self.v = nn.Linear(32, 24), nn.Linear(24, 4), nn.Linear(24, 4)
            self.d = nn.Sequential(nn.Linear(4, 24), nn.LeakyReLU(0.2), nn.Linear(24, 32), nn.Sigmoid())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = F.relu(self.e(x))
            m, v = self.m(h), self.v(h)
            r = self.d(m + torch.randn_like(m) * torch.exp(0.5 * v))
            return F.binary_cross_entropy(r, x, reduction="sum") - 0.5 * torch.sum(1 + v - m.pow(2) - v.exp())

    return Vae(), (torch.rand(4, 32),)


@model
def autoencoder() -> Case:
    net = nn.Sequential(nn.Linear(32, 8), nn.SELU(), nn.Linear(8, 32), nn.Sigmoid())
    return WithLoss(net, nn.BCELoss()), (x := torch.rand(8, 32), x.clone())


@model
def gan_generator() -> Case:
    net = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
    )
    return WithLoss(net, nn.L1Loss()), (torch.randn(4, 8, 1, 1), images(4, 3, 8))


@model
def dqn() -> Case:
    class Dqn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
            self.t = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).requires_grad_(False)

        def forward(self, s: Any, a: Any, r: Any, n: Any, d: Any) -> torch.Tensor:
            with torch.no_grad():
                # The net itself chooses the action, so that a gradient would flow without no_grad.
                best = self.q(n).argmax(1, keepdim=True)
                y = r + 0.99 * (1 - d) * (self.t(n).gather(1, best).squeeze(1) + self.q(n).max(1)[0]) / 2
            return F.smooth_l1_loss(self.q(s).gather(1, a[:, None]).squeeze(1), y)

    return Dqn(), (torch.randn(16, 4), torch.randint(0, 2, (16,)), torch.randn(16), torch.randn(16, 4), torch.zeros(16))


@model
def actor_critic() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.c = nn.Linear(6, 4), nn.Linear(6, 1)

        def forward(self, s: Any, act: Any, old: Any, adv: Any, ret: Any) -> torch.Tensor:
            logp = F.log_softmax(self.a(s), -1)
            ratio = (logp.gather(1, act[:, None]).squeeze(1) - old).exp()
            policy = -torch.min(ratio * adv, torch.clamp(ratio, 0.8, 1.2) * adv).mean()
            entropy = -(logp.exp() * logp).sum(-1).mean()
            return policy + 0.5 * F.mse_loss(self.c(s).squeeze(-1), ret) - 0.01 * entropy

    n = 12
    return Net(), (torch.randn(n, 6), torch.randint(0, 4, (n,)), torch.randn(n) * 0.1 - 1.4, torch.randn(n), torch.randn(n))


@model
def dlrm() -> Case:
    class Dlrm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.item, self.b, self.t = nn.EmbeddingBag(50, 8, mode="sum"), nn.Embedding(20, 8), nn.Linear(4, 8), nn.Linear(11, 1)

        def forward(self, x: Any, i: Any, o: Any, j: Any) -> torch.Tensor:
            z = torch.stack([self.b(x), self.bag(i, o), self.item(j)], 1)
            pairs = torch.bmm(z, z.transpose(1, 2))
            at = torch.tril_indices(3, 3, -1)
            return self.t(torch.cat([self.b(x), pairs[:, at[0], at[1]]], 1)).squeeze(1)

    args = (torch.randn(4, 4), torch.randint(0, 50, (12,)), torch.tensor([0, 3, 3, 9]), torch.randint(0, 20, (4,)), torch.rand(4))
    return WithLoss(Dlrm(), nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))), args


@model
def embedding_bags() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.EmbeddingBag(30, 8, mode="mean", padding_idx=2), nn.EmbeddingBag(30, 8, mode="max")
            self.f = nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.f(torch.cat([self.a(x), self.b(x)], 1))

    return classes(Net(), tokens(4, 6, 30))


@model
def two_towers() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.u, self.i, self.t = nn.Linear(8, 16), nn.Linear(6, 16), nn.Parameter(torch.tensor(2.0))

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            a, b = F.normalize(self.u(a), dim=-1), F.normalize(self.i(b), dim=-1)
            scores = self.t.exp() * a @ b.t()
            at = torch.arange(scores.shape[0])
            return (F.cross_entropy(scores, at) + F.cross_entropy(scores.t(), at)) / 2

    return Net(), (torch.randn(6, 8), torch.randn(6, 6))


@model
def gat() -> Case:
    class Layer(nn.Module):
        """Attention over the edges of a graph, by scatter."""

        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.w, self.s, self.d = nn.Linear(i, o, bias=False), nn.Parameter(torch.randn(o) * 0.3), nn.Parameter(torch.randn(o) * 0.3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            n, h = x.shape[0], self.w(x)
            src, dst = edges[0], edges[1]
            e = F.leaky_relu((h * self.s).sum(-1)[src] + (h * self.d).sum(-1)[dst], 0.2)
            top = torch.full((n,), -1e9, dtype=x.dtype).scatter_reduce(0, dst, e, "amax", include_self=False)
            w = (e - top.detach()[dst]).exp()
            total = torch.zeros(n, dtype=x.dtype).scatter_add(0, dst, w)
            w = w / (total[dst] + 1e-16)
            return torch.zeros_like(h).index_add(0, dst, h[src] * w[:, None])

    class Gat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(8, 16), Layer(16, 10)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.b(F.elu(self.a(x, edges)), edges)

    return classes(Gat(), torch.randn(12, 8), torch.randint(0, 12, (2, 40)))


@model
def graph_sage() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 10), nn.Linear(8, 10)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            dst = edges[1][:, None].expand(-1, 8)
            mean = torch.zeros_like(x).scatter_reduce(0, dst, x[edges[0]], "mean", include_self=False)
            return self.a(x) + self.b(mean)

    return classes(Net(), torch.randn(12, 8), torch.randint(0, 12, (2, 30)))


@model
def whisper_like() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c1, self.c2 = nn.Conv1d(8, 32, 3, padding=1), nn.Conv1d(32, 32, 3, 2, 1)
            self.enc, self.e, self.self_, self.cross = Block(32, 4), nn.Embedding(50, 32), Block(32, 4, True), nn.MultiheadAttention(32, 4, batch_first=True)
            position = torch.arange(10)[:, None] * torch.exp(-torch.arange(16) / 4)[None]
            self.register_buffer("pos", torch.cat([position.sin(), position.cos()], 1))

        def forward(self, mel: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = F.gelu(self.c2(F.gelu(self.c1(mel)))).permute(0, 2, 1) + self.pos
            h = self.enc(h)
            shifted = y.new_zeros(y.shape)
            shifted[:, 1:] = y[:, :-1].clone()
            shifted[:, 0] = 1
            t = self.self_(self.e(shifted))
            t = t + self.cross(t, h, h, need_weights=False)[0]
            return F.cross_entropy((t @ self.e.weight.t()).flatten(0, 1), y.flatten())

    return Net(), (torch.randn(2, 8, 20), tokens(2, 7))


@model
def speech_ctc() -> Case:
    import arenagrad.torch as agt

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r, self.f = nn.GRU(8, 16, bidirectional=True), nn.Linear(32, 11)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            t, b = x.shape[:2]
            logp = F.log_softmax(self.f(self.r(x)[0]), -1)
            return agt.losses.ctc_loss(logp, y, torch.full((b,), t), torch.full((b,), y.shape[1]))

    return Net(), (torch.randn(20, 3, 8), torch.randint(1, 11, (3, 5)))


@model
def gaussian_head() -> Case:
    import arenagrad.torch as agt

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.m, self.v = nn.Linear(5, 2), nn.Linear(5, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return agt.losses.gaussian_nll_loss(self.m(x), y, F.softplus(self.v(x)))

    return Net(), (torch.randn(8, 5), torch.randn(8, 2))


@model
def mixture_of_experts() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g, self.e, self.f = nn.Linear(12, 4), nn.ModuleList(nn.Linear(12, 12) for _ in range(4)), nn.Linear(12, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            top, at = torch.topk(self.g(x), 2, dim=-1)
            w = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, at, top.softmax(-1))
            return self.f(torch.stack([F.relu(e(x)) for e in self.e], -1).mul(w[:, None]).sum(-1))

    return classes(Net(), torch.randn(8, 12))


@model
def spectral_and_weight_norm() -> Case:
    from torch.nn.utils.parametrizations import weight_norm

    net = nn.Sequential(weight_norm(nn.Linear(12, 16)), nn.Tanh(), nn.Linear(16, 10))
    return classes(net, torch.randn(6, 12))


@model
def frozen_backbone() -> Case:
    body = nn.Sequential(nn.Linear(12, 16), nn.Tanh()).requires_grad_(False)
    return classes(nn.Sequential(body, nn.Linear(16, 10)), torch.randn(6, 12))


@model
def lora() -> Case:
    class Lora(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(12, 10).requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.randn(2, 12)), nn.Parameter(torch.randn(10, 2) * 0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + (x @ self.a.t() @ self.b.t()) * 2.0

    return classes(Lora(), torch.randn(6, 12))


@model
def activations() -> Case:
    all_ = [
        nn.ReLU6(), nn.ELU(), nn.SELU(), nn.CELU(), nn.GLU(), nn.Hardtanh(), nn.Hardsigmoid(), nn.Hardswish(), nn.LogSigmoid(),
        nn.Mish(), nn.SiLU(), nn.Softplus(beta=2, threshold=10), nn.Softshrink(), nn.Hardshrink(), nn.Softsign(),
        nn.Tanhshrink(), nn.Threshold(0.1, 20.0), nn.GELU(), nn.Softmin(dim=1), nn.PReLU(), nn.LogSoftmax(dim=1),
    ]  # fmt: skip

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l, self.a = nn.Linear(8, 8), nn.ModuleList(all_)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.l(x)
            return sum((a(z).square().sum() for a in self.a), torch.zeros((), dtype=x.dtype)) / 100

    return Net(), (torch.randn(4, 8),)


@model
def losses() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(8, 10)

        def forward(self, x: Any, c: Any, t: Any, w: Any) -> torch.Tensor:
            z = self.l(x)
            p, q = torch.sigmoid(z), t.sigmoid()
            one = torch.ones(x.shape[0], dtype=x.dtype)
            return (
                F.cross_entropy(z, c, weight=w, label_smoothing=0.1) + F.cross_entropy(z, t.softmax(1))
                + F.l1_loss(z, t) + F.smooth_l1_loss(z, t, beta=0.5) + F.huber_loss(z, t, delta=0.7)
                + F.binary_cross_entropy(p, q) + F.binary_cross_entropy_with_logits(z, q, pos_weight=w)
                + F.kl_div(F.log_softmax(z, 1), t.softmax(1), reduction="batchmean") + F.nll_loss(F.log_softmax(z, 1), c)
                + F.cosine_embedding_loss(z, t, one) + F.triplet_margin_loss(z, t, t.flip(0))
                + F.hinge_embedding_loss(z, torch.sign(t)) + F.soft_margin_loss(z, torch.sign(t))
                + F.poisson_nll_loss(z, t.abs()) + F.multi_margin_loss(z, c) + F.margin_ranking_loss(z, t, torch.sign(t))
                + F.multilabel_soft_margin_loss(z, (t > 0).to(x.dtype)) + F.mse_loss(z, t, reduction="sum")
            )  # fmt: skip

    return Net(), (torch.randn(6, 8), torch.randint(0, 10, (6,)), torch.randn(6, 10), torch.rand(10) + 0.5)


@model
def shapes_and_indices() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            z = self.l(x)
            parts = [
                z[i], z[-1], z[:, ::2], z[i, i + 1], z[:, [0, -1]], z.unfold(1, 3, 2), z.roll(1, 0), z.flip(1), z.repeat(2, 1),
                z.tril(1), z.triu(), z.diagonal(), z.cumsum(1), z.sort(1)[0] * torch.arange(8), z.topk(3, 1)[0],
                z.index_select(1, i), z.gather(1, i[:, None]), z.index_add(0, i, z.flip(0)), z.index_fill(0, i[:1], 1.0),
                torch.where(z > 0, z, -z), z.masked_fill(z > 0.5, 2.0), F.pad(z, (1, -2)), torch.stack(z.unbind(0), 1),
                z.std(1), z.var(0, unbiased=False), z.logsumexp(1), z.prod(1), z.max(0)[0], z.amin(1), z.median(1)[0],
                torch.cdist(z, z + 1.0), torch.einsum("ij,kj->ik", z, z), z.expand(2, 4, 8), z.norm(dim=1),
                torch.bucketize(z.detach(), torch.tensor([-0.5, 0.0, 0.5], dtype=x.dtype)).to(x.dtype) * z,
                torch.lerp(z, x, 0.3), z.clamp(-0.3, 0.4), torch.addcmul(z, x, z, value=0.5), z.pow(3), z.abs().pow(1.5),
                torch.linalg.cross(z[:, :3], x[:, :3]), F.one_hot(i, 5).to(x.dtype) * z[:, :5], torch.remainder(z, 0.7),
                torch.bilinear(z, x, self.l.weight[None], None), z.clone().scatter(1, i[:, None], 0.5), F.normalize(z),
            ]  # fmt: skip
            return sum(((p * p).mean() for p in parts), torch.zeros((), dtype=x.dtype))

    return Net(), (torch.randn(4, 8), torch.tensor([2, 0, 3, 1]))


@model
def images_and_windows() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            z = self.c(x)
            parts = [
                F.unfold(z, 2), F.fold(F.unfold(z, 2), (8, 8), 2), F.grid_sample(z, grid, align_corners=False),
                F.interpolate(z, (5, 7), mode="bicubic"), F.interpolate(z, scale_factor=2, mode="nearest-exact"), F.pixel_shuffle(z, 2),
                F.pixel_unshuffle(z, 2), F.local_response_norm(z, 2), F.pad(z, (1, 1, 2, 0), mode="replicate"),
                F.pad(z, (1, 1, 1, 1), mode="circular"), F.max_pool2d(z, 3, 2, 1, dilation=2), F.avg_pool2d(z, 3, 2, 1, divisor_override=5),
                F.adaptive_max_pool2d(z, 3), F.lp_pool2d(z.abs() + 0.1, 2, 2), F.channel_shuffle(z, 2),
            ]  # fmt: skip
            return sum(((p * p).mean() for p in parts), torch.zeros((), dtype=x.dtype))

    return Net(), (images(2, 3, 8), torch.rand(2, 3, 3, 2) * 2 - 1)


@model
def linear_algebra() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.l(x)
            a = z @ z.t() + torch.eye(5, dtype=x.dtype)
            f = torch.fft.rfft(z, dim=1)
            return (
                torch.logdet(a) + torch.linalg.solve(a, z).sum() + torch.linalg.inv(a).sum() + torch.linalg.cholesky(a).sum()
                + (f.real.square() + f.imag.square()).mean() + torch.linalg.norm(z) + torch.linalg.eigvalsh(a).max()
            )  # fmt: skip

    return Net(), (torch.randn(5, 5),)


@drawn
def random_layers() -> Case:
    net = nn.Sequential(nn.Linear(8, 16), nn.RReLU(), nn.AlphaDropout(0.1), nn.Linear(16, 10))
    return classes(net, torch.randn(4, 8))
