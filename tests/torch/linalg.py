"""What torch's linear algebra (LAPACK) makes of given matrices, in f64: the fixture of `tests/ops/linalg.rs`.

    python tests/torch/linalg.py        writes tests/torch/linalg.safetensors (torch, safetensors)

For each case: its inputs, its results y0, y1 …, and the gradients of the sum of all results times 1, 2, 3 …, where each
result begins at 1. Signs of vectors are made those of the library: no negative number on the diagonal of R, and the
largest magnitude of each column of U positive.
"""

import pathlib

import torch
from safetensors.torch import save_file


def rand(*shape):
    return torch.randn(shape, requires_grad=True)


def symmetric(*shape):
    x = torch.randn(shape)
    return (x + x.mT).requires_grad_()


def positive(*shape):
    x = torch.randn(shape)
    return (x @ x.mT + torch.eye(shape[-1])).requires_grad_()


def signs(u):
    """The sign of the largest magnitude of each column."""
    return torch.take_along_dim(u, u.abs().argmax(-2, keepdim=True), -2).sign().detach()


def qr(a):
    q, r = torch.linalg.qr(a)
    s = r.diagonal(dim1=-2, dim2=-1).sign().detach()
    return q * s.unsqueeze(-2), r * s.unsqueeze(-1)


def eigh(a):
    w, u = torch.linalg.eigh((a + a.mT) / 2)
    return w, u * signs(u)


def svd(a):
    u, s, vt = torch.linalg.svd(a, full_matrices=False)
    return u * signs(u), s, vt * signs(u).mT


def main():
    torch.manual_seed(12)
    torch.set_default_dtype(torch.float64)
    solve, tri = torch.linalg.solve, torch.linalg.solve_triangular
    cases = {
        "solve": (solve, rand(4, 4), rand(4, 2)),
        "solve_batch": (solve, rand(3, 3), rand(2, 3, 2)),
        "solve_vec": (lambda a, b: solve(a, b.unsqueeze(-1)).squeeze(-1), rand(2, 3, 3), rand(2, 3)),
        "upper": (lambda a, b: tri(a, b, upper=True), rand(4, 4), rand(4, 2)),
        "lower_unit": (lambda a, b: tri(a.mT, b, upper=True, unitriangular=True), rand(4, 4), rand(4, 2)),
        "cholesky": (torch.linalg.cholesky, positive(2, 4, 4)),
        "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), positive(4, 4), rand(4, 2)),
        "det": (torch.linalg.det, rand(3, 4, 4)),
        "slogdet": (torch.linalg.slogdet, rand(3, 4, 4)),
        "inverse": (torch.linalg.inv, rand(2, 4, 4)),
        "qr": (qr, rand(2, 5, 3)),
        "qr_wide": (qr, rand(3, 5)),
        "eigh": (eigh, symmetric(2, 5, 5)),
        "svd": (svd, rand(2, 5, 3)),
        "svd_wide": (svd, rand(3, 5)),
        "lstsq": (lambda a, b: torch.linalg.lstsq(a, b).solution, rand(6, 3), rand(6, 2)),
    }
    out = {}
    for name, (f, *inputs) in cases.items():
        all_y = f(*inputs)
        all_y = [all_y] if isinstance(all_y, torch.Tensor) else list(all_y)
        loss = sum((y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum() for y in all_y)
        for i, y in enumerate(all_y):
            out[f"{name}.y{i}"] = y
        grads = torch.autograd.grad(loss, inputs)
        for key, x, d in zip("ab", inputs, grads):
            out[f"{name}.{key}"] = x
            out[f"{name}.grad.{key}"] = d
    out = {k: v.detach().contiguous().clone() for k, v in out.items()}
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))


main()
