"""Models of further kinds: renderers, operators, state by hand, matching, layers of torch that are seldom used."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import Case, WithLoss, classes, images, model, tokens
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from within_models import MODELS, RANDOM

__all__ = ["MODELS", "RANDOM"]


@model
def perceiver() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latents = nn.Parameter(torch.randn(5, 16) * 0.3)
            self.e = nn.Embedding(50, 12)
            self.cross = nn.MultiheadAttention(16, 4, kdim=12, vdim=12, add_bias_kv=True, add_zero_attn=True, batch_first=True)
            self.own = nn.MultiheadAttention(16, 2, bias=False)
            self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            e = self.e(x)
            z = self.latents.expand(len(x), -1, -1)
            z = z + self.cross(z, e, e, key_padding_mask=x > 40)[0]
            z = self.norm(z).transpose(0, 1)
            bias = torch.linspace(-1, 1, 25, dtype=z.dtype).view(5, 5)
            z = z + self.own(z, z, z, attn_mask=bias, need_weights=False)[0]
            return self.head(z.mean(0))

    return classes(Net(), tokens())


@model
def radiance_field() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3 + 24, 32), nn.Softplus(beta=2.0), nn.Linear(32, 4))
            self.register_buffer("scales", 2.0 ** torch.arange(4))

        def forward(self, origin: torch.Tensor, way: torch.Tensor, color: torch.Tensor) -> torch.Tensor:
            t = torch.linspace(0.5, 2.0, 9, dtype=origin.dtype)
            points = origin[:, None] + F.normalize(way, dim=-1)[:, None] * t[:, None]
            a = (points[..., None] * self.scales).flatten(-2)
            out = self.net(torch.cat([points, a.sin(), a.cos()], -1))
            steps = torch.cat([t.diff(), t.new_full((1,), 1e3)])
            alpha = 1 - torch.exp(-F.relu(out[..., 3]) * steps)
            seen = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
            rendered = ((alpha * seen)[..., None] * torch.sigmoid(out[..., :3])).sum(1)
            return F.mse_loss(rendered, color)

    return Net(), (torch.randn(6, 3), torch.randn(6, 3), torch.rand(6, 3))


@model
def spatial_transformer() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.where = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(144, 6))
            self.what = nn.Sequential(nn.Conv2d(1, 4, 3), nn.LocalResponseNorm(3), nn.LPPool2d(2, 2), nn.Flatten(), nn.Linear(196, 10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            theta = self.where(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3, dtype=x.dtype)
            grid = F.affine_grid(theta, list(x.shape), align_corners=False)
            return self.what(F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False))

    return classes(Net(), images(3, 1))


@model
def vector_quantized() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.code, self.book, self.back = nn.Conv1d(2, 6, 4, 2, 1), nn.Embedding(8, 6), nn.ConvTranspose1d(6, 2, 4, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.code(x).transpose(1, 2)
            near = torch.cdist(z, self.book.weight[None].expand(len(z), -1, -1)).argmin(-1)
            q = self.book(near)
            used = F.one_hot(near, 8).to(z.dtype).mean((0, 1))
            loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
            q = z + (q - z).detach()
            entropy = -(used * (used + 1e-10).log()).sum()
            return F.mse_loss(self.back(q.transpose(1, 2)), x) + loss + 0 * entropy

    return Net(), (torch.randn(4, 2, 16),)


@model
def wavenet() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, 8, 1)
            self.gates = nn.ModuleList(parametrizations.weight_norm(nn.Conv1d(8, 16, 2, dilation=2**i)) for i in range(3))
            self.skips = nn.ModuleList(nn.Conv1d(8, 12, 1) for _ in range(3))
            self.last = nn.Conv1d(8, 10, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h, out = self.first(x), torch.zeros(())
            for i, (gate, skip) in enumerate(zip(self.gates, self.skips)):
                z = F.glu(gate(F.pad(h, (2**i, 0))), 1)
                s, r = skip(z).split([4, 8], 1)
                h, out = (h + r) * 0.5**0.5, out + s.repeat(1, 2, 1)
            return self.last(F.relu(out))

    return WithLoss(Net(), lambda out, y: F.cross_entropy(out[..., :-1], y[..., 1:])), (
        torch.randn(2, 1, 20),
        torch.randint(0, 10, (2, 20)),
    )


@model
def rwkv() -> Case:
    class Net(nn.Module):
        def __init__(self, d: int = 8) -> None:
            super().__init__()
            self.e, self.mix = nn.Embedding(50, d), nn.Parameter(torch.rand(3, d))
            self.k, self.v, self.r, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.decay, self.first = nn.Parameter(torch.randn(d)), nn.Parameter(torch.randn(d))
            self.shift, self.head = nn.ZeroPad2d((0, 0, 1, -1)), nn.Linear(d, 50)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.e(x)
            before = self.shift(h)
            k, v, r = (f(torch.lerp(before, h, m)) for f, m in zip((self.k, self.v, self.r), self.mix))
            a, b, top = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), torch.full_like(k[:, 0], -1e30)
            outs = []
            for key, value in zip(k.unbind(1), v.unbind(1)):
                q = torch.maximum(top, self.first + key)
                e1, e2 = (top - q).exp(), (self.first + key - q).exp()
                outs.append((e1 * a + e2 * value) / (e1 * b + e2))
                q = torch.maximum(top - self.decay.exp(), key)
                e1, e2 = (top - self.decay.exp() - q).exp(), (key - q).exp()
                a, b, top = e1 * a + e2 * value, e1 * b + e2, q
            return self.head(h + self.o(torch.stack(outs, 1) * r.sigmoid()))

    return WithLoss(Net(), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())), (tokens(2, 6), tokens(2, 6))


@model
def neural_ode() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

        def slope(self, t: float, y: torch.Tensor) -> torch.Tensor:
            return self.field(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

        def block(self, y: torch.Tensor, t: float, h: float) -> torch.Tensor:
            k1 = self.slope(t, y)
            k2 = self.slope(t + h / 2, torch.add(y, k1, alpha=h / 2))
            k3 = self.slope(t + h / 2, torch.addcmul(y, k2, torch.tensor(1.0, dtype=y.dtype), value=h / 2))
            k4 = self.slope(t + h, y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        def forward(self, y: torch.Tensor, path: torch.Tensor) -> torch.Tensor:
            found = [y]
            for i in range(4):
                found.append(checkpoint(self.block, found[-1], i * 0.25, 0.25, use_reentrant=False))
            return torch.trapezoid((torch.stack(found) - path).square().sum(-1), dx=0.25, dim=0).mean()

    return Net(), (torch.randn(5, 3), torch.randn(5, 5, 3))


@model
def point_cloud() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8, momentum=0.3), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 9))
            self.net = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16, affine=False), nn.ReLU6(), nn.Conv1d(16, 16, 1))
            self.head = nn.Linear(32, 10)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            eye = torch.eye(3, dtype=x.dtype)
            t = self.turn(x).view(-1, 3, 3) + eye
            h = self.net(torch.bmm(x.mT, t).mT)
            top, _ = h.max(2)
            far = h.topk(3, 2).values.mean(2)
            off = torch.linalg.matrix_norm(eye - t @ t.mT).mean()
            return F.cross_entropy(self.head(torch.hstack([top, far])), y, label_smoothing=0.1) + 1e-3 * off

    return Net(), (torch.randn(4, 3, 20), torch.randint(0, 10, (4,)))


@model
def optimal_transport() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Linear(4, 8), nn.Mish(), nn.Linear(8, 3))
            self.sides = nn.Parameter(F.normalize(torch.randn(5, 3)))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a = self.f(x)
            cost = torch.cdist(a, y, p=1.0)
            u, v = torch.zeros_like(cost[:, 0]), torch.zeros_like(cost[0])
            for _ in range(8):
                u = -0.5 * torch.logsumexp((v - cost) / 0.5, 1) - 0.5 * math.log(len(x))
                v = -0.5 * torch.logsumexp((u[:, None] - cost) / 0.5, 0) - 0.5 * math.log(len(y))
            plan = torch.exp((u[:, None] + v - cost) / 0.5)
            sliced = (a @ self.sides.t()).sort(0).values - (y @ self.sides.t()).msort()
            return (plan * cost).sum() + F.huber_loss(sliced, torch.zeros_like(sliced), delta=0.3)

    return Net(), (torch.randn(7, 4), torch.randn(7, 3))


@model
def detector_set() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 4, 4)
            self.queries, self.rows, self.cols = (nn.Embedding(n, 16) for n in (5, 4, 4))
            self.t = nn.Transformer(16, 2, 1, 1, 32, 0.0, activation="gelu", batch_first=True, norm_first=True)
            self.kind, self.box = nn.Linear(16, 4), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

        def forward(self, x: torch.Tensor, kinds: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
            h = self.stem(x)
            i = torch.arange(4)
            place = self.rows(i)[:, None] + self.cols(i)[None]
            out = self.t(h.flatten(2).mT + place.flatten(0, 1), self.queries.weight.unsqueeze(0).repeat(len(x), 1, 1))
            logits, b = self.kind(out), self.box(out).sigmoid()
            with torch.no_grad():
                order = torch.cdist(b, boxes, p=1).argmin(1)
            b = torch.take_along_dim(b, order[..., None], 1)
            logits = logits.gather(1, order[..., None].expand(-1, -1, 4))
            (c, s), (c2, s2) = b.tensor_split(2, -1), boxes.tensor_split(2, -1)
            lo, hi = torch.max(c - s / 2, c2 - s2 / 2), torch.min(c + s / 2, c2 + s2 / 2)
            both = (hi - lo).clamp_min(0).prod(-1)
            union = s.prod(-1) + s2.prod(-1) - both
            hull = (torch.max(c + s / 2, c2 + s2 / 2) - torch.min(c - s / 2, c2 - s2 / 2)).prod(-1)
            giou = both / union - (hull - union) / hull
            turn = (torch.atan(s[..., 0] / s[..., 1]) - torch.atan2(s2[..., 0], s2[..., 1])).square()
            return F.cross_entropy(logits.mT, kinds) + (1 - giou).mean() + F.l1_loss(b, boxes) + turn.mean()

    return Net(), (images(2), torch.randint(0, 4, (2, 3)), torch.rand(2, 3, 4) * 0.5 + 0.2)


@model
def modulated_convolution() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Sequential(nn.Linear(6, 12), nn.LeakyReLU(0.2), nn.Linear(12, 8))
            self.start = nn.Parameter(torch.randn(1, 4, 4, 4))
            self.w, self.style, self.rgb = nn.Parameter(torch.randn(1, 6, 4, 3, 3)), nn.Linear(8, 4), nn.Conv2d(6, 3, 1)
            k = torch.tensor([1.0, 3.0, 3.0, 1.0])
            self.register_buffer("blur", (k.outer(k) / k.sum() ** 2)[None, None], persistent=False)

        def forward(self, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
            n = len(z)
            w = self.w * (self.style(self.map(z)) + 1)[:, None, :, None, None]
            w = w * (w.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
            x = F.interpolate(self.start.expand(n, -1, -1, -1), scale_factor=2, mode="bicubic", align_corners=True)
            x = F.conv2d(x.reshape(1, -1, 8, 8), w.view(-1, 4, 3, 3), padding=1, groups=n).view(n, 6, 8, 8)
            x = F.conv2d(F.pad(x, (1, 2, 1, 2), mode="reflect"), self.blur.expand(6, 1, 4, 4), groups=6)
            std = x.var(0, unbiased=False).add(1e-8).sqrt().mean()
            return F.binary_cross_entropy_with_logits(self.rgb(F.leaky_relu(x, 0.2)), y, pos_weight=torch.ones(8) * 2) + std

    return Net(), (torch.randn(3, 6), torch.rand(3, 3, 8, 8))


@model
def conv_lstm() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gates, self.out = nn.Conv2d(2 + 4, 16, 3, padding="same"), nn.Conv2d(4, 2, 1)
            self.peep = nn.ParameterList([nn.Parameter(torch.randn(4, 6, 6) * 0.1) for _ in range(3)])

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = c = x.new_zeros(x.size(0), 4, 6, 6)
            seen = []
            for frame in x.unbind(1):
                i, f, o, g = torch.chunk(self.gates(torch.cat((frame, h), dim=1)), 4, dim=1)
                c = torch.sigmoid(f + self.peep[1] * c) * c + torch.sigmoid(i + self.peep[0] * c) * g.tanh()
                h = torch.sigmoid(o + self.peep[2] * c) * c.tanh()
                seen.append(self.out(h))
            return F.smooth_l1_loss(torch.stack(seen, dim=1), y, beta=0.5)

    return Net(), (torch.randn(2, 3, 2, 6, 6), torch.randn(2, 3, 2, 6, 6))


@model
def cells_by_hand() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e = nn.Embedding(50, 6, padding_idx=3, scale_grad_by_freq=False)
            self.a, self.b, self.c = nn.GRUCell(6, 8), nn.LSTMCell(8, 8), nn.RNNCell(8, 8, nonlinearity="relu")
            self.deep = nn.LSTM(6, 5, 2, batch_first=True)
            self.mix, self.head = nn.Bilinear(8, 5, 7), nn.Linear(7, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            e = self.e(x)
            h, (g, c), r = torch.zeros(len(x), 8, dtype=e.dtype), (torch.zeros(len(x), 8, dtype=e.dtype),) * 2, None
            for t in range(x.shape[1]):
                h = self.a(e[:, t], h)
                g, c = self.b(h, (g, c))
                r = self.c(g, r)
            return self.head(self.mix(r, self.deep(e)[0][:, -1]).tanh())

    return classes(Net(), tokens(3, 5))


@model
def mixture_density() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(3, 12), nn.Linear(12, 4 * 5)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            w, mean, scale = self.head(torch.tanh(self.body(x))).unflatten(1, (4, 5)).tensor_split([1, 3], 2)
            from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

            parts = Independent(Normal(mean, F.softplus(scale) + 0.1, validate_args=False), 1, validate_args=False)
            return -MixtureSameFamily(Categorical(logits=w[..., 0]), parts, validate_args=False).log_prob(y).mean()

    return Net(), (torch.randn(6, 3), torch.randn(6, 2))


@model
def contrastive() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16, track_running_stats=False), nn.CELU(), nn.Linear(16, 8))
            self.heat = nn.Parameter(torch.tensor(1.0))

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            z = F.normalize(self.net(torch.cat([a, b])), dim=1)
            n = len(a)
            s = (z @ z.T * self.heat.exp()).masked_fill(torch.eye(2 * n, dtype=torch.bool), -torch.inf)
            loss = F.cross_entropy(s, torch.arange(2 * n).roll(n))
            za, zb = ((p - p.mean(0)) / p.std(0) for p in z.chunk(2))
            c = za.T @ zb / n
            twins = (c.diagonal() - 1).pow(2).sum() + 5e-3 * c.fill_diagonal_(0).pow(2).sum()
            cov = z.T @ z / n
            return loss + 0.1 * twins + cov.triu(1).square().sum() + F.relu(1 - z.var(0).sqrt()).mean()

    return Net(), (torch.randn(5, 6), torch.randn(5, 6))


@model
def sparsemax_tabular() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.ModuleDict({"city": nn.Embedding(5, 4), "kind": nn.Embedding(3, 4)})
            self.scale, self.shift = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6, 4))
            self.masks, self.feats = nn.ModuleList(nn.Linear(32, 8) for _ in range(2)), nn.Linear(32, 24)
            self.norm, self.head = nn.InstanceNorm1d(8, affine=True), nn.Linear(12, 10)

        def forward(self, x: torch.Tensor, city: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
            cells = torch.cat([x[..., None] * self.scale + self.shift, self.words["city"](city)[:, None], self.words["kind"](kind)[:, None]], 1)
            cells = self.norm(cells)
            prior, out = torch.ones_like(cells[..., 0]), torch.zeros(len(x), 12, dtype=x.dtype)
            for mask in self.masks:
                z = mask(cells.flatten(1)) * prior
                top, _ = torch.sort(z, descending=True)
                total = top.cumsum(1) - 1
                count = torch.arange(1, 9, dtype=z.dtype)
                k = (count * top > total).sum(1, keepdim=True)
                m = torch.clamp(z - total.gather(1, k - 1) / k, min=0)
                prior = prior * (1.3 - m)
                out = out + F.glu(self.feats((cells * m[..., None]).flatten(1)))
            return self.head(out)

    return classes(Net(), torch.randn(4, 6), torch.randint(0, 5, (4,)), torch.randint(0, 3, (4,)))


@model
def forecast_blocks() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.MaxPool1d(k, ceil_mode=True), nn.Flatten(), nn.Linear(-(-16 // k), 12), nn.Hardswish(), nn.Linear(12, 4 + 3)) for k in (4, 2, 1))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True, correction=0) + 1e-5
            rest, out = (x - mean) / std, 0
            for block in self.blocks:
                back, ahead = block(rest.unsqueeze(1)).split_with_sizes([4, 3], 1)
                rest = rest - F.interpolate(back[:, None], size=16, mode="linear", align_corners=True)[:, 0]
                out = out + F.interpolate(ahead[:, None], 6, mode="nearest")[:, 0]
            out = out * std + mean
            q = torch.tensor([0.1, 0.5, 0.9], dtype=x.dtype)
            e = y[:, None] - out[:, None] * torch.ones(3, 1, dtype=x.dtype)
            return torch.maximum(q[:, None] * e, (q[:, None] - 1) * e).mean() + F.poisson_nll_loss(out, y.abs())

    return Net(), (torch.randn(4, 16), torch.randn(4, 6))


@model
def molecules() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.filter = nn.Embedding(6, 8), nn.Sequential(nn.Linear(10, 8), nn.Softplus(), nn.Linear(8, 8))
            self.msg, self.move, self.upd, self.out = nn.Linear(17, 8), nn.Linear(8, 1, bias=False), nn.Linear(16, 8), nn.Linear(8, 1)
            self.register_buffer("centers", torch.linspace(0, 5, 10))

        def forward(self, z: torch.Tensor, pos: torch.Tensor, edge: torch.Tensor, batch: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h, (i, j) = self.e(z), edge
            d = pos[i] - pos[j]
            r = d.norm(dim=-1, keepdim=True)
            w = self.filter(torch.exp(-10 * (r - self.centers) ** 2)) * 0.5 * (torch.cos(r * math.pi / 5) + 1) * (r < 5)
            h = h + torch.zeros_like(h).index_add(0, i, h[j] * w)
            m = F.silu(self.msg(torch.cat([h[i], h[j], r.square()], 1)))
            pos = pos + torch.zeros_like(pos).scatter_add_(0, i[:, None].expand(-1, 3), d / (r + 1) * self.move(m))
            h = h + self.upd(torch.cat([h, torch.zeros_like(h).index_reduce_(0, i, m, "mean", include_self=False)], 1))
            energy = torch.zeros(3, dtype=h.dtype).scatter_reduce(0, batch, self.out(h)[:, 0] + pos.square().sum(1), "sum")
            return F.l1_loss(energy, y)

    edge = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 6, 8], [1, 0, 2, 1, 4, 3, 6, 5, 8, 7, 7, 6]])
    return Net(), (torch.randint(0, 6, (9,)), torch.randn(9, 3), edge, torch.tensor([0] * 3 + [1] * 2 + [2] * 4), torch.randn(3))


@model
def memory_machine() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(4 + 5, 12), nn.Linear(12, 5 + 1 + 1 + 3 + 1 + 5 + 5)
            self.memory, self.out = nn.Parameter(torch.randn(6, 5) * 0.1), nn.Linear(12 + 5, 4)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            n = x.shape[1]
            mem, w = self.memory.expand(n, 6, 5), torch.full((n, 6), 1 / 6, dtype=x.dtype)
            state, read, outs = None, x.new_zeros(n, 5), []
            for step in x:
                state = self.cell(torch.cat([step, read], 1), state)
                key, beta, gate, shift, gamma, erase, add = self.head(state[0]).split([5, 1, 1, 3, 1, 5, 5], 1)
                c = F.softmax(F.softplus(beta) * F.cosine_similarity(key[:, None], mem, dim=-1), 1)
                w = torch.lerp(w, c, torch.sigmoid(gate))
                w = (w[:, None].unfold(2, 1, 1)[..., 0] * 1).squeeze(1)
                w = torch.einsum("bks,bk->bs", torch.stack([w.roll(s, 1) for s in (-1, 0, 1)], 1), shift.softmax(1))
                w = w ** (1 + F.softplus(gamma))
                w = w / w.sum(1, True)
                mem = mem * (1 - torch.einsum("bn,bd->bnd", w, erase.sigmoid())) + w.unsqueeze(2) * add.unsqueeze(1)
                read = torch.matmul(w[:, None], mem)[:, 0]
                outs.append(self.out(torch.cat([state[0], read], 1)))
            return F.multilabel_soft_margin_loss(torch.cat(outs), y.flatten(0, 1))

    return Net(), (torch.randn(3, 2, 4), torch.randint(0, 2, (3, 2, 4)).float())


@model
def spline_flow() -> Case:
    class Masked(nn.Linear):
        def __init__(self, i: int, o: int, mask: torch.Tensor) -> None:
            super().__init__(i, o)
            self.register_buffer("mask", mask)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, self.weight * self.mask, self.bias)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            a, h = torch.arange(3), torch.arange(12) % 2
            self.net = nn.Sequential(Masked(3, 12, h[:, None] >= a), nn.SELU(), Masked(12, 33, a.repeat_interleave(11)[:, None] > h))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            w, h, d = self.net(x).view(-1, 3, 11).split([4, 4, 3], -1)
            w, h = (1e-2 + (1 - 4e-2) * p.softmax(-1) for p in (w, h))
            ws, hs = (F.pad(p.cumsum(-1), (1, 0)) * 6 - 3 for p in (w, h))
            d = F.pad(1e-2 + F.softplus(d), (1, 1), value=1.0)
            inside = (x > -3) & (x < 3)
            z = torch.where(inside, x, torch.zeros_like(x))
            at = torch.searchsorted(ws[..., 1:-1].contiguous(), z[..., None])
            pick = lambda p, k=0: p.gather(-1, at + k)[..., 0]  # noqa: E731
            x0, y0, bw, bh, d0, d1 = pick(ws), pick(hs), pick(ws.diff()), pick(hs.diff()), pick(d), pick(d, 1)
            t, s = (z - x0) / bw, bh / bw
            den = s + (d1 + d0 - 2 * s) * t * (1 - t)
            out = y0 + bh * (s * t**2 + d0 * t * (1 - t)) / den
            log = 2 * s.log() + (d1 * t**2 + 2 * s * t * (1 - t) + d0 * (1 - t) ** 2).log() - 2 * den.log()
            return (0.5 * torch.where(inside, out, x).square() - torch.where(inside, log, 0.0)).sum(-1).mean()

    return Net(), (torch.randn(6, 3) * 1.5,)


@model
def fourier_operator() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.skip = nn.Linear(3, 6), nn.Linear(6, 1), nn.Conv2d(6, 6, 1)
            self.w = nn.Parameter(torch.randn(2, 6, 6, 3, 3, 2) / 6)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            n, a, b = x.shape
            grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, a), torch.linspace(0, 1, b), indexing="ij"), -1).to(x.dtype)
            h = self.up(torch.cat([x[..., None], grid.expand(n, -1, -1, -1)], -1)).permute(0, 3, 1, 2)
            f, w = torch.fft.rfft2(h, norm="ortho"), torch.view_as_complex(self.w)
            low = torch.einsum("bixy,ioxy->boxy", f[:, :, :3, :3], w[0])
            high = torch.einsum("bixy,ioxy->boxy", f[:, :, -3:, :3], w[1])
            out = torch.cat([low, torch.zeros_like(f[:, :, 3:-3, :3]), high], 2)
            h = torch.fft.irfft2(F.pad(out, (0, f.shape[3] - 3)), s=(a, b), norm="ortho") + self.skip(h)
            out = self.down(F.gelu(h, approximate="tanh").movedim(1, -1))[..., 0]
            return (torch.linalg.norm((out - y).flatten(1), dim=1) / torch.linalg.norm(y.flatten(1), dim=1)).mean()

    return Net(), (torch.randn(2, 8, 10), torch.randn(2, 8, 10))


@model
def gaussian_process() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
            self.logs = nn.Parameter(torch.zeros(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = self.f(x) / self.logs[0].exp()
            d2 = (z.unsqueeze(1) - z.unsqueeze(0)).square().sum(-1)
            k = self.logs[1].exp() * torch.exp(-0.5 * d2) + (self.logs[2].exp() + 0.1) * torch.eye(len(x), dtype=x.dtype)
            chol = torch.linalg.cholesky(k)
            alpha = torch.cholesky_solve(y[:, None], chol)
            half = torch.linalg.solve_triangular(chol, y[:, None], upper=False)
            return 0.5 * (y @ alpha[:, 0] + half.square().sum()) / 2 + chol.diagonal().log().sum() + torch.logdet(k) / 4

    return Net(), (torch.randn(7, 3), torch.randn(7))


@model
def listwise_ranking() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(parametrizations.orthogonal(nn.Linear(5, 5)), nn.Hardtanh(), nn.Linear(5, 1))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            s = self.f(x)[..., 0]
            order = y.argsort(dim=1, descending=True, stable=True)
            p = s.gather(1, order)
            plackett = (p.flip(1).logcumsumexp(1).flip(1) - p).mean()
            pairs = torch.combinations(torch.arange(6), 2)
            a, b = s[:, pairs[:, 0]], s[:, pairs[:, 1]]
            want = torch.sign(y[:, pairs[:, 0]] - y[:, pairs[:, 1]])
            gain = torch.exp2(y) - 1
            best = (gain.sort(1, descending=True).values / torch.log2(torch.arange(2, 8, dtype=y.dtype))).sum(1)
            soft = 0.5 + torch.sigmoid(s[:, None] - s[:, :, None]).sum(2)
            ndcg = (gain / torch.log2(1 + soft)).sum(1) / best.clamp(min=1e-6)
            return plackett + F.margin_ranking_loss(a, b, want, margin=0.1) - ndcg.mean() + F.softmin(s, 1).amax(1).mean()

    return Net(), (torch.randn(3, 6, 5), torch.randint(0, 4, (3, 6)).float())


@model
def spectrogram() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv1d(1, 4, 5, padding=2, padding_mode="reflect"), nn.Tanh(), nn.Conv1d(4, 1, 5, padding=2, padding_mode="replicate"))
            self.register_buffer("window", torch.hann_window(16))
            self.register_buffer("mel", torch.rand(5, 9))

        def power(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stft(x, 16, 4, window=self.window, center=True, return_complex=True).abs().square()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a, b = self.power(self.net(x[:, None])[:, 0]), self.power(y)
            mel = torch.log10(torch.clamp(self.mel @ a, min=1e-5)) - torch.log10(torch.clamp(self.mel @ b, min=1e-5))
            return mel.abs().mean() + torch.linalg.matrix_norm(a.sqrt() - b.sqrt(), ord="fro").mean()

    return Net(), (torch.randn(2, 64), torch.randn(2, 64))


@model
def relative_attention() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.bias = nn.Embedding(50, 16), nn.Embedding(8, 4)
            self.q, self.kv, self.o, self.rel = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 10), nn.Parameter(torch.randn(23, 8) * 0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h, t = self.e(x), x.shape[1]
            q = self.q(h).unflatten(-1, (4, 4)).transpose(1, 2)
            k, v = self.kv(h).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
            far = torch.arange(t)[:, None] - torch.arange(t)
            near = far.clamp(min=0)
            large = 4 + (torch.log(near.float().clamp(min=1) / 4) / math.log(4) * 4).long()
            bias = self.bias(torch.where(near < 4, near, large.clamp(max=7))).permute(2, 0, 1)
            slopes = 2.0 ** -torch.arange(1, 5).to(h.dtype)
            bias = bias - slopes[:, None, None] * near
            bias = bias.masked_fill((far < 0) | (far >= 6), float("-inf"))
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0), enable_gqa=True, scale=0.3)
            z = torch.baddbmm(a.flatten(0, 1), a.flatten(0, 1), torch.eye(4, dtype=h.dtype).expand(len(x) * 4, 4, 4), beta=0.5, alpha=0.5)
            c2p = torch.gather(h[..., :8] @ self.rel.T, 2, (far + t - 1).clamp(0, 22).expand(len(x), -1, -1))
            return self.o(z.view(len(x), 4, t, 4).transpose(1, 2).flatten(2).mean(1)) + c2p.softmax(-1).std((1, 2))[:, None]

    return classes(Net(), tokens(3, 12))


@model
def pooled_and_unpooled() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.pool, self.un = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
            self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4), nn.ChannelShuffle(4), nn.Softshrink(0.1), nn.Conv2d(8, 8, 1))
            self.eca, self.head, self.prelu = nn.Conv1d(1, 1, 3, padding=1, bias=False), nn.Conv2d(8, 4, 1), nn.PReLU(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h, at = self.pool(self.prelu(self.a(x)))
            h = self.deep(h)
            w = self.eca(F.adaptive_avg_pool2d(h, 1)[..., 0].transpose(1, 2)).transpose(1, 2)[..., None]
            h = self.head(self.un(h * torch.sigmoid(w), at))
            h = F.interpolate(h, (5, 7), mode="area") + F.interpolate(h, (5, 7), mode="nearest-exact") + F.adaptive_max_pool2d(h, (5, 7))
            return nn.Softmax2d()(torch.rot90(h, 1, (2, 3)).contiguous()).flatten(1)[:, :10].log()

    return classes(Net(), images(2))


@model
def distributional_values() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.adv, self.val = nn.Linear(4, 16), nn.Linear(16, 3 * 9), nn.Linear(16, 9)
            self.policy, self.log_std = nn.Linear(16, 2), nn.Parameter(torch.zeros(2))
            self.register_buffer("atoms", torch.linspace(-2, 2, 9))

        def forward(self, s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, s2: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
            h, n = F.elu(self.body(s)), len(s)
            z = self.val(h)[:, None] + (adv := self.adv(h).view(n, 3, 9)) - adv.mean(1, keepdim=True)
            with torch.no_grad():
                p2 = self.adv(F.elu(self.body(s2))).view(n, 3, 9).softmax(-1)
                best = (p2 * self.atoms).sum(-1).argmax(-1)
                p = p2[torch.arange(n), best]
                at = ((r[:, None] + 0.9 * self.atoms).clamp(-2, 2) + 2) / 0.5
                lo, hi = at.floor().long().clamp(0, 8), at.ceil().long().clamp(0, 8)
                m = torch.zeros(n, 9, dtype=s.dtype)
                m.scatter_add_(1, lo, p * (hi.to(s.dtype) - at + (lo == hi)))
                m.scatter_add_(1, hi, p * (at - lo))
            c51 = -(m * F.log_softmax(z[torch.arange(n), a], -1)).sum(-1).mean()
            tau = (torch.arange(9, dtype=s.dtype) + 0.5) / 9
            gap = r[:, None, None] - z[torch.arange(n), a][:, :, None]
            qr = (torch.abs(tau[:, None] - (gap.detach() < 0).to(s.dtype)) * F.huber_loss(gap, torch.zeros_like(gap), reduction="none")).mean()
            from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

            base = Independent(Normal(self.policy(h), self.log_std.exp(), validate_args=False), 1, validate_args=False)
            log = TransformedDistribution(base, [TanhTransform(cache_size=0)], validate_args=False).log_prob(u)
            ratio = (log - log.detach() - 0.1 * r).exp()
            ppo = -torch.min(ratio * r, ratio.clip(0.8, 1.2) * r).mean()
            return c51 + qr + ppo - 0.01 * base.entropy().mean()

    return Net(), (torch.randn(5, 4), torch.randint(0, 3, (5,)), torch.randn(5), torch.randn(5, 4), torch.rand(5, 2) * 1.6 - 0.8)


@model
def hypernetwork() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
            self.core.requires_grad_(False)
            self.hyper = nn.Linear(3, sum(p.numel() for p in self.core.parameters()))
            self.members = nn.Parameter(torch.randn(3, 4, 2))

        def forward(self, task: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out, at, flat = {}, 0, self.hyper(task)
            for name, p in self.core.named_parameters():
                out[name] = (flat[at : at + p.numel()].view_as(p) + p).contiguous()
                at += p.numel()
            one = torch.func.functional_call(self.core, out, (x,))
            many = torch.vmap(lambda w, v: torch.tanh(v @ w), in_dims=(0, None))(self.members, x)
            spread = torch.vmap(torch.trace)(many.mT @ many)
            return F.mse_loss(one + many.mean(0), y) + spread.logsumexp(0) * 0.01

    return Net(), (torch.randn(3), torch.randn(6, 4), torch.randn(6, 2))


@model
def seldom_functions() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(6, 8)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.f(x)
            s, p = h.sigmoid(), F.softplus(h) + 0.1
            z = [torch.lgamma(p), torch.digamma(p), torch.erfinv(s - 0.5), torch.special.ndtr(h)]
            z += [torch.hypot(h, p), torch.atan2(h, p), torch.sinc(h), torch.special.entr(s), torch.logit(s, eps=1e-6)]
            z += [torch.special.xlog1py(s, p), torch.copysign(p, h.detach()), torch.fmod(h, 0.7)]
            z += [torch.remainder(h, 0.9), torch.frac(h), torch.expm1(h), torch.exp2(h), torch.asinh(h), torch.acosh(p + 1)]
            z += [torch.atanh(s * 0.9), torch.cummax(h, 1).values, torch.cummin(h, 0).values, torch.polygamma(1, p)]
            z += [torch.nan_to_num(h), torch.clamp(h, s - 0.5, s), torch.square(h).rsqrt()]
            one = [torch.quantile(h, 0.3, dim=1), h.nanmean(1), torch.nanquantile(h, 0.5, dim=1), h.median(1).values, h.kthvalue(2, 1).values]
            one += [torch.std_mean(h, 1)[0], torch.var_mean(h, 1)[1], torch.renorm(h, 2, 0, 1.0).sum(1), torch.dist(h, y).expand(4)]
            one += [torch.tensordot(h, y, dims=([1], [1])).sum(1), torch.linalg.multi_dot([h, y.T, h]).mean(1), torch.kron(h, y).sum(1)[:4]]
            one += [torch.block_diag(h, y).sum(1)[:4], torch.aminmax(h, dim=1).max, h.prod(1)]
            one += [torch.index_fill(h, 1, torch.tensor([0, 2]), 0.0).sum(1), torch.masked_scatter(h, y > 0, s).sum(1)]
            one += [h.put(torch.tensor([1, 5]), h.new_tensor([0.5, 0.25])).sum(1), torch.index_copy(h, 0, torch.tensor([2]), s[:1]).mean(1)]
            one += [torch.take(h, torch.tensor([3, 1, 4, 1])), torch.cartesian_prod(h[0], h[1])[:4, 0], torch.addr(h[:, :4], h[:, 0], h[:, 1]).sum(1)]
            one += [F.pairwise_distance(h, y), F.logsigmoid(h).sum(1), F.tanhshrink(h).mean(1), F.softsign(h).sum(1), F.hardshrink(h).sum(1)]
            one += [torch.histc(h.detach(), 4, -1, 1) * h[0, 0], torch.bincount(torch.tensor([0, 1, 1, 3]), minlength=4) * h[0, 1]]
            one += [F.threshold(h, 0.1, 20.0).mean(1)]
            return sum(t.tanh().mean() for t in z) + sum(t.tanh().mean() for t in one)

    return Net(), (torch.randn(4, 6), torch.randn(4, 8))
