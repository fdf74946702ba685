"""Building graphs: ops by name, operators, layers, regions, errors at the line that made them."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest

import arenagrad as ag


def value(f, *arrays, dtype: str | None = None) -> np.ndarray:
    """What `f` of these arrays is."""
    with ag.build("g") as b:
        xs = [b.input(f"x{i}", a.shape, dtype or str(a.dtype)) for i, a in enumerate(arrays)]
        b.output("y", f(*xs))
    p = ag.compile(b.graph)
    return p.step(**{f"x{i}": a for i, a in enumerate(arrays)})["y"].copy()


A = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
B = np.array([2.0, 3.0, 0.5], np.float32)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: -a,
        lambda a, b: abs(a),
        lambda a, b: a < b,
        lambda a, b: a >= b,
        lambda a, b: 2.0 - a,
        lambda a, b: 3 / b,
        lambda a, b: 3.5 % b,
        lambda a, b: 7 // b,
        lambda a, b: 2.0**a,
        lambda a, b: a.reshape((3, -1)),
        lambda a, b: a.reshape(-1),
        lambda a, b: a @ a.transpose(),
        lambda a, b: a[1],
        lambda a, b: a[:, -1],
        lambda a, b: a[0, 1:],
        lambda a, b: a[::-1, ::2],
        lambda a, b: a[..., None, 1],
    ],
)
def test_operators_are_those_of_numpy(f):
    np.testing.assert_allclose(value(f, A, B), f(A, B), rtol=1e-6)


def test_numbers_on_the_left_of_integers():
    x = np.array([1, 2, 3], np.int32)
    for f in (lambda x: 2**x, lambda x: 7 % x, lambda x: 7 // x):
        np.testing.assert_array_equal(value(f, x), f(x))
    with pytest.raises(ag.ShapeError, match="2.5 is no element of i32"):
        value(lambda x: 2.5**x, x)


def test_integers_that_no_f64_holds_are_refused():
    x = np.array([1], np.int64)
    assert value(lambda x: x + 2**53, x)[0] == 2**53 + 1
    for n in (2**53 + 1, np.int64(2**53 + 1)):
        for f in (lambda x, n: x + n, lambda x, n: x.full_like(n), lambda x, n: x.maximum(n), lambda x, n: x.max(n)):
            with pytest.raises(ag.DataError, match="9007199254740993 is beyond the integers"):
                value(lambda x, f=f, n=n: f(x, n), x)
        with pytest.raises(ag.DataError, match="9007199254740993 is beyond the integers"):
            ag.build("g").param("p", [2], init=n, dtype="i64")


def test_sizes_that_are_computed():
    assert value(lambda a: a.unflatten(1, (-1, 3)), A).shape == (2, 1, 3)
    for sizes, text in [((-1, -1), "several sizes of -1"), ((-2, 3), "a size is -2"), ((4, -1), "makes 6 elements")]:
        with pytest.raises(ag.ShapeError, match=text):
            value(lambda a, sizes=sizes: a.reshape(sizes), A)
    b = ag.build("g")
    for call in (
        lambda: b.input("x", (-1, 3)),
        lambda: b.input("y", (2, 3)).top_k(-1),
        lambda: ag.nn.max_pool2d(b.input("z", (1, 1, 4, 4)), (2, -1)),
    ):
        with pytest.raises(ag.ShapeError, match="a size is -1; it must be 0 or more"):
            call()


def test_a_list_names_rows():
    np.testing.assert_array_equal(value(lambda a: a[[1, 0, -1, 1]], A), A[[1, 0, -1, 1]])
    assert value(lambda a: a[[]], A).shape == (0, 3)


def test_powers_and_bools():
    np.testing.assert_allclose(value(lambda b: b**2.0, B), B**2)
    bits = value(lambda a: (a > 0.0) & ~(a > 2.0) | (a < -1.5), A)
    np.testing.assert_array_equal(bits, (A > 0) & ~(A > 2) | (A < -1.5))


def test_a_value_is_no_number_and_no_array():
    b = ag.build("g")
    x = b.input("x", (2,))
    with pytest.raises(TypeError, match="has no value while the graph is built"):
        bool(x > 0.0)
    with pytest.raises(TypeError):
        np.ones(2) + x
    with pytest.raises(TypeError):
        x + "a"
    assert x == x and x != x + 1.0 and len({x, x}) == 1
    assert [v.shape for v in x] == [(), ()]
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[0, 0]
    with pytest.raises(TypeError):
        x[True]
    with pytest.raises(IndexError, match="index -3 is outside an axis of 2"):
        x[[0, -3]]
    with pytest.raises(TypeError, match="a list or a Var of integers"):
        x[[0.5]]


def test_every_op_is_a_method_with_documentation():
    var, builder = vars(ag.Var), vars(ag.Build)
    for name, doc, least, _most, attrs in ag._arenagrad._op_table():
        if any(kind == "region" for _, kind, _ in attrs):
            continue
        table = builder if least == 0 else var
        method = table.get(name) or table.get(name + "_") or builder.get(name)
        assert method is not None and method.__doc__, name
        assert inspect.signature(method) is not None
    assert "softmax" in ag.Var.softmax.__doc__


def test_ops_of_the_table_compute():
    np.testing.assert_allclose(value(lambda a: a.erf().exp2(), A)[0, 0], 2 ** 0.9661051464753108, rtol=1e-6)
    np.testing.assert_allclose(value(lambda a, b: a.atan2(b), A, B), np.arctan2(A, B), rtol=1e-6)
    np.testing.assert_allclose(value(lambda a: a.hypot(2.0), A), np.hypot(A, 2), rtol=1e-6)
    np.testing.assert_allclose(value(lambda a: a.reduce_sum(axes=[-1], keep=True), A), A.sum(-1, keepdims=True))
    np.testing.assert_allclose(value(lambda a: a.logsumexp([1]), A), np.log(np.exp(A).sum(1)), rtol=1e-6)
    y = value(lambda a: a.builder.op("softmax", a, axis=-1), A)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)


def test_faults_of_attributes_are_those_of_the_text_form():
    b = ag.build("g")
    x = b.input("x", (2, 3))
    for call, text in [
        (lambda: b.op("softmax", x, axis=0.5), "attribute axis of softmax takes a 64-bit integer, not 0.5"),
        (lambda: b.op("softmax", x), "attribute axis of softmax is missing"),
        (lambda: b.op("softmax", x, axes=1), "softmax has no attribute axes; did you mean axis?"),
        (lambda: b.op("softmx", x), 'there is no op "softmx"; did you mean softmax?'),
        (lambda: b.op("softmax", x, x, axis=0), "softmax"),
        (lambda: x.softmax(5), "axis 5 is outside rank 2"),
        (lambda: x.mse(x, reduction="max"), 'reduction is "max"; it may be none, mean, sum'),
    ]:
        with pytest.raises(ag.Error) as e:
            call()
        assert text in str(e.value)
        assert str(e.value.location).startswith(__file__) or "reduction" in text
    # The graph goes on without what failed.
    assert b.finish(y=x.softmax()).outputs.keys() == {"y"}


def test_the_location_of_a_node_is_the_caller():
    b = ag.build("g")
    x = b.input("x", (2, 3))
    with pytest.raises(ag.ShapeError) as e:
        x @ x
    line = inspect.currentframe().f_lineno - 1
    assert e.value.location == f"{__file__}:{line}" and e.value.kind == "shape"
    assert f"inner dimensions 3 and 2 differ, at {__file__}:{line}" in str(e.value)


def test_values_of_another_builder_are_refused():
    a, b = ag.build("a").input("x", (2,)), ag.build("b").input("x", (2,))
    for call in (lambda: a + b, lambda: a.mse(b), lambda: a.atan2(b), lambda: a.builder.output("y", b)):
        with pytest.raises(ag.VerifyError, match="another builder"):
            call()


def test_another_thread_cannot_build_meanwhile():
    b = ag.build("g")
    x = b.input("x", ())
    said = []

    def other():
        try:
            b.input("y", ())
        except ag.Error as e:
            said.append(str(e))

    def body():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    b.cond(x > 0.0, body, lambda: x)
    assert "another thread is building" in said[0]


def test_a_graph_is_finished_once():
    b = ag.build("g")
    with pytest.raises(ag.StageError, match="not finished"):
        b.graph
    x = b.input("x", (2,))
    g = b.finish(x.exp(), y=x.named("other"))
    assert list(g.outputs) == ["out0", "y"] and b.finish() == g
    with pytest.raises(ag.StageError, match="no further outputs"):
        b.finish(z=x)
    with pytest.raises(ag.Error, match="finished"):
        b.input("z", (2,))
    with pytest.raises(ZeroDivisionError):
        with ag.build("g") as b:
            1 / 0
    with pytest.raises(ag.StageError):
        b.graph


def test_taps_names_and_symbols():
    with ag.build("g", sizes={"batch": 4}) as b:
        b.input("x", (2 * b.symbol("batch"), 3)).exp().tap("e").sum(1).tap("s")
    assert {n: s.shape for n, s in b.graph.outputs.items()} == {"e": (8, 3), "s": (8,)}
    with pytest.raises(ag.Error, match='symbol "len" has no size'):
        ag.build("g", sizes={"batch": 4}).symbol("len")


def test_constants_take_arrays_lists_and_numbers():
    with ag.build("g") as b:
        b.output("a", b.constant(A))
        b.output("l", b.constant([1, 2]))
        b.output("f", b.constant([0.5, 2.0], "f64"))
        b.output("n", b.constant(3.0) + b.full(1.0))
    out = ag.compile(b.graph).step()
    np.testing.assert_array_equal(out["a"], A)
    assert out["l"].dtype == np.int32 and out["f"].dtype == np.float64 and out.item("n") == 4
    with pytest.raises(ag.DataError, match="holds no numbers"):
        ag.build("g").constant(["a"])


class TestRegions:
    def test_scan(self):
        with ag.build("g") as b:
            x, rate = b.input("x", (3,)), b.input("rate", ())

            def body(s, x):
                s = s * rate + x
                return s, s

            last, years = b.scan(b.full(0.0), x, body)
            b.output("last", last)
            b.output("years", years)
        out = ag.compile(b.graph).step(x=np.full(3, 100, np.float32), rate=1.5)
        assert out["years"].tolist() == [100, 250, 475] and out.item("last") == 475

    def test_cond_fori_while_and_vmap(self):
        with ag.build("g") as b:
            x, n = b.input("x", ()), b.input("n", (), "i32")
            b.output("root", b.cond(x > 0.0, lambda: x.sqrt(), lambda: x * 0.0)[0])
            b.output("power", b.fori(n, 8, [b.full(1.0)], lambda i, y: y * x)[0])
            y, trips = b.while_loop([x], 50, lambda y: y > 1.0, lambda y: y * 0.5)
            b.output("half", y)
            b.output("trips", trips)
            b.output("sums", b.vmap([b.constant(A)], lambda row: row.sum())[0])
        out = ag.compile(b.graph).step(x=4.0, n=3)
        assert [out.item(k) for k in ("root", "power", "half", "trips")] == [2, 64, 1, 2]
        np.testing.assert_allclose(out["sums"], A.sum(1))

    def test_switch_and_functions_with_derivatives_of_their_own(self):
        with ag.build("g") as b:
            x, mode = b.input("x", (3,)), b.input("mode", (), "i32")
            b.output("y", b.switch(mode, [lambda: x.sin(), lambda: x.cos(), lambda: (x,)])[0])
        p = ag.compile(b.graph)
        xs = np.array([-1000, 0, 1000], np.float32)
        assert p.step(x=xs, mode=2)["y"].tolist() == xs.tolist()
        with pytest.raises(ag.DataError, match="is 3; it must be in 0..3"):
            p.step(mode=3)

        def body(x):
            return x.maximum(0.0) + (-abs(x)).exp().log1p()

        for rules in ({"jvp": lambda x, y, dx: x[0].sigmoid() * dx[0]}, {"vjp": lambda x, y, dy: (x[0].sigmoid() * dy[0],)}):
            with ag.build("g") as b:
                (y,) = b.custom_fn("softplus", b.input("x", (3,)), body, **rules)
                b.output("loss", y.sum())
            grad = ag.compile(b.graph.grad("loss", ["x"])).step(x=xs)["grad.x"]
            assert grad.tolist() == [0, 0.5, 1]
        with ag.build("g") as b:
            (y,) = b.custom_fn("still", b.input("x", (3,)), lambda x: x * x, vjp=lambda x, y, dy: None)
            b.output("loss", y.sum())
        assert not ag.compile(b.graph.grad("loss", ["x"])).step(x=xs)["grad.x"].any()

    def test_an_exception_of_a_body_comes_out_as_it_is(self):
        b = ag.build("g")
        x = b.input("x", (3,))
        with pytest.raises(ZeroDivisionError):
            b.scan(b.full(0.0), x, lambda s, x: 1 / 0)
        with pytest.raises(TypeError):
            b.cond(x.sum() > 0.0, lambda: "no value", lambda: x)
        assert b.finish(y=x + 1.0).outputs.keys() == {"y"}


class TestLayers:
    def test_layers_have_torchs_params(self):
        with ag.build("g") as b:
            x = b.input("x", (2, 3, 8, 8))
            h = ag.nn.conv2d("conv", x, 4, (3, 3), stride=2, padding=1, bias=False)
            h = ag.nn.batch_norm("bn", h).relu()
            h = ag.nn.max_pool2d(h, 2).flatten(1)
            b.output("y", ag.nn.linear("fc", h, 5, weight_init=ag.nn.init.orthogonal(), bias_init="zeros"))
        assert {n: s.shape for n, s in b.graph.params.items()} == {
            "conv.weight": (4, 3, 3, 3),
            "bn.weight": (4,),
            "bn.bias": (4,),
            "fc.weight": (5, 16),
            "fc.bias": (5,),
        }
        assert "bn.running_mean" in b.graph.states

    def test_recurrent_layers_and_transformers(self):
        with ag.build("g") as b:
            tokens = b.input("tokens", (2, 7), "i32")
            x = ag.nn.embedding("emb", tokens, 11, 8)
            y, h, c = ag.nn.lstm("lstm", x, 4, layers=2, bidirectional=True, batch_first=True)
            z = ag.nn.transformer_block("block", x, 2, 16, feed_forward="gelu", norm_first=True, causal=True)
            b.output("y", y)
            b.output("z", z)
            b.output("logits", ag.nn.gpt(tokens, 11, 7, 1, 2, 8))
        assert y.shape == (2, 7, 8) and h.shape == c.shape == (4, 2, 4) and z.shape == (2, 7, 8)
        p = ag.compile(b.graph)
        p.init(0)
        assert np.isfinite(p.step(tokens=np.ones((2, 7), np.int32))["logits"]).all()

    def test_wrong_use_names_the_layer_and_the_line(self):
        x = ag.build("g").input("x", (2, 3))
        with pytest.raises(ag.ShapeError, match="fc") as e:
            ag.nn.linear("fc", x, 4, inputs=5)
        assert e.value.location.startswith(__file__)
        with pytest.raises(ag.ShapeError, match="3 numbers are given; there are 2 axes"):
            ag.nn.conv2d("c", x, 4, (1, 2, 3))
        with pytest.raises(TypeError, match="linear needs a Var"):
            ag.nn.linear("fc", np.ones((2, 3)), 4)
        with pytest.raises(TypeError, match="is no start value"):
            ag.nn.linear("fc", x, 4, weight_init="normal")

    def test_training_and_evaluation(self):
        nets = []
        for training in (True, False):
            with ag.build("g") as b:
                b.training(training)
                b.output("y", ag.nn.dropout(b.input("x", (64,)), 0.5))
            nets.append(b.graph)
        p = ag.compile(nets[1])
        assert p.step(x=np.ones(64, np.float32))["y"].all()
        p = ag.compile(nets[0])
        p.init(0)
        assert not p.step(x=np.ones(64, np.float32))["y"].all()


class TestGraphs:
    TEXT = "graph @g {\n  %x = input : f32[batch,2]\n  %y = mul %x, %x\n  return y=%y\n}\n"

    def test_texts_and_files(self, tmp_path):
        g = ag.parse(self.TEXT, sizes={"batch": 3})
        assert str(g.outputs["y"]) == "f32[3,2]" and ag.parse(str(g)) == g and g.name == "g"
        (tmp_path / "g.ir").write_text(self.TEXT)
        assert ag.parse(tmp_path / "g.ir", sizes={"batch": 3}) == g
        assert ag.parse(str(tmp_path / "g.ir"), sizes={"batch": 3}) == g
        with pytest.raises(ag.IoError, match="nothing.ir"):
            ag.parse(tmp_path / "nothing.ir")
        (tmp_path / "b.ir").write_bytes(b"\xff\xfe")
        with pytest.raises(ag.SyntaxError_, match="no text"):
            ag.parse(tmp_path / "b.ir")
        with pytest.raises(ag.Error):
            ag.parse(self.TEXT)
        with pytest.raises(ag.Error) as e:
            ag.parse("graph @g {\n  %y = ex %x\n}")
        assert e.value.location == "line 2:8"
        assert g._repr_html_().startswith("<pre>graph @g")

    def test_transforms(self):
        with ag.build("g") as b:
            x = b.input("x", (3,))
            b.output("loss", (x * x * x).sum())
        g = b.graph
        xs = np.array([1, 2, 3], np.float32)
        run = lambda g, **k: ag.compile(g).step(x=xs, **k)  # noqa: E731
        np.testing.assert_allclose(run(g.grad("loss", ["x"]))["grad.x"], 3 * xs**2)
        np.testing.assert_allclose(run(g.jvp(["loss"], ["x"]), **{"tangent.x": xs}).item("tangent.loss"), 3 * (xs**3).sum())
        np.testing.assert_allclose(run(g.vjp(["loss"], ["x"]), **{"cotangent.loss": 2.0})["grad.x"], 6 * xs**2)
        hvp = run(g.hvp("loss", ["x"]), **{"tangent.x": np.ones(3, np.float32)})
        np.testing.assert_allclose(hvp["tangent.grad.x"], 6 * xs)
        assert g.vmap(5, ["x"]).inputs["x"].shape == (5, 3) and g.vmap(5, {"x": 1}).inputs["x"].shape == (3, 5)
        np.testing.assert_allclose(run(g.jacobian("loss", "x"))["jacobian.x"], 3 * xs**2)
        with pytest.raises(ag.NameError_, match="los"):
            g.grad("los", ["x"])
        with pytest.raises(ag.SyntaxError_, match="missing is"):
            g.grad("loss", ["x"], missing="maybe")
        with pytest.raises(ag.SyntaxError_, match="randomness is"):
            g.vmap(2, ["x"], randomness="some")

    def test_warnings_tell_likely_mistakes(self):
        graphs = []
        for wrong in (True, False):
            with ag.build("g") as b:
                x = b.input("x", (4, 3))
                b.output("loss", (x.softmax() if wrong else x).cross_entropy(b.input("y", (4,), "i32")))
            graphs.append(b.graph)
        assert any("softmax" in w and "test_build.py" in w for w in graphs[0].warnings)
        assert graphs[1].warnings == []
        assert ag.compile(graphs[0]).plan.warnings == graphs[0].warnings


def test_graphs_with_attention_and_draws_are_extended() -> None:
    """New draws differ from those of the graph."""
    with ag.build("net") as b:
        x = b.input("x", (1, 2, 3, 4))
        b.output("y", ag.nn.attention(x, x, x))
        b.output("u", b.uniform((1000,)))
    with b.graph.extend() as more:
        more.output("v", more.uniform((1000,)))
        more.output("loss", more.value("y").mean())
    p = ag.compile(more.graph)
    p.init(seed=0)
    out = p.step(x=np.ones((1, 2, 3, 4), np.float32))
    assert out["loss"] == pytest.approx(1.0)
    assert not np.array_equal(out["u"], out["v"])
