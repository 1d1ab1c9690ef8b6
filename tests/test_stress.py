"""The harness of `make stress` in a small form: every kind of accident a few times."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_accidents_are_survived_without_a_row_lost_or_a_file_left():
    done = subprocess.run([sys.executable, "-m", "tests.stress", "--small"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count("rows lost 0, strays left 0") == 5
