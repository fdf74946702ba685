"""Kinds of linear algebra, and Fourier transforms."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from .._arenagrad import Var
from ._kinds import Refused, Site, kind
from ._values import TORCH

_aten: Any = torch.ops.aten


def _exchanged(s: Site, x: Var, find: Any) -> tuple[Var, Var]:
    """Starts from the order 0, 1, … and lets each row change places with the one that `find` marks for its element of `x`.
    The order then, and the places of those others."""
    if not x.size:
        return x, x
    lead, n = x.shape, x.shape[-1]
    x = x.reshape([x.size // n, n])
    places = s.b.iota(1, x.shape, "i32")
    nothing = places.full_like(0.0)

    def step(order: Var, element: Var, i: Var) -> tuple[Var, Var]:
        here, there = places.equal(i), find(order, places, element.unsqueeze(1))
        first, second = (mask.select(order, nothing).sum(1, True) for mask in (here, there))
        return here.select(second, there.select(first, order)), there.select(places, nothing).sum(1)

    order, others = s.b.scan(places, [x.t(), s.b.iota(0, (n,), "i32")], step)
    return order.reshape(lead), others.t().reshape(lead)


def _pivots(s: Site, rows: Var) -> Var:
    """An order of rows as LAPACK's pivots: with which row, from 1 on, each changes places in turn."""
    return _exchanged(s, rows, lambda order, places, row: order.equal(row))[1] + 1.0


def _rows(s: Site, pivots: Any) -> Var:
    """The order of rows that LAPACK's pivots make."""
    return _exchanged(s, s.var(pivots) - 1.0, lambda order, places, place: places.equal(place))[0]


def _good(s: Site, a: Var) -> Var:
    """LAPACK's report that all went well: else a step ends with an error."""
    return s.b.full(0.0, a.shape[:-2], "i32")


def _info(s: Site, lu: Var) -> Var:
    """The number of the first pivot that is zero, from 1 on, or 0."""
    zero = s.var(lu.diagonal(0, -2, -1).equal(0.0), "i32")
    return zero.amax(-1) * (zero.arg_max(-1, "i32") + 1.0)


# What keeps LU factors for its derivative, and as which result.
_KEEPS: dict[str, tuple[Any, int]] = {
    "solve": (lambda a: _aten._linalg_solve_ex(a, a), 1),
    "det": (_aten._linalg_det, 1),
    "slogdet": (_aten._linalg_slogdet, 2),
}


@functools.cache
def _is_turned(name: str, contiguous: bool) -> bool:
    """Whether torch keeps the factors of the transpose, which follows from its version and the order in memory."""
    op, at = _KEEPS[name]
    a = torch.tensor([[1.0, 2.0], [4.0, 3.0]])
    return torch.equal(op(a if contiguous else a.t().contiguous().t())[at], torch.linalg.lu_factor(a.t())[0])


def _factors(s: Site, a: Var, name: str) -> tuple[bool, Var, Var, Var]:
    """What torch keeps of a matrix for derivatives: LU factors, and whether they are those of the transpose."""
    turned = _is_turned(name, s.given[0].is_contiguous())
    lu, rows, sign = (a.t() if turned else a).lu()
    return turned, lu, rows, sign


def _lu_solve(s: Site, lu: Any, rows: Var, b: Any, left: bool, transpose: bool, singular: str = "nan") -> Var:
    b = s.var(b)
    if not left:
        return _lu_solve(s, lu, rows, b.t(), True, not transpose, singular).t()
    return s.b.op("lu_solve", s.var(lu), rows, b, transpose=transpose, singular=singular)


@kind("_linalg_solve_ex.default", "linalg_solve_ex.default")
def _solve(s: Site, a: Any, b: Any, left: bool = True, *_: Any) -> Any:
    a, b = s.var(a), s.var(b)
    column = b.ndim == a.ndim - 1
    wide = b.unsqueeze(b.ndim) if column else b
    lu = rows = None
    if s.used(1):
        turned, lu, rows, _sign = _factors(s, a, "solve")
        x = _lu_solve(s, lu, rows, wide, left, turned, "fault")
    else:
        x = a.solve(wide) if left else a.t().solve(wide.t()).t()
    x = x.squeeze(b.ndim) if column else x
    return (x, _good(s, a)) if len(s.results) == 2 else (x, lu, rows if rows is None else _pivots(s, rows), _good(s, a))


kind("linalg_inv_ex.default", "linalg_inv.default")(lambda s, a, *_: (a.inverse(), _good(s, a)))
kind("linalg_cholesky_ex.default")(
    lambda s, a, upper=False, *_: (a.cholesky().t() if upper else a.cholesky(), _good(s, a))
)
kind("_linalg_check_errors.default")(lambda s, *_: None)


@kind("linalg_lu_factor_ex.default")
def _lu_factor(s: Site, a: Any, pivot: bool = True, check: bool = False) -> Any:
    a = s.var(a)
    if not pivot:
        raise Refused("LU factors without pivots, which torch has on GPUs only")
    if a.shape[-1] != a.shape[-2]:
        raise Refused(f"LU factors of {list(a.shape)}; square matrices have them")
    lu, rows, _ = a.lu()
    return lu, _pivots(s, rows), _info(s, lu)


@kind("linalg_lu_solve.default")
def _solve_by_factors(s: Site, lu: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Var:
    return _lu_solve(s, lu, _rows(s, pivots), b, left, adjoint)


@kind("lu_unpack.default")
def _lu_unpack(s: Site, lu: Any, pivots: Any, data: bool = True, order: bool = True) -> Any:
    lu = s.var(lu)
    p = _rows(s, pivots).one_hot(lu.shape[-2], lu.dtype).t() if order else s.b.full(0.0, (0,), lu.dtype)
    if not data:
        return p, *(s.b.full(0.0, (0,), lu.dtype) for _ in range(2))
    return p, lu.tril(-1) + s.var(torch.eye(lu.shape[-1]), lu.dtype), lu.triu(0)


@kind("linalg_lu.default")
def _lu(s: Site, a: Any, pivot: bool = True) -> Any:
    lu, pivots, _ = _lu_factor(s, a, pivot)
    return _lu_unpack(s, lu, pivots)


@kind("_linalg_slogdet.default")
def _slogdet(s: Site, a: Var) -> Any:
    if not s.used(2):
        return (*a.slogdet(), None, None)
    _, lu, rows, sign = _factors(s, a, "slogdet")
    diagonal = lu.diagonal(0, -2, -1)
    return diagonal.sign().prod(-1) * sign, diagonal.abs().log().sum(-1), lu, _pivots(s, rows)


@kind("_linalg_det.default")
def _det(s: Site, a: Var) -> Any:
    if not s.used(1):
        return a.det(), None, None
    _, lu, rows, sign = _factors(s, a, "det")
    return lu.diagonal(0, -2, -1).prod(-1) * sign, lu, _pivots(s, rows)


@kind("_linalg_eigh.default")
def _eigh(s: Site, a: Var, lower: str = "L", vectors: bool = True) -> Any:
    # One triangle counts, and the other is its mirror image; torch's gradient is symmetric none the less.
    half = a.tril(-1) if lower == "L" else a.triu(1)
    mean = (a + a.t()) * 0.5
    return (mean + (half + half.t() + a.tril(0).triu(0) - mean).stop_gradient()).eigh()


# Squarings and terms of a matrix exponential. Of a matrix whose norm exceeds 2¹⁶ the result is NaN.
_SQUARINGS, _TERMS = 16, 18


@kind("linalg_matrix_exp.default")
def _matrix_exp(s: Site, a: Var) -> Var:
    # exp(A) = exp(A / 2ᵏ)^(2ᵏ), with k the least for which the largest sum of a column is at most 1.
    size = a.stop_gradient().abs().sum(a.ndim - 2, True).amax(a.ndim - 1, True)
    k = size.maximum(1.0).log2().ceil()
    k = (k > float(_SQUARINGS)).select(k * math.nan, k)
    a = a * (-k).exp2()
    eye = s.var(torch.eye(a.shape[-1]), a.dtype)
    y = eye + a / float(_TERMS)
    for n in range(_TERMS - 1, 0, -1):
        y = eye + (a @ y) / float(n)
    for n in range(_SQUARINGS):
        y = (k > float(n)).select(y @ y, y)
    return y


@kind("linalg_pinv.atol_rtol_tensor")
def _pinv(s: Site, a: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Var:
    a = s.var(a)
    u, sizes, vt = a.stop_gradient().svd()
    atol = s.b.full(0.0, (), a.dtype) if atol is None else s.var(atol, a.dtype)
    default = max(a.shape[-2:]) * torch.finfo(TORCH[a.dtype]).eps
    # As in torch, the default counts if there is no atol.
    rtol = (atol > 0.0).select(atol.full_like(0.0), atol.full_like(default)) if rtol is None else s.var(rtol, a.dtype)
    least = atol.maximum(rtol * sizes.amax(sizes.ndim - 1)).unsqueeze(sizes.ndim - 1)
    kept = (sizes > least).broadcast(sizes.shape)
    inverses = kept.select(1.0 / kept.select(sizes, sizes.full_like(1.0)), sizes.full_like(0.0))
    p = (vt.t() * inverses.unsqueeze(sizes.ndim - 1)) @ u.t()
    # The derivative, which exists though singular values may be equal. `d` is zero.
    fixed = a.stop_gradient()
    d = a - fixed
    right = p @ p.t() @ d.t() @ (s.var(torch.eye(a.shape[-2]), a.dtype) - fixed @ p)
    left = (s.var(torch.eye(a.shape[-1]), a.dtype) - p @ fixed) @ d.t() @ p.t() @ p
    return p + right + left - p @ d @ p


@kind("_linalg_svd.default")
def _svd(s: Site, a: Var, full: bool = False, vectors: bool = True, driver: str | None = None) -> Any:
    if full and a.shape[-1] != a.shape[-2] and (s.used(0) or s.used(2)):
        raise Refused("an SVD with full matrices: give full_matrices=False")
    return a.svd()


@kind("linalg_qr.default")
def _qr(s: Site, a: Var, mode: str = "reduced") -> Any:
    if mode != "reduced":
        raise Refused(f"qr with mode={mode!r}")
    return a.qr()


@kind("linalg_householder_product.default")
def _householder(s: Site, a: Var, tau: Var) -> Var:
    # H₁…Hₖ = I − V·T·Vᵀ, where T = (I + diag(τ)·striu(Vᵀ·V))⁻¹·diag(τ), and V has ones on its diagonal.
    n, k = a.shape[-1], tau.shape[-1]
    eye = s.var(torch.eye(a.shape[-2], n), a.dtype)
    v = (a.tril(-1) + eye).narrow(a.ndim - 1, 0, k)
    tau = tau.unsqueeze(tau.ndim)
    top = v.narrow(a.ndim - 2, 0, n).t() * tau
    w = ((v.t() @ v).triu(1) * tau).triangular_solve(top, upper=True, transpose=False, unit=True, singular="nan")
    return eye - v @ w


@kind("linalg_solve_triangular.default")
def _triangular(s: Site, a: Any, b: Any, upper: bool = True, left: bool = True, unitriangular: bool = False) -> Var:
    if not left:
        return _triangular(s, a.t(), b.t(), not upper, True, unitriangular).t()
    return s.var(a).triangular_solve(s.var(b), upper=upper, transpose=False, unit=unitriangular, singular="nan")


@kind("cholesky_solve.default")
def _cholesky_solve(s: Site, b: Any, half: Any, upper: bool = False) -> Var:
    b, half = s.var(b), s.var(half)
    y = half.triangular_solve(b, upper=upper, transpose=upper, unit=False, singular="nan")
    return half.triangular_solve(y, upper=upper, transpose=not upper, unit=False, singular="nan")


def _norm_of(normalization: int) -> str:
    # 0: no factor, 1: 1/√n, 2: 1/n.
    return {0: "backward", 1: "ortho", 2: "forward"}[normalization]


@kind("_fft_r2c.default")
def _fft_r2c(s: Site, x: Var, dims: Any, normalization: int, onesided: bool) -> Var:
    norm, last = _norm_of(normalization), int(dims[-1])
    y = x.rfft(None, last, norm) if onesided else x.complex(x.full_like(0.0)).fft(None, last, norm)
    for d in reversed(dims[:-1]):
        y = y.fft(None, int(d), norm)
    return y


@kind("_fft_c2c.default")
def _fft_c2c(s: Site, x: Var, dims: Any, normalization: int, forward: bool) -> Var:
    # torch gives the factor as it is; that of an inverse transform is 1/n by default here.
    norm = _norm_of(normalization) if forward else {0: "forward", 1: "ortho", 2: "backward"}[normalization]
    for d in dims:
        x = x.fft(None, int(d), norm) if forward else x.ifft(None, int(d), norm)
    return x


@kind("_fft_c2r.default")
def _fft_c2r(s: Site, x: Var, dims: Any, normalization: int, last: int) -> Var:
    norm = {0: "forward", 1: "ortho", 2: "backward"}[normalization]
    for d in dims[:-1]:
        x = x.ifft(None, int(d), norm)
    return x.irfft(int(last), int(dims[-1]), norm)
