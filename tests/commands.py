"""Programs in processes of their own, where the process is what is tested."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*words, cwd=ROOT, **environment):
    """Python with these words, to its end: its exit code, its output and what it complains of."""
    how = {"capture_output": True, "text": True, "cwd": cwd, "env": os.environ | environment}
    return subprocess.run([sys.executable, *map(str, words)], **how)
