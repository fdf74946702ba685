"""Writes the Python functions and stubs that follow from the tables of the extension: `_ops.py` (methods of Var and
Build), `nn/_layers.py` (layers), `optim/_kinds.py` (optimisers and schedules).

Run it after a change of an op, a forward or a kind: `python tools/write_ops.py`. `--check` says whether the files are up
to date; a test runs it.
"""

from __future__ import annotations

import importlib.util
import keyword
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "python" / "arenagrad"


def extension() -> Any:
    """The extension module, also where the files that follow from it are not yet written."""
    try:
        from arenagrad import _arenagrad

        return _arenagrad
    except ImportError:
        found = next(HERE.glob("_arenagrad*.so"))
        spec = importlib.util.spec_from_file_location("_arenagrad", found)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


ext = extension()

HEAD = '''"""{doc}

Made by tools/write_ops.py from the tables of the extension. Do not edit it.
"""

from __future__ import annotations

{imports}
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from {up}_arenagrad import Var
    from {up}_types import Axes, DTypeLike, InitLike, Operand, Shape, Vars
'''


def parameters(signature: str) -> list[str]:
    """The names of the parameters of `(a: int, *b: Var) -> Var`, as arguments of a tuple."""
    inner = signature[1 : signature.rindex(") ->")]
    parts, depth, part = [], 0, ""
    for c in inner:
        depth += c in "[(" and 1 or (-1 if c in "])" else 0)
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    names = [p.split(":")[0].strip() for p in parts if p.strip()]
    return [n.lstrip("*") for n in names]


def doc_lines(doc: str) -> str:
    return doc.replace("\\", "\\\\").replace('"""', "'''")


def method(name: str, signature: str, doc: str) -> str:
    args = parameters(signature)
    tuple_ = "(" + ", ".join(args) + ("," if len(args) == 1 else "") + ")"
    inner = signature[1:]
    joined = "(self, " + inner if args else "(self" + inner
    return f'''
    def {name}{joined}:  # noqa: E501
        """{doc_lines(doc)}"""
        return self._call("{name}", {tuple_})  # type: ignore[attr-defined, no-any-return]
'''


def op_method(name: str, doc: str, least: int, most: int, attrs: list[tuple[str, str, bool]], of_builder: bool) -> str:
    """The method of an op: its operands by position, its attributes by position or name."""
    own = 0 if of_builder else 1
    call = [] if of_builder else ["self"]
    params = ["self"]
    if most == least:
        names = ["other", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"][: max(0, least - own)]
        taken = {a[0] for a in attrs}
        names = [n + "_" if n in taken else n for n in names]
        params += [f"{n}: Operand" for n in names] + (["/"] if names else [])
        call += names
    else:
        params += ["*operands: Operand"]
        call += ["*operands"]
    needed = [a for a in attrs if not a[2]]
    optional = [a for a in attrs if a[2]]
    safe = lambda a: a + "_" if keyword.iskeyword(a) else a  # noqa: E731
    params += [f"{safe(n)}: {kind}" for n, kind, _ in needed]
    params += [f"{safe(n)}: {kind} | None = None" for n, kind, _ in optional]
    call += [f"{safe(n)}={safe(n)}" for n, _, _ in needed + optional]
    target = "self" if of_builder else "self.builder"
    arguments = ", ".join([f'"{name}"', *call])
    return f'''
    def {safe(name)}({", ".join(params)}) -> Any:  # noqa: E501
        """{doc_lines(doc)}"""
        return {target}.op({arguments})  # type: ignore[attr-defined]
'''


def ops_file() -> str:
    var = {n: method(n, s, d) for n, s, d in ext._forwards("var")}
    builder = {n: method(n, s, d) for n, s, d in ext._forwards("builder")}
    # Layers of a value without a name, such as pools, are its methods, too.
    for name, signature, doc in ext._forwards("nn"):
        if name not in var and signature.startswith("(x: Var, "):
            var[name] = method(name, "(" + signature.removeprefix("(x: Var, "), doc)
    own = {"op", "symbol", "output", "update", "training", "constant", "finish", "graph"}
    for name, doc, least, most, attrs in ext._op_table():
        if any(kind == "region" for _, kind, _ in attrs):
            continue
        if least == 0:
            if name not in builder and name not in own:
                builder[name] = op_method(name, doc, least, most, attrs, True)
        elif name not in var:
            var[name] = op_method(name, doc, least, most, attrs, False)
    text = HEAD.format(doc="Methods of values and builders: one for each op, and those of the library.", imports="", up=".")
    text += '\n\nclass VarOps:\n    """The methods of `Var` that follow from the tables."""\n' + "".join(v for _, v in sorted(var.items()))
    text += '\n\nclass BuilderOps:\n    """The methods of `Build` that follow from the tables."""\n' + "".join(v for _, v in sorted(builder.items()))
    return text


def layers_file() -> str:
    text = HEAD.format(doc="Layers, convolutions, pools and losses.", imports="from .._arenagrad import _layer\n", up="..")
    table = ext._forwards("nn")
    for name, signature, doc in table:
        args = parameters(signature)
        tuple_ = "(" + ", ".join(args) + ("," if len(args) == 1 else "") + ")"
        text += f'''

def {name}{signature}:  # noqa: E501
    """{doc_lines(doc)}"""
    return _layer("{name}", {tuple_})  # type: ignore[no-any-return]
'''
    names = "".join(f'    "{n}",\n' for n, _, _ in sorted(table))
    return text + f"\n\n__all__ = [\n{names}]\n"


NAMES = {
    "sgd": "Sgd", "adam": "Adam", "adamw": "AdamW", "sparseadam": "SparseAdam", "adamax": "Adamax",
    "radam": "RAdam", "lbfgs": "Lbfgs",
    "rmsprop": "RmsProp", "adagrad": "Adagrad", "adadelta": "Adadelta", "nadam": "NAdam", "nadamw": "NAdamW",
    "lion": "Lion", "lamb": "Lamb", "adafactor": "Adafactor", "muon": "Muon",
}


def setting(name: str, default: str | None) -> str:
    return name if default is None else f"{name}=None"


def said(keys: list[tuple[str, str | None]]) -> str:
    parts = [f"`{n}`" + (f" ({d})" if d else "") for n, d in keys]
    return "Settings: " + ", ".join(parts) + "." if parts else "It has no settings."


def function(kind: str, name: str, keys: list[tuple[str, str | None]], shared: list[str]) -> str:
    needed = [f"{n}: Any" for n, d in keys if d is None]
    rest = [f"{n}: Any = None" for n, d in keys if d is not None] + [f"{n}: Any = None" for n in shared]
    passed = ", ".join(f"{n}={n}" for n, _ in keys) + (", " if keys and shared else "") + ", ".join(f"{n}={n}" for n in shared)
    head = "lr: float, " if kind == "Optimiser" else ""
    star = "*, " if needed or rest else ""
    args = (head + star + ", ".join(needed + rest)).rstrip(", ")
    first = f'"{name}", lr' if kind == "Optimiser" else f'"{name}"'
    call = f"{first}, {passed}" if passed else first
    title = NAMES.get(name) or "".join(w.capitalize() for w in name.split("-"))
    first_arg = f'"{title}", lr' if kind == "Optimiser" else f'"{name}"'
    call = f"{first_arg}, {passed}" if passed else first_arg
    return f'''

def {title}({args}) -> {kind}:  # noqa: E501, N802
    """The {"optimiser" if kind == "Optimiser" else "schedule"} `{name}`, with torch's defaults. {said(keys)}"""
    return {kind}({call})
'''


def kinds_files() -> tuple[str, str]:
    optimisers, schedules, whole = ext._kinds()
    shared = [w for w in whole if w != "lr"]
    head = '"""{}\n\nMade by tools/write_ops.py from the tables of the extension. Do not edit it.\n"""\n\nfrom __future__ import annotations\n\nfrom .._arenagrad import {}\n\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import Any\n'
    one = head.format("Optimisers, with torch's names, formulas and defaults.", "Optimiser")
    one += "".join(function("Optimiser", n, keys, shared) for n, keys in optimisers)
    two = head.format("Schedules of learning rates, with torch's formulas and defaults.", "Schedule")
    two += "".join(function("Schedule", n, keys, []) for n, keys in schedules)
    return one, two


def main() -> int:
    optimisers, schedules = kinds_files()
    files = {
        "_ops.py": ops_file(),
        "nn/_layers.py": layers_file(),
        "optim/_kinds.py": optimisers,
        "optim/schedules.py": schedules,
    }
    stale = [n for n, text in files.items() if not (HERE / n).is_file() or (HERE / n).read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        if stale:
            print("out of date: " + ", ".join(stale) + "; run python tools/write_ops.py")
        return int(bool(stale))
    for name in stale:
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(files[name], encoding="utf-8")
        print("wrote", name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
