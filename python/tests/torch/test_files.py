"""Files of torch.save are read by name."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

import arenagrad as ag


def program() -> ag.Program:
    """A linear layer from 3 to 2."""
    with ag.build("linear") as b:
        b.output("y", ag.nn.linear("fc", b.input("x", (4, 3)), 2))
    return ag.compile(b.graph)


def test_a_state_dict_of_a_checkpoint_is_loaded(tmp_path: Path) -> None:
    net = torch.nn.Sequential()
    net.add_module("fc", torch.nn.Linear(3, 2))
    state = {**net.state_dict(), "fc.weight": net.fc.weight.detach().t().contiguous()}
    torch.save({"model": state, "epoch": 3, "args": Namespace(lr=1.0)}, tmp_path / "checkpoint.pt")
    p = program()
    loaded = p.load(tmp_path / "checkpoint.pt", prefix="model", transpose=["*.weight"])
    assert sorted(loaded) == ["fc.bias", "fc.weight"]
    np.testing.assert_array_equal(p.params["fc.weight"], net.fc.weight.detach().numpy())
    with pytest.raises(ag.Error, match="argparse.Namespace"):
        p.load(tmp_path / "checkpoint.pt")
    with pytest.raises(ag.Error, match="transpose .* matches no tensor"):
        p.load(tmp_path / "checkpoint.pt", prefix="model", transpose=["*.weight", "h.*"])


def test_tensors_with_attributes_and_parts_of_nothing(tmp_path: Path) -> None:
    """A buffer has attributes; a row of a tensor without elements begins after its end."""
    weight = torch.nn.Buffer(torch.randn(2, 3))
    bias = torch.randn(2)
    bias.owner = "fc"
    torch.save({"fc.weight": weight, "fc.bias": bias, "none": torch.ones(2, 0, 3)[1]}, tmp_path / "w.pt")
    p = program()
    assert sorted(p.load(tmp_path / "w.pt", strict=False)) == ["fc.bias", "fc.weight"]
    np.testing.assert_array_equal(p.params["fc.weight"], weight.numpy())
    np.testing.assert_array_equal(p.params["fc.bias"], bias.numpy())


def test_of_two_files_in_a_folder_one_is_read_and_it_is_said(tmp_path: Path) -> None:
    p = program()
    p.init(1)
    p.save(tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.warns(UserWarning, match="model.safetensors is read, and pytorch_model.bin is not"):
        assert len(p.load(tmp_path)) == 2
