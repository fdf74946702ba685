"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_resnet18_is_trained_and_goes_back_to_torch() -> None:
    command = [sys.executable, EXAMPLES / "finetune_resnet18.py", "--steps", "3", "--batch", "8"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "test images are right" in done.stdout
