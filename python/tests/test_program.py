"""Programs: views, methods, files, threads, processes."""

from __future__ import annotations

import copy
import gc
import math
import multiprocessing
import os
import pickle
import threading
from collections.abc import Mapping

import numpy as np
import pytest
from conftest import batch, mlp

import arenagrad as ag


class TestViews:
    def test_inputs_are_written_in_place(self, double):
        double.inputs["x"][:] = [1, 2, 3]
        assert double.step()["y"].tolist() == [2, 4, 6]
        double.inputs["x"] = np.array([4, 5, 6], np.float32)
        assert double.step()["y"].tolist() == [8, 10, 12]
        assert double.step(x=double.inputs["x"])["y"].tolist() == [8, 10, 12]

    def test_views_outlive_the_program(self, double):
        y = double.step(x=np.ones(3, np.float32))["y"]
        del double
        gc.collect()
        assert y.tolist() == [2, 2, 2]

    def test_outputs_are_read_only_and_those_of_the_last_step(self, double):
        y = double.step(x=np.ones(3, np.float32))["y"]
        with pytest.raises(ValueError):
            y[0] = 1
        double.step(x=np.zeros(3, np.float32))
        assert y.tolist() == [0, 0, 0]
        with pytest.raises(ag.UsageError):
            double.outputs["y"] = y

    def test_params_need_values_first(self):
        p = ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(0.1)))
        with pytest.raises(ag.UsageError, match="neither initialised nor loaded"):
            p.params["fc1.weight"]
        with pytest.raises(ag.DataError, match='param "fc1.weight" .* was neither initialised'):
            p.step(**batch())
        p.params["fc1.weight"] = np.zeros((16, 4), np.float32)
        assert not p.params["fc1.weight"].any()
        p.init_rest(0)
        assert p.params["fc2.weight"].any() and not p.params["fc1.weight"].any()

    def test_views_are_mappings(self, trained):
        assert isinstance(trained.params, Mapping) and dict(trained.params).keys() == trained.params.copy().keys()
        assert list(trained.params) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
        assert len(trained.params) == 4 and "fc1.bias" in trained.params and 3 not in trained.params
        assert trained.params.get("nothing") is None and trained.params.get("fc1.bias").shape == (16,)
        assert {n: v.shape for n, v in trained.params.items()}["fc2.weight"] == (3, 16)
        assert str(trained.params.specs["fc1.weight"]) == "f32[16,4]"
        with pytest.raises(ag.UsageError):
            del trained.params["fc1.bias"]

    def test_a_view_has_dlpack(self, trained):
        assert np.shares_memory(np.from_dlpack(trained.params["fc1.bias"]), trained.params["fc1.bias"])


def test_methods_share_params():
    with ag.build("eval") as b:
        b.output("p", ag.nn.linear("fc", b.input("x", (1, 2)), 1))
    with ag.build("learn") as l:
        loss = ag.nn.linear("fc", l.input("x", (4, 2)), 1).mse(l.input("y", (4, 1)))
        l.output("loss", loss)
    p = ag.compile({"learn": ag.train(l.graph, "loss", ag.optim.Sgd(0.1)), "eval": b.graph})
    p.init(0)
    x = np.ones((1, 2), np.float32)
    before = p.run("eval", x=x).item("p")
    p.step(x=np.ones((4, 2), np.float32), y=np.full((4, 1), 9, np.float32))
    assert p.run("eval", x=x).item("p") > before
    assert p.methods == ["learn", "eval"] and p.inputs_of("eval").specs["x"].shape == (1, 2)
    assert p.plan_of("eval").arena_bytes == p.plan.arena_bytes
    with pytest.raises(ag.NameError_, match='there is no method "walk"; the program has learn, eval'):
        p.run("walk")
    with pytest.raises(ag.NameError_):
        ag.compile({})


def test_two_optimisers_of_one_program_count_apart():
    def step(frozen):
        with ag.build("net") as b:
            h = ag.nn.linear("maker", b.input("x", (4, 2)), 3).tanh()
            b.output("loss", ag.nn.linear("critic", h, 1).square().mean())
        return ag.train(b.graph, "loss", ag.optim.Adam(1e-2).freeze(frozen))

    maker, critic = step("critic.*"), step("maker.*")
    with pytest.raises(ag.NameError_, match='both advance "opt.step"'):
        ag.compile({"maker": maker, "critic": critic})
    p = ag.compile({"maker": maker, "critic": critic.rename("opt.step", "opt.critic.step")})
    p.init(0)
    for name in ("critic", "critic", "maker"):
        p.run(name, x=np.ones((4, 2), np.float32))
    assert (p.states.item("opt.step"), p.states.item("opt.critic.step")) == (1, 2)


class TestFiles:
    def test_weights_go_from_program_to_program(self, trained, tmp_path):
        trained.step(**batch())
        trained.save(tmp_path / "w.safetensors")
        other = ag.compile(mlp())
        assert set(other.load(tmp_path / "w.safetensors")) == set(other.params)
        for name, value in other.params.items():
            np.testing.assert_array_equal(value, trained.params[name])

    def test_a_resumed_run_has_the_same_bits(self, trained, tmp_path):
        trained.step(**batch(seed=1))
        trained.checkpoint(tmp_path / "c.safetensors", step=1, best=0.25)
        trained.step(**batch(seed=2))
        again = ag.compile(ag.train(mlp(), "loss", ag.optim.AdamW(1e-2, clip_norm=1.0)))
        assert again.resume(tmp_path / "c.safetensors") == {"step": 1.0, "best": 0.25}
        again.step(**batch(seed=2))
        for name, value in trained.state_dict().items():
            np.testing.assert_array_equal(value, again.state_dict()[name])

    def test_an_exported_program_trains_on(self, trained, tmp_path):
        path = tmp_path / "p.agp"
        trained.step(**batch(seed=1))
        trained.export(path)
        opened = ag.open(path)
        assert opened.methods == trained.methods and opened.plan.arena_bytes == trained.plan.arena_bytes
        for p in trained, opened:
            p.step(**batch(seed=2))
        for name, value in trained.state_dict().items():
            np.testing.assert_array_equal(value, opened.state_dict()[name])
        whole = path.read_bytes()
        path.write_bytes(whole[:500])
        with pytest.raises(ag.SyntaxError_, match="p.agp: the file has 500 bytes"):
            ag.open(path)
        with pytest.raises(ag.IoError, match="none.agp"):
            ag.open(tmp_path / "none.agp")
        with pytest.raises(ag.SyntaxError_, match="casting"):
            ag.open(path, casting="any")

    def test_what_cannot_be_read_is_an_error_of_the_file(self, trained, tmp_path):
        with pytest.raises(ag.IoError) as e:
            trained.load(tmp_path / "nothing.safetensors")
        assert isinstance(e.value, OSError) and isinstance(e.value, ag.Error) and e.value.kind == "io"
        bad = tmp_path / "bad.safetensors"
        bad.write_bytes(b"not a file of weights")
        with pytest.raises(ag.Error, match="bad.safetensors"):
            trained.load(bad)
        with pytest.raises(ag.IoError):
            trained.save(tmp_path / "no" / "such" / "folder.safetensors")

    def test_weights_without_values_are_not_written(self, tmp_path):
        p = ag.compile(mlp())
        for write in (p.save, p.checkpoint):
            with pytest.raises(ag.DataError, match="neither initialised nor loaded"):
                write(tmp_path / "w.safetensors")
        assert not (tmp_path / "w.safetensors").exists()

    def test_state_dict_is_a_copy(self, trained):
        kept = trained.state_dict()
        trained.step(**batch())
        assert not np.array_equal(kept["fc1.weight"], trained.params["fc1.weight"])
        trained.load_state_dict(kept)
        np.testing.assert_array_equal(kept["fc1.weight"], trained.params["fc1.weight"])
        with pytest.raises(ag.NameError_, match='there is no param "other"'):
            trained.load_state_dict({"fc1.weight": kept["fc1.weight"] * 2, "other": np.zeros(1)})
        with pytest.raises(ag.DataError, match="fc1.bias"):
            trained.load_state_dict({"fc1.weight": kept["fc1.weight"] * 2, "fc1.bias": np.zeros(99, np.float32)})
        np.testing.assert_array_equal(kept["fc1.weight"], trained.params["fc1.weight"])  # all or none


class TestThreadsAndProcesses:
    def test_two_threads_get_an_error_and_not_a_race(self):
        with ag.build("slow") as b:
            x = b.input("x", (400, 400))
            for _ in range(40):
                x = (x @ x).tanh()
            b.output("y", x)
        p = ag.compile(b.graph)
        p.inputs["x"][:] = 0.01
        said = []

        def run():
            for _ in range(1000):
                if said:
                    return
                try:
                    p.step()
                except ag.UsageError as e:
                    said.append(str(e))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said and "running a step in another thread" in said[0]

    def test_steps_run_without_the_interpreter_lock(self):
        with ag.build("slow") as b:
            x = b.input("x", (400, 400))
            for _ in range(40):
                x = (x @ x).tanh()
            b.output("y", x)
        p = ag.compile(b.graph)
        p.inputs["x"][:] = 0.01
        counted = [0]
        stop = threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        p.step()
        during = counted[0] - before
        stop.set()
        thread.join()
        assert during > 0

    def test_pickling_and_copying_are_refused_with_advice(self, double):
        for f in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="save"):
                f(double)
        with pytest.raises(TypeError, match="ag.parse"):
            pickle.dumps(mlp())

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_program_with_threads_is_refused_in_a_forked_child(self):
        p = wide(threads=2)
        assert p.threads == 2
        p.step()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            (text,) = pool.apply_async(_step_in_child, (0,)).get(60), 
        assert "before this process was forked" in text

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_program_of_one_thread_runs_in_a_forked_child(self):
        wide(threads=1).step()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(_step_in_child, (0,)).get(60) == "ran"


_kept: list[ag.Program] = []


def wide(threads: int) -> ag.Program:
    """A program that is worth two threads."""
    with ag.build("wide") as b:
        x = b.input("x", (512, 512))
        b.output("y", (x @ x).tanh() @ x)
    p = ag.compile(b.graph, threads=threads)
    p.inputs["x"][:] = 0.01
    _kept[:] = [p]
    return p


def _step_in_child(_: int) -> str:
    try:
        _kept[0].step()
        return "ran"
    except ag.UsageError as e:
        return str(e)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone puts threads on cores")
class TestLatency:
    """What is set on a thread of its own: the thread that runs a step stays on its core."""

    @staticmethod
    def cores_after_a_step(p: ag.Program) -> set[int]:
        found = []

        def run():
            p.step()
            found.append(os.sched_getaffinity(0))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return found[0]

    def test_steps_run_on_the_core_they_are_given(self):
        cores, y = sorted(os.sched_getaffinity(0)), wide(threads=1).step()["y"].copy()
        p = wide(threads=1)
        p.pin([cores[-1]])
        assert self.cores_after_a_step(p) == {cores[-1]}
        np.testing.assert_array_equal(p.outputs["y"], y)
        with ag.build("double") as b:
            b.output("y", b.input("x", (3,)) * 2.0)
        p = ag.compile(b.graph, pin=cores[:1], spin=0)
        p.inputs["x"][:] = 1
        assert self.cores_after_a_step(p) == {cores[0]}
        assert os.sched_getaffinity(0) == set(cores)

    def test_threads_wait_as_told_and_give_the_same_bits(self):
        p, y = wide(threads=2), wide(threads=1).step()["y"].copy()
        for seconds in (0, 1e-3, math.inf):
            p.spin(seconds)
            p.step()
            np.testing.assert_array_equal(p.step()["y"], y)
        p.spin(0)

    def test_memory_is_brought_in_and_kept(self):
        with ag.build("double") as b:
            b.output("y", b.input("x", (3,)) * 2.0)
        p = ag.compile(b.graph)
        p.prefault()
        try:
            p.lock_memory()
        except ag.Error as e:
            assert e.kind == "memory" and "are not locked in memory" in str(e)
        outputs = p.step(x=np.ones(3, np.float32))
        assert outputs["y"].tolist() == [2, 2, 2]
        with pytest.raises(ag.UsageError, match="there are views of the program"):
            p.lock_memory()

    def test_what_cannot_be_is_refused_by_name(self):
        p = wide(threads=2)
        with pytest.raises(ag.PlanError, match=r"threads is 2, and there are fewer cores: \[0\]"):
            p.pin([0])
        with pytest.raises(ag.PlanError, match="core 0 is given twice"):
            p.pin([0, 1, 0])
        with pytest.raises(ag.IoError, match="no thread can be put on core 8192"):
            p.pin([8192, 8193])
        for cores in ([-1], 3, "01", [0.5], None):
            with pytest.raises(ag.PlanError, match="it is a list of numbers of cores, from 0"):
                p.pin(cores)
        for seconds in (-1, math.nan, -math.inf, 1e300):
            with pytest.raises(ag.PlanError, match="it is a number of seconds, 0 or more"):
                p.spin(seconds)
        with pytest.raises(ag.PlanError, match="there are fewer cores"):
            ag.compile(mlp(), threads=2, pin=[0])
        with pytest.raises(ag.PlanError, match="spin is -1"):
            ag.compile(mlp(), spin=-1)
        with pytest.raises(ag.PlanError, match="pin is x"):
            ag.compile_sized(mlp, pin="x")
        sized = ag.compile_sized(mlp, threads=2, pin=[0])
        with pytest.raises(ag.PlanError, match="there are fewer cores"):
            sized.init({"rows": 3})


def test_the_program_of_threads_has_the_same_bits():
    ys = [wide(threads).step()["y"].copy() for threads in (1, 2)]
    np.testing.assert_array_equal(*ys)


def test_plans_are_texts_maps_and_dictionaries(trained):
    plan = trained.plan
    d = plan.to_dict()
    assert d["arena_bytes"] == plan.arena_bytes > 0 and d["threads"] == 1
    assert {"fc1.weight", "x"} <= {b["name"] for b in d["buffers"]}
    assert any(b["location"] and "conftest.py:" in b["location"] for b in d["buffers"])
    html = plan._repr_html_()
    assert html.startswith("<svg") and "fc1.weight" in html
    assert "arena" in str(plan) and plan.html("My net").startswith("<!doctype html>")


def test_traces_are_texts_and_files(tmp_path):
    p = ag.compile(ag.train(mlp(), "loss", ag.optim.Sgd(0.1)), trace=True)
    p.init(0)
    trace = p.trace(**batch())
    assert trace.seconds > 0 and trace.to_dict()["calls"]
    assert "<pre>" in trace._repr_html_() and str(trace)
    trace.save_chrome(tmp_path / "t.json")
    assert (tmp_path / "t.json").read_text().startswith('{"traceEvents"')
    trained_without = ag.compile(mlp())
    trained_without.init(0)
    with pytest.raises(ag.DataError, match="compiled without a trace"):
        trained_without.trace(**batch())
    with pytest.raises(ag.PlanError):
        ag.compile({"a": mlp(), "b": mlp()}, trace=True)


class TestChoices:
    def test_memory_is_a_number_or_a_text(self):
        g = ag.train(mlp(), "loss", ag.optim.Sgd(0.1))
        assert ag.compile(g, max_memory="1 MiB").plan.arena_bytes <= 1 << 20
        with pytest.raises(ag.PlanError):
            ag.compile(g, max_memory=64)
        for bad in ("many", "4 XiB", "MiB", "inf", "-4MiB", -1, 1.5, True):
            with pytest.raises(ag.SyntaxError_, match="max_memory is"):
                ag.compile(g, max_memory=bad)

    def test_words_are_checked(self):
        with pytest.raises(ag.SyntaxError_, match="precision is 'f8'|precision is \"f8\""):
            ag.compile(mlp(), precision="f8")
        with pytest.raises(ag.SyntaxError_, match='keep is "f8"; it may be'):
            ag.compile(mlp(), keep="f8")
        for bad in (0, -1, 1.5):
            with pytest.raises(ag.PlanError, match=f"threads is {bad}"):
                ag.compile(mlp(), threads=bad)

    def test_find_nan_names_the_op_and_the_line(self):
        with ag.build("g") as b:
            y = b.input("x", (2,)).log()
            b.output("y", y)
        p = ag.compile(b.graph, find_nan=True)
        with pytest.raises(ag.DivergedError, match="log: 1 of 2 elements") as e:
            p.step(x=np.array([1, -1], np.float32))
        assert "test_program.py:" in e.value.location


def test_no_panic_leaves_the_extension():
    with pytest.raises(ag.Error, match="internal error: on purpose") as e:
        ag._arenagrad._panic("on purpose")
    assert isinstance(e.value, Exception)


def test_steps_leave_nothing_behind(double):
    import tracemalloc

    x = np.ones(3, np.float32)

    def run(n):
        for _ in range(n):
            double.step(x=x)["y"]
            double.inputs["x"]

    run(100)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(20_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 4096


def test_convolutions_are_computed_as_chosen():
    with ag.build("net") as b:
        x, w = b.input("x", (4, 16, 12, 12)), b.input("w", (20, 16, 3, 3))
        b.output("y", x.conv2d(w, padding=1))
    draw = np.random.default_rng(1).standard_normal
    values = {"x": draw((4, 16, 12, 12)).astype(np.float32), "w": draw((20, 16, 3, 3)).astype(np.float32)}
    direct = ag.compile(b.graph).step(**values)["y"].copy()
    points = ag.compile(b.graph, convolutions="winograd").step(**values)["y"]
    assert 0 < np.abs(direct - points).max() < 1e-4
    with pytest.raises(ag.Error, match='convolutions is "fast"; it may be direct, winograd'):
        ag.compile(b.graph, convolutions="fast")
