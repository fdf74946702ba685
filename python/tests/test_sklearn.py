"""The estimators: scikit-learn's checks, its losses, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn import neural_network
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from arenagrad.sklearn import MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PAIRS = [(MLPClassifier, neural_network.MLPClassifier), (MLPRegressor, neural_network.MLPRegressor)]
IDS = ["classifier", "regressor"]
ROWS = 53


def data(kind, dtype=np.float64):
    """53 examples: batches of 10 leave one of 3."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(ROWS, 7)).astype(dtype)
    labels = (x[:, 0] > 0.3) * 1 + (x[:, 1] > 0)
    return x, labels if kind is MLPClassifier else x[:, 0] * x[:, 1]


def same(a, b, rtol=1e-9):
    """Equal losses and weights."""
    assert a.n_iter_ == b.n_iter_
    np.testing.assert_allclose(a.loss_, b.loss_, rtol=rtol)
    for ours, theirs in zip(a.coefs_ + a.intercepts_, b.coefs_ + b.intercepts_, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{getattr(check, 'func', check).__name__}-{i}")
    for kind in (MLPClassifier, MLPRegressor)
    for i, (estimator, check) in enumerate(estimator_checks_generator(kind(), mark=None))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_the_checks_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(clone(estimator))


OPTIONS = [
    {"solver": "adam"},
    {"solver": "adam", "activation": "tanh", "beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-3, "alpha": 0.1},
    {"solver": "adam", "activation": "logistic", "shuffle": False},
    {"solver": "adam", "activation": "identity", "early_stopping": True, "validation_fraction": 0.2, "tol": 1e-2},
    {"solver": "sgd", "momentum": 0.5, "nesterovs_momentum": False},
    {"solver": "sgd", "learning_rate": "invscaling", "learning_rate_init": 0.1, "power_t": 0.3},
    {"solver": "sgd", "learning_rate": "adaptive", "tol": 0.5, "n_iter_no_change": 2, "max_iter": 40},
    {"solver": "lbfgs", "alpha": 0.01},
    {"solver": "adam", "tol": 0.1, "n_iter_no_change": 3, "max_iter": 60},
]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=IDS)
def test_losses_and_weights_are_those_of_scikit_learn(ours, theirs, options, weighted):
    x, y = data(ours)
    weight = np.random.default_rng(1).uniform(0.1, 2, ROWS) if weighted else None
    given = {"hidden_layer_sizes": (9, 5), "random_state": 3, "max_iter": 8, "batch_size": 10, **options}
    a, b = ours(**given).fit(x, y, weight), theirs(**given).fit(x, y, weight)
    same(a, b, 1e-6 if options["solver"] == "lbfgs" else 1e-9)
    np.testing.assert_allclose(getattr(a, "loss_curve_", 0), getattr(b, "loss_curve_", 0), rtol=1e-9)
    if options.get("early_stopping"):
        np.testing.assert_allclose(a.validation_scores_, b.validation_scores_, rtol=1e-9)
    np.testing.assert_allclose(a.predict(x), b.predict(x), rtol=1e-5, atol=1e-6)
    if ours is MLPClassifier:
        np.testing.assert_allclose(a.predict_proba(x), b.predict_proba(x), rtol=1e-5, atol=1e-7)
        assert a.out_activation_ == b.out_activation_ and a.t_ == b.t_ and (a.classes_ == b.classes_).all()


def test_the_loss_of_poisson():
    x, _ = data(MLPRegressor)
    y = np.random.default_rng(2).poisson(np.exp(x[:, 0])).astype(float)
    given = {"loss": "poisson", "random_state": 0, "max_iter": 8, "batch_size": 10}
    same(MLPRegressor(**given).fit(x, y), neural_network.MLPRegressor(**given).fit(x, y))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=IDS)
def test_floats_of_32_bits_stay_so(ours, theirs):
    x, y = data(ours, np.float32)
    a, b = (kind(random_state=0, max_iter=5).fit(x, y) for kind in (ours, theirs))
    same(a, b, 1e-3)
    assert a.coefs_[0].dtype == np.float32


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "several labels"])
def test_outputs_that_are_logistic(several):
    x, _ = data(MLPClassifier)
    y = np.stack([x[:, 0] > 0, x[:, 1] > 0, x[:, 2] > 1], 1).astype(int) if several else np.where(x[:, 0] > 0, "a", "b")
    a, b = (kind(random_state=0, max_iter=9).fit(x, y) for kind in (MLPClassifier, neural_network.MLPClassifier))
    same(a, b)
    np.testing.assert_array_equal(a.predict(x), b.predict(x))
    np.testing.assert_allclose(a.predict_proba(x), b.predict_proba(x), rtol=1e-7)
    np.testing.assert_allclose(a.predict_log_proba(x), b.predict_log_proba(x), rtol=1e-6)


@pytest.mark.parametrize("solver", ["adam", "sgd"])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=IDS)
def test_steps_on_one_example_and_on_more(ours, theirs, solver):
    x, y = data(ours)
    nets = [kind(solver=solver, random_state=0, learning_rate="invscaling") for kind in (ours, theirs)]
    first = {"classes": np.unique(y)} if ours is MLPClassifier else {}
    for net in nets:
        net.partial_fit(x[:1], y[:1], **first)
    sizes = [1] * 12 + [5, 1, 1, 2, 1, 1, 1]
    for i, n in enumerate(sizes):
        for net in nets:
            net.partial_fit(x[i : i + n], y[i : i + n])
        if i == 5:
            nets[0].predict(x)
    same(*nets)
    assert nets[0].loss_curve_ == pytest.approx(nets[1].loss_curve_) and nets[0].t_ == nets[1].t_


def test_one_more_example_is_checked():
    x, y = data(MLPClassifier)
    net = MLPClassifier(random_state=0)
    net.partial_fit(x[:1], y[:1], classes=[0, 1, 2]).partial_fit(x[1:2], y[1:2])
    assert "_ready" in vars(net)
    before = [w.copy() for w in net.coefs_]
    bad = x[:1].copy()
    bad[0, 3] = np.nan
    for rows, labels, text in [
        (bad, y[:1], "NaN"),
        (x[:1], [7], "classes not in"),
        (x[:1, :3], y[:1], "features"),
        (x[:1], y[:2], "inconsistent"),
        (x[:1], 1, "scalar"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            net.partial_fit(rows, labels)
    for old, new in zip(before, net.coefs_, strict=True):
        np.testing.assert_array_equal(old, new)
    net.set_params(alpha=5.0)
    assert "_ready" not in vars(net)
    twin = neural_network.MLPClassifier(random_state=0).partial_fit(x[:1], y[:1], classes=[0, 1, 2])
    twin.partial_fit(x[1:2], y[1:2]).set_params(alpha=5.0)
    same(net.partial_fit(x[2:3], y[2:3]), twin.partial_fit(x[2:3], y[2:3]))


def test_faults_are_told():
    x, y = data(MLPClassifier)
    for options, text in [
        ({"threads": 0}, "threads"),
        ({"solver": "newton"}, "solver"),
        ({"hidden_layer_sizes": (3, -1)}, "must be > 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            MLPClassifier(**options).fit(x, y)
    with pytest.raises(AttributeError):
        MLPClassifier(solver="lbfgs").partial_fit(x, y)
    with pytest.raises(ValueError, match="early_stopping"):
        MLPRegressor(early_stopping=True).partial_fit(*data(MLPRegressor))
    with pytest.raises(ZeroDivisionError, match="sum to zero"):
        MLPClassifier(batch_size=10, shuffle=False).fit(x, y, np.arange(ROWS) >= 10)
    with pytest.raises(AttributeError, match="not fitted"):
        MLPClassifier().coefs_  # noqa: B018
    net = MLPClassifier((4,), warm_start=True, max_iter=2).fit(x, y)
    with pytest.raises(ValueError, match="cannot go on"):
        net.set_params(hidden_layer_sizes=(5,)).fit(x, y)
    with pytest.raises(ValueError, match="non-finite"):
        MLPRegressor(solver="sgd", learning_rate_init=1e9, max_iter=30).fit(*data(MLPRegressor))
    with pytest.warns(ConvergenceWarning):
        MLPClassifier(max_iter=2).fit(x, y)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=IDS)
def test_warm_starts_go_on(ours, theirs):
    x, y = data(ours)
    given = {"hidden_layer_sizes": (6,), "warm_start": True, "max_iter": 4, "random_state": 0, "batch_size": 10}
    nets = [kind(**given) for kind in (ours, theirs)]
    for _ in range(3):
        for net in nets:
            net.fit(x, y)
    same(*nets)


def test_copies_and_files_have_weights_and_go_on():
    x, y = data(MLPClassifier)
    net = MLPClassifier(random_state=0)
    net.partial_fit(x, y, classes=[0, 1, 2]).partial_fit(x, y)
    text = pickle.dumps(net)
    assert len(text) < 120_000
    for other in (pickle.loads(text), copy.deepcopy(net)):
        np.testing.assert_array_equal(other.predict_proba(x), net.predict_proba(x))
        same(other.partial_fit(x, y), copy.deepcopy(net).partial_fit(x, y), 1e-15)
    assert not hasattr(clone(net), "coefs_")


def test_weights_are_views_of_the_net():
    x, y = data(MLPRegressor)
    net = MLPRegressor(hidden_layer_sizes=(4,), max_iter=2, random_state=0).fit(x, y)
    for w in net.coefs_:
        w[...] = 0
    net.intercepts_[-1][...] = 2.5
    np.testing.assert_array_equal(net.predict(x), np.full(ROWS, 2.5))


def test_pipelines_searches_and_processes():
    x, y = load_digits(return_X_y=True)
    x, y = x[:400], y[:400]
    line = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=15, random_state=0, learning_rate_init=0.01))
    search = GridSearchCV(line, {"mlpclassifier__alpha": [1e-4, 100.0]}, cv=2, n_jobs=2).fit(x, y)
    assert search.best_params_ == {"mlpclassifier__alpha": 1e-4} and search.score(x, y) > 0.95
    net = search.best_estimator_
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(net.predict)(part) for part in (x[:200], x[200:]))
    np.testing.assert_array_equal(np.concatenate(found), net.predict(x))


def test_threads_may_predict_by_one_net():
    x, y = data(MLPRegressor)
    net = MLPRegressor(max_iter=3, random_state=0).fit(x, y)
    parts = [x[i : i + 30] * i for i in range(20)]
    wanted = [net.predict(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for found, want in zip(pool.map(net.predict, parts), wanted, strict=True):
                np.testing.assert_array_equal(found, want)


def test_a_warm_start_may_change_the_solver_and_how_it_ends():
    x, y = data(MLPClassifier)
    net = MLPClassifier(solver="lbfgs", warm_start=True, max_iter=3, random_state=0).fit(x, y)
    before = net.coefs_[0].copy()
    net.set_params(solver="adam", learning_rate_init=1e-9).fit(x, y)
    np.testing.assert_allclose(net.coefs_[0], before, atol=1e-6)
    assert len(net.loss_curve_) == 3
    net.set_params(early_stopping=True).fit(x, y)
    assert len(net.validation_scores_) == 3
    net.set_params(early_stopping=False).partial_fit(x, y)
    assert net.validation_scores_ is None and len(net.loss_curve_) == 1


def test_sparse_rows_and_threads_change_nothing():
    x, y = data(MLPClassifier)
    one = MLPClassifier(max_iter=5, random_state=0).fit(x, y)
    for other in (
        MLPClassifier(max_iter=5, random_state=0, threads=2).fit(x, y),
        MLPClassifier(max_iter=5, random_state=0).fit(sparse.csr_matrix(x), y),
    ):
        same(one, other, 1e-15)
    np.testing.assert_array_equal(one.predict(sparse.csr_matrix(x)), one.predict(x))


def test_predictions_do_not_depend_on_the_rows_beside():
    x, y = data(MLPRegressor)
    net = MLPRegressor(max_iter=5, random_state=0).fit(x, y)
    many = np.tile(x, (50, 1))
    np.testing.assert_allclose(net.predict(many), np.tile(net.predict(x), 50), rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([net.predict(row[None]) for row in x]), net.predict(x), rtol=1e-12)
