"""Prints the rates of torch's schedulers: the fixture that `tests/programs/schedules.rs` compares ours with.

    python tests/torch/schedules.py        writes tests/torch/schedules.safetensors (torch, numpy, safetensors)

The inverse square root, which torch lacks, is written below as Vaswani et al., arXiv:1706.03762, have it, after a
linear warm-up, with a time scale that need not be the warm-up's length.
"""

import pathlib
import warnings

import torch
import torch.optim.lr_scheduler as S
from safetensors.torch import save_file

STEPS = 130
LR = 0.07


def inverse_sqrt(opt, warmup, start_factor, timescale):
    def factor(t):
        if t < warmup:
            return start_factor + (1 - start_factor) * t / warmup
        return (timescale / (t - warmup + timescale)) ** 0.5

    return S.LambdaLR(opt, factor)


def chained(opt):
    return S.ChainedScheduler(
        [
            S.MultiStepLR(opt, [10, 50], gamma=0.5),
            S.LinearLR(opt, start_factor=0.2, end_factor=1.0, total_iters=20),
            S.StepLR(opt, 7, gamma=0.9),
        ]
    )


def warm_cosine(opt):
    parts = [S.LinearLR(opt, start_factor=0.1, total_iters=12), S.CosineAnnealingLR(opt, 118, eta_min=0.002)]
    return S.SequentialLR(opt, parts, [12])


def three_in_turn(opt):
    parts = [
        S.PolynomialLR(opt, total_iters=20, power=2.0),
        S.StepLR(opt, 5, gamma=0.7),
        S.CosineAnnealingWarmRestarts(opt, 9, T_mult=2, eta_min=0.001),
    ]
    return S.SequentialLR(opt, parts, [15, 40])


VARIANTS = {
    "constant": lambda o: S.ConstantLR(o),
    "constant_long": lambda o: S.ConstantLR(o, factor=0.25, total_iters=77),
    "multi_step": lambda o: S.MultiStepLR(o, [3, 20, 20, 77], gamma=0.3),
    "multi_step_default": lambda o: S.MultiStepLR(o, [30, 80]),
    "linear": lambda o: S.LinearLR(o, total_iters=40),
    "linear_down": lambda o: S.LinearLR(o, start_factor=0.9, end_factor=0.05, total_iters=33),
    "polynomial": lambda o: S.PolynomialLR(o, total_iters=60),
    "polynomial_square": lambda o: S.PolynomialLR(o, total_iters=101, power=2.5),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 13),
    "restarts_twice": lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.003),
    "restarts_thrice": lambda o: S.CosineAnnealingWarmRestarts(o, 1, T_mult=3),
    "inverse_sqrt": lambda o: inverse_sqrt(o, 16, 1 / 3, 16),
    "inverse_sqrt_scaled": lambda o: inverse_sqrt(o, 10, 0.0, 50),
    "inverse_sqrt_cold": lambda o: inverse_sqrt(o, 0, 1 / 3, 10000),
    "chained": chained,
    "sequential": warm_cosine,
    "sequential_three": three_in_turn,
}


def rates(make):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    schedule, out = make(opt), []
    for _ in range(STEPS):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return torch.tensor(out, dtype=torch.float64)


def main():
    # SequentialLR calls its parts' step with a number, which they call deprecated.
    warnings.simplefilter("ignore")
    out = {name: rates(make) for name, make in VARIANTS.items()}
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
