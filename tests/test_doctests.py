"""Every example in a docstring of the library runs and prints what it says."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import rbplib

PACKAGE = Path(__file__).resolve().parents[1] / "rbplib"
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if "\n    >>> " in p.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_examples_of_a_module(path):
    name = ".".join(("rbplib", *path.relative_to(PACKAGE).with_suffix("").parts))
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed


@pytest.mark.parametrize("name", sorted(set(rbplib.__all__) - {"__version__"}))
def test_a_public_name_is_explained_and_stands_in_the_book(name):
    thing = getattr(rbplib, name)
    text = inspect.getdoc(thing)
    page = (PACKAGE.parent / "book/api.md").read_text("utf-8")
    assert f"{'autoclass' if isinstance(thing, type) else 'autofunction'}:: rbplib.{name}\n" in page
    # what goes in, what comes out, and what is raised; or as of another one that says it
    if not isinstance(thing, type):
        assert ("Args:" in text and "Return" in text) or "s of" in text or "list of" in text
    for key, member in vars(thing).items() if isinstance(thing, type) else ():
        if isinstance(member, property) and not key.startswith("_"):
            assert inspect.getdoc(member), f"{name}.{key} is not explained"


def test_the_examples_of_the_readme():
    result = doctest.testfile(str(PACKAGE.parent / "README.md"), module_relative=False)
    assert result.attempted == 7 and not result.failed
