"""What is not exactly the array that a tensor asks for: converted if that loses nothing, else refused by name."""

from __future__ import annotations

from ._errors import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KINDS = {"b": "bools", "i": "integers", "u": "integers", "f": "floats", "c": "complex numbers"}


def _asarray(value: Any, what: str) -> Any:
    """The array of any object that has one."""
    import numpy as np

    if isinstance(value, np.ndarray):
        if np.ma.is_masked(value):
            raise make("data", f"{what}: {int(np.ma.getmaskarray(value).sum())} elements are masked; array.filled(x) gives them numbers")
        return np.asarray(value)
    # Tensors of torch and JAX: without a copy where they are on the CPU.
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as e:
        raise make("data", f"{what}: {type(value).__name__} is no array: {e}") from e


def _shown(array: Any) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _check_kind(array: Any, what: str) -> None:
    if array.dtype.hasobject or array.dtype.kind not in _KINDS:
        raise make("data", f"{what}: an array of {array.dtype} holds no numbers")
    if not array.dtype.isnative:
        raise make("data", f"{what}: the array has foreign byte order ({array.dtype}); array.astype('=') has this machine's")


def _narrowed(array: Any, dtype: Any, what: str) -> Any:
    """Integers as integers of another width, if all fit."""
    import numpy as np

    limits = np.iinfo(dtype)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        low, high = array.min(), array.max()
        raise make("data", f"{what}: integers from {low} to {high} do not fit {dtype} ({limits.min} to {limits.max})")
    return array.astype(dtype)


def fit(value: Any, dtype: Any, shape: list[int], name: str, what: str, casting: str | None = None) -> Any:
    """`value` as a contiguous array of this type and shape."""
    import numpy as np

    number = isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
    array = _asarray(value, what)
    _check_kind(array, what)
    wanted = f"{name}[{','.join(map(str, shape))}]"
    if array.shape != tuple(shape):
        raise make("data", f"{what} is {wanted}; {_shown(array)} is written")
    if name == "bf16" and array.dtype != dtype:
        # Any number would be taken for bits.
        text = f"{what} is {wanted}, written as its bits in uint16; {_shown(array)} is written: an input of f32 that the graph casts takes numbers"
        raise make("data", text)
    if array.dtype != dtype:
        pair = array.dtype.kind + dtype.kind
        if pair in ("ii", "uu", "iu", "ui"):
            array = _narrowed(array, dtype, what)
        elif number and pair in ("ff", "if", "fc", "ic", "bb"):
            array = array.astype(dtype)
        elif casting == "same_kind" and np.can_cast(array.dtype, dtype, "same_kind"):
            array = array.astype(dtype)
        else:
            advice = f"astype(np.{dtype})"
            if np.can_cast(array.dtype, dtype, "same_kind"):
                advice += ' converts it, as casting="same_kind" does'
            else:
                advice += " converts it"
            raise make("data", f"{what} is {wanted}; {_shown(array)} is written: {advice}")
    # A view, so that its type is the very object that the tensor compares with.
    return np.require(array, requirements=["C", "A"]).view(dtype)


def copy_out(outputs: Any, into: Any, inputs: Any) -> None:
    """Copies outputs into arrays of the caller."""
    import numpy as np

    if not isinstance(into, dict):
        raise make("data", f"out is a dict of arrays by the names of outputs, not {type(into).__name__}")
    for name, array in into.items():
        source = outputs[name]
        what = f"out[{name!r}]"
        if not isinstance(array, np.ndarray):
            raise make("data", f"{what} is {type(array).__name__}; an array of NumPy is written")
        _check_kind(array, what)
        if array.dtype != source.dtype or array.shape != source.shape:
            raise make("data", f"{what} is {_shown(array)}; output {name!r} is {_shown(source)}")
        if any(stride < 0 for stride in array.strides):
            raise make("data", f"{what} has negative strides; a copy of it has none")
        if not array.flags.writeable:
            raise make("data", f"{what} is read-only")
        if np.may_share_memory(array, source) or any(np.may_share_memory(array, x) for x in inputs.values()):
            raise make("data", f"{what} lies in the program's own memory, over an input or an output; give another array")
        np.copyto(array, source)


def _check_elements(array: Any, text: str) -> None:
    """An error unless the numbers of a constant are elements of this type, up to the rounding of floats."""
    import numpy as np

    try:
        dtype = np.dtype(text)
    except TypeError:
        raise make("data", f"constant: NumPy has no {text}; cast a constant of another type in the graph") from None
    if array.dtype.kind == "c" and dtype.kind in "fiu" and np.imag(array).any():
        raise make("data", f"constant: complex numbers do not fit {text}")
    if dtype.kind not in "iu" or array.size == 0:
        return
    real = np.real(array)
    whole = real.dtype.kind != "f" or bool((np.trunc(real) == real).all() and np.isfinite(real).all())
    limits = np.iinfo(dtype)
    if not whole or int(real.min()) < limits.min or int(real.max()) > limits.max:
        raise make("data", f"constant: numbers from {real.min()} to {real.max()} are not all elements of {text}; give another dtype")


def constant(value: Any, dtype: Any = None) -> tuple[bytes, tuple[int, ...], str]:
    """Bytes, shape and element type of a constant. Python's floats are f32, its integers i32."""
    import numpy as np

    array = _asarray(value, "constant")
    _check_kind(array, "constant")
    if dtype is None and not isinstance(value, np.ndarray):
        dtype = {"f": "float32", "i": "int32", "c": "complex64"}.get(array.dtype.kind)
    if dtype is not None:
        names = {"f32": "float32", "f64": "float64", "f16": "float16", "c64": "complex64", "c128": "complex128"}
        short = {"i": "int", "u": "uint"}
        text = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        text = names.get(text, text)
        if text[0] in short and text[1:].isdigit():
            text = short[text[0]] + text[1:]
        _check_elements(array, text)
        try:
            with np.errstate(over="raise"):
                array = array.astype(text)
        except FloatingPointError:
            raise make("data", f"constant: a number is too large for {text}") from None
    array = np.ascontiguousarray(array)
    return array.tobytes(), np.shape(value), array.dtype.name
