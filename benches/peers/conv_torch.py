"""Convolutions in PyTorch, beside those of `cargo bench -p arenagrad-benches --bench conv -- --json`.

    cargo bench -p arenagrad-benches --bench conv -- --json > ours.jsonl
    python benches/peers/conv_torch.py ours.jsonl

reads lines of JSON, times the same convolutions in both memory layouts (contiguous and channels last) with as many
threads, and prints the ratio of our time to the better layout. `--keep FILE` stores the times of PyTorch and reads
those that are stored. A time is the least of many calls.
"""

import argparse
import json
import math
import pathlib
import time

import torch

# Seconds for which a convolution is called again.
SECONDS = 0.03
MASKS = {"input": [True, False, False], "weight": [False, True, False]}


def call_of(case: dict, layout: torch.memory_format):
    """The convolution, or one of its gradients, as a function without arguments."""
    top, bottom, left, right = case["pad"]
    x = torch.randn(case["n"], case["c_in"], case["h"], case["w"]).to(memory_format=layout)
    w = torch.randn(case["c_out"], case["c_in"] // case["groups"], case["kh"], case["kw"]).to(memory_format=layout)
    pad = [max(top, bottom), max(left, right)]
    args = (case["stride"], pad, [1, 1], False, [0, 0], case["groups"])
    if case["pass"] == "forward":
        return lambda: torch.ops.aten.convolution(x, w, None, *args)
    dy = torch.ops.aten.convolution(x, w, None, *args)
    mask = MASKS[case["pass"]]
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *args, mask)


def least_ms(call, seconds: float = SECONDS) -> float:
    """The least time of a call in milliseconds, of those of some seconds."""
    for _ in range(3):
        call()
    end, best, calls = time.perf_counter() + seconds, math.inf, 0
    while calls < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best, calls = min(best, time.perf_counter() - start), calls + 1
    return 1e3 * best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path, help="lines of JSON of the bench")
    parser.add_argument("--keep", type=pathlib.Path, help="file of times of PyTorch")
    options = parser.parse_args()
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    ratios = []
    for line in options.ours.read_text().splitlines():
        case = json.loads(line)
        torch.set_num_threads(case["threads"])
        key = f"{case['shape']} {case['pass']} {case['threads']}"
        if key not in kept:
            with torch.no_grad():
                layouts = (torch.contiguous_format, torch.channels_last)
                kept[key] = [least_ms(call_of(case, layout)) for layout in layouts]
        plain, last = kept[key]
        ratios.append(case["ms"] / min(plain, last))
        print(f"{key:44} ours {case['ms']:9.4f} ms {case['gflops']:7.1f} GFLOP/s  "
              f"contiguous {plain:9.4f}  channels last {last:9.4f}  ratio {ratios[-1]:5.2f}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {max(ratios):.2f}, {sum(r > 1 for r in ratios)} of {len(ratios)} above 1")
    if options.keep:
        options.keep.write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
