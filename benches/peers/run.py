#!/usr/bin/env python3
"""Times whole training steps beside PyTorch and JAX, and writes the tables and charts of docs/benchmarks.md.

    python benches/peers/run.py                 all workloads and peers, one and two threads: about an hour
    python benches/peers/run.py --quick         what starts fast, short turns: under eight minutes
    python benches/peers/run.py --only w4,w13   these workloads; the page keeps its other rows

Everything that is downloaded, built or drawn lies in --work. What could not be had is named on the page. Peers take
turns in each cell, so that what slows the machine slows all of them; a time is the least of the medians of the turns.
A peer whose first losses differ from ours has no time. Only the standard library is used here.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORKLOADS = ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w10", "w11", "w12", "w13", "w14", "w15", "w16", "resnet18"]
# What a quick run leaves out: data of half a gigabyte, steps of a second.
LONG = ["w7"]
IMAGES = ("w4", "w5", "w13", "resnet18")
# Names of peers, and the workloads that they run.
PEERS = {
    "torch eager": WORKLOADS,
    "torch channels-last": IMAGES,
    "torch sparse": ("w15",),
    "torch forward": ("w14",),
    "torch compile": [w for w in WORKLOADS if w not in ("w8", "w14", "w16")],
    "jax jit": WORKLOADS,
}
# The largest relative differences of the first loss, and of the first five. Dropout is drawn otherwise by each, and the
# updates of a deep network from a few images multiply what is rounded.
FIRST, FIVE = {"w11": 0.05}, {"w11": 0.05, "resnet18": 0.05}
FIRST_LOSS, FIVE_LOSSES = 2e-4, 5e-3


def cores(threads: int) -> set[int]:
    """The cores of a cell: the last one, or the first ones."""
    own = sorted(os.sched_getaffinity(0))
    return {own[-1]} if threads == 1 else set(own[:threads])


class Worker:
    """A peer that waits for turns."""

    def __init__(self, options: argparse.Namespace, peer: str, workload: str, threads: int) -> None:
        kind, variant = peer.split(" ", 1)
        script = {"torch": "torch_worker.py", "jax": "jax_worker.py"}[kind]
        file = options.work / "data" / f"{workload}.safetensors"
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(options.work / "inductor"),
            "JAX_COMPILATION_CACHE_DIR": str(options.work / "xla"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "OMP_NUM_THREADS": str(threads),
        }
        command = [str(options.python), str(HERE / script), workload, variant, str(threads), str(file)]
        self.log = (options.work / "log.txt").open("a")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=os.environ | caches,
            preexec_fn=lambda: os.sched_setaffinity(0, cores(threads)),
        )
        self.peak = 0

    def hear(self) -> dict:
        """The next line."""
        line = self.process.stdout.readline()
        return json.loads(line) if line.startswith("{") else {"error": "it ended without an answer"}

    def turn(self, seconds: float) -> dict:
        """A turn of so many seconds."""
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self) -> dict:
        """The memory that it took."""
        self.process.stdin.close()
        said = self.hear()
        _, _, usage = os.wait4(self.process.pid, 0)
        self.log.close()
        return said | {"peak_bytes": 1024 * usage.ru_maxrss}


def ours(options: argparse.Namespace, workload: str, threads: int, seconds: float) -> dict:
    """A turn of our program."""
    command = [str(options.arenagrad), "bench", "--json", "--workloads", workload, "--threads", str(threads)]
    command += ["--seconds", str(seconds), "--data", str(options.work / "data")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores(threads))
    )
    text = process.stdout.read()
    _, code, usage = os.wait4(process.pid, 0)
    if code != 0:
        return {"error": f"it ended with {code}"}
    row = json.loads(text)
    return {
        "median_ms": row["step_us_p50"] / 1e3,
        "least_ms": row["step_us_min"] / 1e3,
        "losses": row["first_losses"],
        "first_step_s": (row["compile_ms"] + row["first_step_ms"]) / 1e3,
        "grown_bytes": row["rss_growth_bytes"],
        "arena_bytes": row["arena_bytes"],
        "bound_bytes": row["arena_lower_bound_bytes"],
        "peak_bytes": 1024 * usage.ru_maxrss,
        "floor_share": row["roofline_share"],
        "allocs_per_step": row["allocs_per_step"],
    }


def gap(one: list[float], other: list[float]) -> float:
    """The largest relative difference of two lists of losses."""
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(one, other, strict=True))


def keep(result: dict, said: dict) -> None:
    """Adds a turn to what a peer has."""
    if "error" in said:
        result["error"] = said["error"]
        return
    for key in ("median_ms", "least_ms"):
        if key in said:
            result[key] = min(result.get(key, said[key]), said[key])
    for key, value in said.items():
        result.setdefault(key, value)


def cell(options: argparse.Namespace, workload: str, threads: int) -> dict[str, dict]:
    """The results of all peers on a workload."""
    names = [p for p, own in PEERS.items() if p in options.peers and workload in own]
    workers = {p: Worker(options, p, workload, threads) for p in names}
    results: dict[str, dict] = {"arenagrad": {}} | {p: w.hear() for p, w in workers.items()}
    keep(results["arenagrad"], ours(options, workload, threads, 0))
    own = results["arenagrad"]
    for key in ("median_ms", "least_ms"):
        own.pop(key, None)
    for result in results.values():
        if "losses" in result and "losses" in own:
            result["gap"] = gap(result["losses"], own["losses"])
            first = gap(result["losses"][:1], own["losses"][:1])
            if not (first <= FIRST.get(workload, FIRST_LOSS) and result["gap"] <= FIVE.get(workload, FIVE_LOSSES)):
                result["error"] = f"its losses differ from ours by {first:.1e}, then {result['gap']:.1e}"
    for _ in range(options.turns):
        keep(own, ours(options, workload, threads, options.seconds))
        for p, w in workers.items():
            if "error" not in results[p]:
                keep(results[p], w.turn(options.seconds))
    for p, w in workers.items():
        memory = w.end()
        if "error" not in results[p]:
            keep(results[p], memory)
    return results


def have(options: argparse.Namespace) -> list[str]:
    """Makes the environment, the data and our program. Returns what could not be had."""
    options.work.mkdir(parents=True, exist_ok=True)
    (options.work / "log.txt").write_text("")
    lacking = []
    if options.arenagrad is None:
        build = ["cargo", "build", "--release", "-p", "arenagrad-cli", "--message-format", "json-render-diagnostics"]
        lines = subprocess.run(build, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        made = [json.loads(x).get("executable") for x in lines]
        options.arenagrad = pathlib.Path(next(x for x in made if x))
    if options.python is None:
        options.python = options.work / "venv" / "bin" / "python"
    if not options.python.exists():
        tool = str(ROOT / "python" / "tools" / "torch_venv.py")
        subprocess.run([sys.executable, tool, str(options.work / "venv")], check=True)
        pip = [str(options.python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")]
        subprocess.run(pip, check=True)
    for module in ("torch", "jax"):
        found = subprocess.run([str(options.python), "-c", f"import {module}"], capture_output=True, check=False)
        if found.returncode != 0:
            lacking.append(f"{module} (it cannot be imported)")
            options.peers = [p for p in options.peers if not p.startswith(module)]
    data = [str(options.python), str(HERE / "make_data.py"), str(options.work / "data"), *options.only]
    subprocess.run(data, check=True)
    return lacking


def machine() -> dict[str, str]:
    """The processor and the versions of what builds."""
    names = [x for x in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")]
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    wide = "AVX-512" if " avx512f " in flags else "AVX2" if " avx2 " in flags else platform.machine()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    name = names[0].split(":")[1].strip() if names else platform.machine()
    return {"cpu": f"{name}, {os.cpu_count()} cores, {wide}", "commit": commit.stdout.strip()}


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target" / "peers", help="folder of all that is made")
    parser.add_argument("--python", type=pathlib.Path, help="a python that has the peers [default: one is made in --work]")
    parser.add_argument("--arenagrad", type=pathlib.Path, help="our program [default: it is built]")
    parser.add_argument("--quick", action="store_true", help="no torch.compile, no w7, three short turns")
    parser.add_argument("--only", help="workloads, separated by commas")
    parser.add_argument("--peers", default="torch,jax", help="peers, by how their names begin")
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--turns", type=int, help="turns of each peer")
    parser.add_argument("--seconds", type=float, help="length of a turn")
    parser.add_argument("--until", type=float, help="begin no cell after this many seconds [default: 420 if quick]")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    asked = tuple(options.peers.split(","))
    options.peers = [p for p in PEERS if p.startswith(asked) and not (options.quick and p == "torch compile")]
    options.turns = options.turns or (3 if options.quick else 8)
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    options.until = options.until or (420.0 if options.quick else float("inf"))
    options.partial = options.only is not None
    options.only = options.only.split(",") if options.only else [w for w in WORKLOADS if not (options.quick and w in LONG)]
    options.threads = [int(t) for t in options.threads.split(",")]
    if not options.page.is_file():
        parser.error(f"--page {options.page}: there is no such page to write the tables into; copy docs/benchmarks.md")
    for unknown in set(options.only) - set(WORKLOADS):
        parser.error(f"no workload is called {unknown}; there are {', '.join(WORKLOADS)}")
    for count in options.threads:
        if count > len(os.sched_getaffinity(0)):
            parser.error(f"{count} threads are more than the {len(os.sched_getaffinity(0))} cores of this process")
    return options


def main() -> None:
    """Measures, keeps the results in --work/results.json, and writes the page."""
    options = arguments()
    lacking = have(options)
    lacking += ["torch compile (left out by --quick)"] if options.quick else []
    lacking += ["RLX, candle and burn (no script of theirs is here)"]
    file = options.work / "results.json"
    cells = json.loads(file.read_text())["cells"] if options.partial and file.exists() else {}
    start = time.monotonic()
    for workload in options.only:
        for threads in options.threads:
            if time.monotonic() - start > options.until:
                lacking.append(f"{workload} on {threads} threads (no time was left)")
                continue
            results = cell(options, workload, threads)
            cells[f"{workload} {threads}"] = results
            told = [f"{p} {r.get('median_ms', float('nan')):.4g}" for p, r in results.items()]
            print(f"{time.monotonic() - start:5.0f} s  {workload} {threads}: {', '.join(told)} ms", flush=True)
            for p, r in results.items():
                if "error" in r:
                    print(f"         {p}: {r['error']}", flush=True)
    run = {"machine": machine(), "lacking": lacking, "quick": options.quick, "cells": cells}
    file.write_text(json.dumps(run, indent=1))
    subprocess.run([str(options.python), str(HERE / "page.py"), str(file), str(options.page)], check=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
