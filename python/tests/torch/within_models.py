"""Models whose calls differentiate, draw up distributions, or round to a grid."""

from __future__ import annotations

import torch
import torch.distributions as D
import torch.nn.functional as F
from models import Case, model
from more_models import MODELS, RANDOM
from torch import nn
from torch.func import functional_call, hessian, vmap
from torch.func import grad as slope_of

__all__ = ["MODELS", "RANDOM"]


def mlp(a: int, b: int, h: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(a, h), nn.Tanh(), nn.Linear(h, b))


@model
def heat_equation() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.u = mlp(2, 1)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
            u = self.u(torch.cat([x, t], 1))
            du = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
            bent = torch.autograd.grad(du[0].sum(), x, create_graph=True)[0]
            return (du[1] + u * du[0] - 0.1 * bent).square().mean() + (u - x.sin()).square().mean()

    return Net(), (torch.randn(8, 1), torch.rand(8, 1))


@model
def bending_by_torch_func() -> Case:
    pull = torch.tensor([0.5, -0.25])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.u = mlp(2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def u(p: torch.Tensor) -> torch.Tensor:
                return self.u(p).squeeze(-1)

            steep, bent = vmap(slope_of(u))(x), vmap(hessian(u))(x)
            return (steep @ pull.to(x) - bent[:, 0, 0] - bent[:, 1, 1]).square().mean() + self.u(x).square().mean()

    return Net(), (torch.randn(8, 2),)


@model
def learning_to_learn() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = mlp(3, 1)

        def forward(self, x: torch.Tensor, y: torch.Tensor, later: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
            now = dict(self.f.named_parameters())
            grads = torch.autograd.grad(F.mse_loss(functional_call(self.f, now, (x,)), y), list(now.values()), create_graph=True)
            next_ = {name: p - 0.1 * g for (name, p), g in zip(now.items(), grads)}
            return F.mse_loss(functional_call(self.f, next_, (later,)), wanted)

    return Net(), (torch.randn(5, 3), torch.randn(5, 1), torch.randn(5, 3), torch.randn(5, 1))


@model
def gradient_penalty() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.SiLU(), nn.AvgPool2d(2), nn.Conv2d(3, 4, 2), nn.LeakyReLU(0.2))
            self.d = nn.Sequential(conv, nn.Flatten(), nn.Linear(16, 6), nn.Softmax(-1), nn.Linear(6, 1))
            self.register_buffer("size", torch.zeros(2))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = (0.3 * x + 0.7 * y).requires_grad_()
            d = self.d(z)
            (g,) = torch.autograd.grad(d, z, torch.ones_like(d), create_graph=True)
            fixed = torch.autograd.grad(d.square().sum(), z, retain_graph=True)[0]
            with torch.no_grad():
                self.size.mul_(0.9).add_(g.abs().mean((0, 2, 3)))
                weight = d.sigmoid()
            penalty = (g.flatten(1).norm(dim=1) - 1).square().mean()
            return (weight * d).mean() + (d.detach() * d).mean() + 10 * penalty + (fixed * self.d[0][0](z)[:, :2]).mean()

    return Net(), (torch.randn(4, 2, 6, 6), torch.randn(4, 2, 6, 6))


@model
def distributions() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = mlp(4, 5)

        def forward(self, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
            h = self.f(x)
            corner = torch.diag_embed(h[:, 2:4].exp())
            found = [D.MultivariateNormal(h[:, :2], scale_tril=corner), D.MultivariateNormal(h[:, :2], torch.eye(2, dtype=h.dtype))]
            found += [D.Independent(D.StudentT(5.0, h[:, :2], 1.0), 1), D.Independent(D.Laplace(h[:, 2:4], h[:, :2].exp()), 1)]
            loss = -sum(d.log_prob(y).mean() for d in found) - D.ContinuousBernoulli(logits=h).log_prob(share).mean()
            return loss + D.kl_divergence(D.Categorical(logits=h), D.Categorical(logits=torch.zeros_like(h))).mean()

    return Net(), (torch.randn(8, 4), torch.randn(8, 2), torch.rand(8, 5))


@model
def fake_quantised() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(4, 3)
            self.register_buffer("steps", torch.tensor([0.01, 0.02, 0.03]))
            self.register_buffer("zeros", torch.tensor([0, 1, -2], dtype=torch.int32))
            self.register_buffer("step", torch.tensor(0.125))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            w = torch.fake_quantize_per_channel_affine(self.l.weight.float(), self.steps.float(), self.zeros, 0, -8, 7)
            x = torch.fake_quantize_per_tensor_affine(x.float(), self.step.float(), self.zeros[1], -5, 6)
            x = torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -128, 127)
            return F.mse_loss(F.linear(x, w, self.l.bias.float()), y.float())

    return Net(), (torch.randn(8, 4), torch.randn(8, 3))


@model
def extremes_of_bools() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.l(x)
            m = h > 0
            some, first = m.max(1)
            all_, last = m.min(0)
            h = h * torch.maximum(m, h < -1) * some[:, None] + torch.minimum(m, h < 1) * h * all_ + (m.amax() + m.amin(1).sum()) * h
            return F.mse_loss(h * (first[:, None] + last + m.byte().argmax(1)[:, None] + m.max() * 0.5), y)

    return Net(), (torch.randn(8, 4), torch.randn(8, 3))


@model
def kept_statistics() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            n, h = self.norm, self.l(x)
            out, mean, scale = torch.native_batch_norm(h, n.weight, n.bias, n.running_mean, n.running_var, True, 0.1, 1e-5)
            return F.mse_loss(out, y) + (mean * h).mean() + (scale * h).square().mean()

    return Net(), (torch.randn(8, 4), torch.randn(8, 3))
