"""Training: optimisers, schedules, fit; the same bits as in Rust."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest
from conftest import batch, mlp

import arenagrad as ag

ALL = [n for n in ag.optim.__all__ if n[0].isupper() and n not in ("Optimiser", "Schedule")]


@pytest.mark.parametrize("name", ALL)
def test_every_optimiser_lowers_the_loss(name):
    lr = {"Adadelta": 1.0, "Lbfgs": 0.3, "Adafactor": 0.05, "Sgd": 0.1, "Adagrad": 0.05}.get(name, 1e-2)
    optimiser = getattr(ag.optim, name)(lr)
    if name == "Muon":  # It updates matrices only.
        optimiser = optimiser.group("*.bias", rule=ag.optim.AdamW(lr))
    p = ag.compile(ag.train(mlp(), "loss", optimiser))
    p.init(0)
    one = batch()
    first = p.step(**one).item("loss")
    for _ in range(60):
        last = p.step(**one).item("loss")
    assert last < 0.9 * first


def test_settings_are_those_of_the_kind():
    o = ag.optim
    assert repr(o.AdamW(1e-3, betas=(0.9, 0.99))) == "AdamW(lr=0.001, betas=[0.9,0.99])"
    assert o.AdamW(np.float32(0.5)).lr == 0.5
    for call, text in [
        (lambda: o.Sgd(0.1, momentum=-1.0), "momentum is -1"),
        (lambda: o.AdamW(1e-3, betas=(0.9,)), "a list of 1 numbers, expected a list of 2"),
        (lambda: o.AdamW(1e-3, norm_type=1.0), "norm_type is given without clip_norm"),
        (lambda: o.Optimiser("sgd", 0.1, betas=(0.9, 0.9)), "means nothing to sgd; it reads momentum"),
        (lambda: o.Optimiser("sgdd", 0.1), "unknown kind"),
        (lambda: o.AdamW(1e-3, eps="small"), "AdamW: invalid type"),
        (lambda: o.AdamW(1e-3, eps=float("inf")), "AdamW: invalid value: inf"),
        (lambda: o.AdamW(1e-3, clip_norm=1.0, norm_type="most"), "an order that is a number or inf"),
        (lambda: o.Sgd(float("nan")), "nan|NaN"),
        (lambda: o.Sgd(0.1).group("x", weight_decay=-1.0), "weight_decay"),
    ]:
        with pytest.raises(ag.Error, match=re.escape(text) if "|" not in text else text):
            call()
    with pytest.raises(TypeError):
        o.Sgd(0.1, betas=(0.9, 0.9))


def test_the_norm_that_clips_may_be_that_of_the_largest_element():
    p = ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(1.0, clip_norm=1e-3, norm_type=float("inf"))))
    p.init(0)
    before = p.params.copy()
    p.step(**batch())
    most = max(np.abs(p.params[n] - before[n]).max() for n in before)
    assert abs(most - 1e-3) < 1e-6


def test_nodes_of_a_step_have_the_line_that_asked_for_it():
    step = ag.train(mlp(), "loss", ag.optim.RAdam(0.1))
    text = json.dumps(ag.compile(step).plan.to_dict())
    assert f"{__file__}:" in text and "graph.rs" not in text


def test_frozen_params_stay_and_patterns_must_match():
    step = ag.train(mlp(), "loss", ag.optim.Sgd(0.1).freeze("fc1.*").group("fc2.bias", lr_scale=0.0).grad_norm())
    p = ag.compile(step)
    p.init(0)
    before = p.state_dict()
    out = p.step(**batch())
    assert out.item("grad_norm") > 0
    changed = {n for n in p.params if not np.array_equal(before[n], p.params[n])}
    assert changed == {"fc2.weight"}
    with pytest.raises(ag.NameError_, match="matches no param"):
        ag.train(mlp(), "loss", ag.optim.Sgd(0.1).freeze("fc9.*"))
    with pytest.raises(ag.NameError_):
        ag.train(mlp(), "los", ag.optim.Sgd(0.1))


def test_averages_follow_the_params():
    p = ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(0.1, ema=0.5)))
    p.init(0)
    start = p.params["fc1.weight"].copy()
    p.step(**batch())
    now, mean = p.params["fc1.weight"], p.states["ema.fc1.weight"]
    low, high = np.minimum(start, now), np.maximum(start, now)
    assert (now != start).any() and ((low - 1e-6 <= mean) & (mean <= high + 1e-6)).all()


def test_micro_batches_are_a_first_axis():
    """Two equal micro-batches give the step of one."""
    one, two = (ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(0.1, accumulate=k))) for k in (1, 2))
    for p in (one, two):
        p.init(0)
    once = batch()
    one.step(**once)
    two.step(**{name: np.stack([x, x]) for name, x in once.items()})
    for name, w in one.params.items():
        np.testing.assert_allclose(two.params[name], w, rtol=1e-5, atol=1e-7)


def test_schedules_are_functions_of_the_step():
    s = ag.optim.schedules
    assert s.Cosine(warmup=2, start_factor=0.5).rates(base=1.0, steps=4)[0] == 0.5
    assert s.Step(step_size=2, gamma=0.1).rates(base=1.0, steps=3) == pytest.approx([1, 1, 0.1])
    assert s.OneCycle().lr(0, base=1.0, steps=100) == pytest.approx(1 / 25)
    chained = s.Chained(part=[s.Constant(), s.Linear(start_factor=0.5)])
    assert chained.lr(0, base=1.0, steps=10) == 0.5
    with pytest.raises(ag.SyntaxError_, match="means nothing to|unknown setting"):
        ag.optim.Schedule("step", step_size=2, warmup=3)
    with pytest.raises(TypeError):
        s.Step()
    with pytest.raises(ag.SyntaxError_):
        ag.optim.Schedule("steep")


def test_weights_have_the_bits_that_rust_has(trained):
    """`_twin` is the same network and the same steps in Rust."""
    for i in range(50):
        x = np.array([((i * 37 + k * 11) % 100) for k in range(32)], np.float32) / np.float32(50) - np.float32(1)
        y = np.array([(i + k) % 3 for k in range(8)], np.int32)
        trained.step(x=x.reshape(8, 4), y=y)
    assert {n: v.tobytes() for n, v in trained.params.items()} == {n: bytes(b) for n, b in ag._arenagrad._twin(50)}


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, also in tests that run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestFit:
    def test_a_run_writes_its_files_and_resumes_to_the_same_bits(self, trained, tmp_path):
        batches = [batch(seed=i) for i in range(5)]
        kept = trained.state_dict()
        schedule = ag.optim.schedules.Cosine()
        options = {"schedule": schedule, "lr": 1e-2, "progress": False, "report_every": 4}
        whole = ag.fit(trained, batches, steps=12, out=tmp_path / "a", **options)
        assert (whole.steps, whole.ended) == (12, "steps")
        wanted = trained.state_dict()
        lines = [json.loads(line) for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
        assert [x["step"] for x in lines] == [1, 4, 8, 12] and lines[0]["lr"] == 1e-2
        assert (tmp_path / "a" / "weights.safetensors").stat().st_size > 0

        ag.fit(trained, batches, steps=3, out=tmp_path / "b", **options)  # Another run: its lines make place.
        trained.load_state_dict(kept)
        stop = ag.fit(trained, batches, steps=12, out=tmp_path / "b", callback=lambda step, p: step == 7, **options)
        assert (stop.steps, stop.ended) == (7, "callback")
        trained.init(3)
        with open(tmp_path / "b" / "metrics.jsonl", "a") as file:  # As after a crash: steps that no checkpoint has.
            file.write('{"step": 8, "epoch": 1, "loss": 0.5}\n{"step": 9, "ep')
        ag.fit(trained, batches, steps=12, out=tmp_path / "b", resume=True, **options)
        again = [json.loads(line) for line in (tmp_path / "b" / "metrics.jsonl").read_text().splitlines()]
        assert again == lines
        for name, array in trained.state_dict().items():
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)

    def test_a_validation_is_reported_once_also_after_a_crash(self, trained, tmp_path):
        batches = [batch(seed=i) for i in range(2)]
        options = {"val": lambda p: 0.5, "out": tmp_path, "progress": False}

        def crash(step, p):
            if step == 3:
                raise OSError("no power")

        with pytest.raises(OSError, match="no power"):
            ag.fit(trained, batches, epochs=2, checkpoint_every=2, callback=crash, **options)
        ag.fit(trained, batches, epochs=2, resume=True, **options)
        with open(tmp_path / "metrics.jsonl", "rb+") as file:  # As after a crash: a line without its end.
            file.truncate(file.seek(0, 2) - 1)
        ag.fit(trained, batches, epochs=3, resume=True, **options)
        lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
        assert [x["epoch"] for x in lines if "val" in x] == [1, 2, 3]

    def test_event_files_have_the_numbers_of_each_report(self, trained, tmp_path):
        folder = tmp_path / "events"
        ag.fit(trained, [batch()], steps=5, tensorboard=folder, progress=False, report_every=2)
        (file,) = folder.iterdir()
        assert "tfevents" in file.name
        left, steps = file.read_bytes(), []
        while left:
            length = int.from_bytes(left[:8], "little")
            event = left[12 : 12 + length]
            steps.append(event[10])  # after a time of nine bytes and the tag of the step
            assert (b"loss" in event) == (len(steps) > 2)
            left = left[16 + length :]
        assert steps == [0, 1, 1, 2, 4, 5]  # its version, its first step, the reports
        with pytest.raises(ag.IoError, match="events"):
            ag.fit(trained, [batch()], steps=1, tensorboard=file, progress=False)

    def test_epochs_validation_and_functions_of_the_epoch(self, trained):
        seen = []

        def epoch(n):
            seen.append(n)
            return (batch(seed=10 * n + i) for i in range(3))

        done = ag.fit(trained, epoch, epochs=2, val=lambda p: p.step(**batch()).item("loss"), progress=False)
        assert (done.steps, done.epochs, seen[:2]) == (6, 2, [0, 1])
        assert sum("val" in x for x in done.history) == 2

    def test_wrong_use_is_told(self, trained):
        for more, text in [
            ({}, "give steps or epochs"),
            ({"steps": 3, "schedule": ag.optim.schedules.Cosine()}, "a schedule needs lr"),
            ({"steps": 3, "resume": True}, "needs out"),
        ]:
            with pytest.raises(ag.Error, match=text):
                ag.fit(trained, [batch()], progress=False, **more)
        with pytest.raises(ag.DataError, match="has no batch"):
            ag.fit(trained, [], steps=3, progress=False)

    def test_a_file_of_another_program_is_refused(self, trained, tmp_path):
        trained.checkpoint(tmp_path / "checkpoint.safetensors")
        with pytest.raises(ag.DataError, match="no checkpoint of fit"):
            ag.fit(trained, [batch()], steps=3, out=tmp_path, resume=True, progress=False)

    def test_a_loss_that_is_not_finite_ends_the_run(self, trained):
        bad = batch()
        bad["x"][0, 0] = np.nan
        with pytest.raises(ag.DivergedError, match="step 1: the loss is nan"):
            ag.fit(trained, [bad], steps=3, progress=False)

    def test_no_checkpoint_is_written_after_a_loss_that_is_not_finite(self, trained, tmp_path):
        bad = batch()
        bad["x"][0, 0] = np.nan
        items = [batch(), batch(), bad, batch()]
        for more in [{"steps": 8}, {"epochs": 1}]:
            with pytest.raises(ag.DivergedError, match="step 3: the loss is nan"):
                trained.init(0)
                ag.fit(trained, items, checkpoint_every=2, out=tmp_path, progress=False, **more)
            assert trained.resume(tmp_path / "checkpoint.safetensors")["step"] == 2
            assert all(np.isfinite(trained.params[n]).all() for n in trained.params)

    def test_no_checkpoint_has_params_that_are_not_finite(self, trained, tmp_path):
        name = next(iter(trained.params))

        def spoil(step, program):
            program.write(name, np.full_like(program.params[name], np.nan))
            return True

        with pytest.raises(ag.DivergedError, match=f"step 1: param '{name}' is not finite"):
            ag.fit(trained, [batch()], steps=3, out=tmp_path, progress=False, callback=spoil)
        assert not (tmp_path / "checkpoint.safetensors").exists()

    def test_a_batch_without_an_input_of_the_others_is_refused(self, trained):
        short = {"x": batch()["x"]}
        with pytest.raises(ag.DataError, match="the batch of step 2 and those before it differ in inputs: y"):
            ag.fit(trained, [batch(), short], steps=3, progress=False)

    def test_progress_is_lines_where_there_is_no_bar(self, trained, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "tqdm", None)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        ag.fit(trained, [batch()], steps=2)
        assert re.search(r"step 2/2: loss \d", capsys.readouterr().err)

    def test_progress_is_a_bar_where_there_is_one(self, trained, monkeypatch):
        calls = []

        class Bar:
            def __init__(self, **options):
                calls.append(("made", options["total"], options["initial"]))

            def update(self, n):
                calls.append(("update", n))

            def set_postfix_str(self, text, refresh):
                calls.append(("text", text.split()[0], refresh))

            def close(self):
                calls.append(("close",))

        monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
        module = types.ModuleType("tqdm.auto")
        module.tqdm = Bar
        monkeypatch.setitem(sys.modules, "tqdm.auto", module)
        ag.fit(trained, [batch()], steps=3, report_every=100)
        said = [("update", 1), ("text", "loss", False), ("update", 2), ("text", "loss", True)]
        assert calls == [("made", 3, 0), *said, ("close",)]

    def test_an_interrupt_writes_the_checkpoint_and_is_raised_again(self, trained, tmp_path, interruptible):
        main = threading.main_thread()
        timer = threading.Timer(0.3, lambda: signal.pthread_kill(main.ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ag.fit(trained, [batch()], steps=10**9, out=tmp_path, progress=False)
        numbers = trained.resume(tmp_path / "checkpoint.safetensors")
        assert numbers["step"] > 0


def test_an_interrupt_ends_compiling_soon(interruptible):
    with ag.build("deep") as b:
        x = b.input("x", (64, 64))
        for i in range(1500):
            x = ag.nn.linear(f"fc{i}", x, 64).tanh()
        b.output("loss", x.mean())
    step = ag.train(b.graph, "loss", ag.optim.AdamW(1e-3))
    main = threading.main_thread()
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        signal.pthread_kill(main.ident, signal.SIGINT)

    threading.Timer(0.2, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ag.compile(step, max_memory="2GiB")
        time.sleep(5)
    assert time.perf_counter() - sent[0] < 1.0


def test_digits_have_the_documented_split():
    (x, y), (x_test, y_test) = ag.digits()
    assert x.shape == (1438, 1, 8, 8) and x_test.shape == (359, 1, 8, 8) and len(y) == 1438
    assert x.dtype == np.float32 and y.dtype == np.int32 and 0 <= x.min() and x.max() == 1
    for digit in range(10):
        n, t = (y == digit).sum(), (y_test == digit).sum()
        assert t == (n + t + 2) // 5
