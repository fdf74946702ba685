"""Packed sequences, which stay padded while a module is captured.

A packed sequence has as many rows as its lengths say, which no captured shape can hold. So `pack_padded_sequence` gives
one here whose rows are the padded sequences and their lengths; LSTM, GRU and RNN run over these, and
`pad_packed_sequence` gives them back. All else that reads the rows of a packed sequence is an error.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch import _VF

from .._errors import Error, make
from ._kinds import Site, register
from ._recurrent import recurrent

_KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_TORCH: Any = torch._C._VariableFunctions  # what torch's modules call when nothing is captured


def _unknown(what: str) -> Error:
    text = f"{what} of a packed sequence: its rows are as many as the lengths say, which no compiled step can hold"
    return make("usage", text + "; read what pad_packed_sequence() gives, with a mask of the lengths")


class _Opaque:
    """A part of a packed sequence, of which only what is defined can be read."""

    device = torch.device("cpu")

    @classmethod
    def __torch_function__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _unknown(f"{getattr(f, '__name__', f)}() of the data")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(f"the field {name!r}")


def _no_operator(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *_: Any) -> Any:
        raise _unknown(f"{name} of the data")

    return refuse


for _name in "getitem len iter bool float int neg add radd sub rsub mul rmul truediv rtruediv pow matmul rmatmul".split():
    setattr(_Opaque, f"__{_name}__", _no_operator(_name))


class _Rows(_Opaque):
    """The rows of a packed sequence: sequences `x` [steps, batch, …], of which `lengths` [batch] steps count."""

    def __init__(self, x: torch.Tensor, lengths: torch.Tensor) -> None:
        self.x, self.lengths, self.dtype = x, lengths, x.dtype

    def dim(self) -> int:
        return self.x.dim() - 1

    def size(self, axis: int | None = None) -> int:
        if axis is None or axis % self.dim() == 0:
            raise _unknown("the number of rows")
        return self.x.size(axis if axis < 0 else axis + 1)

    def to(self, *args: Any, **kwargs: Any) -> _Rows:
        x = self.x.to(*args, **kwargs)
        return self if x is self.x else _Rows(x, self.lengths)


class _Longest(int):
    """The number of steps if `pad_packed_sequence` gets no `total_length`: less than all that it may get."""

    __slots__ = ()


class _Sizes(_Opaque):
    """How many sequences have a step of each number: all of them have the first one."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __getitem__(self, step: Any) -> Any:
        if not isinstance(step, int) or step != 0:
            raise _unknown("batch_sizes")
        return self.batch

    def size(self, axis: int = 0) -> int:
        return _Longest(1)


def _required(steps: int, descending: bool, whole: bool) -> str:
    """What lengths of sequences are to be."""
    if whole:
        return f"the longest sequence does not have all {steps} steps: give total_length={steps} to pad_packed_sequence()"
    order = ", in descending order unless enforce_sorted=False" if descending else ""
    return f"lengths of packed sequences go from 1 to {steps}{order}"


@torch.library.custom_op("arenagrad::packed_lengths", mutates_args=())
def _checked(lengths: torch.Tensor, steps: int, descending: bool, whole: bool) -> torch.Tensor:
    """The lengths, each of 1 to `steps`: in descending order, and the longest with all steps, if these are asked for."""
    values = [int(n) for n in lengths]
    falls = not descending or values == sorted(values, reverse=True)
    if not falls or any(not 1 <= n <= steps for n in values) or (whole and steps not in values):
        raise make("data", f"{_required(steps, descending, whole)}; lengths are {values}")
    return lengths.clone()


@_checked.register_fake
def _(lengths: Any, steps: Any, descending: Any, whole: Any) -> Any:
    return torch.empty_like(lengths)


@torch.library.custom_op("arenagrad::packed_recurrent", mutates_args=())
def _recurrent(
    kind: str,
    x: torch.Tensor,
    lengths: torch.Tensor,
    first: list[torch.Tensor],
    weights: list[torch.Tensor],
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    both: bool,
) -> list[torch.Tensor]:
    """A recurrent network over sequences [steps, batch, inputs]: outputs, 0 behind the ends, and the last states."""
    ordered, order = lengths.sort(descending=True)
    back = order.argsort()
    rows, sizes = _TORCH._pack_padded_sequence(x[:, order], ordered, False)
    starts: Any = [h[:, order] for h in first]
    y, *states = getattr(_TORCH, kind)(
        rows, sizes, starts if kind == "lstm" else starts[0], weights, bias, layers, dropout, training, both
    )
    y, _ = _TORCH._pad_packed_sequence(y, sizes, False, 0.0, x.shape[0])
    return [y[:, back], *(h[:, back] for h in states)]


@_recurrent.register_fake
def _(kind: Any, x: Any, lengths: Any, first: Any, weights: Any, bias: Any, layers: Any, dropout: Any, training: Any, both: Any) -> Any:
    y = x.new_empty((x.shape[0], x.shape[1], first[0].shape[2] * (2 if both else 1)))
    return [y, *(torch.empty_like(h) for h in first)]


def _pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[Any, Any]:
    x = x.transpose(0, 1) if batch_first else x
    if x.dim() < 2 or lengths.dim() != 1 or lengths.shape[0] != x.shape[1]:
        raise make("shape", f"sequences {list(x.shape)} and lengths {list(lengths.shape)}: one length for each is needed")
    return _Rows(x, _checked(lengths, x.shape[0], True, False)), _Sizes(x.shape[1])


def _pad(rows: Any, sizes: Any, batch_first: bool, value: float, total: int) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(rows, _Rows):
        return _TORCH._pad_packed_sequence(rows, sizes, batch_first, value, total)
    x, lengths, whole = rows.x, rows.lengths, isinstance(total, _Longest)
    steps = x.shape[0] if whole else total
    if whole or steps < x.shape[0]:
        lengths = _checked(lengths, steps, False, whole)
    x = x[:steps]
    if steps > x.shape[0]:
        x = torch.cat([x, x.new_zeros((steps - x.shape[0], *x.shape[1:]))])
    behind = torch.arange(steps)[:, None] >= lengths
    x = x.masked_fill(behind.reshape(*behind.shape, *[1] * (x.dim() - 2)), value)
    return (x.transpose(0, 1) if batch_first else x), lengths


def _runner(kind: str) -> Callable[..., Any]:
    def run(x: Any, *rest: Any) -> Any:
        if not isinstance(x, _Rows):
            return getattr(_TORCH, kind)(x, *rest)
        _, first, weights, *how = rest
        y, *states = _recurrent(kind, x.x, x.lengths, list(first) if kind == "lstm" else [first], list(weights), *how)
        return (_Rows(y, x.lengths), *states)

    return run


@contextlib.contextmanager
def kept_padded() -> Iterator[None]:
    """While this holds, `torch.nn.utils.rnn` packs sequences in the form that a capture can hold."""
    own = {"_pack_padded_sequence": _pack, "_pad_packed_sequence": _pad} | {kind: _runner(kind) for kind in _KINDS}
    networks: Any = torch.nn.modules.rnn
    vars(_VF).update(own)
    # The number of sequences may be a size that is left open, which `int` would fix.
    networks.int = torch.sym_int
    try:
        yield
    finally:
        del networks.int
        for name in own:
            delattr(_VF, name)


def _lengths_rule(s: Site, lengths: Any, steps: int, descending: bool, whole: bool) -> Any:
    # A check is a read at a place that lies outside of its table unless the check holds.
    s.note = _required(steps, descending, whole)
    lengths = s.var(lengths)
    n, dtype = lengths.shape[0], lengths.dtype

    def read(size: int, at: Any) -> Any:
        return s.b.iota(0, (size,), dtype).gather(at, 0)

    one = s.b.full(1.0, (), dtype)
    lengths = read(steps, lengths - one) + one
    if descending and n > 1:
        falls = read(steps, lengths.narrow(0, 0, n - 1) - lengths.narrow(0, 1, n - 1))
        lengths = falls.concat(lengths.narrow(0, n - 1, 1), 0).cumsum(0, reverse=True)
    if whole:
        missing = s.b.full(float(steps), (), dtype) - lengths.amax(0)
        lengths = lengths + read(1, missing)
    return lengths


def _recurrent_rule(s: Site, kind: str, x: Any, lengths: Any, first: Any, weights: Any, *how: Any) -> Any:
    return recurrent(kind)(s, x, first, weights, *how, False, lengths=s.var(lengths))


register("arenagrad::packed_lengths", _lengths_rule)
register("arenagrad::packed_recurrent", _recurrent_rule)
