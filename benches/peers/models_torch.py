"""The workloads of `arenagrad bench` in PyTorch: the modules, their losses, their optimisers and their data.

Params are called as in the files that `arenagrad bench --data` reads, but for the names in `SHORT`.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CARDINALITIES = [8, 12, 24, 31, 52, 100, 200, 365, 1000, 2000, 5000, 10000]
WIDTHS = [4, 6, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32]


def mean_cross_entropy(logits, y):
    """The mean loss of classes."""
    return F.cross_entropy(logits.flatten(0, -2), y.flatten())


class Mlp(nn.Module):
    """Linear layers with an activation between them."""

    def __init__(self, widths, act, loss):
        super().__init__()
        self.layers, self.act, self.loss = len(widths) - 1, act, loss
        for i in range(self.layers):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x, y):
        for i in range(self.layers):
            x = getattr(self, f"fc{i + 1}")(x)
            if i + 1 < self.layers:
                x = self.act(x)
        return self.loss(x, y)


class Lenet(nn.Module):
    """W4."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return F.cross_entropy(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))), y)


class GroupNormed(nn.Module):
    """W5."""

    class Block(nn.Module):
        """Two convolutions and a way around them."""

        def __init__(self):
            super().__init__()
            self.conv1, self.gn1 = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.GroupNorm(4, 16)
            self.conv2, self.gn2 = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.GroupNorm(4, 16)

        def forward(self, x):
            return F.relu(x + self.gn2(self.conv2(F.relu(self.gn1(self.conv1(x))))))

    def __init__(self):
        super().__init__()
        self.stem, self.stem_gn = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(4, 16)
        self.b = nn.ModuleList([GroupNormed.Block() for _ in range(3)])
        self.fc = nn.Linear(16, 10)

    def forward(self, x, y):
        x = F.relu(self.stem_gn(self.stem(x)))
        for block in self.b:
            x = block(x)
        return F.cross_entropy(self.fc(x.mean((2, 3))), y)


class Gpt(nn.Module):
    """W6 and W7."""

    class Block(nn.Module):
        """Causal attention and a perceptron."""

        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.fcproj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            parts = self.qkv(self.ln1(x)).split(c, 2)
            q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.fcproj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))

    def __init__(self, layers, width, heads, vocabulary, context):
        super().__init__()
        self.wte = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        self.wpe = nn.Parameter(torch.randn(context, width) * 0.02)
        self.h = nn.ModuleList([Gpt.Block(width, heads) for _ in range(layers)])
        self.lnf = nn.LayerNorm(width)

    def forward(self, x, y):
        h = F.embedding(x, self.wte) + self.wpe[: x.shape[1]]
        for block in self.h:
            h = block(h)
        return mean_cross_entropy(F.linear(self.lnf(h), self.wte), y)


class Gru(nn.Module):
    """W8."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(32, 128)

    def forward(self, x, y):
        return F.mse_loss(self.gru(x)[1][0], y)


class Eeg(nn.Module):
    """W10."""

    def __init__(self):
        super().__init__()

        def conv(inputs, outputs, kernel, groups=1):
            return nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)

        self.conv0, self.bn0 = conv(22, 32, 1), nn.BatchNorm1d(32)
        self.dw1, self.bn1 = conv(32, 64, 63, 32), nn.BatchNorm1d(64)
        self.dw2, self.pw2, self.bn2 = conv(64, 64, 15, 64), conv(64, 64, 1), nn.BatchNorm1d(64)
        self.dw3, self.pw3, self.bn3 = conv(64, 64, 15, 64), conv(64, 128, 1), nn.BatchNorm1d(128)
        self.fc = nn.Linear(1024, 4)

    def forward(self, x, y):
        h = self.bn0(self.conv0(x))
        h = F.avg_pool1d(F.elu(self.bn1(self.dw1(h))), 4)
        h = F.avg_pool1d(F.elu(self.bn2(self.pw2(self.dw2(h)))), 4)
        h = F.avg_pool1d(F.elu(self.bn3(self.pw3(self.dw3(h)))), 4)
        return F.cross_entropy(self.fc(h.flatten(1)), y)


class Tabular(nn.Module):
    """W11."""

    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(rows, width) for rows, width in zip(CARDINALITIES, WIDTHS)])
        self.bn0 = nn.BatchNorm1d(10)
        self.fc1, self.bn1 = nn.Linear(sum(WIDTHS) + 10, 256), nn.BatchNorm1d(256)
        self.fc2, self.bn2 = nn.Linear(256, 128), nn.BatchNorm1d(128)
        self.fc3 = nn.Linear(128, 1)

    def forward(self, x, cat, y):
        h = torch.cat([e(cat[:, i]) for i, e in enumerate(self.emb)] + [self.bn0(x)], 1)
        h = F.dropout(self.bn1(F.relu(self.fc1(h))), 0.1)
        h = F.dropout(self.bn2(F.relu(self.fc2(h))), 0.1)
        return F.binary_cross_entropy_with_logits(self.fc3(h), y)


class Vit(nn.Module):
    """W12."""

    class Block(nn.Module):
        """Attention and a perceptron."""

        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(192), nn.LayerNorm(192)
            self.qkv, self.proj = nn.Linear(192, 576), nn.Linear(192, 192)
            self.fc, self.fcproj = nn.Linear(192, 768), nn.Linear(768, 192)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (p.view(b, t, 3, 64).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.fcproj(F.gelu(self.fc(self.ln2(x))))

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 192, 8, stride=8)
        self.cls = nn.Parameter(torch.randn(1, 1, 192) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 65, 192) * 0.02)
        self.h = nn.ModuleList([Vit.Block() for _ in range(12)])
        self.lnf, self.head = nn.LayerNorm(192), nn.Linear(192, 100)

    def forward(self, x, y):
        t = self.patch(x).flatten(2).transpose(1, 2)
        t = torch.cat([self.cls.expand(t.shape[0], 1, 192), t], 1) + self.pos
        for block in self.h:
            t = block(t)
        return F.cross_entropy(self.head(self.lnf(t[:, 0])), y)


class Vae(nn.Module):
    """W13."""

    def __init__(self):
        super().__init__()

        def down(inputs, outputs):
            return nn.Conv2d(inputs, outputs, 4, stride=2, padding=1)

        def up(inputs, outputs):
            return nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)

        self.e1, self.e2, self.e3 = down(3, 32), down(32, 64), down(64, 128)
        self.be1, self.be2, self.be3 = nn.BatchNorm2d(32), nn.BatchNorm2d(64), nn.BatchNorm2d(128)
        self.mu, self.lv, self.dec = nn.Linear(2048, 64), nn.Linear(2048, 64), nn.Linear(64, 2048)
        self.d1, self.d2, self.d3 = up(128, 64), up(64, 32), up(32, 3)
        self.bd1, self.bd2 = nn.BatchNorm2d(64), nn.BatchNorm2d(32)

    def forward(self, x, eps):
        h = F.relu(self.be1(self.e1(x)))
        h = F.relu(self.be2(self.e2(h)))
        h = F.relu(self.be3(self.e3(h))).flatten(1)
        mu, lv = self.mu(h), self.lv(h)
        h = F.relu(self.dec(mu + torch.exp(0.5 * lv) * eps)).view(-1, 128, 4, 4)
        h = F.relu(self.bd1(self.d1(h)))
        h = F.relu(self.bd2(self.d2(h)))
        rec = F.binary_cross_entropy_with_logits(self.d3(h), x, reduction="sum")
        return (rec - 0.5 * (1 + lv - mu * mu - torch.exp(lv)).sum()) / x.shape[0]


class Burgers(nn.Module):
    """W14, by two reverse derivatives; `forward_mode` by two forward ones, which is faster in PyTorch."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(*d) for d in ((2, 64), (64, 64), (64, 64), (64, 1)))
        self.double()

    def u(self, x, t):
        h = torch.tanh(self.fc1(torch.cat([x, t], 1)))
        h = torch.tanh(self.fc3(torch.tanh(self.fc2(h))))
        return t * (1 - x * x) * self.fc4(h) - torch.sin(math.pi * x)

    def forward(self, x, t):
        x, t = x.requires_grad_(), t.requires_grad_()
        u = self.u(x, t)
        ux, ut = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (uxx,) = torch.autograd.grad(ux.sum(), x, create_graph=True)
        return (ut + u * ux - (0.01 / math.pi) * uxx).square().mean()

    def forward_mode(self, x, t):
        one = torch.ones_like(x)

        def slope(x):
            return torch.func.jvp(lambda x: self.u(x, t), (x,), (one,))

        (u, ux), (_, uxx) = torch.func.jvp(slope, (x,), (one,))
        ut = torch.func.jvp(lambda t: self.u(x, t), (t,), (one,))[1]
        return (ut + u * ux - (0.01 / math.pi) * uxx).square().mean()


class Dlrm(nn.Module):
    """W15. With `sparse`, the gradients of tables are their read rows."""

    def __init__(self, sparse=False):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(10_000, 16, sparse=sparse) for _ in range(26)])
        for e in self.emb:
            nn.init.uniform_(e.weight, -0.01, 0.01)
        self.b1, self.b2, self.b3 = nn.Linear(13, 512), nn.Linear(512, 256), nn.Linear(256, 16)
        self.t1, self.t2, self.t3 = nn.Linear(367, 512), nn.Linear(512, 256), nn.Linear(256, 1)
        i, j = torch.tril_indices(27, 27, -1)
        self.register_buffer("pair", i * 27 + j, persistent=False)

    def forward(self, x, cat, y):
        d = F.relu(self.b3(F.relu(self.b2(F.relu(self.b1(x))))))
        v = torch.stack([d] + [e(cat[:, i]) for i, e in enumerate(self.emb)], 1)
        z = torch.bmm(v, v.transpose(1, 2)).flatten(1)[:, self.pair]
        h = F.relu(self.t2(F.relu(self.t1(torch.cat([d, z], 1)))))
        return F.binary_cross_entropy_with_logits(self.t3(h), y)


class Translator(nn.Module):
    """W16."""

    def __init__(self):
        super().__init__()
        self.src, self.tgt = nn.Embedding(1000, 128), nn.Embedding(1000, 128)
        self.enc, self.cell = nn.LSTM(128, 128, batch_first=True), nn.LSTMCell(256, 128)
        self.mix, self.out = nn.Linear(256, 128), nn.Linear(128, 1000)

    def forward(self, src, tgt, y, slen, tlen):
        b, t = src.shape
        pack = nn.utils.rnn.pack_padded_sequence(self.src(src), slen, batch_first=True, enforce_sorted=False)
        read, (h, c) = self.enc(pack)
        read = nn.utils.rnn.pad_packed_sequence(read, batch_first=True, total_length=t)[0]
        h, c, a, outs = h[0], c[0], torch.zeros(b, 128), []
        steps = torch.arange(t)
        hide = steps[None, :] >= slen[:, None]
        words = self.tgt(tgt)
        for i in range(t):
            h, c = self.cell(torch.cat([words[:, i], a], 1), (h, c))
            scores = torch.bmm(read, h[:, :, None])[:, :, 0].masked_fill(hide, float("-inf"))
            context = torch.bmm(torch.softmax(scores, 1)[:, None], read)[:, 0]
            a = torch.tanh(self.mix(torch.cat([h, context], 1)))
            outs.append(a)
        logits = self.out(torch.stack(outs, 1))
        losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(b, t)
        counts = (steps[None, :] < tlen[:, None]).float()
        return (losses * counts).sum() / counts.sum()


class Resnet18(nn.Module):
    """ResNet-18 with torchvision's names."""

    class Block(nn.Module):
        """Two convolutions and a way around them."""

        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1:
                around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(around, nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + (x if self.downsample is None else self.downsample(x)))

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        for i in range(4):
            outputs, stride = 64 << i, 2 if i else 1
            first = Resnet18.Block(outputs // stride, outputs, stride)
            setattr(self, f"layer{i + 1}", nn.Sequential(first, Resnet18.Block(outputs, outputs, 1)))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(4):
            x = getattr(self, f"layer{i + 1}")(x)
        return F.cross_entropy(self.fc(x.mean((2, 3))), y)


MODELS = {
    "w1": lambda: Mlp([784, 128, 10], F.relu, F.cross_entropy),
    "w2": lambda: Mlp([4, 32, 32, 2], torch.tanh, F.mse_loss),
    "w3": lambda: Mlp([1024, 4096, 4096, 1024], F.relu, F.mse_loss),
    "w4": Lenet,
    "w5": GroupNormed,
    "w6": lambda: Gpt(4, 128, 4, 65, 64),
    "w7": lambda: Gpt(12, 768, 12, 50257, 1024),
    "w8": Gru,
    "w10": Eeg,
    "w11": Tabular,
    "w12": Vit,
    "w13": Vae,
    "w14": Burgers,
    "w15": Dlrm,
    "w16": Translator,
    "resnet18": Resnet18,
}
# Where `nn.GRU` and the file call a param otherwise.
SHORT = {"gru.weight_ih_l0": "w_ih", "gru.weight_hh_l0": "w_hh", "gru.bias_ih_l0": "b_ih", "gru.bias_hh_l0": "b_hh"}


def file_name(workload: str, name: str) -> str:
    """The name in the file of a param called `name`."""
    if workload == "w5" and name.startswith("b."):
        return "b" + name[2:]
    if workload in ("w6", "w7"):
        return name.replace("h.", "h", 1) if name.startswith("h.") else name
    return SHORT.get(name, name)


def inputs(workload: str, draw: np.random.Generator) -> dict:
    """Batches: arrays with a leading axis over batches."""

    def real(*dims):
        return draw.standard_normal(dims).astype(np.float32)

    def whole(end, *dims):
        return draw.integers(0, end, dims).astype(np.int32)

    def chance(*dims):
        return (draw.random(dims) < 0.3).astype(np.float32)

    def lengths():
        return draw.integers(16, 33, (4, 32)).astype(np.int32)

    match workload:
        case "w1":
            return {"x": real(8, 32, 784), "y": whole(10, 8, 32)}
        case "w2":
            return {"x": real(8, 1, 4), "y": real(8, 1, 2)}
        case "w3":
            return {"x": real(2, 256, 1024), "y": real(2, 256, 1024)}
        case "w4":
            return {"x": real(4, 64, 1, 28, 28), "y": whole(10, 4, 64)}
        case "w5":
            return {"x": real(4, 32, 3, 32, 32), "y": whole(10, 4, 32)}
        case "w6":
            return {"x": whole(65, 8, 12, 64), "y": whole(65, 8, 12, 64)}
        case "w7":
            return {"x": whole(50257, 2, 4, 64), "y": whole(50257, 2, 4, 64)}
        case "w8":
            return {"x": real(4, 256, 8, 32), "y": real(4, 8, 128)}
        case "w10":
            return {"x": real(4, 16, 22, 512), "y": whole(4, 4, 16)}
        case "w11":
            cat = np.stack([draw.integers(0, rows, (4, 1024)) for rows in CARDINALITIES], -1).astype(np.int32)
            return {"x": real(4, 1024, 10), "cat": cat, "y": chance(4, 1024, 1)}
        case "w12":
            return {"x": real(2, 16, 3, 64, 64), "y": whole(100, 2, 16)}
        case "w13":
            return {"x": draw.random((4, 32, 3, 32, 32)).astype(np.float32), "eps": real(4, 32, 64)}
        case "w14":
            return {"x": 2 * draw.random((2, 2048, 1)) - 1, "t": draw.random((2, 2048, 1))}
        case "w15":
            return {"x": real(8, 256, 13), "cat": whole(10_000, 8, 256, 26), "y": chance(8, 256, 1)}
        case "w16":
            words = {name: whole(1000, 4, 32, 32) for name in ("src", "tgt", "y")}
            return words | {"slen": lengths(), "tlen": lengths()}
        case "resnet18":
            return {"x": real(4, 8, 3, 64, 64), "y": whole(1000, 4, 8)}
    raise ValueError(f"no data for {workload}")


def optimiser(workload: str, params: list, sparse: bool = False) -> tuple:
    """The optimiser, and the largest norm of all gradients."""
    plain = {"w1": 0.1, "w2": 0.01, "w8": 0.01, "w15": 0.1, "resnet18": 0.01}
    if workload in plain:
        return torch.optim.SGD(params, lr=plain[workload], fused=None if sparse else True), None
    if workload in ("w4", "w5"):
        return torch.optim.SGD(params, lr=0.01, momentum=0.9, fused=True), None
    if workload in ("w6", "w12"):
        decay, betas = (0.1, (0.9, 0.95)) if workload == "w6" else (0.05, (0.9, 0.999))
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=1e-3, betas=betas, fused=True), 1.0
    lr = 1e-4 if workload == "w7" else 1e-3
    return torch.optim.Adam(params, lr=lr, fused=True), 1.0 if workload == "w16" else None
