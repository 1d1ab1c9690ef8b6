"""Claims: verdicts by count, rules on rows, rows kept in a page and read again, words that fit
both."""

import json
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from paper import evidence, findings
from paper.forecasts import independent
from paper.show import claims
from rbplib.families import root

WORDS = claims.all_claims()
YES, NO, NONE = True, False, pd.NA


@pytest.mark.parametrize(
    ("holds", "hidden", "enough", "verdict", "count", "fails"),
    [
        ([YES] * 4 + [NO], 0, 3, "agrees", "4 of 5", "1 of 5"),
        ([NO] * 4 + [YES], 0, 3, "differs", "1 of 5", "4 of 5"),
        ([YES] * 3 + [NO] * 2, 0, 3, "mixed", "3 of 5", "2 of 5"),
        ([YES, YES, NONE, NONE], 0, 3, "open", "2 of 2", "0 of 2"),
        ([YES], 0, 1, "agrees", "1 of 1", "0 of 1"),
        ([YES] * 4, 1, 3, "agrees", "4 of 5", "0 of 5"),  # within noise: neither, but among all
        ([NO] * 3, 1, 3, "open", "0 of 4", "3 of 4"),
        ([], 0, 3, "open", "no case", "no case"),
    ],
)
def test_verdicts(holds, hidden, enough, verdict, count, fails):
    rows = claims.cases([{"k": 1}] * (len(holds) + hidden), ["k"])
    within = [False] * len(holds) + [True] * hidden
    judged = claims.judge("top1_line", rows, [*holds, *[YES] * hidden], within, enough)
    assert (judged.verdict, judged.count, judged.fails) == (verdict, count, fails)


def test_a_number_that_does_not_exist_neither_passes_nor_fails():
    rows = claims.cases({"x": x, "y": y} for x in (1, np.nan, np.inf) for y in (1, -1, np.nan))
    holds = claims.judge("top1_line", rows, (rows.x > 0) & (rows.y > 0)).rows["holds"]
    # a part that fails decides, whatever the other part is
    assert [*map(str, holds)] == ["True", "False", "<NA>"] + 2 * ["<NA>", "False", "<NA>"]


@pytest.mark.parametrize(("inside", "n"), [(19, 20), (100, 100), (57, 60), (80, 100), (153, 173)])
def test_an_interval_is_judged_by_binomial_tests(inside, n):
    p = {share: binomtest(inside, n, share) for share in (0.9, 0.95)}
    more = [binomtest(inside, n, share, "greater").pvalue < 0.05 for share in p]
    fewer = binomtest(inside, n, 0.95, "less").pvalue < 0.05
    verdict = evidence.covers(inside / n, n)
    assert verdict == 0 if fewer else np.isnan(verdict) if not any(more) else verdict == sum(more)


@pytest.mark.parametrize("sharing", [0.0, 0.9])
def test_intervals_that_hold_are_counted_as_the_independent_cases_they_are_worth(sharing):
    rng, rejected, short = np.random.default_rng(0), [], []
    family, corpus, _ = np.indices((5, 5, 4))
    for _ in range(200):
        # errors over their true spread, those of one family, and of one text, alike
        own = rng.normal(size=(5, 1, 1)) + rng.normal(size=(1, 5, 1))
        error = np.sqrt(sharing / 2) * own + np.sqrt(1 - sharing) * rng.normal(size=(5, 5, 4))
        columns = {"error": error, "family": family, "corpus": corpus}
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        worth = independent(frame.error, frame)
        rejected.append(evidence.covers(frame.error.abs().lt(1.96).mean(), worth) == 0)
        # intervals half as wide as they should be
        short.append(evidence.covers(frame.error.abs().lt(0.98).mean(), worth) == 0)
    assert np.mean(rejected) < 0.07 and np.mean(short) > (0.5 if sharing else 0.99)


@pytest.mark.parametrize(
    ("ratio", "around", "side"),
    [
        (1.1, (0.9, 1.3), 1),  # 1 is in it, and near
        (1.4, (1.2, 1.7), -1),  # neither, though the band reaches into the interval
        (1.1, (1.05, 1.15), 0),  # near, and not 1
        (1.0, (0.5, 2.0), 0),  # an interval that wide shows nothing
        (NONE, (np.nan, np.nan), NONE),
    ],
)
def test_two_exponents_are_nearly_identical_by_two_lines(ratio, around, side):
    rows = claims.cases([{"ratio": ratio, "around": around}])
    (found,) = claims.near_one(rows.ratio, rows.around, 0.8, 1.25)
    assert found is side or found == side


class Line(NamedTuple):
    y: np.ndarray
    fitted: np.ndarray
    family: str = "f"
    corpus: str = "c"
    k: int = 9


def drawn_law(y):
    """A Law's points and line, of noise about a slope."""
    x = np.linspace(0, 3, len(y))
    return Line(y - 0.1 * x, np.polyval(np.polyfit(x, y - 0.1 * x, 1), x))


@pytest.mark.parametrize(("times", "side"), [(30.0, 1), (1.0, 0)])
def test_the_scatter_of_two_lines_is_compared_beyond_their_noise(times, side):
    rng, rows = np.random.default_rng(1), []
    for _ in range(400):
        shared, own = rng.normal(size=(2, 7))  # the same noise of text in part
        laws = drawn_law(shared), drawn_law(times * (0.8 * shared + 0.6 * own))
        rows.append(evidence.worse_row(*laws))
    sides = claims.cases(rows).surely
    assert np.mean(np.sign(sides) == side) == pytest.approx(1 if side else 0.95, abs=0.03)
    few = evidence.worse_row(*[drawn_law(shared[:3])] * 2)
    assert claims.cases([few], evidence.WORSE).surely.isna().all()


@pytest.mark.parametrize(("by", "log_adds"), [(lambda S: S / S[-1], False), (np.log, True)])
def test_a_ratio_is_linear_in_size_or_its_logarithm_as_regression_on_both_says(by, log_adds):
    sm = pytest.importorskip("statsmodels.api")
    S, rng = np.geomspace(2e3, 7e5, 6), np.random.default_rng(3)
    y = by(S) + 0.002 * rng.normal(size=6)
    row = evidence.ladder_row(pd.DataFrame({"S": S, "mu/sigma": y, "status": "ok"}))
    both = sm.OLS(y, np.column_stack([S**0, S / S[-1], np.log(S)])).fit().pvalues
    assert [row["p_of_log_size"], row["p_of_size"]] == pytest.approx(both[1:], rel=1e-6)
    assert (row["p_of_size"] < 0.001) == log_adds


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """What `claim` and `keep` display, and a function that makes an executed page of it."""
    outputs = []
    monkeypatch.setattr(
        claims, "say", lambda text, name=None, numbers=None: outputs.append((text, numbers))
    )
    monkeypatch.setattr(claims, "root", lambda: tmp_path)

    def page(name, family="all"):
        cells = [{"outputs": [{"metadata": {"rbp_numbers": numbers}} for _, numbers in outputs]}]
        path = tmp_path / "book" / "_executed" / family / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cells": cells}))

    return outputs, page


def test_a_page_keeps_its_rows_and_findings_count_them(shown):
    outputs, page = shown
    columns = {"corpus": list("xyz"), "alpha": [0.1, 1 / 3, 0.2], "r2": [0.98, 0.9, np.nan]}
    rows = pd.DataFrame(columns).assign(family="f", ci_trainings=[(1, 2)] * 3)
    rows["ci_known"] = [(a / 2, 2 * a) for a in rows.alpha]
    rows = claims.cases(pd.concat([rows.assign(k=10), rows.assign(k=50)]).to_dict("records"))
    claims.claim("moderate_line", rows, rows.r2 > 0.97)
    claims.keep("more", rows)
    (text, records), _ = outputs
    first, rests, second, _ = text.splitlines()
    assert "holds in 1 and fails in 1 of 2, too few to decide. ? **open**" in first
    assert "Rule: R² at least 0.97" in rests and "At k = 50, -log RBP" in second
    assert set(records) == {"claim moderate_line at k = 10", "claim moderate_line at k = 50"}
    # from the executed pages of two families, to the bit
    page("03_moderate_k", "f")
    page("03_moderate_k", "g")
    judged = claims.collected("moderate_line", "03_moderate_k", ["f", "g", "not there"])
    assert (judged.count, judged.ranks, judged.verdict) == ("4 of 8", [10, 50], "mixed")
    kept = claims.collected("more", "03_moderate_k", ["f"]).rows
    pd.testing.assert_frame_equal(kept, rows, check_dtype=False, check_exact=True, check_like=True)
    # of a claim without a case the words are a sentence too
    nothing = claims.collected("moderate_line", "04_large_k", ["f"])
    assert nothing.title == "-log RBP falls along a straight line"
    assert nothing.finding == "not measured here"
    # links to the line on each of its pages, and to the code
    links = re.findall(r'data-page="([^"]+)">([^<]+)', findings.links_of(judged))
    lines = [(f"_executed/{name}/03_moderate_k#claim-moderate_line", name) for name in "fg"]
    assert links == [*lines, ("_executed/f/03_moderate_k#code-moderate_line", "code")]


def decided(**outcomes):
    """Claims that hold in four of four cases, or in none."""
    rows = claims.cases([{"k": 1, "alpha": 0.05, "r2": 1.0, "ci_known": (0, 1)}] * 4)
    return {name: claims.judge(name, rows, [holds] * 4) for name, holds in outcomes.items()}


def test_kinds_of_evidence_stand_side_by_side(monkeypatch):
    outcomes = {"top1_line": YES, "gpt2_line": NO, "moderate_line": YES, "thousand_line": NO}
    judged, tables = decided(**outcomes), []
    show = lambda frame, *_, safe, **__: tables.append((frame, safe))  # noqa: E731
    monkeypatch.setattr(findings, "table", show)
    # a frame that a cell ends in would be printed a second time
    assert findings.show_matrix("paper", judged, download="x.csv") is None
    findings.show_evidence("paper", judged, caption="x")
    (frame, marks), (evidence_of, cells) = tables
    line = frame.iloc[0]
    (theirs,) = (title for title, kinds in findings.COLUMNS.items() if findings.AUTHORS in kinds)
    assert (line["our ladders"], line[theirs]) == ("agrees", "differs")
    dot = marks["our ladders"][0]
    assert ">✓ <i>agrees<br>our ladders" in dot
    # each mark leads to a row of its own, with the cases of all its claims and their rules
    rows = re.findall('href="#([^"]+)"', " ".join(sum(marks.values(), [])))
    assert rows == [re.search('id="([^"]+)"', cell)[1] for cell in cells["claim"]]
    assert [cell.count('class="rbp-csv"') for cell in cells["claim"]] == [1] * 3
    assert evidence_of["rule"][2] == "; ".join(WORDS[n].rule for n in [*outcomes][2:])
    assert frame[theirs][1] == marks[theirs][1] == "–"
    # of one statement a kind agrees and another does not
    ((statement, parts),) = findings.disagreements(judged)
    assert parts == "authors' counts: differs; our ladders: agrees"
    assert statement == line.statement and not findings.disagreements(decided(top1_line=YES))
    # an author's paragraph stands for its verdicts alone
    right = {"top1_line": "our ladders: agrees", "gpt2_line": "authors' counts: differs"}
    assert findings.written_for(judged, **right)
    for claim, other in (("gpt2_line", "agrees"), ("new_text", "our ladders: agrees")):
        assert not findings.written_for(judged, **right | {claim: other})


@pytest.mark.parametrize(
    ("outcomes", "whole"),
    [
        # one kind counts the cases of its claims together: 4 of 8 hold
        ({"moderate_line": YES, "thousand_line": NO}, "mixed"),
        ({"moderate_line": YES, "gpt2_straight": NO}, "mixed"),
        ({"moderate_line": NO, "gpt2_straight": NO}, "fails"),
        # a kind that leaves it open does not decide
        ({"moderate_line": YES, "gpt2_straight": NONE}, "holds"),
        ({"gpt2_straight": NONE}, "open"),
    ],
)
def test_a_statement_is_judged_once_for_each_kind_of_evidence(outcomes, whole):
    assert findings.tally("paper", decided(**outcomes)) == {whole: 1}


def test_a_question_of_ours_is_answered():
    answers = [decided(new_text=holds)["new_text"].said for holds in (YES, NO, NONE)]
    assert answers == ["yes", "no", "open"]


def test_ranks_of_the_authors_are_evidence_of_theirs_alone(shown):
    rows = claims.cases([{"k": 1, "r2": 1.0, "family": name} for name in ("nano", claims.NAME)])
    claims.claim("thousand_line", rows, [NO, YES])
    shown[1]("05_k_dependence", claims.NAME)
    (finding,) = findings.by_authors().values()
    # one ladder on one text by design: one case decides, on their page and among the findings
    assert (finding.verdict, finding.count) == ("agrees", "1 of 1")
    assert "one case is enough" in claims.line(claims.judge("thousand_line", rows[1:], [YES]))
    # what a page judges by them is their evidence too, whatever it is judged by without
    ratios = rows.assign(rounded=0.0, cut=0.0, basis=claims.RANKS)
    claims.claim("gpt2_lognormal", ratios, [NO, YES])
    shown[1]("09_appendix")
    collected = claims.collected("gpt2_lognormal", "09_appendix", ["all"])
    kinds = [findings.kind(judged) for judged in (finding, collected, WORDS["gpt2_lognormal"])]
    assert kinds == [findings.AUTHORS] * 2 + [findings.FIGURES]


def test_every_claim_has_its_statement_its_words_and_its_pages():
    listed = findings.read_yaml(root() / "book" / "findings.yml")
    names = [name for rows in listed.values() for claimed in rows.values() for name in claimed]
    assert len(set(names)) == len(names) and set(names) == set(WORDS)
    assert [len(rows) for rows in listed.values()] == [18, 12]
    for words in WORDS.values():
        paths = [
            root() / ("book" if "/" in page else "notebooks") / f"{page}.md" for page in words.pages
        ]
        assert all(path.is_file() for path in paths), words.name
        assert words.basis in {"measured", "proved", *findings.BASIS}
        assert bool(words.proved) == (words.basis == "proved") != bool(words.changes)
        # judged by its first page, or by that of findings, if it is not proved; a name may be
        # made of two, for two kinds of evidence
        text = paths[0].read_text() + (root() / "notebooks/17_findings.md").read_text()
        assert words.proved or words.name.removesuffix("_grid").removesuffix("_published") in text


def test_an_interval_lies_between_two_ends_beyond_them_or_across_one():
    ends = pd.Series([(2, 3), (5, 6), (-1, 0), (3, 5), (0, 2), (0, 5), (np.nan, 3)])
    assert claims.inside(ends, 1, 4).tolist()[:-1] == [1, -1, -1, 0, 0, 0]
    assert claims.inside(ends, 1, 4).isna().tolist() == [False] * 6 + [True]
