"""Estimators of scikit-learn that train here: `MLPClassifier` and `MLPRegressor`.

They take scikit-learn's constructor arguments, have its attributes and its formulas, and start from the same weights
for the same `random_state`. `threads` is new. Needs scikit-learn 1.7 or newer: `pip install arenagrad[sklearn]`.

>>> import numpy as np
>>> from arenagrad.sklearn import MLPClassifier
>>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
>>> net = MLPClassifier((8,), solver="lbfgs", random_state=1).fit(x, [0, 1, 1, 0])
>>> net.predict(x).tolist()
[0, 1, 1, 0]
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import neural_network
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._estimators import constructor, dense, has_steps, inputs, refuse_no_weight
from ._perceptron import TYPES, Method, Net, Spec

__all__ = ["MLPClassifier", "MLPRegressor"]

_COUNT = Interval(Integral, 1, None, closed="left")


class _Ready:
    """What `partial_fit` on one more example needs, once everything is checked and compiled."""

    def __init__(self, method: Method, classes: Any) -> None:
        self.method, self.classes = method, classes
        self.dtype, self.shape = method.x.dtype, method.x.shape
        self.run, self.name = method.program.run, method.name


class _Perceptron:
    """What both estimators share."""

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("_ready", None)
        object.__setattr__(self, name, value)

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_ready"}

    def _weights(self) -> list[np.ndarray]:
        net = self.__dict__.get("_net")
        if net is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet, so it has no weights")
        return net.params()

    @property
    def coefs_(self) -> list[np.ndarray]:
        """The weights of each layer, [inputs, outputs], in the program's memory."""
        params = self._weights()
        return params[: len(params) // 2]

    @property
    def intercepts_(self) -> list[np.ndarray]:
        """The biases of each layer, in the program's memory."""
        params = self._weights()
        return params[len(params) // 2 :]

    # What both fits do.

    def _checked_params(self: Any) -> list[int]:
        self._validate_params()
        hidden = self.hidden_layer_sizes
        sizes = [int(n) for n in (hidden if hasattr(hidden, "__iter__") else [hidden])]
        if any(n <= 0 for n in sizes):
            raise ValueError(f"hidden_layer_sizes must be > 0, got {sizes}.")
        return sizes

    def _fit_all(self: Any, x: Any, y: Any, sample_weight: Any, incremental: bool) -> Any:
        sizes = self._checked_params()
        if incremental and self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")
        first = "_net" not in self.__dict__ or not (self.warm_start or incremental)
        x, y = self._checked_data(x, y, incremental, first)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, x, dtype=x.dtype)
        if y.ndim == 1:
            y = y.reshape(-1, 1)
        self.n_outputs_ = y.shape[1]
        units = (x.shape[1], *sizes, y.shape[1])
        self._random_state = check_random_state(self.random_state)
        if first:
            self._start(units, x.dtype)
        else:
            self._go_on(units)
        dtype = TYPES[self._net.spec.dtype]
        x, y = np.ascontiguousarray(x, dtype), np.ascontiguousarray(y, dtype)
        if sample_weight is not None:
            sample_weight = sample_weight.astype(dtype, copy=False)
        if self.solver == "lbfgs":
            self._fit_lbfgs_here(x, y, sample_weight)
        else:
            self._fit_steps(x, y, sample_weight, incremental)
        self._check_weights()
        return self

    def _check_weights(self) -> None:
        if not all(np.isfinite(w).all() for w in self._weights()):
            raise ValueError("Solver produced non-finite parameter weights: scale the input data, or lower the rate.")

    def _spec(self: Any, units: tuple[int, ...], dtype: str) -> Spec:
        numbers = (float(x) for x in (self.beta_1, self.beta_2, self.epsilon))
        nesterov = bool(self.nesterovs_momentum)
        out = self.out_activation_
        alpha, momentum = float(self.alpha), float(self.momentum)
        return Spec(units, dtype, self.activation, out, alpha, self.solver, momentum, nesterov, *numbers)

    def _start(self: Any, units: tuple[int, ...], dtype: Any) -> None:
        """New weights, after Glorot."""
        self.n_iter_ = self.t_ = 0
        self.n_layers_ = len(units)
        self.out_activation_ = self._out()
        kind = "f32" if dtype == np.float32 else "f64"
        values: dict[str, np.ndarray] = {}
        for i, (m, n) in enumerate(zip(units, units[1:])):
            bound = math.sqrt((2.0 if self.activation == "logistic" else 6.0) / (m + n))
            values[f"coef{i}"] = self._random_state.uniform(-bound, bound, (m, n)).astype(TYPES[kind])
            values[f"intercept{i}"] = self._random_state.uniform(-bound, bound, n).astype(TYPES[kind])
        self._net = Net(self._spec(units, kind), self.threads, values)
        self._updates = 0
        self._rate = float(self.learning_rate_init)
        if self.solver != "lbfgs":
            self._new_account()

    def _new_account(self: Any) -> None:
        self.loss_curve_: list[float] = []
        self._stalled = 0
        self.best_loss_ = None if self.early_stopping else np.inf
        self.validation_scores_: Any = [] if self.early_stopping else None
        self.best_validation_score_ = -np.inf if self.early_stopping else None

    def _go_on(self: Any, units: tuple[int, ...]) -> None:
        """Keeps the weights, with the arguments as they are now."""
        old = self._net.spec
        if units != old.units:
            raise ValueError(f"the layers were {old.units} and are {units}: weights of another shape cannot go on")
        spec = self._spec(units, old.dtype)
        kept_scores = self.__dict__.get("validation_scores_") is not None
        if self.solver != "lbfgs" and ("loss_curve_" not in self.__dict__ or kept_scores != self.early_stopping):
            self._new_account()
        if spec == old and self.threads == self._net.threads:
            return
        kept = self._net.snapshot()
        self._net = Net(spec, self.threads, kept if spec.solver == old.solver else {n: kept[n] for n in spec.names})

    # Solvers.

    def _fit_lbfgs_here(self: Any, x: Any, y: Any, weight: Any) -> None:
        from scipy.optimize import minimize

        method = self._net.stepping((len(x),), weight is not None).methods[len(x)]
        method.x[...], method.y[...] = x, y
        if weight is not None:
            refuse_no_weight(weight)
            method.weight[...] = weight.reshape(-1, 1)
        found = minimize(
            lambda flat: self._net.loss_and_gradients(method, flat),
            self._net.pack(),
            method="L-BFGS-B",
            jac=True,
            options={"maxfun": self.max_fun, "maxiter": self.max_iter, "gtol": self.tol},
        )
        self._net.unpack(found.x)
        self.n_iter_ = min(int(found.nit), self.max_iter)
        self.loss_ = float(found.fun)
        if self.verbose:
            print(f"L-BFGS: {found.nit} iterations, loss = {self.loss_:.8f}")
        if found.status != 0:
            advice = "raise max_iter or scale the data"
            warnings.warn(f"lbfgs failed to converge: {found.message}: {advice}", ConvergenceWarning, stacklevel=4)

    def _split(self: Any, x: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
        """The examples to learn, and those of the validation: rows, targets, weights."""
        if not self.early_stopping:
            return x, y, weight, None
        labels = y if is_classifier(self) and self.n_outputs_ == 1 else None
        arrays = (x, y) if weight is None else (x, y, weight)
        size = self.validation_fraction
        parts = train_test_split(*arrays, random_state=self._random_state, test_size=size, stratify=labels)
        if len(parts[1]) < 2:
            raise ValueError("The validation set is too small: raise validation_fraction or give more examples.")
        held = self._targets(parts[3])
        if weight is None:
            return parts[0], parts[2], None, (parts[1], held, None)
        return parts[0], parts[2], parts[4], (parts[1], held, parts[5])

    def _rows(self: Any, n: int) -> int:
        if self.batch_size == "auto":
            return min(200, n)
        if self.batch_size > n:
            warnings.warn(f"batch_size is {self.batch_size} and there are {n} examples: it is {n} here", stacklevel=5)
        return min(int(self.batch_size), n)

    def _fit_steps(self: Any, x: Any, y: Any, weight: Any, incremental: bool) -> None:
        if not incremental:
            self._updates, self._rate = 0, float(self.learning_rate_init)
            self._net.restart()
        x, y, weight, held = self._split(x, y, weight)
        n = len(x)
        rows = self._rows(n)
        sizes = tuple(sorted({rows, n % rows or rows}))
        methods = self._net.stepping(sizes, weight is not None).methods
        order = np.arange(n)
        best = None if held is None else [p.copy() for p in self._net.params()]
        self.n_iter_ = 0
        try:
            for _ in range(1 if incremental else self.max_iter):
                if self.shuffle:
                    # The draws of sklearn.utils.shuffle.
                    places = np.arange(n)
                    self._random_state.shuffle(places)
                    order = order[places]
                total = 0.0
                for start in range(0, n, rows):
                    part = order[start : start + rows]
                    total += self._learn(methods[len(part)], part, x, y, weight)
                if held is not None:
                    best = self._validated(held, best)
                if self._end_epoch(total / n, n):
                    break
                if self.n_iter_ == self.max_iter and not incremental:
                    text = f"Maximum iterations ({self.max_iter}) reached and the optimization has not converged yet."
                    warnings.warn(text, ConvergenceWarning, stacklevel=4)
        except KeyboardInterrupt:
            warnings.warn("Training interrupted by user.", stacklevel=4)
        if best is not None:
            for view, kept in zip(self._net.params(), best):
                view[...] = kept
        named = "feature_names_in_" in self.__dict__
        if incremental and n == 1 and not self.verbose and weight is None and not named:
            self.__dict__["_ready"] = _Ready(methods[1], self._places())

    def _learn(self: Any, method: Method, rows: Any, x: Any, y: Any, weight: Any) -> float:
        """One step; the loss times the number of rows."""
        x.take(rows, 0, method.x, "clip")
        y.take(rows, 0, method.y, "clip")
        if weight is not None:
            some = weight[rows]
            refuse_no_weight(some)
            method.weight[...] = some.reshape(-1, 1)
        method.rate[...] = self._next_rate()
        method.run()
        return method.loss.item() * len(rows)

    def _next_rate(self: Any) -> float:
        if self.solver == "sgd":
            return self._rate
        t = self._updates + 1
        self.__dict__["_updates"] = t
        return self._rate * math.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t)

    def _validated(self: Any, held: Any, best: Any) -> Any:
        """Scores the held-out examples. Gives the best weights so far."""
        x, y, weight = held
        raw = self._net.predict(x)
        score = self._score_of(y, self._answers(raw), weight) if np.isfinite(raw).all() else np.nan
        self.validation_scores_.append(score)
        if self.verbose:
            print(f"Validation score: {score:f}")
        self._stalled = self._stalled + 1 if score < self.best_validation_score_ + self.tol else 0
        if score > self.best_validation_score_:
            self.best_validation_score_ = score
            return [p.copy() for p in self._net.params()]
        return best

    def _end_epoch(self: Any, loss: float, n: int) -> bool:
        """Keeps the account of an epoch of `n` examples; whether the run ends."""
        own = self.__dict__
        own["n_iter_"] += 1
        own["t_"] += n
        own["loss_"] = loss
        own["loss_curve_"].append(loss)
        if own["verbose"]:
            print(f"Iteration {self.n_iter_}, loss = {loss:.8f}")
        if not own["early_stopping"]:
            best = own["best_loss_"]
            own["_stalled"] = own["_stalled"] + 1 if loss > best - own["tol"] else 0
            own["best_loss_"] = min(loss, best)
        if own["solver"] == "sgd" and own["learning_rate"] == "invscaling":
            own["_rate"] = own["learning_rate_init"] / (own["t_"] + 1) ** own["power_t"]
        if own["_stalled"] <= own["n_iter_no_change"]:
            return False
        if own["solver"] == "sgd" and own["learning_rate"] == "adaptive" and own["_rate"] > 1e-6:
            own["_rate"] /= 5.0
            own["_stalled"] = 0
            return False
        if own["verbose"]:
            what = "Validation score" if own["early_stopping"] else "Training loss"
            print(f"{what} did not improve by more than tol={self.tol} for {self.n_iter_no_change} epochs. Stopping.")
        return True

    def _one_more(self: Any, ready: _Ready, x: Any, y: Any) -> bool:
        """`partial_fit` on one example, if it is one that needs no other checks."""
        if type(x) is not np.ndarray or x.dtype is not ready.dtype or x.shape != ready.shape:
            return False
        if type(y) is not list and not (type(y) is np.ndarray and y.ndim == 1):
            return False
        row = x[0]
        if not math.isfinite(row.dot(row)) or len(y) != 1:
            return False
        method = ready.method
        if not self._target_into(method.y, y[0], ready.classes):
            return False
        method.x[...] = x
        method.rate[...] = self._next_rate()
        ready.run(ready.name)
        self.__dict__["n_iter_"] = 0
        loss = method.loss.item()
        self._end_epoch(loss, 1)
        if not math.isfinite(loss):
            self._check_weights()
        return True

    def _last_layer(self: Any, x: Any) -> np.ndarray:
        check_is_fitted(self)
        x = dense(validate_data(self, x, accept_sparse=["csr", "csc"], reset=False))
        return self._net.predict(x)


class MLPClassifier(_Perceptron, neural_network.MLPClassifier):
    """scikit-learn's `MLPClassifier`, trained by a compiled program; `threads` is the most it uses.

    >>> from sklearn.datasets import load_iris
    >>> from arenagrad.sklearn import MLPClassifier
    >>> x, y = load_iris(return_X_y=True)
    >>> MLPClassifier((20,), learning_rate_init=0.02, random_state=0).fit(x, y).score(x, y) > 0.9
    True
    """

    _parameter_constraints = {**neural_network.MLPClassifier._parameter_constraints, "threads": [_COUNT]}

    __init__ = constructor(neural_network.MLPClassifier)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """Trains on `X` [examples, features] and labels `y`, or on an indicator matrix of several labels."""
        return self._fit_all(X, y, sample_weight, False)

    @available_if(has_steps)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Any:  # noqa: N803
        """One epoch over these examples. The first call needs `classes`, all labels that will come."""
        ready = self.__dict__.get("_ready")
        if ready is not None and sample_weight is None and classes is None and self._one_more(ready, X, y):
            return self
        if "classes_" not in self.__dict__:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._label_binarizer = LabelBinarizer()
            self._label_binarizer.fit(y if type_of_target(y).startswith("multilabel") else unique_labels(classes))
            self.classes_ = self._label_binarizer.classes_
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit: {self.classes_!r}")
        return self._fit_all(X, y, sample_weight, True)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The labels of `X`."""
        return self._answers(self._last_layer(X))

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probabilities of the classes, in the order of `classes_`."""
        y = self._last_layer(X)
        return np.hstack([1 - y, y]) if self.n_outputs_ == 1 else y

    def _checked_data(self, x: Any, y: Any, incremental: bool, first: bool) -> tuple[Any, Any]:
        x, y = inputs(self, x, y, first)
        if "classes_" not in self.__dict__ or not (self.warm_start or incremental):
            self._label_binarizer = LabelBinarizer().fit(y)
            self.classes_ = self._label_binarizer.classes_
        else:
            new, known = set(unique_labels(y).tolist()), set(self.classes_.tolist())
            if self.warm_start and not incremental and new != known:
                text = f"Previously got {self.classes_}, `y` has {sorted(new)}"
                raise ValueError(f"warm_start can only be used where `y` has the same classes as before. {text}")
            if new - known:
                text = f"{sorted(new - known)} not in {self.classes_}"
                raise ValueError(f"`y` has classes not in `self.classes_`: {text}")
        return x, self._label_binarizer.transform(y)

    def _out(self) -> str:
        return "softmax" if self._label_binarizer.y_type_ == "multiclass" else "logistic"

    def _targets(self, y: Any) -> Any:
        return self._label_binarizer.inverse_transform(y)

    def _answers(self, raw: np.ndarray) -> Any:
        return self._label_binarizer.inverse_transform(raw.ravel() if self.n_outputs_ == 1 else raw)

    def _score_of(self, y: Any, answers: Any, weight: Any) -> float:
        return float(accuracy_score(y, answers, sample_weight=weight))

    def _places(self) -> Any:
        """The place of each class, where `y` has one label an example."""
        if self._label_binarizer.y_type_.startswith("multilabel"):
            return {}
        return {label: i for i, label in enumerate(self.classes_.tolist())}

    def _target_into(self, into: Any, label: Any, places: Any) -> bool:
        try:
            place = places.get(label)
        except TypeError:
            return False
        if place is None:
            return False
        if self.n_outputs_ == 1:
            into[0, 0] = place
        else:
            into.fill(0)
            into[0, place] = 1
        return True


class MLPRegressor(_Perceptron, neural_network.MLPRegressor):
    """scikit-learn's `MLPRegressor`, trained by a compiled program; `threads` is the most it uses.

    >>> import numpy as np
    >>> from arenagrad.sklearn import MLPRegressor
    >>> x = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> y = x[:, 0] ** 2
    >>> MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", random_state=0).fit(x, y).score(x, y) > 0.99
    True
    """

    _parameter_constraints = {**neural_network.MLPRegressor._parameter_constraints, "threads": [_COUNT]}

    __init__ = constructor(neural_network.MLPRegressor)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """Trains on `X` [examples, features] and targets `y`, [examples] or [examples, outputs]."""
        return self._fit_all(X, y, sample_weight, False)

    @available_if(has_steps)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """One epoch over these examples."""
        ready = self.__dict__.get("_ready")
        if ready is not None and sample_weight is None and self._one_more(ready, X, y):
            return self
        return self._fit_all(X, y, sample_weight, True)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The predictions for `X`: [examples], or [examples, outputs]."""
        return self._answers(self._last_layer(X))

    def _checked_data(self, x: Any, y: Any, incremental: bool, first: bool) -> tuple[Any, Any]:
        return inputs(self, x, y, first, y_numeric=True)

    def _out(self) -> str:
        return "exp" if getattr(self, "loss", "") == "poisson" else "identity"

    def _targets(self, y: Any) -> Any:
        return y

    def _answers(self, raw: np.ndarray) -> np.ndarray:
        return raw.ravel() if raw.shape[1] == 1 else raw

    def _score_of(self, y: Any, answers: Any, weight: Any) -> float:
        return float(r2_score(y, answers, sample_weight=weight))

    def _places(self) -> Any:
        return None

    def _target_into(self, into: Any, target: Any, _: Any) -> bool:
        if into.shape[1] != 1 or not isinstance(target, (float, np.floating)) or not math.isfinite(target):
            return False
        into[0, 0] = target
        return True
