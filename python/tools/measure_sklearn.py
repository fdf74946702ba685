"""The estimators beside scikit-learn's, on one thread: `partial_fit` of one example, and `fit` on the digits."""

from __future__ import annotations

import time
import warnings
from typing import Any, Callable

import numpy as np
from sklearn import neural_network
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import arenagrad.sklearn


def best(f: Callable[[], object], calls: int, rounds: int) -> float:
    """The least mean time of a call, in seconds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        least = min(least, (time.perf_counter() - start) / calls)
    return least


def one_more(kind: Any, x: np.ndarray, y: np.ndarray, calls: int) -> float:
    """The time of `partial_fit` on one example."""
    net = kind(random_state=0)
    net.partial_fit(x[:1], y[:1], classes=np.arange(10))
    a, b = x[1:2].copy(), y[1:2].copy()
    return best(lambda: net.partial_fit(a, b), calls, 10)


def main() -> None:
    warnings.simplefilter("ignore")
    images, y = load_digits(return_X_y=True)
    ours, theirs = arenagrad.sklearn.MLPClassifier, neural_network.MLPClassifier
    for dtype in (np.float64, np.float32):
        x = (images / 16).astype(dtype)
        a, b = one_more(ours, x, y, 2000), one_more(theirs, x, y, 200)
        print(f"{dtype.__name__} partial_fit, 1 example: {a * 1e6:6.1f} µs, {b * 1e6:6.1f} µs, {a / b:.3f} ×")
        nets = [kind(random_state=0) for kind in (ours, theirs)]
        a, b = (best(lambda net=net: net.fit(x, y), 1, 4) for net in nets)  # type: ignore[misc]
        print(f"{dtype.__name__} fit, digits: {a * 1e3:6.1f} ms, {b * 1e3:6.1f} ms, {a / b:.3f} ×")
        print(f"{dtype.__name__} losses and epochs: {[(net.loss_, net.n_iter_) for net in nets]}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
