"""Multi-layer perceptrons at several numbers of rows, with the formulas of scikit-learn.

Invariant: all programs of a `Net` hold the same params; those of `Net.current` are the newest.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, NamedTuple

import numpy as np

from ._arenagrad import Build, Graph, Program, Var
from ._compile import compile

#: Most programs that a net keeps for numbers of rows that come again.
KEPT = 8
#: Most rows of one run of a prediction.
CHUNK = 1024

TYPES = {"f32": np.float32, "f64": np.float64}


class Spec(NamedTuple):
    """What a net's graphs are made from."""

    units: tuple[int, ...]
    dtype: str
    activation: str
    out: str
    alpha: float
    solver: str
    momentum: float
    nesterov: bool
    beta_1: float
    beta_2: float
    epsilon: float

    @property
    def names(self) -> list[str]:
        """The params: all coefficients, then all intercepts."""
        layers = range(len(self.units) - 1)
        return [f"coef{i}" for i in layers] + [f"intercept{i}" for i in layers]


_ACTIVATIONS: dict[str, Any] = {
    "identity": lambda x: x,
    "relu": lambda x: x.relu(),
    "tanh": lambda x: x.tanh(),
    "logistic": lambda x: x.sigmoid(),
    "softmax": lambda x: x.softmax(axis=-1),
    "exp": lambda x: x.exp(),
}


def _activate(x: Var, kind: str) -> Var:
    activate: Callable[[Var], Var] = _ACTIVATIONS[kind]
    return activate(x)


def _through(delta: Var, y: Var, kind: str) -> Var:
    """The gradient by the sum before an activation, from that by its result `y`."""
    if kind == "relu":
        return (y > 0.0).select(delta, 0.0)
    if kind == "tanh":
        return delta * (1.0 - y * y)
    if kind == "logistic":
        return delta * (y * (1.0 - y))
    return delta


def _forward(b: Build, spec: Spec, rows: int) -> tuple[list[Var], list[Var], Var]:
    """Params, the values of all layers but the last one, and the last sums."""
    sizes = list(zip(spec.units, spec.units[1:]))
    weights = [b.param(f"coef{i}", size, dtype=spec.dtype) for i, size in enumerate(sizes)]
    biases = [b.param(f"intercept{i}", (n,), dtype=spec.dtype) for i, n in enumerate(spec.units[1:])]
    values = [b.input("x", (rows, spec.units[0]), spec.dtype)]
    for w, c in zip(weights[:-1], biases):
        values.append(_activate(values[-1] @ w + c, spec.activation))
    return weights + biases, values, values[-1] @ weights[-1] + biases[-1]


def _errors(z: Var, y: Var, out: str) -> tuple[Var, Var]:
    """The loss of each element, from the last sums, and its gradient by them."""
    if out == "softmax":
        logs = z.log_softmax(axis=-1)
        return -(y * logs), logs.exp() - y
    if out == "logistic":
        return z.softplus() - y * z, z.sigmoid() - y
    if out == "exp":
        mean = z.exp()
        return y.xlogy(y) - y * z - y + mean, mean - y
    return (z - y).square() * (0.5 / y.shape[1]), z - y


def _loss_and_gradients(
    b: Build, spec: Spec, rows: int, weighted: bool, bare: bool
) -> tuple[list[Var], Var, list[Var]]:
    """Params, the loss with its L2 term, and the gradients of the params; if `bare`, those of the loss without it."""
    params, values, z = _forward(b, spec, rows)
    layers = len(params) // 2
    y = b.input("y", (rows, spec.units[-1]), spec.dtype)
    errors, delta = _errors(z, y, spec.out)
    squares = params[0].square().sum()
    for w in params[1:layers]:
        squares = squares + w.square().sum()
    if weighted:
        weight = b.input("weight", (rows, 1), spec.dtype)
        share = 1.0 / weight.sum()
        errors, delta = errors * weight, delta * weight
        loss = errors.sum() * share + squares * (0.5 * spec.alpha) * share
        scaled = delta * share
        decay: Any = share * spec.alpha
    else:
        loss = errors.sum() * (1.0 / rows) + squares * (0.5 * spec.alpha / rows)
        scaled = delta * (1.0 / rows)
        decay = spec.alpha / rows
    coefs: list[Var] = []
    intercepts: list[Var] = []
    for i in reversed(range(layers)):
        gradient = values[i].matmul(scaled, ta=True)
        coefs.insert(0, gradient if bare else gradient + params[i] * decay)
        intercepts.insert(0, scaled.sum(0))
        if i > 0:
            scaled = _through(scaled.matmul(params[i], tb=True), values[i], spec.activation)
    return params, loss, coefs + intercepts


def _state(b: Build, name: str, like: Var) -> Var:
    return b.state(name, like.shape, dtype=like.dtype)


def step_graph(spec: Spec, rows: int, weighted: bool) -> Graph:
    """One step of a solver on `rows` examples. The input `rate` is the step's size; for Adam it has the corrections."""
    b = Build("step")
    # The update of Adam adds the L2 term itself, where it is a number.
    fused = spec.solver == "adam" and not weighted
    decay = spec.alpha / rows
    params, loss, gradients = _loss_and_gradients(b, spec, rows, weighted, fused)
    if spec.solver == "lbfgs":
        named = {f"grad.{name}": g for name, g in zip(spec.names, gradients)}
        return b.finish(loss=loss, **named)
    rate = b.input("rate", (), spec.dtype)
    late = b.constant(2**60, "i64")
    for name, p, g in zip(spec.names, params, gradients):
        if spec.solver == "sgd":
            velocity = _state(b, f"velocity.{name}", p)
            faster = velocity * spec.momentum - g * rate
            b.update(velocity, faster)
            b.update(p, p + (faster * spec.momentum - g * rate if spec.nesterov else faster))
        else:
            first, second = _state(b, f"first.{name}", p), _state(b, f"second.{name}", p)
            shrink = decay if fused and name.startswith("coef") else 0.0
            betas = {"beta1": spec.beta_1, "beta2": spec.beta_2}
            # The rate has Adam's corrections already; after so many steps the op makes none.
            ends = p.adam(g, first, second, rate, late, **betas, eps=spec.epsilon, weight_decay=shrink, decoupled=False)
            for leaf, end in zip((p, first, second), ends):
                b.update(leaf, end)
    return b.finish(loss=loss)


def predict_graph(spec: Spec, rows: int) -> Graph:
    """The last layer's values of `rows` examples."""
    b = Build("predict")
    z = _forward(b, spec, rows)[2]
    return b.finish(y=_activate(z, spec.out))


class Method:
    """A method of a program, with the arrays of its inputs and outputs in the program's memory."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.inputs = dict(program.inputs_of(name).items())
        self.outputs = dict(program.outputs_of(name).items())
        self.x = self.inputs["x"]
        # Absent ones are not asked for.
        self.y: Any = self.inputs.get("y")
        self.weight: Any = self.inputs.get("weight")
        self.rate: Any = self.inputs.get("rate")
        self.loss: Any = self.outputs.get("loss")

    def run(self) -> None:
        """Runs the method on what stands in its inputs."""
        self.program.run(self.name)


class Steps:
    """The program of steps for some numbers of rows."""

    def __init__(self, spec: Spec, sizes: tuple[int, ...], weighted: bool, threads: int) -> None:
        graphs = {f"rows{n}": step_graph(spec, n, weighted) for n in sizes}
        self.program = compile(graphs, threads=threads)
        self.program.init(0)
        self.methods = {n: Method(self.program, f"rows{n}") for n in sizes}


class Net:
    """A network's params and the state of its solver, in programs for the numbers of rows that were asked for."""

    def __init__(self, spec: Spec, threads: int, values: dict[str, np.ndarray]) -> None:
        self.spec, self.threads = spec, threads
        self.values = values
        self.current: Steps | None = None
        self.steps: dict[tuple[tuple[int, ...], bool], Steps] = {}
        self.predictors: dict[int, Method] = {}
        # Several threads may predict by one net; its programs run for one at a time.
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "threads": self.threads, "values": self.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Net.__init__(self, state["spec"], state["threads"], state["values"])

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all params and of the solver's state."""
        if self.current is None:
            return {name: value.copy() for name, value in self.values.items()}
        return self.current.program.state_dict()

    def params(self) -> list[np.ndarray]:
        """The params in the memory of the newest program: a change of them is a change of the net."""
        held: Any = self.values if self.current is None else self.current.program.params
        return [held[name] for name in self.spec.names]

    def restart(self) -> None:
        """Forgets the solver's state."""
        for name, value in self._states().items():
            value[...] = 0

    def _states(self) -> dict[str, np.ndarray]:
        if self.current is not None:
            return dict(self.current.program.states.items())
        return {name: value for name, value in self.values.items() if name not in self.spec.names}

    def stepping(self, sizes: tuple[int, ...], weighted: bool) -> Steps:
        """The program of steps on these numbers of rows, with the newest params."""
        key = (sizes, weighted)
        steps = self.steps.pop(key, None)
        if steps is None:
            steps = Steps(self.spec, sizes, weighted, self.threads)
            if len(self.steps) >= KEPT:
                oldest = next(k for k, kept in self.steps.items() if kept is not self.current)
                del self.steps[oldest]
        self.steps[key] = steps
        if steps is not self.current:
            self._move(steps)
        return steps

    def _move(self, to: Steps) -> None:
        held = self.values
        if self.current is not None:
            program = self.current.program
            held = {**dict(program.params.items()), **dict(program.states.items())}
        for views in (to.program.params, to.program.states):
            for name, view in views.items():
                view[...] = held.get(name, 0)
        self.current = to
        self.values = {}

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The last layer's values. Runs have a power of two of rows; rows after the last one are zero."""
        with self.lock:
            return self._predict(x)

    def _predict(self, x: np.ndarray) -> np.ndarray:
        total = x.shape[0]
        result = np.empty((total, self.spec.units[-1]), TYPES[self.spec.dtype])
        rows = min(CHUNK, 1 << (total - 1).bit_length())
        method = self._predictor(rows)
        for start in range(0, total, rows):
            n = min(rows, total - start)
            method.x[:n] = x[start : start + n]
            method.x[n:] = 0
            method.run()
            result[start : start + n] = method.outputs["y"][:n]
        return result

    def _predictor(self, rows: int) -> Method:
        method = self.predictors.get(rows)
        if method is None:
            program = compile({"predict": predict_graph(self.spec, rows)}, threads=self.threads)
            program.init(0)
            method = self.predictors[rows] = Method(program, "predict")
        views = method.program.params
        for name, value in zip(self.spec.names, self.params()):
            views[name][...] = value
        return method

    def loss_and_gradients(self, method: Method, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss at params that lie one after the other, and its gradients."""
        self.unpack(flat)
        method.run()
        gradients = [method.outputs[f"grad.{name}"].ravel() for name in self.spec.names]
        return float(method.loss), np.concatenate(gradients).astype(np.float64)

    def pack(self) -> np.ndarray:
        """All params, one after the other."""
        return np.concatenate([p.ravel() for p in self.params()]).astype(np.float64)

    def unpack(self, flat: np.ndarray) -> None:
        """Writes all params from one array."""
        at = 0
        for p in self.params():
            p[...] = flat[at : at + p.size].reshape(p.shape)
            at += p.size
