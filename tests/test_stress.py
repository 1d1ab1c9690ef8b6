"""The harness of `make stress` in a small form: kills, processes that meet, damage, a
full disk, a reader."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_accidents_are_survived_and_nothing_is_left():
    command = [sys.executable, "-m", "tests.stress", "--small"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert run.stdout.count("tried") == 6
