"""The lines of the user's files that errors and nodes of a graph name."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import traceback
from typing import Any, Iterator

import torch

from .._errors import Error, make

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_PACKAGES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# The file whose `forward` calls module and loss.
_CAPTURE = os.path.join(os.path.dirname(__file__), "_capture.py")


def _users(file: str) -> bool:
    """Whether a file is neither torch's, nor Python's, nor of this package."""
    python = file.startswith(_LIBRARY) and "site-packages" not in file
    return not (python or file.startswith(_PACKAGES) or file.startswith("<"))


def place_of(node: Any) -> tuple[str, int] | None:
    """The user's line that asked for a node: the innermost one outside of torch."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(node.meta.get("stack_trace") or "")]
    outside = [f for f in frames if _users(f[0])]
    return (outside or frames)[-1] if frames else None


def caller() -> str | None:
    """The innermost line of the stack that is the user's."""
    frames = [f for f in traceback.extract_stack() if _users(f.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


@contextlib.contextmanager
def lines_of_functions() -> Iterator[None]:
    """Nodes keep the lines of all functions that a call goes through, such as a loss; torch keeps those of `forward`."""
    tracer: Any = torch.fx.proxy.TracerBase
    kept = getattr(tracer, "_filter_traceback_frames", None)

    def within(_: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        call = max((i for i, f in enumerate(frames) if f.filename == _CAPTURE and f.name == "forward"), default=-1)
        inner = (f for f in frames[call + 1 :] if _users(f.filename) or f.name == "forward")
        return traceback.StackSummary.from_list(list(inner))

    if kept is not None:
        tracer._filter_traceback_frames = within
    try:
        yield
    finally:
        if kept is not None:
            tracer._filter_traceback_frames = kept


@contextlib.contextmanager
def files_given_back() -> Iterator[None]:
    """Drops what is read of source files meanwhile, to name lines of them: some hundred kilobytes. They are read again if asked for."""
    before = set(linecache.cache)
    try:
        yield
    finally:
        for file in [file for file in linecache.cache.copy() if file not in before and os.path.exists(file)]:
            linecache.cache.pop(file, None)


def _at(kind: str, text: str, e: Exception, frames: list[tuple[str, Any]]) -> Error:
    """An error with the innermost line outside of torch: of these frames, or of those that `e` went through."""
    passed = [(f.filename, f.lineno) for f in traceback.extract_tb(e.__traceback__)]
    outside = [f for f in passed if _users(f[0])] or [f for f in frames if _users(f[0])]
    where = f"{outside[-1][0]}:{outside[-1][1]}" if outside else None
    return make(kind, text + (f", at {where}" if where else ""), where)


def failed(e: Exception) -> Error:
    """What ended a capture, as an error that names the user's line."""
    if isinstance(e, Error):
        return e if e.location else _at(e.kind, str(e), e, [])
    text = str(e)
    name = type(e).__name__
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    data = any(word in text or word in name for word in ("data-dependent", "DataDependent", "DynamicOutputShape", "unbacked"))
    why = "a size or a branch follows from the data" if data else "torch.export fails"
    if "ctc_loss" in text:
        why += " (arenagrad.torch.losses.ctc_loss captures)"
    if "gaussian_nll_loss" in text:
        why += " (arenagrad.torch.losses.gaussian_nll_loss captures)"
    if "fake tensor in the exported program constant" in text:
        why += " (such as `x.data = …`, or a derivative by a copy of an input, within a call)"
    if "Cache'>" in text:
        why += " (a cache is no tensor: give the call use_cache=False)"
    return _at("usage", f"the module cannot be captured: {why}: {name}: {first[:300]}", e, _FRAME.findall(text))
