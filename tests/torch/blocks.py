"""What torch's blocks make of weights and inputs drawn from one hash, in f64: the fixture of `tests/ops/blocks.rs`.

    python tests/torch/blocks.py        writes tests/torch/blocks.safetensors (torch, numpy, safetensors)

For each case: summaries (see networks.py) of the output y, and of the gradients of the sum of y's squares by each input and
each param.
"""

import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from networks import fill, numbers, summary
from safetensors.torch import save_file


class Lora(nn.Module):
    """loralib.Linear's formula."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(5, 8)), nn.Parameter(torch.zeros(5))
        self.lora_A, self.lora_B = nn.Parameter(torch.zeros(3, 8)), nn.Parameter(torch.zeros(5, 3))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias) + (x @ self.lora_A.T @ self.lora_B.T) * (6 / 3)


class SwiGlu(nn.Module):
    """Llama's feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(8, 12, bias=False), nn.Linear(8, 12, bias=False)
        self.down_proj = nn.Linear(12, 8, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Unrolled(nn.Module):
    """A cell over three steps."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, *state):
        state = state if len(state) > 1 else state[0]
        for t in range(3):
            state = self.cell(x[t], state)
        return torch.cat(state, 1) if isinstance(state, tuple) else state


class Attend(nn.Module):
    """One input for queries, keys and values, or three."""

    def __init__(self, **options):
        super().__init__()
        self.mha = nn.MultiheadAttention(8, 2, batch_first=True)
        self.options = options

    def forward(self, q, k=None, v=None):
        k, v = (q, q) if k is None else (k, v)
        return self.mha(q, k, v, need_weights=False, **self.options)[0]


def layer(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)


def main():
    torch.set_default_dtype(torch.float64)
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x, steps = dict(x=(2, 5, 8)), dict(x=(3, 4, 6), h=(4, 7))
    cases = {
        "self": (Attend(), x),
        "causal": (Attend(attn_mask=causal, is_causal=True), x),
        "padding": (Attend(key_padding_mask=padding), x),
        "cross": (Attend(), dict(x=(2, 5, 8), k=(2, 3, 8), v=(2, 3, 8))),
        "post": (layer(), x),
        "pre": (layer(norm_first=True, activation="gelu"), x),
        "lora": (Lora(), x),
        "swiglu": (SwiGlu(), x),
        "sequential": (nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)), x),
        "rnn_cell": (Unrolled(nn.RNNCell(6, 7)), steps),
        "gru_cell": (Unrolled(nn.GRUCell(6, 7)), steps),
        "lstm_cell": (Unrolled(nn.LSTMCell(6, 7)), dict(steps, c=(4, 7))),
    }
    out = {}
    for name, (model, shapes) in cases.items():
        fill(model)
        inputs = {k: numbers(f"{name}.{k}", s).requires_grad_() for k, s in shapes.items()}
        y = model(*inputs.values())
        (y * y).sum().backward()
        out[f"{name}.y"] = summary("y", y)
        grads = {**{k: t.grad for k, t in inputs.items()}, **{k: p.grad for k, p in model.named_parameters()}}
        out.update({f"{name}.grad.{k}": summary(k, g) for k, g in grads.items()})
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
