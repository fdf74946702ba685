"""Layers with torch's names, shapes and start values. A layer takes its name and a value, and adds its params.

>>> import arenagrad as ag
>>> with ag.build("net") as b:
...     h = ag.nn.linear("fc1", b.input("x", (32, 784)), 128).relu()
...     b.output("y", ag.nn.linear("fc2", h, 10))
>>> b.graph.params["fc1.weight"]
f32[128,784]
"""

from __future__ import annotations

from . import init as init
from ._layers import *  # noqa: F403
