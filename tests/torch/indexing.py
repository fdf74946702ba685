"""What torch's scatters, running extremes, embeddings and histograms make of given numbers, in f64: the fixture of
`tests/ops/indexing.rs`.

    python tests/torch/indexing.py        writes tests/torch/indexing.safetensors (torch, safetensors)

For each case: its float inputs, its index, its output y, and the gradients of the sum of y times 1, 2, 3 ….
"""

import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file


def rand(*shape):
    return torch.randn(shape, requires_grad=True)


def ints(*shape, n):
    return torch.randint(n, shape)


def coarse(*shape):
    """Numbers with ties."""
    return torch.randint(-2, 3, shape).double().requires_grad_()


def nonzero(*shape):
    return (torch.rand(shape) + 0.5).requires_grad_()


def reduce(mode, axis):
    return lambda x, u, i: x.scatter_reduce(axis, i, u, mode)


def index_reduce(mode, axis):
    return lambda x, u, i: x.index_reduce(axis, i, u, mode)


def main():
    torch.manual_seed(4)
    torch.set_default_dtype(torch.float64)
    zeros = nonzero(3, 4)
    with torch.no_grad():
        zeros[0, 1] = zeros[1, 1] = zeros[2, 0] = 0.0
    own, slices = ints(3, 4, n=2), ints(6, n=4)
    perm = torch.tensor([3, 0, 2])
    cases = {
        "set": (lambda x, u, i: x.scatter(1, i, u), dict(x=rand(2, 5), u=rand(2, 3)), torch.tensor([[4, 0, 2], [1, 3, 0]])),
        "add": (lambda x, u, i: x.scatter_add(0, i, u), dict(x=rand(2, 4), u=rand(3, 4)), own),
        "mul": (reduce("prod", 0), dict(x=nonzero(2, 4), u=nonzero(3, 4)), own),
        "mul_zeros": (reduce("prod", 0), dict(x=nonzero(2, 4), u=zeros), own),
        "max": (reduce("amax", 0), dict(x=rand(2, 4), u=rand(3, 4)), own),
        "max_ties": (reduce("amax", 0), dict(x=coarse(2, 4), u=coarse(3, 4)), own),
        "min_ties": (reduce("amin", 0), dict(x=coarse(2, 4), u=coarse(3, 4)), own),
        "slices_set": (lambda x, u, i: x.index_copy(1, i, u), dict(x=rand(2, 4, 2), u=rand(2, 3, 2)), perm),
        "slices_add": (lambda x, u, i: x.index_add(1, i, u), dict(x=rand(2, 4, 2), u=rand(2, 6, 2)), slices),
        "slices_mul": (index_reduce("prod", 1), dict(x=nonzero(2, 4, 2), u=nonzero(2, 6, 2)), slices),
        "slices_max": (index_reduce("amax", 1), dict(x=coarse(2, 4, 2), u=coarse(2, 6, 2)), slices),
        "nd_add": (lambda x, u, i: x.index_put((i[:, 0], i[:, 1]), u, accumulate=True),
                   dict(x=rand(3, 2, 2), u=rand(5, 2)), torch.stack([ints(5, n=3), ints(5, n=2)], 1)),
        "nd_gather": (lambda x, i: x[i[..., 0], i[..., 1]], dict(x=rand(3, 2, 2)),
                      torch.stack([ints(2, 3, n=3), ints(2, 3, n=2)], 2)),
        "embedding": (lambda x, i: F.embedding(i, x, padding_idx=1), dict(x=rand(4, 3)), torch.tensor([[1, 0, 3], [3, 1, 1]])),
        "cummax": (lambda x: torch.cummax(x, 1)[0], dict(x=coarse(2, 9, 2)), None),
        "cummax_at": (lambda x: torch.cummax(x, 1)[1].double(), dict(x=coarse(2, 9, 2)), None),
        "cummin": (lambda x: torch.cummin(x, 0)[0], dict(x=rand(6, 3)), None),
        "histogram": (lambda x: torch.histc(x.detach(), 7, -1.0, 1.5), dict(x=rand(60)), None),
        "histogram_data": (lambda x: torch.histc(x.detach(), 5), dict(x=coarse(5, 9)), None),
    }
    out = {}
    for name, (f, inputs, index) in cases.items():
        y = f(*inputs.values(), *([] if index is None else [index]))
        out[f"{name}.y"] = y
        for k, x in inputs.items():
            out[f"{name}.in.{k}"] = x
        if y.requires_grad:
            weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
            for k, d in zip(inputs, torch.autograd.grad((y * weights).sum(), list(inputs.values()))):
                out[f"{name}.grad.{k}"] = d
        if index is not None:
            out[f"{name}.index"] = index
    out = {k: v.detach().contiguous().clone() for k, v in out.items()}
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


main()
