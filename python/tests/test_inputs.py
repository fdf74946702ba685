"""What may be written into inputs, and what is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import arenagrad as ag


def compiled(dtype: str, shape=(3,)) -> ag.Program:
    with ag.build("same") as b:
        b.output("y", b.input("x", shape, dtype).reshape(shape))
        b.output("z", b.full(1.0, (), "f32"))
    return ag.compile(b.graph)


ONE = np.array([1, 2, 3], np.float32)


def refused(p: ag.Program, value, *words: str, **more) -> None:
    with pytest.raises(ag.DataError) as e:
        p.step(x=value, **more)
    for word in words:
        assert word in str(e.value)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "bool", "complex64", "complex128"])
def test_each_element_type_goes_in_and_comes_out(name):
    array = np.array([0, 1, 1], name)
    short = {"complex64": "c64", "complex128": "c128", "bool": "bool"}
    dtype = short.get(name) or name.replace("float", "f").replace("uint", "u").replace("int", "i")
    y = compiled(dtype).step(x=array)["y"]
    assert y.dtype == array.dtype
    np.testing.assert_array_equal(y, array)


def test_shapes_are_exact(double):
    refused(double, np.ones((1, 3), np.float32), 'input "x" is f32[3]', "float32[1,3]")
    refused(double, np.ones(4, np.float32), "float32[4]")
    refused(double, np.float32(1), "float32[]")


def test_floats_of_another_width_need_casting(double):
    wide = ONE.astype(np.float64)
    refused(double, wide, "float64[3]", 'casting="same_kind"')
    assert double.step(x=wide, casting="same_kind")["y"].tolist() == [2, 4, 6]
    with pytest.raises(ag.DataError):
        double.step(x=np.array([1, 2, 3]), casting="no")
    p = ag.compile(ag.parse("graph @g {\n %x = input : f32[3]\n return y=%x\n}"), casting="same_kind")
    assert p.step(x=wide)["y"].dtype == np.float32
    with pytest.raises(ag.SyntaxError_, match="casting is 'unsafe'"):
        ag.compile(ag.parse("graph @g {\n %x = input : f32[3]\n return y=%x\n}"), casting="unsafe")


def test_integers_are_narrowed_if_they_fit():
    p = compiled("i32")
    assert p.step(x=np.array([1, -2, 3], np.int64))["y"].tolist() == [1, -2, 3]
    refused(p, np.array([1, 2**31, 3], np.int64), "do not fit int32", str(2**31))
    refused(p, np.array([1.0, 2.0, 3.0]), "float64[3]")
    refused(p, np.array([True, False, True]), "bool[3]")
    q = compiled("u8")
    refused(q, np.array([0, -1, 3], np.int64), "do not fit uint8")


def test_masked_elements_are_refused(double, tmp_path):
    refused(double, np.ma.masked_array(ONE, [False, True, False]), "1 elements are masked", "filled")
    assert double.step(x=np.ma.masked_array(ONE))["y"].tolist() == [2, 4, 6]
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=3)
    mapped[:] = ONE
    assert double.step(x=mapped)["y"].tolist() == [2, 4, 6]


def test_strided_arrays_are_copied(double):
    wide = np.arange(12, dtype=np.float32)
    assert double.step(x=wide[::4])["y"].tolist() == [0, 8, 16]
    assert double.step(x=wide[2::-1])["y"].tolist() == [4, 2, 0]
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    p = compiled("f32", (3, 3))
    np.testing.assert_array_equal(p.step(x=square.T)["y"], square.T)


def test_read_only_and_misaligned_arrays_are_fine(double):
    frozen = ONE.copy()
    frozen.flags.writeable = False
    assert double.step(x=frozen)["y"].tolist() == [2, 4, 6]
    raw = np.zeros(13, np.uint8)
    raw[1:] = np.frombuffer(ONE.tobytes(), np.uint8)
    askew = raw[1:].view(np.float32)
    assert not askew.flags.aligned
    assert double.step(x=askew)["y"].tolist() == [2, 4, 6]


def test_arrays_without_numbers_are_refused(double):
    refused(double, np.array([1, None, "a"], object), "object", "holds no numbers")
    refused(double, np.array(["a", "b", "c"]), "holds no numbers")
    refused(double, "abc", "holds no numbers")
    refused(double, [[1.0], [1.0, 2.0]], "no array")
    refused(double, ONE.astype(">f4"), "foreign byte order")


def test_numbers_are_inputs_of_scalars():
    with ag.build("g") as b:
        b.output("y", b.input("x", ()) * b.input("n", (), "i32").cast("f32"))
    p = ag.compile(b.graph)
    assert p.step(x=2, n=3).item("y") == 6
    assert p.step(x=0.5, n=np.int64(4)).item("y") == 2
    with pytest.raises(ag.DataError):
        p.step(x=1.0, n=0.5)
    with pytest.raises(ag.DataError, match="do not fit int32"):
        p.step(x=1.0, n=2**40)


class Tensor:
    """An object that has `__array__`, as a data frame has."""

    def __array__(self, dtype=None, copy=None):
        return ONE


class Capsule:
    """An object that has `__dlpack__` alone, as a tensor of another library."""

    def __dlpack__(self, **kw):
        return ONE.__dlpack__()

    def __dlpack_device__(self):
        return ONE.__dlpack_device__()


@pytest.mark.parametrize("value", [Tensor(), Capsule()])
def test_objects_that_have_arrays_are_taken(double, value):
    assert double.step(x=value)["y"].tolist() == [2, 4, 6]


def test_buffers_are_taken(double):
    assert double.step(x=(ctypes.c_float * 3)(1, 2, 3))["y"].tolist() == [2, 4, 6]


def test_unknown_and_missing_inputs_are_named(double):
    with pytest.raises(ag.NameError_, match='there is no input "z"; there are x'):
        double.step(z=ONE)
    with pytest.raises(ag.NameError_, match='there is no input "y"; .* there is a output of that name|output of that name'):
        double.step(y=ONE)
    with ag.build("g") as b:
        b.output("y", b.input("x", (3,)) + 1.0)
    with pytest.raises(ag.DataError, match='input "x" .* was never written'):
        ag.compile(b.graph).step()


def test_lists_of_names_are_short():
    with ag.build("g") as b:
        b.output("y", sum((b.input(f"x{i}", ()) for i in range(20)), b.full(0.0)))
    with pytest.raises(ag.NameError_) as e:
        ag.compile(b.graph).step(nothing=1.0)
    assert "x7, 12 more" in str(e.value)


def test_numbers_are_no_bits_of_bf16():
    with ag.build("g") as b:
        b.output("y", b.input("x", (3,), "bf16").cast("f32"))
    half = ag.compile(b.graph)
    bits = np.array([1.0, -2.5, 0.0], np.float32).view(np.uint32) >> 16
    assert half.step(x=bits.astype(np.uint16))["y"].tolist() == [1.0, -2.5, 0.0]
    for x in ([1, 2, 3], np.ones(3, np.int64), np.ones(3, np.uint8), ONE):
        refused(half, x, "written as its bits in uint16")


def test_constants_lose_nothing_but_the_rounding_of_floats():
    b = ag.build("g")
    for value, dtype, kind in [(7, None, "i32"), (2**40, "i64", "i64"), (3.0, "u8", "u8"), (True, "i32", "i32"), (0.1, None, "f32")]:
        assert b.constant(value, dtype).dtype == kind
    for value, dtype in [(2**40, None), ([1, 2**31], None), (300, "u8"), (-1, "u8"), (1.5, "i32"), (float("nan"), "i64"), (1 + 2j, "f32"), (1.0, "bf16")]:
        with pytest.raises(ag.DataError, match="constant: "):
            b.constant(value, dtype)


class TestOut:
    def test_outputs_are_copied(self, double):
        into = np.zeros(3, np.float32)
        double.step(x=ONE, out={"y": into})
        assert into.tolist() == [2, 4, 6]
        wide = np.zeros(6, np.float32)
        double.step(x=ONE, out={"y": wide[::2]})
        assert wide.tolist() == [2, 0, 4, 0, 6, 0]

    def test_what_does_not_fit_is_refused(self, double):
        good = np.zeros(3, np.float32)
        refused(double, ONE, "out is a dict", out=good)
        refused(double, ONE, "float64[3]", out={"y": np.zeros(3)})
        refused(double, ONE, "float32[4]", out={"y": np.zeros(4, np.float32)})
        refused(double, ONE, "negative strides", out={"y": good[::-1]})
        refused(double, ONE, "foreign byte order", out={"y": np.zeros(3, ">f4")})
        refused(double, ONE, "holds no numbers", out={"y": np.zeros(3, object)})
        refused(double, ONE, "is list", out={"y": [0.0, 0.0, 0.0]})
        good.flags.writeable = False
        refused(double, ONE, "read-only", out={"y": good})
        with pytest.raises(ag.NameError_, match='there is no output "w"'):
            double.step(x=ONE, out={"w": np.zeros(3, np.float32)})

    def test_out_over_an_input_is_refused(self, double):
        refused(double, ONE, "the program's own memory", out={"y": double.inputs["x"]})

    def test_an_input_may_be_called_out(self):
        with ag.build("g") as b:
            b.output("y", b.input("out", (3,)) + b.input("casting", (3,)))
        assert ag.compile(b.graph).step(out=ONE, casting=ONE)["y"].tolist() == [2, 4, 6]
