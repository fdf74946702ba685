"""What the workers of peers share: they build a step, warm it up, and then time it whenever they are told to.

A worker says one line of JSON when it is ready. For each line `SECONDS` on standard input it runs steps for so long and
says their times; when standard input ends, it says how much memory it took.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable

# Steps before the timed ones: the losses of the first are compared.
LOSSES = 5
WARMUP = 20
# Seconds after which no more of them are begun, once the losses are there.
WARMUP_LIMIT = 1.0
# The fewest steps of a turn.
LEAST = 2


def status(key: str) -> int:
    """A figure of this process in bytes, or 0 where the system does not tell it."""
    try:
        with open("/proc/self/status", encoding="utf-8") as lines:
            return next(1024 * int(x.split()[1]) for x in lines if x.startswith(key + ":"))
    except (OSError, StopIteration):
        return 0


def arguments() -> argparse.Namespace:
    """The worker's arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("variant")
    parser.add_argument("threads", type=int)
    parser.add_argument("file", help="params and batches")
    return parser.parse_args()


def say(**what: object) -> None:
    """One line of JSON."""
    print(json.dumps(what), flush=True)


def turn(step: Callable[[], float], seconds: float) -> None:
    """Runs steps for so many seconds and says how long they took."""
    times, cpu, start = [], time.process_time(), time.perf_counter()
    while len(times) < LEAST or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - before))
    cpu = 1e3 * (time.process_time() - cpu) / len(times)
    say(median_ms=statistics.median(times), least_ms=min(times), cpu_ms=cpu, steps=len(times))


def serve(build: Callable[[], tuple[Callable[[], float], int]], version: str, imported: int) -> None:
    """Builds a step, whose result is the loss, and answers. `build` gives the step and the bytes of the batches;
    `imported` is the memory before it."""
    try:
        start = time.perf_counter()
        step, batches = build()
        losses = [step()]
        first = time.perf_counter() - start
        start = time.perf_counter()
        losses += [step() for _ in range(1, LOSSES)]
        steps = LOSSES
        while steps < WARMUP and time.perf_counter() - start < WARMUP_LIMIT:
            step()
            steps += 1
    except Exception as error:  # a peer that cannot run is a cell of the page, not the end of the run
        say(error=f"{type(error).__name__}: {error}".splitlines()[0][:300])
        return
    gc.collect()
    gc.freeze()
    try:
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as reset:
            reset.write("5")
    except OSError:
        pass
    say(version=version, losses=losses, first_step_s=first)
    for line in sys.stdin:
        turn(step, float(line))
    say(grown_bytes=max(0, status("VmHWM") - imported - batches))
