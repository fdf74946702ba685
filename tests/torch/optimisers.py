"""Prints what torch's optimisers make of given gradients: the fixture that `tests/ops/torch.rs` compares ours with.

    python tests/torch/optimisers.py            writes tests/torch/optimisers.safetensors (torch, numpy, safetensors)
    python tests/torch/optimisers.py NAME ...   writes these variants only, and keeps the others of the file

Two parameters, eight steps, gradients of changing size (exact zeros among them, for the moments' corners). Lion and
LAMB, which torch lacks, are written below as their papers have them. torch.optim.Muon rounds its matrix to bfloat16;
`muon` runs it without that rounding (which is what ours computes), `muon_bf16` as it is.
"""

import pathlib
import sys

import torch
import torch.optim._muon as muon_module
from safetensors.torch import load_file, save_file

STEPS = 8
SHAPES = {"a": (23,), "b": (5, 3)}
LR = 0.05
EMA = 0.9


class Lion:
    """Chen et al., arXiv:2302.06675, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        self.params, self.lr, self.betas, self.decay = list(params), lr, betas, weight_decay
        self.m = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        (beta1, beta2), lr = self.betas, self.lr
        for p, m in zip(self.params, self.m):
            c = beta1 * m + (1 - beta1) * p.grad
            p -= lr * (torch.sign(c) + self.decay * p)
            m.copy_(beta2 * m + (1 - beta2) * p.grad)


class Lamb:
    """You et al., arXiv:1904.00962, algorithm 2, with phi(z) = z and a ratio of 1 where a norm is 0."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        self.params, self.lr, self.betas, self.eps, self.decay = list(params), lr, betas, eps, weight_decay
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        beta1, beta2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            m.copy_(beta1 * m + (1 - beta1) * p.grad)
            v.copy_(beta2 * v + (1 - beta2) * p.grad * p.grad)
            r = (m / (1 - beta1**self.t)) / ((v / (1 - beta2**self.t)).sqrt() + self.eps)
            u = r + self.decay * p
            norm, size = p.norm().item(), u.norm().item()
            p -= self.lr * (norm / size if norm > 0 and size > 0 else 1.0) * u


def newton_schulz(grad, coefficients, steps, eps):
    """torch's `_zeropower_via_newtonschulz`, in the gradient's own type."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


NEWTON_SCHULZ = {"muon": newton_schulz, "muon_bf16": muon_module._zeropower_via_newtonschulz}


class Both:
    """Muon for matrices, AdamW for the rest."""

    def __init__(self, params, lr, kind="muon", **options):
        params = list(params)
        muon_module._zeropower_via_newtonschulz = NEWTON_SCHULZ[kind]
        matrices, others = [p for p in params if p.ndim == 2], [p for p in params if p.ndim != 2]
        self.each = [torch.optim.Muon(matrices, lr=lr, **options), torch.optim.AdamW(others, lr=lr, foreach=False)]

    def step(self):
        for o in self.each:
            o.step()


class Averaged:
    """AdamW with a moving average of the weights, which is what `path` then shows."""

    def __init__(self, params, lr, **options):
        self.module = torch.nn.ParameterList(list(params))
        self.opt = torch.optim.AdamW(self.module, lr=lr, foreach=False)
        self.average = torch.optim.swa_utils.AveragedModel(
            self.module, avg_fn=torch.optim.swa_utils.get_ema_avg_fn(EMA)
        )

    def step(self):
        self.opt.step()
        self.average.update_parameters(self.module)

    def shown(self):
        return list(self.average.module)


class Lbfgs:
    """torch.optim.LBFGS, one iteration a step, without the tolerances that end its inner loop."""

    def __init__(self, params, lr, decay=0.0, **options):
        self.params, self.decay = list(params), decay
        self.opt = torch.optim.LBFGS(
            self.params, lr=lr, max_iter=1, tolerance_grad=-1.0, tolerance_change=0.0, **options
        )

    def step(self):
        for p in self.params:
            p.grad.add_(p.detach(), alpha=self.decay)
        self.opt.step(lambda: torch.zeros(()))


def groups(make, first, second, **options):
    """`make` with a group for each parameter."""

    def build(params, lr):
        a, b = params
        each = [{"params": [p], **o, "lr": lr * o.get("lr", 1.0)} for p, o in ((a, first), (b, second))]
        return make(each, lr=lr, foreach=False, **options)

    return build


def clipped_values(most, after=None):
    """`clip_grad_value_`, then `after`."""

    def clip(params):
        torch.nn.utils.clip_grad_value_(params, most, foreach=False)
        if after is not None:
            after(params)

    return clip


def clipped_norms(most, norm_type, each=False):
    """`clip_grad_norm_` of all params together, or of each."""

    def clip(params):
        for some in [[p] for p in params] if each else [params]:
            torch.nn.utils.clip_grad_norm_(some, most, norm_type, foreach=False)

    return clip


O = torch.optim
VARIANTS = {
    "sgd": (O.SGD, {}, None),
    "sgd_decay": (O.SGD, {"weight_decay": 0.1}, None),
    "sgd_momentum": (O.SGD, {"momentum": 0.9}, None),
    "sgd_dampening": (O.SGD, {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05}, None),
    "sgd_nesterov": (O.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, None),
    "adam": (O.Adam, {}, None),
    "adam_decay": (O.Adam, {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}, None),
    "adamw": (O.AdamW, {}, None),
    "adamw_decay": (O.AdamW, {"betas": (0.7, 0.9), "eps": 1e-5, "weight_decay": 0.3}, None),
    "sgd_clipped": (O.SGD, {"momentum": 0.9}, 0.5),
    "adamw_clipped": (O.AdamW, {}, 0.5),
    "rmsprop": (O.RMSprop, {}, None),
    "rmsprop_momentum": (O.RMSprop, {"alpha": 0.9, "eps": 1e-6, "momentum": 0.8, "weight_decay": 0.1}, None),
    "rmsprop_centered": (O.RMSprop, {"alpha": 0.95, "eps": 1e-3, "centered": True}, None),
    "rmsprop_all": (O.RMSprop, {"alpha": 0.4, "eps": 1e-3, "momentum": 0.5, "centered": True}, None),
    "adagrad": (O.Adagrad, {}, None),
    "adagrad_all": (
        O.Adagrad,
        {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-6, "weight_decay": 0.1},
        None,
    ),
    "adadelta": (O.Adadelta, {}, None),
    "adadelta_all": (O.Adadelta, {"rho": 0.7, "eps": 1e-3, "weight_decay": 0.1}, None),
    "nadam": (O.NAdam, {}, None),
    "nadam_decay": (O.NAdam, {"betas": (0.8, 0.95), "momentum_decay": 0.02, "weight_decay": 0.1}, None),
    "nadamw": (O.NAdam, {"weight_decay": 0.2, "decoupled_weight_decay": True}, None),
    "lion": (Lion, {}, None),
    "lion_decay": (Lion, {"betas": (0.8, 0.95), "weight_decay": 0.3}, None),
    "lamb": (Lamb, {}, None),
    "lamb_plain": (Lamb, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0}, None),
    "adafactor": (O.Adafactor, {}, None),
    "adafactor_all": (
        O.Adafactor,
        {"beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 2.0, "weight_decay": 0.1},
        None,
    ),
    "adafactor_rank3": (O.Adafactor, {"weight_decay": 0.2}, None),
    "muon": (Both, {}, None),
    "muon_all": (
        Both,
        {"momentum": 0.4, "nesterov": False, "ns_steps": 3, "weight_decay": 0.3, "adjust_lr_fn": "match_rms_adamw"},
        None,
    ),
    "muon_bf16": (Both, {"kind": "muon_bf16"}, None),
    "groups": (groups(O.AdamW, {"lr": 0.5, "weight_decay": 0.0}, {}, weight_decay=0.1), {}, None),
    "groups_nadam": (groups(O.NAdam, {"betas": (0.8, 0.9)}, {"lr": 2.0, "weight_decay": 0.1}), {}, None),
    "ema": (Averaged, {}, None),
    "amsgrad": (O.Adam, {"amsgrad": True}, None),
    "amsgrad_all": (
        O.Adam,
        {"betas": (0.8, 0.3), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True},
        None,
    ),
    "adamw_amsgrad": (O.AdamW, {"betas": (0.7, 0.5), "weight_decay": 0.3, "amsgrad": True}, None),
    "adamax": (O.Adamax, {}, None),
    "adamax_all": (O.Adamax, {"betas": (0.4, 0.6), "eps": 1e-3, "weight_decay": 0.1}, None),
    "radam": (O.RAdam, {}, None),
    "radam_all": (O.RAdam, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}, None),
    "radam_decoupled": (
        O.RAdam,
        {"betas": (0.3, 0.8), "weight_decay": 0.3, "decoupled_weight_decay": True},
        None,
    ),
    "radam_plain": (O.RAdam, {"betas": (0.9, 0.6)}, None),
    "lbfgs": (Lbfgs, {}, None),
    "lbfgs_short": (Lbfgs, {"history_size": 2, "decay": 0.1}, None),
    "clip_value": (O.SGD, {}, clipped_values(0.4)),
    "clip_one": (O.SGD, {}, clipped_norms(3.0, 1.0)),
    "clip_two_each": (O.SGD, {"momentum": 0.9}, clipped_norms(0.5, 2.0, each=True)),
    "clip_three": (O.Adam, {}, clipped_norms(0.5, 3.0)),
    "clip_half": (O.SGD, {}, clipped_norms(20.0, 0.5)),
    "clip_most": (O.SGD, {}, clipped_norms(0.3, float("inf"))),
    "clip_most_each": (O.SGD, {}, clipped_norms(0.3, float("inf"), each=True)),
    "clip_both": (O.SGD, {}, clipped_values(0.4, clipped_norms(0.7, 4.0))),
}


# Variants whose parameter `b` has another shape, of the same elements.
SHAPED = {"adafactor_rank3": (5, 3, 1)}


def path_of(make, options, clip, dtype, start, grads):
    # NAdam keeps a product in the default type.
    torch.set_default_dtype(dtype)
    params = {k: torch.nn.Parameter(v.to(dtype, copy=True)) for k, v in start.items()}
    if isinstance(make, type) and issubclass(make, torch.optim.Optimizer):
        options = {"foreach": False, **options}
    opt = make(params.values(), lr=LR, **options)
    path = {k: [] for k in params}
    for step in range(STEPS):
        for k, p in params.items():
            p.grad = grads[k][step].to(dtype, copy=True)
        if callable(clip):
            clip(list(params.values()))
        elif clip is not None:
            torch.nn.utils.clip_grad_norm_(params.values(), clip, foreach=False)
        opt.step()
        shown = dict(zip(params, opt.shown())) if hasattr(opt, "shown") else params
        for k, p in shown.items():
            path[k].append(p.detach().clone())
    torch.set_default_dtype(torch.float32)
    return {k: torch.stack(p) for k, p in path.items()}


def main():
    torch.manual_seed(0)
    start = {k: torch.randn(s, dtype=torch.float64).float() for k, s in SHAPES.items()}
    grads = {k: torch.randn((STEPS, *s), dtype=torch.float64).float() for k, s in SHAPES.items()}
    for k in grads:
        grads[k] *= torch.tensor([1.0, 0.1, 3.0, 0.0, 1e-3, 1.0, 10.0, 0.5]).reshape(-1, *[1] * len(SHAPES[k]))
    out = {f"start.{k}": v for k, v in start.items()} | {f"grad.{k}": v for k, v in grads.items()}
    path, chosen = pathlib.Path(__file__).with_suffix(".safetensors"), sys.argv[1:] or list(VARIANTS)
    if sys.argv[1:]:
        kept = load_file(path)
        assert all(torch.equal(kept[k], v) for k, v in out.items()), "the random numbers are others"
        out = kept
    for name in chosen:
        make, options, clip = VARIANTS[name]
        for dtype, tag in ((torch.float32, "f32"), (torch.float64, "f64")):
            shape = SHAPED.get(name, SHAPES["b"])
            first, given = start | {"b": start["b"].reshape(shape)}, grads | {"b": grads["b"].reshape(STEPS, *shape)}
            for k, p in path_of(make, options, clip, dtype, first, given).items():
                out[f"{name}.{tag}.{k}"] = p
    save_file(out, path)


if __name__ == "__main__":
    main()
