"""Answers of one network by PyTorch and by arenagrad, in turn: p50 and p99 of one thread, milliseconds.

    cargo build --release --example serve
    python benches/peers/serve_torch.py target/release/examples/serve --width 2048 --seconds 5

Both compute the same layers in f32 on one thread; their weights are random. The rounds alternate, so that what else
the machine does meets both.
"""

import argparse
import re
import subprocess
import time


def torch_times(width, seconds):
    import torch

    torch.set_num_threads(1)
    layers = [m for _ in range(3) for m in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).eval()
    x, times = torch.empty(1, width), []
    with torch.inference_mode():
        for _ in range(5):
            net(x.fill_(0.5))
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            asked = time.perf_counter()
            y = net(x.fill_(len(times) % 7))
            float(y[0, 0])
            times.append(time.perf_counter() - asked)
    times.sort()
    return [1e3 * times[int((len(times) - 1) * q)] for q in (0.5, 0.99)]


def own_times(program, width, seconds):
    text = subprocess.run([program, str(width), "1", str(seconds)], capture_output=True, text=True, check=True).stdout
    line = text.splitlines()[-1]
    scale = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}
    found = [re.search(rf"{q} ([0-9.]+)(s|ms|µs|ns)", line) for q in ("p50", "p99")]
    return [float(m[1]) * scale[m[2]] for m in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the example `serve`, built for release")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    for i in range(a.rounds):
        torch, own = torch_times(a.width, a.seconds), own_times(a.program, a.width, a.seconds)
        print(f"round {i}: torch p50 {torch[0]:.3f} p99 {torch[1]:.3f}; arenagrad p50 {own[0]:.3f} p99 {own[1]:.3f}")
