"""Trains an encoder of Hugging Face's transformers on the built-in digits, by one compiled step; the weights go back to torch.

`python finetune_encoder.py [--steps N] [--batch N]`. The encoder is a small ViT with random weights, so that nothing is
downloaded; `from_pretrained` gives weights of a folder, and `requires_grad_(False)` freezes a part. Dropout is our own draw.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
import transformers

import arenagrad as ag


class Classifier(torch.nn.Module):
    """The encoder, and a linear layer on the state of its first position."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.ViTConfig(
            image_size=8,
            patch_size=2,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=128,
            hidden_dropout_prob=0.1,
        )
        self.encoder = transformers.ViTModel(config, add_pooling_layer=False)
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(pixel_values=x).last_hidden_state[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    (x, y), (x_test, y_test) = ((torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in ag.digits())

    net = Classifier()
    norms_and_biases = [p for p in net.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in net.parameters() if p.ndim >= 2], "weight_decay": 0.05},
            {"params": norms_and_biases, "weight_decay": 0.0},
        ],
        lr=1e-3,
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=max(args.steps, 2))
    step = ag.torch.compile_step(net, F.cross_entropy, optimizer, x[: args.batch], y[: args.batch], threads=2)
    print(f"{len(step.report.kinds)} kinds of torch; {step.program.plan.arena_bytes / 2**20:.1f} MiB in all")

    for k in range(args.steps):
        rows = torch.randint(0, len(x), (args.batch,))
        loss = step(x[rows], y[rows])
        if k + 1 < args.steps:
            scheduler.step()
        if k % 50 == 0 or k + 1 == args.steps:
            print(f"step {k:3}  loss {loss:.4f}  rate {scheduler.get_last_lr()[0]:.5f}", flush=True)

    # The module has the weights of the step.
    net.eval()
    with torch.no_grad():
        right = (net(x_test).argmax(1) == y_test).float().mean().item()
    print(f"{right:.1%} of {len(x_test)} test images are right")


main()
