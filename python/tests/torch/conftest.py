"""Tests of the bridge to torch need torch; without it, none of them is collected."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]

if not collect_ignore_glob:
    import torch

    torch.set_num_threads(1)
