"""Verdicts by count, links that lead somewhere, and rows made from planted tables."""

import re

import numpy as np
import pytest

from rbplib.pages import evidence, findings, open_questions
from rbplib.settings import root


def test_verdicts():
    assert findings.verdict([True] * 5) == "agrees"
    assert findings.verdict([False] * 5) == "differs"
    assert findings.verdict([True] * 3 + [False] * 2) == "mixed"
    assert findings.verdict([True, True]) == "cannot be told"
    assert findings.verdict([]) == "cannot be told"


def test_large_k_is_the_same_share_of_the_vocabulary():
    assert evidence.large_k(50_257, 20_000) == 20_000
    assert evidence.large_k(4096, 20_000) == 1630
    assert evidence.large_k(2, 20_000) == 1


def test_theory_rows_are_computed_and_typed():
    rows = findings.theory_findings()
    assert {r.verdict for r in rows} <= {"agrees", "differs", "mixed", "cannot be told"}
    assert {r.basis for r in rows} <= set(findings.BASIS)
    ours = " ".join(r.ours for r in rows)
    assert "−3.1%" in ours and "2.4%" in ours and "1.17" in ours  # the GPT-2 pair, from exact sums
    frame = findings.finding_frame(rows)
    assert len(frame) == len(rows) and frame["claim"].str.contains('<a href="').all()


def test_every_page_named_exists():
    """Links lead to notebooks or derivations of this book."""
    text = (root() / "rbplib" / "findings.py").read_text(encoding="utf-8")
    for name in set(re.findall(r"(\d\d_\w+)\.(?:html|ipynb)", text)):
        assert (root() / "notebooks" / f"{name}.md").is_file(), name
    for name in set(re.findall(r"derivations/(\w+)\.html", text)):
        assert (root() / "book" / "derivations" / f"{name}.md").is_file(), name


def test_spread_ignores_what_has_no_value():
    assert evidence.spread([1.0, np.nan, 3.0]) == "median 2, 1 to 3"
    assert evidence.spread([np.nan]) == "no value"


@pytest.mark.parametrize("field", ["claim", "paper", "ours", "verdict", "basis", "page"])
def test_no_row_lacks_a_field(field):
    assert all(getattr(r, field) for r in findings.theory_findings())


def test_training_question_needs_no_measurement():
    frame = open_questions.training_frame()
    assert (frame["R²"] > 0.9).any() and frame["alpha"].iloc[-1] > frame["alpha"].iloc[0]


def test_noise_verdicts():
    row = {"high": 0.1, "as low under an exact law": 0.4, "lack of fit p": 0.3, "R²": 0.5}
    assert open_questions.noise_verdict(row) == "noise suffices"
    assert open_questions.noise_verdict(row | {"lack of fit p": 0.001}) == "a real break"
    assert open_questions.noise_verdict(row | {"high": -0.01}) == "reversed beyond noise"
