"""Values of a captured graph: constants are tensors of torch, all else are values of a builder."""

from __future__ import annotations

from typing import Any

import torch

from .._arenagrad import Build, Var
from .._errors import make

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
TORCH = {name: dtype for dtype, name in DTYPES.items()}


def name_of(dtype: torch.dtype, what: str = "a tensor") -> str:
    """The name of an element type here."""
    try:
        return DTYPES[dtype]
    except KeyError:
        text = f"{what} is {str(dtype).removeprefix('torch.')}; {', '.join(DTYPES.values())} are computed"
        if dtype in (torch.float16, torch.bfloat16):
            text += ": convert the module by .float(), and choose precision= or keep="
        raise make("data", text) from None


def dtype_of(x: Any) -> torch.dtype:
    """The element type of a value, as torch's."""
    return TORCH[x.dtype] if isinstance(x, Var) else x.dtype


def promoted(a: Any, b: Any) -> torch.dtype:
    """The element type in which torch computes with both."""

    def stand_in(x: Any) -> Any:
        if not isinstance(x, (Var, torch.Tensor)):
            return x
        return torch.empty((1,) * min(x.ndim, 1), dtype=dtype_of(x), device="meta")

    return torch.result_type(stand_in(a), stand_in(b))


def constant(b: Build, x: torch.Tensor, dtype: str | None = None) -> Var:
    """A tensor of torch as a constant: a fill if all elements are equal, else its elements, without repetitions."""
    dtype = dtype or name_of(x.dtype)
    x = x.detach()
    if x.numel() == 0:
        return b.full(0.0, tuple(x.shape), dtype)
    repeated = [i for i, (n, stride) in enumerate(zip(x.shape, x.stride())) if stride == 0 and n > 1]
    small = x
    for axis in repeated:
        small = small.narrow(axis, 0, 1)
    first = small.reshape(-1)[0]
    if not x.dtype.is_complex and bool((small == first).all()):
        return b.full(float(first), tuple(x.shape), dtype)
    var = b.constant(small.resolve_conj().resolve_neg().contiguous().numpy())
    var = var if var.dtype == dtype else var.cast(dtype)
    return var.broadcast(tuple(x.shape)) if repeated else var
