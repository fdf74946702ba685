"""The figures of the package: time to import, overhead of calls, growth over many steps. Run it in a quiet moment."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import tracemalloc
from typing import Callable

import numpy as np

import arenagrad as ag


def best(f: Callable[[], object], calls: int = 20_000, rounds: int = 20) -> float:
    """The least mean time of a call, in nanoseconds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        least = min(least, (time.perf_counter() - start) / calls)
    return least * 1e9


def imported() -> float:
    """The least time to import the package, in milliseconds, of ten processes."""
    code = "import time; t = time.perf_counter(); import arenagrad; print((time.perf_counter() - t) * 1e3)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(10)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    with ag.build("small") as b:
        b.output("y", b.input("x", (1, 4)) * 2.0 + b.input("z", (1, 4)))
    p = ag.compile(b.graph)
    a = np.ones((1, 4), np.float32)
    p.step(x=a, z=a)
    print(f"import                 {imported():8.2f} ms")
    print(f"an empty call          {best(lambda: None):8.0f} ns")
    print(f"step()                 {best(p.step):8.0f} ns")
    print(f"step(x=…, z=…)         {best(lambda: p.step(x=a, z=a)):8.0f} ns")
    print(f"inputs['x']            {best(lambda: p.inputs['x']):8.0f} ns")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000_000):
        p.step(x=a, z=a)
    print(f"growth of 10⁶ steps    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before:8} KiB of memory")
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(100_000):
        p.step(x=a, z=a)["y"]
    print(f"growth of 10⁵ steps    {tracemalloc.get_traced_memory()[0] - start:8} bytes of objects")


if __name__ == "__main__":
    main()
