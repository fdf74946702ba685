"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["finetune_resnet18.py", "finetune_encoder.py"])
def test_a_net_is_trained_and_goes_back_to_torch(name: str) -> None:
    command = [sys.executable, EXAMPLES / name, "--steps", "3", "--batch", "8"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "test images are right" in done.stdout
