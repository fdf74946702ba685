"""Packed sequences through recurrent networks, beside torch's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compare import gradients
from torch import nn
from torch.nn.utils import rnn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import arenagrad as ag
import arenagrad.torch as agt

KINDS: dict[str, Any] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn tanh": nn.RNN,
    "rnn relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
LENGTHS = {True: [6, 5, 2, 1], False: [2, 6, 1, 5]}


class Net(nn.Module):
    """A recurrent network over packed sequences; its loss depends on outputs, last states and lengths."""

    def __init__(self, kind: str, batch_first: bool, descending: bool, how: dict[str, Any], layers: int = 1, both: bool = False) -> None:
        super().__init__()
        self.r = KINDS[kind](3, 4, layers, batch_first=batch_first, bidirectional=both)
        self.start = nn.Parameter(torch.randn(layers * (1 + both), 4, 4))
        self.batch_first, self.descending, self.how = batch_first, descending, how

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.descending)
        start: Any = (self.start, 2 * self.start) if isinstance(self.r, nn.LSTM) else self.start
        y, last = self.r(packed, start)
        y, n = pad_packed_sequence(y, self.batch_first, **self.how)
        places = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).sin()
        parts = torch.stack(list(last) if isinstance(last, tuple) else [last])
        return (places * y).mean() + (parts.cos() * torch.arange(4)[:, None] * n[:, None]).mean()


def sequences(batch_first: bool, steps: int = 6) -> torch.Tensor:
    x = torch.randn(steps, 4, 3)
    return x.transpose(0, 1) if batch_first else x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(("batch_first", "layers", "both"), [(False, 1, False), (True, 2, True)])
def test_gradients_are_torchs(kind: str, descending: bool, batch_first: bool, layers: int, both: bool) -> None:
    torch.manual_seed(0)
    net = Net(kind, batch_first, descending, {}, layers, both)
    assert gradients(net, (sequences(batch_first), torch.tensor(LENGTHS[descending]))) <= 1e-9


@pytest.mark.parametrize("total", [6, 7, 9])
def test_padding_has_its_value_and_its_length(total: int) -> None:
    torch.manual_seed(0)
    net = Net("lstm", True, False, {"padding_value": -1.5, "total_length": total})
    # No sequence has all eight steps.
    assert gradients(net, (sequences(True, 8), torch.tensor([2, 6, 1, 5]))) <= 1e-9


def test_what_is_behind_an_end_has_no_part_in_anything() -> None:
    torch.manual_seed(0)
    net, x = Net("gru", True, False, {}), sequences(True)
    x[0, 2:], x[3, 5:] = float("nan"), float("inf")
    assert gradients(net, (x, torch.tensor([2, 6, 6, 5]))) <= 1e-9


def test_packed_labels_and_lists_of_sequences() -> None:
    class Lists(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.GRU(3, 4)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            y, _ = pad_packed_sequence(self.r(rnn.pack_sequence([a, b], enforce_sorted=False))[0])
            whole, n = pad_packed_sequence(rnn.pack_sequence([b, a]), True, 7.0)
            return y.square().mean() + whole.sum() + n.sum()

    torch.manual_seed(0)
    assert gradients(Lists(), (torch.randn(3, 3), torch.randn(5, 3))) <= 1e-9


def net_and_step(**how: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    module = Net("lstm", True, how.pop("descending", False), how)
    module = module.double()
    examples = sequences(True).double(), torch.tensor(LENGTHS[True])
    return module, agt.compile_step(module, None, torch.optim.SGD(module.parameters(), 0.0), examples)


def test_lengths_are_an_input() -> None:
    module, step = net_and_step(total_length=6)
    for lengths in ([6, 6, 6, 6], [1, 1, 1, 1], [1, 2, 3, 4]):
        x, n = sequences(True).double(), torch.tensor(lengths)
        assert step(x, n) == pytest.approx(module(x, n).item(), rel=1e-12)
        assert step.eval(x, n).item() == pytest.approx(module(x, n).item(), rel=1e-12)


@pytest.mark.parametrize("lengths", [[0, 1, 1, 6], [7, 1, 1, 6], [-1, 1, 1, 6]])
def test_lengths_outside_of_the_steps_are_refused(lengths: list[int]) -> None:
    _, step = net_and_step()
    with pytest.raises(ag.DataError, match="lengths of packed sequences go from 1 to 6.*test_packed.py"):
        step(sequences(True).double(), torch.tensor(lengths))


def test_lengths_that_do_not_descend_are_refused_if_they_are_to() -> None:
    _, step = net_and_step(descending=True)
    with pytest.raises(ag.DataError, match="descending order.*test_packed.py"):
        step(sequences(True).double(), torch.tensor([6, 2, 3, 1]))


def test_a_longest_sequence_without_all_steps_is_refused() -> None:
    """In torch the result would have fewer steps, which a compiled step cannot."""
    _, step = net_and_step()
    with pytest.raises(ag.DataError, match="total_length=6.*test_packed.py"):
        step(sequences(True).double(), torch.tensor([5, 2, 3, 1]))
    _, step = net_and_step(total_length=5)
    with pytest.raises(ag.DataError, match="from 1 to 5.*test_packed.py"):
        step(sequences(True).double(), torch.tensor([6, 2, 3, 1]))


def test_batches_of_several_sizes() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.LSTM(3, 4, bidirectional=True, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            last: torch.Tensor = self.r(packed)[1][0]
            return last.square().mean()

    torch.manual_seed(0)
    module = Last().double()
    x, n = sequences(True).double(), torch.tensor([2, 6, 1, 5])
    step = agt.compile_step(module, None, torch.optim.SGD(module.parameters(), 0.0), (x, n), sizes={"batch": (1, 4)})
    for size in (4, 3, 2, 1):
        assert step(x[:size], n[:size]) == pytest.approx(module(x[:size], n[:size]).item(), rel=1e-12)


def test_torch_is_as_before_after_a_capture() -> None:
    module, _ = net_and_step(total_length=6)
    x, n = sequences(True).double(), torch.tensor([4, 3, 2, 1])
    packed = rnn.pack_padded_sequence(x, n, batch_first=True)
    assert packed.data.shape == (10, 3)
    assert copy.deepcopy(module)(x, n).isfinite()


@pytest.mark.parametrize(
    "f",
    [
        lambda packed: F.relu(packed.data).sum(),
        lambda packed: packed.data.mean(),
        lambda packed: packed.data.size(0) * packed.data.size(1),
        lambda packed: packed.batch_sizes.sum(),
        lambda packed: F.mse_loss(packed.data, packed.data),
        lambda packed: packed.data[0].sum(),
        lambda packed: (packed.data + 1).sum(),
        lambda packed: (1 - packed.data).sum(),
    ],
)
def test_rows_of_a_packed_sequence_are_refused_by_name(f: Any) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.LSTM(3, 4, batch_first=True)

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            return f(self.r(pack_padded_sequence(x, n, batch_first=True))[0])

    module = Rows()
    with pytest.raises(ag.UsageError, match=r"packed sequence.*pad_packed_sequence.*test_packed.py"):
        agt.compile_step(module, None, ag.optim.Sgd(0.1), (sequences(True), torch.tensor(LENGTHS[True])))


def test_lengths_in_the_module_are_checked_when_it_is_compiled() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.r = nn.LSTM(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = self.r(pack_padded_sequence(x, [6, 2, 4, 1]))[1][0].sum()
            return loss

    with pytest.raises(ag.DataError, match=r"descending order.*\[6, 2, 4, 1\].*test_packed.py"):
        agt.compile_step(Fixed(), None, ag.optim.Sgd(0.1), sequences(False))
