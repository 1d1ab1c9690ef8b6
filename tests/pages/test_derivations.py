"""The derivation pages and the library point at each other, and neither points at nothing."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from paper import gpt2
from paper.runs import rise_width

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


def numbers_in(page, start, end):
    text = (ROOT / "book" / page).read_text(encoding="utf-8")
    return text.split(start)[1].split(end)[0]


def test_emergence_is_later_and_not_sharper():
    """N is a shift in log S, by computer algebra; the widths and chances that derivation and exercise quote."""
    import sympy as sp

    x, alpha, c, N = sp.symbols("x alpha c N", positive=True)
    p = sp.exp(-N * c * sp.exp(-alpha * x))
    assert sp.simplify(p - p.subs(N, 1).subs(x, x - sp.log(N) / alpha)) == 0
    at = {
        level: sp.solve(sp.Eq(N * c * sp.exp(-alpha * x), sp.log(1 / level)), x)[0]
        for level in (sp.Rational(1, 10), sp.Rational(9, 10))
    }
    width = sp.simplify(at[sp.Rational(9, 10)] - at[sp.Rational(1, 10)])
    assert N not in width.free_symbols
    for a in (0.06, 0.2):
        assert (
            float(width.subs(alpha, a)) * a == pytest.approx(rise_width(a) * a) and round(rise_width(a) * a, 2) == 3.08
        )
    assert round(rise_width(0.06)) == 51 and round(rise_width(0.06) / np.log(10)) == 22 and round(1 / 0.06) == 17
    assert sp.simplify(sp.diff(p, x).subs(x, sp.log(N * c) / alpha) - alpha / sp.E) == 0
    told = numbers_in("derivations/emergence.md", "## Later", "##")
    assert "51 units, or 22" in told and "17 decades" in told and "sudden rise" not in told
    told = numbers_in("exercises.md", "{solution} ex-emergence", "````")
    for part, number in ((0.1, 0.451), (1e-6, 0.204)):
        assert round(2 ** -(part**-0.06), 3) == number and f"{2 ** -(part**-0.06):.3f}" in told
    assert "22.3 decades" in told and "near zero until" not in told


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


def test_no_share_of_ties_is_typed_where_page_11_counts_it():
    for page in ("glossary.md", "derivations/metric.md", "teaching.md"):
        text = (ROOT / "book" / page).read_text(encoding="utf-8")
        assert not re.search(r"almost every token has|they are the rule|most tokens are tied", text), page


def test_the_first_words_promise_only_what_the_pages_have():
    """The parts it names are those of the contents; the pages that follow the paper end with a judgement by rule."""
    text = (ROOT / "book" / "reading.md").read_text(encoding="utf-8")
    captions = re.findall(r"caption: (.+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert set(re.findall(r"^\* \*\*(.+?)\*\*", text, re.M)) == set(captions)
    assert "two intervals" not in text and "Every number and figure" not in text and "Each page ends" not in text
    for page in sorted((ROOT / "notebooks").glob("0[2-8]*.md")):
        assert "claims.judge(" in page.read_text(encoding="utf-8"), page.stem


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "book" / "glossary.md", ROOT / "book" / "reading.md"], ids=lambda p: p.stem
)
def test_the_unit_that_is_resampled_is_the_source(page):
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert not re.search(
        r"[Rr]esampl\w* (the )?documents|documents are resampled|document bootstrap",
        text.replace("Resampling documents would", ""),
    )
