"""Parts of the estimators that know scikit-learn and no program."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data


def has_steps(estimator: Any) -> bool:
    """Whether the solver takes steps on batches. An `AttributeError` says that it does not."""
    if estimator.solver == "lbfgs":
        raise AttributeError("partial_fit is for the solvers 'sgd' and 'adam'; 'lbfgs' needs all examples at once")
    return True


def constructor(of: Any) -> Any:
    """The constructor of scikit-learn's estimator, with one argument more."""

    def __init__(self: Any, *arguments: Any, threads: int = 1, **named: Any) -> None:
        of.__init__(self, *arguments, **named)
        self.threads = threads

    own = inspect.signature(of.__init__)
    more = inspect.Parameter("threads", inspect.Parameter.KEYWORD_ONLY, default=1)
    __init__.__signature__ = own.replace(parameters=[*own.parameters.values(), more])  # type: ignore[attr-defined]
    return __init__


def dense(x: Any) -> Any:
    """A sparse matrix as an array; an array as it is."""
    return x.toarray() if hasattr(x, "toarray") else x


def refuse_no_weight(weight: np.ndarray) -> None:
    """Refuses a batch in which no example counts, as scikit-learn does."""
    if weight.sum() == 0:
        raise ZeroDivisionError("Weights sum to zero: a batch has no example that counts")


def inputs(estimator: Any, x: Any, y: Any, reset: bool, **more: Any) -> tuple[Any, Any]:
    """The examples as a dense array of floats, and targets of one column as one axis."""
    types = (np.float64, np.float32)
    checks = {"accept_sparse": ["csr", "csc"], "multi_output": True, "dtype": types, "reset": reset}
    x, y = validate_data(estimator, x, y, **checks, **more)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    return dense(x), y
