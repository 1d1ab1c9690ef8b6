"""`rbp` in this process, and programs in processes of their own where that is what is tested."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from rbplib import InputError
from rbplib.cli import main

ROOT = Path(__file__).resolve().parents[1]


def python(*words, cwd=ROOT, **environment):
    """Python with these words, to its end: its exit code, its output and what it complains of."""
    how = {"capture_output": True, "text": True, "cwd": cwd, "env": os.environ | environment}
    return subprocess.run([sys.executable, *map(str, words)], **how)


def call(words):
    """The exit code of a command line in this process, where no word holds a space."""
    return main(words.split())


def answers(words):
    """What a command answers as JSON."""
    with redirect_stdout(StringIO()) as out:
        assert call(f"{words} --json") == 0
    return json.loads(out.getvalue())


def refusal(words):
    """The sentence of a command that refuses what it is given; it says nothing else."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as complaints:
        assert call(words) == 2
    (line,) = complaints.getvalue().splitlines()
    assert line.startswith("rbp: ") and not out.getvalue()
    return line


def take(path, name):
    """`rbp import` under a name; what it refuses is an InputError here too."""
    with redirect_stderr(StringIO()) as complaints:
        code = main(["import", str(path), "--as", name])
    if code:
        raise InputError(complaints.getvalue())
