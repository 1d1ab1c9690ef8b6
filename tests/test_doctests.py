"""Every example in a docstring of the library runs and prints what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rbplib"
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if "\n    >>> " in p.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_examples_of_a_module(path):
    name = ".".join(("rbplib", *path.relative_to(PACKAGE).with_suffix("").parts))
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed


def test_the_examples_of_the_readme():
    result = doctest.testfile(str(PACKAGE.parent / "README.md"), module_relative=False)
    assert result.attempted == 6 and not result.failed
