"""The package as a whole: what importing brings, documentation, files that follow from tables."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import arenagrad as ag

HERE = Path(__file__).resolve().parent.parent


def test_importing_brings_no_other_package():
    code = "import sys, arenagrad; print(*(m for m in ('numpy', 'torch', 'onnx', 'sklearn', 'typing') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_env())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_parts_are_imported_when_they_are_first_named():
    code = "import arenagrad as ag; ag.onnx.load, ag.onnx.save"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_env())
    assert done.returncode == 0, done.stderr


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(ag.__file__).parent.parent)}


def test_files_that_follow_from_tables_are_up_to_date():
    done = subprocess.run([sys.executable, HERE / "tools" / "write_ops.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _modules():
    yield ag
    for info in pkgutil.walk_packages(ag.__path__, "arenagrad."):
        yield importlib.import_module(info.name)


@pytest.mark.parametrize("module", list(_modules()), ids=lambda m: m.__name__)
def test_examples_of_the_documentation_run(module):
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(module, module.__name__):
        runner.run(test)
    if module.__name__ == "arenagrad._arenagrad":
        # Classes of the extension tell no file, so their examples are found by hand.
        for name, thing in vars(module).items():
            text = getattr(thing, "__doc__", None) or ""
            if ">>>" in text:
                runner.run(doctest.DocTestParser().get_doctest(text, {}, name, None, None))
        assert runner.summarize(verbose=False).attempted > 10
    assert runner.summarize(verbose=False).failed == 0


def test_all_that_is_public_has_documentation():
    for name in ag.__all__:
        thing = getattr(ag, name)
        assert thing.__doc__, name
        if isinstance(thing, type) and thing.__module__.startswith("arenagrad"):
            for method, function in vars(thing).items():
                if not method.startswith("_") and callable(function):
                    assert function.__doc__, f"{name}.{method}"


def test_errors_have_one_root():
    for name in ag.__all__:
        thing = getattr(ag, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            assert issubclass(thing, ag.Error) and issubclass(thing, ValueError)
    assert issubclass(ag.MemoryPlanError, MemoryError) and issubclass(ag.IoError, OSError)


@pytest.mark.parametrize("page", ["README.md", "docs/modules/python.md", "docs/latency.md", "python/README.md"])
def test_programs_of_the_pages_run(page, tmp_path, monkeypatch):
    text = (HERE.parent / page).read_text(encoding="utf-8")
    programs = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert programs
    monkeypatch.chdir(tmp_path)
    for program in programs:
        exec(compile(program, page, "exec"), {"__name__": "page"})
