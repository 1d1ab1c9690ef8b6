"""Lint and format, with the configuration in pyproject.toml."""

import pytest
from commands import python

pytest.importorskip("ruff")


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff(command):
    done = python("-m", "ruff", *command, ".")
    assert done.returncode == 0, done.stdout + done.stderr
