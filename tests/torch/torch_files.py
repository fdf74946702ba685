"""Writes the files of torch.save that tests/programs/torch_files.rs reads, and their tensors as safetensors.

    python tests/torch/torch_files.py

Written with torch 2.15.
"""

import argparse
import collections
import pathlib
import warnings

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "torch_files"


def tensors():
    """Every type, and every way in which a tensor lies in its storage."""
    torch.manual_seed(1)
    x = torch.randn(6, 4)
    found = collections.OrderedDict()
    for name in "float32 float64 float16 bfloat16".split():
        found[f"type.{name}"] = torch.randn(3, 2).to(getattr(torch, name))
    for name in "int8 uint8 int16 int32 int64 uint16 uint32 uint64 bool".split():
        found[f"type.{name}"] = torch.randint(0, 100, (5,)).to(getattr(torch, name))
    found["type.complex64"] = torch.randn(3, dtype=torch.complex64)
    found["scalar"] = torch.tensor(2.5)
    found["empty"] = torch.zeros(2, 0, 3)
    found["whole"] = x
    found["tied"] = x
    found["rows"] = x[2:5]
    found["columns"] = x[:, 1::2]
    found["transposed"] = x.t()
    found["expanded"] = x[0].expand(3, 4)
    found["channels_last"] = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    found["param"] = torch.nn.Parameter(torch.randn(2, 2))
    return found


def module():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def checkpoint():
    net = module()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    net(torch.randn(5, 3)).square().mean().backward()
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "text", "best": None}


def dotted(value, name=""):
    """The tensors in dictionaries and lists, by their names."""
    if isinstance(value, torch.Tensor):
        return {name: value.detach().contiguous().clone()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else []
    return {k: v for key, item in items for k, v in dotted(item, f"{name}.{key}" if name else f"{key}").items()}


def main():
    HERE.mkdir(exist_ok=True)
    state, whole = tensors(), checkpoint()
    torch.save(state, HERE / "state.pt")
    torch.save(state, HERE / "protocol5.pt", pickle_protocol=5)
    save_file(dotted(state), HERE / "state.safetensors")
    torch.save(whole, HERE / "checkpoint.pt")
    save_file(dotted(whole), HERE / "checkpoint.safetensors")
    torch.save({**whole, "args": argparse.Namespace(lr=1e-2)}, HERE / "with_args.pt")
    torch.save(module().state_dict(), HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(module(), HERE / "module.pt")
    odd = {"f8": torch.zeros(2).to(torch.float8_e4m3fn), "conj": torch.ones(2, dtype=torch.complex64).conj()}
    torch.save({**odd, "c": torch.tensor([1 + 2j], dtype=torch.complex128), "type": torch.float32}, HERE / "odd.pt")
    torch.save({"s": torch.eye(2).to_sparse()}, HERE / "sparse.pt")
    torch.save(torch.ones(2), HERE / "bare.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), HERE / "script.pt")
    torch.serialization.set_crc32_options(False)
    torch.save({"w": torch.ones(2)}, HERE / "no_crc.pt")


if __name__ == "__main__":
    main()
