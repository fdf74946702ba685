"""More small models, of kinds that users bring: splines, graphs, state spaces, flows, heads of detectors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import MODELS, RANDOM, Case, WithLoss, images, model, tokens
from torch import nn

__all__ = ["MODELS", "RANDOM"]


@model
def attention_unet() -> Case:
    class Gate(nn.Module):
        def __init__(self, c, g) -> None:
            super().__init__()
            self.x, self.g, self.p = (nn.Conv2d(c, 4, 1), nn.Conv2d(g, 4, 1), nn.Conv2d(4, 1, 1))

        def forward(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
            a = self.p(torch.tanh(self.x(x) + F.interpolate(self.g(g), size=x.shape[2:], mode="bilinear", align_corners=False)))
            return x * torch.sigmoid(a)

    class U(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.up, self.gate, self.c = (
                nn.Conv2d(1, 4, 3, padding=1),
                nn.Conv2d(4, 8, 3, padding=1, stride=2),
                nn.ConvTranspose2d(8, 4, 3, 2, padding=1, output_padding=1),
                Gate(4, 8),
                nn.Conv2d(8, 3, 3, padding=1, padding_mode="circular"),
            )

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a = F.silu(self.a(x))
            b = F.silu(self.b(a))
            u = self.up(b)
            u = F.pad(u, [0, a.shape[3] - u.shape[3], 0, a.shape[2] - u.shape[2]])
            out = self.c(torch.cat([u, self.gate(a, b)], 1))
            p = out.softmax(1)
            t = F.one_hot(y, 3).permute(0, 3, 1, 2).to(p.dtype)
            dice = 1 - (2 * (p * t).sum((2, 3)) + 1) / ((p + t).sum((2, 3)) + 1)
            return dice.mean() + F.cross_entropy(out, y)

    return (U(), (torch.randn(2, 1, 13, 12), torch.randint(0, 3, (2, 13, 12))))


@model
def rotary_complex() -> Case:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.qkv, self.o = (nn.Embedding(50, 16), nn.Linear(16, 48), nn.Linear(16, 50))
            f = 1.0 / 100 ** (torch.arange(0, 8, 2).double() / 8)
            t = torch.outer(torch.arange(12).double(), f)
            self.register_buffer("freqs", torch.polar(torch.ones_like(t), t))

        def rot(self, x: torch.Tensor) -> torch.Tensor:
            z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
            return torch.view_as_real(z * self.freqs.to(z.dtype)[None, :, None]).flatten(3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            b, t = x.shape
            q, k, v = (z.view(b, t, 2, 8) for z in self.qkv(self.e(x)).chunk(3, -1))
            q, k = (self.rot(q), self.rot(k))
            w = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
            w = w + torch.full((t, t), float("-inf"), dtype=w.dtype).triu(1)
            o = torch.einsum("bhqk,bkhd->bqhd", w.softmax(-1), v).reshape(b, t, 16)
            return F.cross_entropy(self.o(o).flatten(0, 1), y.flatten())

    return (Rotary(), (tokens(), tokens()))


@model
def kan() -> Case:
    class K(nn.Module):
        def __init__(self, i, o, n=5, k=3) -> None:
            super().__init__()
            self.k = k
            h = 2 / n
            self.register_buffer("grid", (torch.arange(-k, n + k + 1) * h - 1).expand(i, -1).contiguous())
            self.base, self.spline, self.scale = (
                nn.Parameter(torch.randn(o, i) * 0.3),
                nn.Parameter(torch.randn(o, i, n + k) * 0.1),
                nn.Parameter(torch.ones(o, i)),
            )

        def bases(self, x: torch.Tensor) -> torch.Tensor:
            g = self.grid
            x = x.unsqueeze(-1)
            b = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
            for k in range(1, self.k + 1):
                b = (x - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * b[:, :, :-1] + (g[:, k + 1 :] - x) / (
                    g[:, k + 1 :] - g[:, 1:-k]
                ) * b[:, :, 1:]
            return b

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(F.silu(x), self.base) + F.linear(
                self.bases(x).view(x.size(0), -1), (self.spline * self.scale.unsqueeze(-1)).view(self.base.shape[0], -1)
            )

    return (WithLoss(nn.Sequential(K(3, 5), K(5, 1)), nn.MSELoss()), (torch.randn(9, 3).tanh(), torch.randn(9, 1)))


@model
def mamba_plain() -> Case:
    class Mb(nn.Module):
        def __init__(self, d=6, n=4) -> None:
            super().__init__()
            self.e = nn.Embedding(20, d)
            self.inp, self.conv = (nn.Linear(d, 2 * 8), nn.Conv1d(8, 8, 3, groups=8, padding=2))
            self.x, self.dt, self.o = (nn.Linear(8, 2 + 2 * n, bias=False), nn.Linear(2, 8), nn.Linear(8, d))
            self.A_log, self.D, self.head = (
                nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(8, 1))),
                nn.Parameter(torch.ones(8)),
                nn.Linear(d, 20),
            )

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.e(t)
            u, z = self.inp(h).chunk(2, -1)
            L = u.shape[1]
            u = F.silu(self.conv(u.transpose(1, 2))[..., :L].transpose(1, 2))
            dt, B, C = self.x(u).split([2, 4, 4], -1)
            dt = F.softplus(self.dt(dt))
            A = -torch.exp(self.A_log)
            dA = torch.exp(dt[..., None] * A)
            dB = dt[..., None] * B[:, :, None] * u[..., None]
            st, ys = (torch.zeros(u.shape[0], 8, 4, dtype=u.dtype), [])
            for i in range(L):
                st = dA[:, i] * st + dB[:, i]
                ys.append((st * C[:, i, None]).sum(-1))
            o = (torch.stack(ys, 1) + u * self.D) * F.silu(z)
            return F.cross_entropy(self.head(h + self.o(o)).flatten(0, 1), y.flatten())

    return (Mb(), (torch.randint(0, 20, (2, 7)), torch.randint(0, 20, (2, 7))))


def edges() -> torch.Tensor:
    return torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 6, 3], [1, 2, 0, 4, 5, 3, 6, 6, 1, 1]])


@model
def gin_and_edge_softmax() -> Case:
    class G(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eps = nn.Parameter(torch.zeros(1))
            self.m = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
            self.a = nn.Linear(16, 1)
            self.o = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor, e: torch.Tensor, g: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            src, dst = e
            n = x.shape[0]
            h = self.m((1 + self.eps) * x + torch.zeros_like(x).index_add(0, dst, x[src]))
            a = F.leaky_relu(self.a(torch.cat([h[src], h[dst]], -1)).squeeze(-1), 0.2)
            mx = torch.full((n,), float("-inf"), dtype=a.dtype).scatter_reduce(0, dst, a, "amax", include_self=True)
            w = (a - mx[dst]).exp()
            w = w / (torch.zeros(n, dtype=a.dtype).scatter_add(0, dst, w)[dst] + 1e-09)
            h = torch.zeros_like(h).index_add_(0, dst, w[:, None] * h[src]) + h
            pool = torch.zeros(2, 8, dtype=h.dtype).scatter_reduce(0, g[:, None].expand(-1, 8), h, "mean", include_self=False)
            return F.cross_entropy(self.o(pool), y)

    return (G(), (torch.randn(7, 5), edges(), torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([2, 0])))


@model
def gcn_dense() -> Case:
    class G(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Linear(5, 8), nn.Linear(8, 3))

        def forward(self, x: torch.Tensor, e: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            A = torch.zeros(n, n, dtype=x.dtype)
            A[e[0], e[1]] = 1.0
            A = A + A.t()
            A.fill_diagonal_(1.0)
            d = A.sum(1).pow(-0.5)
            A = d[:, None] * A * d[None]
            return F.nll_loss(F.log_softmax(A @ self.b(F.relu(A @ self.a(x))), 1), y)

    return (G(), (torch.randn(7, 5), edges(), torch.randint(0, 3, (7,))))


@model
def siamese_triplet() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Conv2d(1, 4, 3), nn.PReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 8))

        def forward(self, a: torch.Tensor, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            a, p, n = (F.normalize(self.f(z), dim=1) for z in (a, p, n))
            z = torch.cat([a, p])
            sim = z @ z.t() / 0.5
            sim = sim.masked_fill(torch.eye(z.shape[0], dtype=torch.bool), -1000000000.0)
            t = torch.arange(z.shape[0]).roll(a.shape[0])
            return (
                F.triplet_margin_loss(a, p, n, margin=0.7)
                + F.cosine_embedding_loss(a, n, -torch.ones(a.shape[0]), margin=0.1)
                + F.cross_entropy(sim, t)
                + F.pairwise_distance(a, p).mean()
            )

    return (N(), (images(3, 1, 8), images(3, 1, 8), images(3, 1, 8)))


@model
def einsum_tensor_train() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g = nn.ParameterList([nn.Parameter(torch.randn(*n) * 0.4) for n in ((1, 4, 3), (3, 4, 3), (3, 4, 1))])
            self.c = nn.Parameter(torch.randn(2, 3, 4) * 0.3)
            self.u, self.v, self.w = (nn.Parameter(torch.randn(5, k)) for k in (2, 3, 4))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a = torch.einsum("aib,bjc,ckd->ijk", *self.g)
            t = torch.einsum("nijk,ijk->n", x, a)
            tk = torch.einsum("abc,ia,jb,kc->ijk", self.c, self.u, self.v, self.w)
            d = torch.einsum("iij->j", tk)
            tr = torch.einsum("ii", tk[:, :, 0])
            b = torch.einsum("...ij,...jk->...ik", x, x.transpose(-1, -2)).mean()
            bl = torch.tensordot(tk, tk, dims=([0, 1], [0, 1])).mean()
            return F.mse_loss(t, y) + d.square().mean() + tr**2 * 0.01 + b * 0.01 + bl * 0.001

    return (N(), (torch.randn(6, 4, 4, 4), torch.randn(6)))


@model
def indexing() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(6, 5, 4))
            self.o = nn.Linear(4, 3)

        def forward(self, i: torch.Tensor, j: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            w = self.w
            a = w[i, j]
            b = w[:, j][i]
            c = w[i][:, 1:4:2]
            d = w[..., [0, 2]][i, 0]
            e = w[None, i[0], :, None].squeeze()
            z = torch.zeros_like(w).index_put((i, j), a, accumulate=True)
            f = torch.take_along_dim(w, w.argsort(1), 1)
            m = torch.where(w > 0, w, -w * 0.1)
            u = w.clone()
            k4 = torch.tensor([0, 3, 4, 5])
            u[k4, 0] = 2 * u[k4, 0]
            u[:, ::2] *= 1.5
            u[:, -1].mul_(0.5)
            g = w.cummax(0).values + w.cummin(1).values
            h = w.diagonal(dim1=0, dim2=1)
            k = w.unfold(1, 3, 1).mean(-1)
            q = w.flatten()[torch.arange(0, 120, 7)]
            r = torch.narrow(w, 0, 1, 3).flip(0, 1) + w.roll((1, -1), (0, 2))[:3]
            return (
                F.cross_entropy(self.o(a + b[:, 0] + c[:, 0]), y)
                + sum((t.square().mean() for t in (d, e, z, f, m, u, g, h, k, q, r))) * 0.1
            )

    return (N(), (torch.tensor([0, 3, 3, 5]), torch.tensor([1, 1, 4, 2]), torch.randint(0, 3, (4,))))


@model
def s4d_fft() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.A, self.B, self.C, self.ldt, self.i, self.o = (
                nn.Parameter(torch.randn(4, 3).abs().log()),
                nn.Parameter(torch.randn(4, 3)),
                nn.Parameter(torch.randn(4, 3, 2)),
                nn.Parameter(torch.rand(4) - 3),
                nn.Linear(2, 4),
                nn.Linear(4, 3),
            )

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            L = x.shape[1]
            u = self.i(x).transpose(1, 2)
            dt = self.ldt.exp()
            A = torch.complex(-self.A.exp(), self.B) * dt[:, None]
            C = torch.view_as_complex(self.C)
            K = 2 * torch.einsum("hn,hnl->hl", C * (A.exp() - 1) / A, torch.exp(A[..., None] * torch.arange(L))).real
            k = (
                torch.fft.rfft(torch.fft.rfft(u, n=2 * L).new_zeros(1).real.expand(1) * 0 + K, n=2 * L)
                if False
                else torch.fft.rfft(K, n=2 * L)
            )
            o = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * k, n=2 * L)[..., :L]
            return F.cross_entropy(self.o(F.gelu(o).mean(-1)), y)

    return (N(), (torch.randn(3, 8, 2), torch.randint(0, 3, (3,))))


@model
def capsules() -> Case:
    def squash(x):
        n = (x**2).sum(-1, keepdim=True)
        return n / (1 + n) * x / (n + 1e-08).sqrt()

    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.w = (nn.Conv2d(1, 8, 3, 2), nn.Parameter(torch.randn(1, 18, 3, 4, 4) * 0.3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            u = squash(self.c(x).view(x.size(0), 2, 4, -1).permute(0, 1, 3, 2).reshape(x.size(0), -1, 4))
            h = (self.w @ u[:, :, None, :, None]).squeeze(-1)
            b = torch.zeros(h.shape[:3], dtype=h.dtype)
            for r in range(3):
                v = squash((b.softmax(2)[..., None] * h).sum(1))
                if r < 2:
                    b = b + (h.detach() * v[:, None]).sum(-1).detach()
            n = v.norm(dim=-1)
            t = F.one_hot(y, 3)
            return (t * F.relu(0.9 - n) ** 2 + 0.5 * (1 - t) * F.relu(n - 0.1) ** 2).sum(-1).mean()

    return (N(), (images(4, 1, 8), torch.randint(0, 3, (4,))))


@model
def bilstm_crf() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.r, self.o, self.t, self.a, self.b = (
                nn.Embedding(30, 6),
                nn.LSTM(6, 5, bidirectional=True, batch_first=True),
                nn.Linear(10, 4),
                nn.Parameter(torch.randn(4, 4) * 0.3),
                nn.Parameter(torch.zeros(4)),
                nn.Parameter(torch.zeros(4)),
            )

        def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            em = self.o(self.r(self.e(x))[0])
            b, t, k = em.shape
            m = torch.arange(t)[None] < n[:, None]
            al = self.a + em[:, 0]
            g = self.a[y[:, 0]] + em[:, 0].gather(1, y[:, :1]).squeeze(1)
            for i in range(1, t):
                nx = torch.logsumexp(al.unsqueeze(2) + self.t + em[:, i].unsqueeze(1), 1)
                al = torch.where(m[:, i, None], nx, al)
                g = g + (self.t[y[:, i - 1], y[:, i]] + em[:, i].gather(1, y[:, i : i + 1]).squeeze(1)) * m[:, i]
            last = y.gather(1, (n - 1).unsqueeze(1)).squeeze(1)
            return (torch.logsumexp(al + self.b, 1) - g - self.b[last]).mean()

    return (N(), (torch.randint(0, 30, (3, 6)), torch.randint(0, 4, (3, 6)), torch.tensor([6, 3, 1])))


@model
def real_nvp_glow() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.linalg.qr(torch.randn(4, 4))[0].contiguous())
            self.n = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
            self.ls, self.b = (nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = (x + self.b) * self.ls.exp()
            ld = self.ls.sum()
            z = z @ self.w
            ld = ld + torch.slogdet(self.w)[1]
            a, b = z.chunk(2, 1)
            sc, sh = self.n(a).chunk(2, 1)
            sc = torch.tanh(sc)
            z = torch.cat([a, b * sc.exp() + sh], 1)
            ld = ld + sc.sum(1)
            return (0.5 * z.square().sum(1) - ld).mean()

    return (N(), (torch.randn(12, 4),))


@model
def distances_and_bilinear() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b, self.l = (nn.Bilinear(4, 5, 6), nn.Linear(6, 6))
            self.cs, self.pd = (nn.CosineSimilarity(dim=1), nn.PairwiseDistance(p=3))

        def forward(self, x: torch.Tensor, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.b(x, z)
            g = self.l(h)
            return (
                F.cross_entropy(h, y)
                + self.cs(h, g).mean()
                + self.pd(h, g).mean()
                + torch.cdist(h, g, p=1).mean()
                + torch.pdist(h).mean()
            )

    return (N(), (torch.randn(7, 4), torch.randn(7, 5), torch.randint(0, 6, (7,))))


@model
def ssd_head() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.l, self.k = (
                nn.Conv2d(3, 8, 3, 2, 1),
                nn.Conv2d(8, 2 * 4, 3, padding=1),
                nn.Conv2d(8, 2 * 3, 3, padding=1),
            )

        def forward(self, x: torch.Tensor, box: torch.Tensor, lab: torch.Tensor) -> torch.Tensor:
            h = F.relu6(self.c(x))
            b = h.shape[0]
            loc = self.l(h).permute(0, 2, 3, 1).reshape(b, -1, 4)
            cl = self.k(h).permute(0, 2, 3, 1).reshape(b, -1, 3)
            pos = lab > 0
            ll = (F.smooth_l1_loss(loc, box, reduction="none").sum(-1) * pos).sum()
            ce = F.cross_entropy(cl.reshape(-1, 3), lab.view(-1), reduction="none").view(b, -1)
            neg = ce.detach().masked_fill(pos, -1)
            rank = neg.argsort(1, descending=True).argsort(1)
            n = pos.sum(1, keepdim=True)
            keep = rank < (3 * n).clamp(max=lab.shape[1] - 1)
            return (ll + (ce * (pos | keep)).sum()) / n.sum().clamp(min=1)

    return (N(), (images(2, 3, 8), torch.randn(2, 32, 4), torch.randint(0, 3, (2, 32)) * (torch.rand(2, 32) > 0.7)))


@model
def beta_kinds() -> Case:
    class N(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(4, 6)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a, b, z = self.l(x).split(2, -1)
            a, b = (F.softplus(a) + 1, F.softplus(b) + 1)
            from torch.distributions import Bernoulli, Beta, Gamma, Laplace, StudentT, kl_divergence

            v = {"validate_args": False}
            return (
                -(
                    Beta(a, b, **v).log_prob(y)
                    + Gamma(a, b, **v).log_prob(y)
                    + StudentT(a + 2, z, b, **v).log_prob(y)
                    + Laplace(z, b, **v).log_prob(y)
                    + Bernoulli(logits=z, **v).log_prob((y > 0.5).to(z.dtype))
                ).mean()
                - Beta(a, b, **v).entropy().mean()
                + kl_divergence(Gamma(a, b, **v), Gamma(b, a, **v)).mean() * 0.01
            )

    return (N(), (torch.randn(6, 4), torch.rand(6, 2) * 0.8 + 0.1))
