"""Trains torchvision's resnet18 on the built-in digits, by one compiled step, and gives the weights back to torch.

`python finetune_resnet18.py [--steps N] [--batch N]`. The weights are random, so that nothing is downloaded; those of a file
come in by `net.load_state_dict`. The body may be frozen: `net.layer1.requires_grad_(False)`.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
import torchvision

import arenagrad as ag


def images(x: object) -> torch.Tensor:
    """Digits as 32 × 32 images of three channels."""
    return F.interpolate(torch.from_numpy(x), size=32, mode="bilinear").expand(-1, 3, -1, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    (x, y), (x_test, y_test) = ag.digits()
    x, y, x_test, y_test = images(x), torch.from_numpy(y).long(), images(x_test), torch.from_numpy(y_test).long()

    net = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    step = ag.torch.compile_step(net, F.cross_entropy, optimizer, x[: args.batch], y[: args.batch], threads=2)
    print(f"{len(step.report.kinds)} kinds of torch; {step.program.plan.arena_bytes / 2**20:.0f} MiB in all")

    for k in range(args.steps):
        rows = torch.randint(0, len(x), (args.batch,))
        loss = step(x[rows], y[rows])
        scheduler.step()
        if k % 10 == 0 or k + 1 == args.steps:
            print(f"step {k:3}  loss {loss:.4f}  rate {scheduler.get_last_lr()[0]:.4f}", flush=True)

    # The module has the weights of the step.
    net.eval()
    with torch.no_grad():
        right = (net(x_test).argmax(1) == y_test).float().mean().item()
    print(f"{right:.1%} of {len(x_test)} test images are right")


main()
