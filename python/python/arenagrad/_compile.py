"""Texts to graphs, and graphs to programs."""

from __future__ import annotations

import operator
import os

from ._arenagrad import Graph, Program, SizedProgram, _compile, _compile_sized, _parse
from ._errors import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _bytes(size: int | str) -> int:
    """`4 << 20` or `"4MiB"` as a number of bytes."""
    text = str(size).strip()
    number = text.rstrip("KMGiIBbkmg ")
    unit = text[len(number) :].strip().upper()
    try:
        count = operator.index(size) if not isinstance(size, str) else int(float(number) * _UNITS[unit])
    except (KeyError, OverflowError, TypeError, ValueError):
        count = -1
    if count < 0 or isinstance(size, bool):
        raise make("syntax", f"max_memory is {size!r}; it is a number of bytes, or a text like '4MiB'")
    return count


def _threads(threads: int) -> int:
    """The number of threads, 1 or more."""
    try:
        count = operator.index(threads)
    except TypeError:
        count = 0
    if count < 1:
        raise make("plan", f"threads is {threads!r}; it must be 1 or more")
    return count


def parse(text_or_path: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> Graph:
    """The graph of a text, or of the file at a path (a `PathLike`, or one line that ends in `.ir`).

    `sizes` gives the symbols of the text their numbers.

    >>> import arenagrad as ag
    >>> text = '''graph @g {
    ...   %x = input : f32[batch,2]
    ...   return y=%x
    ... }'''
    >>> ag.parse(text, sizes={"batch": 7}).inputs
    {'x': f32[7,2]}
    """
    if isinstance(text_or_path, str) and ("\n" in text_or_path or not text_or_path.endswith(".ir")):
        text = text_or_path
    else:
        path = os.fspath(text_or_path)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as e:
            raise make("io", f"{path}: {e.strerror}") from e
        except UnicodeDecodeError as e:
            raise make("syntax", f"{path}: the file is no text: {e}") from e
    return _parse(text, sizes=None if sizes is None else list(sizes.items()))


def check_casting(casting: str | None) -> None:
    """An error unless `casting` is a rule for the types of inputs."""
    if casting not in (None, "no", "same_kind"):
        raise make("syntax", f"casting is {casting!r}; it may be 'no' or 'same_kind'")


def _choices(casting: str | None, max_memory: int | str | None, more: dict[str, Any]) -> dict[str, Any]:
    """A session's choices, as the extension takes them."""
    check_casting(casting)
    precisions = list((more.pop("precisions") or {}).items())
    budget = None if max_memory is None else _bytes(max_memory)
    threads = _threads(more.pop("threads"))
    return {"casting": casting, "max_memory": budget, "precisions": precisions, "threads": threads, **more}


def compile(
    graph: Graph | Mapping[str, Graph],
    *,
    threads: int = 1,
    pin: Sequence[int] | None = None,
    spin: float | None = None,
    max_memory: int | str | None = None,
    precision: str = "f32",
    precisions: Mapping[str, str] | None = None,
    convolutions: str = "direct",
    keep: str | None = None,
    find_nan: bool = False,
    optimise: bool = True,
    poison: bool = False,
    trace: bool = False,
    casting: str | None = None,
) -> Program:
    """The program of a graph, or of several: a dict from names of methods to graphs, which share params and states.

    * `threads`: most threads; results do not depend on it.
    * `pin`: the core of each thread, the caller's first; `spin`: the seconds for which the others look for the next step
      before they sleep. `Program.pin` and `Program.spin` set them later.
    * `max_memory`: most bytes of the arena, as a number or as `"4MiB"`.
    * `precision`: that of matrix products, as `"bf16"`; `precisions` by patterns of params' names.
    * `convolutions`: `"winograd"` computes those of 3 × 3 kernels in down to half the time, at about twice the error.
    * `keep`: the type in which values wait for the backward half, as `"bf16"`.
    * `find_nan`: a step fails at the op that makes the first NaN.
    * `optimise=False` runs only the passes that each op needs; `poison` checks plans and kernels while stepping.
    * `trace`: `program.trace()` can record steps.
    * `casting`: `"same_kind"` lets floats of another width into inputs.

    >>> import arenagrad as ag
    >>> with ag.build("double") as b:
    ...     b.output("y", b.input("x", (3,)) * 2.0)
    >>> ag.compile(b.graph, max_memory="1MiB").step(x=[1.0, 2.0, 3.0], casting="same_kind")["y"].tolist()
    [2.0, 4.0, 6.0]
    """
    if callable(graph):
        raise make("usage", "a graph is compiled; compile_sized() compiles a function of sizes")
    graphs = [("step", graph)] if isinstance(graph, Graph) else list(graph.items())
    if trace and len(graphs) != 1:
        raise make("plan", "trace=True records a program of one method")
    more = {
        "threads": threads,
        "pin": pin,
        "spin": spin,
        "precision": precision,
        "precisions": precisions,
        "convolutions": convolutions,
        "keep": keep,
        "find_nan": find_nan,
        "optimise": optimise,
        "poison": poison,
        "trace": trace,
    }
    return _compile(graphs, _choices(casting, max_memory, more))


def compile_sized(
    recipe: Callable[..., Graph],
    *,
    threads: int = 1,
    pin: Sequence[int] | None = None,
    spin: float | None = None,
    max_memory: int | str | None = None,
    precision: str = "f32",
    precisions: Mapping[str, str] | None = None,
    convolutions: str = "direct",
    keep: str | None = None,
    find_nan: bool = False,
    casting: str | None = None,
) -> SizedProgram:
    """A net at sizes that vary: `recipe` is called with sizes by name, once for each choice of them, and gives a graph.

    All sizes share params and states. The choices are those of `compile`.

    >>> import arenagrad as ag, numpy as np
    >>> def net(batch):
    ...     with ag.build("net") as b:
    ...         b.output("y", b.input("x", (batch, 2)).sum(1))
    ...     return b.graph
    >>> ag.compile_sized(net).step({"batch": 3}, x=np.ones((3, 2), np.float32))["y"].tolist()
    [2.0, 2.0, 2.0]
    """
    more = {
        "threads": threads,
        "pin": pin,
        "spin": spin,
        "precision": precision,
        "precisions": precisions,
        "convolutions": convolutions,
        "keep": keep,
        "find_nan": find_nan,
        "optimise": True,
        "poison": False,
        "trace": False,
    }
    return _compile_sized(recipe, _choices(casting, max_memory, more))
