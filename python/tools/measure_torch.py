"""The time of a compiled step beside torch's own: `measure_torch.py [NAME...] [--seconds N] [--threads N...]`.

Steps take turns; the least of many is compared, so that other work on the machine matters little. With `--compile`,
`torch.compile` is a second peer. With `--memory`, each peer also runs in a process of its own, for the processor's time up
to the end of the first step, and for memory beyond the module and what was imported: the most of later steps (`steps`),
and the most since the module was built, capture and compilation among it (`whole`). Pages of files, such as machine code
that runs for the first time, do not count. `--max-memory resnet18=100MiB` compiles our step of that case for an arena of that
size, in which values are computed again. The numbers in brackets are ours as a part of theirs. A peer that fails is
named with its error, and the others go on.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

import arenagrad.torch as agt

Case = tuple[nn.Module, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]


def mlp() -> Case:
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return net, F.cross_entropy, (torch.randn(32, 64),), (torch.randint(0, 10, (32,)),)


class Gpt(nn.Module):
    """Two layers of width 32."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.qkv = nn.ModuleList(nn.Linear(32, 96, bias=False) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(5))
        self.up = nn.ModuleList(nn.Linear(32, 128) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(128, 32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t = x.shape
        h = self.words(x) + self.places(torch.arange(t))
        for k in range(2):
            q, key, v = (z.view(b, t, 4, 8).transpose(1, 2) for z in self.qkv[k](self.norms[k](h)).split(32, 2))
            y = F.scaled_dot_product_attention(q, key, v, is_causal=True).transpose(1, 2).reshape(b, t, 32)
            h = h + self.out[k](y)
            h = h + self.down[k](F.gelu(self.up[k](self.norms[2 + k](h))))
        return self.norms[4](h) @ self.words.weight.t()


def gpt() -> Case:
    x, y = torch.randint(0, 64, (4, 16)), torch.randint(0, 64, (4, 16))
    return Gpt(), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()), (x,), (y,)


class Lstm(nn.Module):
    """Words, one layer, the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.r, self.f = nn.Embedding(100, 32), nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self.r(self.e(x))[0][:, -1])


def lstm() -> Case:
    return Lstm(), F.cross_entropy, (torch.randint(0, 100, (16, 32)),), (torch.randint(0, 10, (16,)),)


class Encoder(nn.Module):
    """Two of torch's own encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.e, self.t, self.f = nn.Embedding(100, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(self.t(self.e(x)).mean(1))


def encoder() -> Case:
    return Encoder(), F.cross_entropy, (torch.randint(0, 100, (8, 32)),), (torch.randint(0, 10, (8,)),)


def _vision(name: str) -> Case:
    import torchvision

    net = getattr(torchvision.models, name)(num_classes=10)
    return net, F.cross_entropy, (torch.randn(8, 3, 64, 64),), (torch.randint(0, 10, (8,)),)


def resnet18() -> Case:
    return _vision("resnet18")


def mobilenet_v3_small() -> Case:
    return _vision("mobilenet_v3_small")


CASES = {f.__name__: f for f in (mlp, gpt, lstm, encoder, resnet18, mobilenet_v3_small)}


PEERS = ("eager", "torch.compile", "here")
# The most memory of our arena, by case.
LIMITS: dict[str, str] = {}


def peer(kind: str, case: Case, threads: int, limit: str | None = None) -> Callable[[], Any]:
    """A function that runs one step: forward, loss, backward, AdamW; ours in an arena of at most `limit`."""
    net, loss, inputs, targets = case
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    if kind == "here":
        step = agt.compile_step(net, loss, optimizer, inputs, targets, threads=threads, max_memory=limit)
        return lambda: step(*inputs, *targets)

    def forward() -> torch.Tensor:
        return loss(net(*inputs), *targets)

    run = torch.compile(forward) if kind == "torch.compile" else forward

    def theirs() -> None:
        optimizer.zero_grad()
        run().backward()
        optimizer.step()

    return theirs


def steps_in_turn(name: str, peers: tuple[str, ...], threads: int, seconds: float) -> dict[str, float]:
    """The least time of a step of each, in µs; their steps take turns in this process.

    Of one thread it is the time of the processor, which other work on the machine does not lengthen.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    case = CASES[name]()
    runs: dict[str, Callable[[], Any]] = {}
    for kind in peers:
        try:
            run = peer(kind, copy.deepcopy(case), threads, LIMITS.get(name))
            run()
        except Exception as e:
            failed(name, kind, f"{type(e).__name__}: {e}")
        else:
            runs[kind] = run
    best = dict.fromkeys(runs, float("inf"))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for kind, run in runs.items():
            began = clock()
            run()
            best[kind] = min(best[kind], (clock() - began) * 1e6)
    return best


def failed(name: str, kind: str, why: str) -> None:
    """Says why a peer has no numbers."""
    print(f"{name}: {kind} fails: {why.strip().splitlines()[-1][:200] if why.strip() else 'no output'}", file=sys.stderr, flush=True)


def memory(field: str) -> float:
    """A field of this process in `/proc`, in MiB, as `VmHWM`: the most since the last reset, pages of files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def most() -> float:
    """The most memory since the last reset, less the pages of files that are there now."""
    return memory("VmHWM") - memory("RssFile")


def reset() -> None:
    """What `most` counts begins now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def alone(name: str, kind: str, threads: int) -> None:
    """Prints the time of the processor up to the end of the first step, and the most memory of later steps and of all.

    What is imported, and a first net that is captured, compiled and dropped, do not count; nor does the module.
    """
    tiny: Case = (nn.Linear(2, 2), F.mse_loss, (torch.ones(1, 2),), (torch.ones(1, 2),))
    peer(kind, tiny, threads)()
    case = CASES[name]()
    reset()
    before, began = memory("RssAnon"), sum(os.times()[:4])
    run = peer(kind, case, threads, LIMITS.get(name))
    run()
    first = sum(os.times()[:4]) - began
    run()
    whole = most() - before
    reset()
    for _ in range(5):
        run()
    steps = most() - before
    print(json.dumps({"first, CPU s": first, "steps, MiB": steps, "whole, MiB": max(whole, steps)}))


def child(name: str, kind: str, threads: int) -> dict[str, float] | None:
    """What `alone` prints, in a process of its own. torch.compile begins with an empty cache and compiles in turn."""
    command = [sys.executable, __file__, name, "--alone", kind, "--threads", str(threads)]
    command += [f"--max-memory={key}={size}" for key, size in LIMITS.items()]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        failed(name, kind, done.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(name: str, threads: int, found: dict[str, dict[str, float]]) -> None:
    """Prints a line for each quantity of a case."""
    for what, values in found.items():
        ours = values.get("here", float("nan"))
        parts = [f"{kind} {x:9.1f} ({ours / x if x > 0 else float('nan'):.3f})" for kind, x in values.items() if kind in PEERS[:2]]
        print(f"{name:20} {threads} threads  {what:14} here {ours:9.1f}  {'  '.join(parts)}", flush=True)


def main() -> None:
    """Measures the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--compile", action="store_true", help="torch.compile as a second peer")
    parser.add_argument("--memory", action="store_true", help="processes of their own: memory, time to the first step")
    parser.add_argument("--max-memory", action="append", default=[], metavar="NAME=SIZE", help="the arena of our step of a case")
    parser.add_argument("--alone", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    peers = tuple(kind for kind in PEERS if args.compile or kind != "torch.compile")
    LIMITS.update(limit.partition("=")[::2] for limit in args.max_memory)
    unknown = [name for name in [*args.names, *LIMITS] if name not in CASES]
    if unknown or min(args.threads) < 1:
        parser.error(f"unknown: {', '.join(unknown)}; the cases are {', '.join(CASES)}" if unknown else "--threads is 1 or more")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for name in args.names:
            torch.manual_seed(0)
            if args.alone:
                alone(name, args.alone, threads)
                continue
            show(name, threads, {"step, µs": steps_in_turn(name, peers, threads, args.seconds)})
            found: dict[str, dict[str, float]] = {}
            for kind in peers if args.memory else ():
                for what, x in (child(name, kind, threads) or {}).items():
                    found.setdefault(what, {})[kind] = x
            show(name, threads, found)


main()
