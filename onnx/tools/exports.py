"""Exports models of torch as folders that the example `node_tests` reads: the model, operands, and the results of
onnxruntime. Needs torch, torchvision, onnx, onnxscript and onnxruntime.

    python onnx/tools/exports.py DIR
    cargo run --release --example node_tests -- DIR --train
"""

import logging
import pathlib
import sys
import warnings

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn
from torchvision import models

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


class Recurrent(nn.Module):
    """The classes of a sequence by its last state."""

    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.net = getattr(nn, kind)(16, 24, batch_first=True, **options)
        self.head = nn.Linear(24 * (2 if options.get("bidirectional") else 1), 10)

    def forward(self, x):
        return self.head(self.net(self.embed(x))[0][:, -1])


class Encoder(nn.Module):
    """Attention in both directions, with a mask of padding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.net(self.embed(x), src_key_padding_mask=x == 0).mean(1))


class Gpt(nn.Module):
    """Causal attention, and a head that is tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.place = nn.Parameter(torch.randn(16, 32) * 0.02)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(32),
                    "qkv": nn.Linear(32, 96),
                    "out": nn.Linear(32, 32),
                    "norm2": nn.LayerNorm(32),
                    "up": nn.Linear(32, 128),
                    "down": nn.Linear(128, 32),
                }
            )
            for _ in range(2)
        )

    def forward(self, x):
        h = self.embed(x) + self.place
        for b in self.blocks:
            q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in b["qkv"](b["norm1"](h)).chunk(3, -1))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + b["out"](a.transpose(1, 2).flatten(2))
            h = h + b["down"](F.gelu(b["up"](b["norm2"](h))))
        return h @ self.embed.weight.T


class UNet(nn.Module):
    """Down and up again, with a shortcut."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.inner = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.ELU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.up(self.inner(a))
        b = b + F.interpolate(F.avg_pool2d(a, 2), scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(torch.cat([a, F.hardswish(b)], 1))


def images(size=32, channels=3):
    return (torch.randn(2, channels, size, size),)


def tokens():
    return (torch.randint(1, 50, (2, 16)),)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 84), nn.Sigmoid(), nn.Linear(84, 10),
    )  # fmt: skip


def audio():
    return nn.Sequential(
        nn.Conv1d(1, 8, 9, stride=4, padding=4), nn.BatchNorm1d(8), nn.LeakyReLU(0.1), nn.Conv1d(8, 16, 3, dilation=2),
        nn.PReLU(16), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 10), nn.LogSoftmax(-1),
    )  # fmt: skip


MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10)), (torch.randn(8, 64),)),
    "lenet": lambda: (lenet(), images(28, 1)),
    "audio": lambda: (audio(), (torch.randn(2, 1, 200),)),
    "resnet18": lambda: (models.resnet18(num_classes=10), images()),
    "resnet18_whole": lambda: (models.resnet18(num_classes=10), images()),
    "mobilenet_v2": lambda: (models.mobilenet_v2(num_classes=10), images()),
    "mobilenet_v3_small": lambda: (models.mobilenet_v3_small(num_classes=10), images()),
    "squeezenet1_1": lambda: (models.squeezenet1_1(num_classes=10), images(64)),
    "efficientnet_b0": lambda: (models.efficientnet_b0(num_classes=10), images()),
    "densenet121": lambda: (models.densenet121(num_classes=10), images()),
    "vit": lambda: (models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10), images()),
    "unet": lambda: (UNet(), images()),
    "lstm": lambda: (Recurrent("LSTM"), tokens()),
    "lstm_both_ways": lambda: (Recurrent("LSTM", num_layers=2, bidirectional=True), tokens()),
    "gru": lambda: (Recurrent("GRU", num_layers=2), tokens()),
    "rnn": lambda: (Recurrent("RNN"), tokens()),
    "encoder": lambda: (Encoder(), tokens()),
    "gpt": lambda: (Gpt(), tokens()),
}


def main(folder):
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model, operands = make()
        model.eval()
        # What is zero or one at the start would be left out, or hide a mistake.
        for value in [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]:
            if bool((value == value.flatten()[0]).all()):
                value.data += torch.rand_like(value) * 0.2
        into = pathlib.Path(folder) / name
        into.mkdir(parents=True, exist_ok=True)
        # An export that is not optimised keeps batch norms, which training needs.
        program = torch.onnx.export(model, operands, dynamo=True, verbose=False, optimize=not name.endswith("_whole"))
        data = program.model_proto.SerializeToString()
        (into / "model.onnx").write_bytes(data)
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        feeds = {i.name: np.ascontiguousarray(x) for i, x in zip(session.get_inputs(), operands)}
        for kind, arrays in (("input", feeds.values()), ("output", session.run(None, feeds))):
            for i, array in enumerate(arrays):
                (into / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
        print(name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
