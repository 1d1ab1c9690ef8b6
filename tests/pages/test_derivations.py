"""The derivation pages and the library point at each other, and neither points at nothing."""

import importlib
import re
from pathlib import Path

import pytest

from rbplib.distributions import gpt2

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book" / "derivations").glob("*.md"))
LABEL = re.compile(r"^\s*:label: ([\w-]+)", re.M)


def labels(path):
    return LABEL.findall(path.read_text(encoding="utf-8"))


def test_labels_are_unique_in_the_book():
    every = [label for path in (ROOT / "book").rglob("*.md") if "_" not in path.parts[-2][:1] for label in labels(path)]
    assert len(every) == len(set(every)), sorted({x for x in every if every.count(x) > 1})


def test_labels_named_in_the_library_exist():
    known = {label for path in (ROOT / "book").rglob("*.md") for label in labels(path)}
    for path in (ROOT / "rbplib").rglob("*.py"):
        for label in re.findall(r"[Ll]abel (eq-[\w-]+\w)", path.read_text(encoding="utf-8")):
            assert label in known, f"{path.name} names {label}, which no page defines"


def test_pages_named_in_the_library_exist():
    for path in (ROOT / "rbplib").rglob("*.py"):
        for page in re.findall(r"book/derivations/(\w+)", path.read_text(encoding="utf-8")):
            assert (ROOT / "book" / "derivations" / f"{page}.md").is_file(), f"{path.name} names the page {page}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_references_of_a_page_resolve(page):
    text = page.read_text(encoding="utf-8")
    known = {label for path in (ROOT / "book").rglob("*.md") for label in labels(path)}
    for label in re.findall(r"\{eq\}`([\w-]+)`", text):
        assert label in known, label
    for other in re.findall(r"\{doc\}`([\w-]+)`", text):
        assert (page.parent / f"{other}.md").is_file(), other
    bib = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    for key in re.findall(r"\{cite:[pt]\}`(\w+)`", text):
        assert f"{{{key}," in bib, key


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_functions_named_on_a_page_exist(page):
    """A dotted path in code type: the part before the last dot is a module, `rbplib` itself for the public names."""
    for module, name in re.findall(r"`(rbplib[\w.]*)\.(\w+)`", page.read_text(encoding="utf-8")):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_the_page_on_noise_names_only_rows_that_the_authors_figures_have():
    found = gpt2.figure_lack_of_fit()
    text = (
        (ROOT / "book" / "derivations" / "noise.md").read_text(encoding="utf-8").split("## On the authors' figures")[1]
    )
    named = set(re.findall(r"k(?:=|\\le)([^$]+)\$", text))
    assert named == {"10^3", "10^4"} and {1000, 10_000} <= set(found["k"]) and max(found["k"]) == 10_000
    scatter = (found["residual rms"] / found["noise of one point"])[found["k"] <= 1000]
    assert 4 <= scatter.min() and scatter.max() <= 6 and round(found["slope in standard errors"][-1]) == 7
    assert found["p"][-1] > 0.05 and round((found["slope in standard errors"][-1] / 1.96) ** 2) == 13
