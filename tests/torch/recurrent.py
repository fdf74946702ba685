"""What torch's recurrent networks make of given numbers, in f64: the fixture of `tests/ops/recurrent.rs`.

    python tests/torch/recurrent.py     writes tests/torch/recurrent.safetensors (torch, safetensors)

For each case: its inputs and params, its outputs, last states and cells, and the gradients of
sum(output²) + sum(h_n·(1, 2, …)) + sum(c_n³).
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 2, 3
LENGTHS = torch.tensor([3, 4, 1])


def case(out, name, kind, lengths=None, starts=False, **options):
    torch.manual_seed(len(out))
    net = getattr(nn, kind)(INPUTS, HIDDEN, **options)
    first = options.get("batch_first", False)
    x = torch.randn((BATCH, STEPS, INPUTS) if first else (STEPS, BATCH, INPUTS), requires_grad=True)
    inputs = {"x": x}
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    if starts:
        for s in ["h0", "c0"] if kind == "LSTM" else ["h0"]:
            inputs[s] = torch.randn((rows, BATCH, HIDDEN), requires_grad=True)
    state = (inputs["h0"], inputs["c0"]) if starts and kind == "LSTM" else inputs.get("h0")
    if lengths is None:
        y, last = net(x, state)
    else:
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
        y, last = net(packed, state)
        y, _ = pad_packed_sequence(y, batch_first=first, total_length=STEPS)
    h, c = last if kind == "LSTM" else (last, None)
    weights = torch.arange(1, h.numel() + 1, dtype=torch.float64).reshape(h.shape)
    loss = (y * y).sum() + (h * weights).sum() + (0 if c is None else (c**3).sum())
    loss.backward()
    out[f"{name}.y"], out[f"{name}.h"] = y.detach(), h.detach()
    if c is not None:
        out[f"{name}.c"] = c.detach()
    for k, v in list(inputs.items()) + [(f"n.{k}", v) for k, v in net.named_parameters()]:
        out[f"{name}.in.{k}"], out[f"{name}.grad.{k}"] = v.detach(), v.grad


def main():
    torch.set_default_dtype(torch.float64)
    out = {}
    for kind in ["RNN", "GRU", "LSTM"]:
        k = kind.lower()
        case(out, f"{k}.deep", kind, num_layers=3, starts=True)
        case(out, f"{k}.both", kind, num_layers=2, bidirectional=True, starts=True)
        case(out, f"{k}.ragged", kind, num_layers=2, bidirectional=True, lengths=LENGTHS, starts=True)
        case(out, f"{k}.plain", kind, bias=False, batch_first=True, lengths=LENGTHS)
    case(out, "rnn.relu", "RNN", nonlinearity="relu", num_layers=2)
    save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
