"""A net with batch norm in torch: its state_dict, and its outputs in training and evaluation.

    python tests/torch/buffers.py         writes tests/torch/buffers.safetensors and buffers_io.safetensors
    python tests/torch/buffers.py FILE    loads FILE strictly into torch's net; the test writes it to the path
                                          in ARENAGRAD_KEEP_WEIGHTS

The fixture of `tests/programs/buffers.rs`: torch, safetensors.
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.lstm = nn.Conv1d(3, 5, 3, padding=1), nn.BatchNorm1d(5), nn.LSTM(5, 6)

    def forward(self, x):
        return self.lstm(self.bn(self.conv(x)).permute(2, 0, 1))[0]


def main():
    if len(sys.argv) > 1:
        print(Net().load_state_dict(load_file(sys.argv[1]), strict=True))
        return
    torch.manual_seed(5)
    net, here = Net(), pathlib.Path(__file__)
    with torch.no_grad():
        net.bn.weight.uniform_(0.5, 1.5), net.bn.bias.uniform_(-0.5, 0.5)
        for _ in range(3):
            net(1.5 * torch.randn(4, 3, 10) + 0.7)
    save_file({k: v.clone() for k, v in net.state_dict().items()}, here.with_suffix(".safetensors"))
    x = torch.randn(4, 3, 10)
    out = {"x": x}
    with torch.no_grad():
        out["eval"] = net.eval()(x)
        out["train"] = net.train()(x)
        out["eval_after"] = net.eval()(x)
    out.update({f"after.{k}": v for k, v in net.state_dict().items() if "running" in k or "batches" in k})
    save_file({k: v.contiguous() for k, v in out.items()}, here.with_name("buffers_io.safetensors"))


if __name__ == "__main__":
    main()
