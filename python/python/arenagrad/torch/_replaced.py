"""What torch computes by the values of its operands, in a form that a capture takes."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, NamedTuple

import torch
import torch.nn.functional as F


class _LeastSquares(NamedTuple):
    solution: torch.Tensor


def _least_squares(torchs: Any, a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: Any = None) -> Any:
    column = b.ndim == a.ndim - 1
    y = torch.linalg.pinv(a, rtol=rcond) @ (b.unsqueeze(-1) if column else b)
    return _LeastSquares(y.squeeze(-1) if column else y)


def _covariance(torchs: Any, x: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    if fweights is not None or aweights is not None or x.dtype.is_complex or x.ndim > 2:
        return torchs(x, correction=correction, fweights=fweights, aweights=aweights)
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    rows = rows - rows.mean(1, keepdim=True)
    n = max(rows.shape[1] - correction, 0)
    return (rows @ rows.t() / torch.tensor(n, dtype=rows.dtype)).squeeze()


def _correlations(torchs: Any, x: torch.Tensor) -> torch.Tensor:
    c = torch.cov(x)
    if c.ndim == 0:
        return c / c
    size = c.diag().sqrt()
    return (c / size[:, None] / size[None]).clip(-1, 1)


def _batch_norm(torchs: Any, layer: Any, x: torch.Tensor) -> torch.Tensor:
    """`momentum=None`: statistics are means over all batches, whose number torch takes as a number of Python."""
    if layer.momentum is not None or not layer.training or layer.running_mean is None:
        return torchs(layer, x)
    layer._check_input_dim(x)
    layer.num_batches_tracked.add_(1)
    own = torch.zeros_like(layer.running_mean), torch.zeros_like(layer.running_var)
    y = F.batch_norm(x, own[0], own[1], layer.weight, layer.bias, True, 1.0, layer.eps)
    for kept, value in zip((layer.running_mean, layer.running_var), own):
        part = 1.0 / layer.num_batches_tracked.to(kept.dtype)
        kept.mul_(1 - part).add_(value * part)
    return y


def _instance_norm(
    torchs: Any, x: torch.Tensor, w: Any, bias: Any, mean: Any, var: Any, own: bool, momentum: float, eps: float, cudnn: bool
) -> torch.Tensor:
    """With statistics, which torch writes where no capture sees it."""
    if mean is None:
        return torchs(x, w, bias, mean, var, own, momentum, eps, cudnn)
    if not own:
        return F.batch_norm(x, mean, var, w, bias, False, momentum, eps)
    spread, middle = torch.var_mean(x.detach(), list(range(2, x.ndim)))
    for kept, value in ((mean, middle), (var, spread)):
        kept.mul_(1 - momentum).add_(value.mean(0) * momentum)
    return torchs(x, w, bias, None, None, own, momentum, eps, cudnn)


_ALL: tuple[tuple[Any, str, Any], ...] = (
    (torch.linalg, "lstsq", _least_squares),
    (torch, "cov", _covariance),
    (torch.Tensor, "cov", _covariance),
    (torch, "corrcoef", _correlations),
    (torch.Tensor, "corrcoef", _correlations),
    (torch.nn.modules.batchnorm._BatchNorm, "forward", _batch_norm),
    (torch, "instance_norm", _instance_norm),
)


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """These functions in place of torch's, in this thread."""
    here = threading.get_ident()

    def put(owner: Any, name: str, ours: Any) -> None:
        torchs = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return ours(torchs, *args, **kwargs) if threading.get_ident() == here else torchs(*args, **kwargs)

        # What a class inherits is not its own afterwards either.
        undo.callback(*((setattr, owner, name, torchs) if name in vars(owner) else (delattr, owner, name)))
        setattr(owner, name, call)

    with contextlib.ExitStack() as undo:
        for owner, name, ours in _ALL:
            put(owner, name, ours)
        yield
