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
from paper.show.claims import NAME
from rbplib.families import read_yaml, root

WORDS = claims.all_claims()
BASIS = {"measured", "proved", *findings.BASIS}
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
        ([YES] * 2 + [NO] * 2, 3, 3, "mixed", "2 of 7", "2 of 7"),
        ([], 0, 3, "open", "no case", "no case"),
    ],
)
def test_verdicts(holds, hidden, enough, verdict, count, fails):
    rows = claims.cases([{"k": 1}] * (len(holds) + hidden), ["k"])
    hidden = [False] * len(holds) + [True] * hidden
    judged = claims.judge("top1_line", rows, [*holds, *[YES] * sum(hidden)], hidden, enough)
    assert (judged.verdict, judged.count, judged.fails) == (verdict, count, fails)


@pytest.mark.parametrize(
    ("holds", "fails", "hidden", "words"),
    [
        (2, 0, 0, "holds in 2 of 2, too few to decide"),
        (43, 5, 27, "holds in 43 and fails in 5 of 75, the rest undecided"),
    ],
)
def test_an_open_verdict_says_whether_cases_are_few_or_hidden(holds, fails, hidden, words):
    row = {"k": 1, "r2": 1.0, "alpha": 0.1, "ci_known": (0, 1)}
    rows = claims.cases([row] * (holds + fails + hidden))
    outcome = [YES] * holds + [NO] * fails + [YES] * hidden
    within = [False] * (holds + fails) + [True] * hidden
    judged = claims.judge("moderate_line", rows, outcome, within)
    assert f"; {words}. ? **open**\n" in claims.line(judged)


def test_a_number_that_does_not_exist_neither_passes_nor_fails():
    rows = claims.cases({"x": x, "y": y} for x in (1, np.nan, np.inf) for y in (1, -1, np.nan))
    holds = claims.judge("top1_line", rows, (rows.x > 0) & (rows.y > 0)).rows["holds"]
    # a part that fails decides, whatever the other part is
    assert [*map(str, holds)] == ["True", "False", "<NA>"] + 2 * ["<NA>", "False", "<NA>"]


def test_how_far_an_interval_lies_from_0():
    ends = [(1, 2), (-3, -1), (-1, 1), (0, 2), (np.nan, np.nan)]
    sides = claims.beyond(pd.Series(ends, index=[5, 4, 3, 2, 1]))
    assert sides.index[0] == 5 and sides.tolist()[:4] == [1, -1, 0, 0] and sides[1] is NONE
    directions = [evidence.direction(of, 0.01) for of in ends[:3]]
    assert directions[:2] == [1, -1] and np.isnan(directions[2])
    assert np.isnan(evidence.direction((1, 2), 0.05))


@pytest.mark.parametrize(
    ("inside", "n"), [(19, 20), (100, 100), (57, 60), (60, 60), (80, 100), (153, 173), (9, 9)]
)
def test_an_interval_is_judged_by_binomial_tests(inside, n):
    p = {share: binomtest(inside, n, share) for share in (0.9, 0.95)}
    more = [binomtest(inside, n, share, "greater").pvalue < 0.05 for share in p]
    fewer = binomtest(inside, n, 0.95, "less").pvalue < 0.05
    told = evidence.covers(inside / n, n)
    assert told == 0 if fewer else np.isnan(told) if not any(more) else told == sum(more)


def drawn_forecasts(rng, sharing):
    """Errors of forecasts over their true spread, those of one family, and of one text, alike."""
    shape = 5, 5, 4
    own = rng.normal(size=(5, 1, 1)) + rng.normal(size=(1, 5, 1))
    error = np.sqrt(sharing / 2) * own + np.sqrt(1 - sharing) * rng.normal(size=shape)
    family, corpus, _ = np.indices(shape)
    columns = {"error": error, "family": family, "corpus": corpus}
    return pd.DataFrame({name: of.ravel() for name, of in columns.items()})


@pytest.mark.parametrize("sharing", [0.0, 0.9])
def test_intervals_that_hold_are_counted_as_the_independent_cases_they_are_worth(sharing):
    rng, rejected, short = np.random.default_rng(0), [], []
    for _ in range(300):
        frame = drawn_forecasts(rng, sharing)
        worth = independent(frame.error, frame)
        rejected.append(evidence.covers(frame.error.abs().lt(1.96).mean(), worth) == 0)
        # intervals half as wide as they should be
        short.append(evidence.covers(frame.error.abs().lt(0.98).mean(), worth) == 0)
    assert np.mean(rejected) < 0.07 and np.mean(short) > (0.5 if sharing else 0.99)
    # a bias that all share is no sharing, where some share nothing
    alike = pd.DataFrame({"family": np.repeat(range(8), 5), "corpus": np.repeat(range(8), 5)})
    signs = pd.Series(np.where(alike["family"] % 2, 1.0, -1.0))
    assert independent(signs, alike) == pytest.approx(8, rel=0.05)
    assert independent(signs.abs(), alike) == 40


@pytest.mark.parametrize(
    ("ratio", "around", "side"),
    [
        (1.1, (0.9, 1.3), 1),  # 1 is in it, and near
        (1.4, (1.2, 1.7), -1),  # neither, though the band reaches into the interval
        (0.7, (0.6, 0.8), -1),
        (1.1, (1.05, 1.15), 0),  # near, and not 1
        (1.3, (0.9, 1.7), 0),
        (1.0, (0.5, 2.0), 0),  # an interval that wide shows nothing
        (NONE, (np.nan, np.nan), NONE),
    ],
)
def test_two_exponents_are_nearly_identical_by_two_lines(ratio, around, side):
    rows = claims.cases([{"ratio": ratio, "around": around}])
    (found,) = claims.near_one(rows.ratio, rows.around, 0.8, 1.25)
    assert found is side or found == side


def test_an_author_quotes_only_claims_whose_verdicts_are_asked_first():
    text = (root() / "notebooks/17_findings.md").read_text()
    guarded = r"written_for\(\w+, (.*?)\)[^%]*%}(.*?)(?=written_for|{% e)"
    for guard, quoting in re.findall(guarded, text, re.S):
        quoted = set(re.findall(r"\b(?:of|judged)\.(\w+)\.", quoting))
        assert quoted <= {*re.findall(r"(\w+)=", guard)}


def test_noise_is_enough_where_it_makes_the_scatter_and_not_where_it_is_just_not_rejected():
    share = pd.Series([1.5, 0.5, 0.5, 1.5, NONE, 0.5], dtype="Float64")
    not_rejected = pd.Series([YES, YES, NO, NO, NONE, NONE], dtype="boolean")
    sides = evidence.enough(share, not_rejected)
    assert [*map(str, sides)] == ["1.0", "0.0", "-1.0", "-1.0", "<NA>", "0.0"]


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


@pytest.mark.parametrize(("times", "side"), [(30.0, 1), (1 / 30, -1), (1.0, 0)])
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
    assert (row["p_of_size"] < 0.001) == log_adds != (row["p_of_log_size"] < 0.001)


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """What `claim` and `keep` display, and a function that makes an executed page of it."""
    outputs = []
    monkeypatch.setattr(
        claims, "say", lambda text, name=None, numbers=None: outputs.append((text, numbers))
    )
    monkeypatch.setenv("RBP_ROOT", str(tmp_path))

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
    assert "At k = 10, -log RBP" in first
    assert "holds in 1 and fails in 1 of 2, too few to decide. ? **open**" in first
    assert "Rule: R² at least 0.97, the exponent with its interval above 0." in rests
    assert "At k = 50, -log RBP" in second
    assert set(records) == {"claim moderate_line at k = 10", "claim moderate_line at k = 50"}
    # from the executed pages of two families, to the bit
    page("03_moderate_k", "f")
    page("03_moderate_k", "g")
    judged = claims.collected("moderate_line", "03_moderate_k", ["f", "g", "not there"])
    assert judged.count == "4 of 8" and judged.ranks == [10, 50] and judged.verdict == "mixed"
    kept = claims.collected("more", "03_moderate_k", ["f"]).rows
    pd.testing.assert_frame_equal(kept, rows, check_dtype=False, check_exact=True, check_like=True)
    nothing = claims.collected("moderate_line", "04_large_k", ["f"])
    frame = findings.finding_frame([judged, nothing])
    assert frame["holds in"][0] == "4 of 8"
    link = '<span data-page="03_moderate_k">At k = 10, 50, -log RBP'
    assert findings.linked(frame)[0].startswith(link)
    # of a claim without a case the words are a sentence too
    assert frame.claim[1] == "-log RBP falls along a straight line"
    assert frame.found[1] == "not measured here"


def test_one_sentence_says_what_holds_at_every_k(shown):
    rows = claims.cases({"k": k, "r2": 1.0, "ci_known": (0, 1), "alpha": 1} for k in [10, 50] * 3)
    claims.claim("moderate_line", rows, [YES] * 6)
    ((text, records),) = shown[0]
    assert "At k = 10, 50, -log RBP" in text and "in 6 of 6. ✓ **agrees**" in text
    assert len(records) == 2


def test_findings_leave_open_what_a_page_leaves_open_at_every_k():
    rows = claims.cases({"k": k} for k in (10, 50, 100))
    assert claims.judge("moderate_line", rows, [YES] * 3).verdict == "open"


def test_a_claim_without_a_case_is_passed_over(shown):
    rows = evidence.law_rows([])
    claims.claim("top1_line", rows, (rows.r2 >= 0.975) & (rows.sure_alpha > 0))
    claims.claim("sharper_rise")
    (nothing, _), (proof, _) = shown[0]
    assert nothing == "" and proof.startswith("- *The paper:* A larger N")
    assert proof.splitlines()[0].endswith("✗ **differs**")


def planted_findings():
    """Two claims of one statement that our ladders and the authors' counts judge against each
    other."""
    rows = claims.cases([{"k": 1, "alpha": 0.05, "r2": 1.0, "ci_known": (0, 1)}] * 4)
    names = {"top1_line": rows.alpha < 0.1, "gpt2_line": rows.alpha > 0.1}
    return {name: claims.judge(name, rows, holds) for name, holds in names.items()}


def decided(**outcomes):
    """Claims that hold in four of four cases, or in none."""
    rows = claims.cases([{"k": 1}] * 4)
    return {name: claims.judge(name, rows, [of] * 4) for name, of in outcomes.items()}


def test_kinds_of_evidence_stand_side_by_side(monkeypatch):
    judged, tables = planted_findings(), []
    monkeypatch.setattr(findings, "table", lambda frame, safe, **_: tables.append((frame, safe)))
    # a frame that a cell ends in would be printed a second time
    assert findings.show_matrix("paper", judged, download="x.csv") is None
    ((frame, marks),) = tables
    frame = frame.set_index("statement")
    line = frame.iloc[0]
    (theirs,) = (title for title, kinds in findings.COLUMNS.items() if findings.AUTHORS in kinds)
    assert (line["our ladders"], line[theirs]) == ("agrees", "differs")
    dot = marks["our ladders"][0]
    assert dot.startswith('<span data-page="02_top1_law">') and ">✓ <i>agrees<br>our ladders" in dot
    assert 'title="agrees: At k = 1, -log RBP falls' in dot
    # of one statement a kind agrees and another does not
    ((statement, parts),) = findings.disagreements(judged)
    assert parts == "authors' counts: differs; our ladders: agrees"
    assert statement == frame.index[0] and not findings.disagreements(decided(top1_line=YES))


@pytest.mark.parametrize(
    ("outcomes", "whole"),
    [
        ({"moderate_line": [YES] * 4, "thousand_line": [YES] * 4}, "holds"),
        # one kind counts the cases of its claims together: 4 of 8 hold
        ({"moderate_line": [YES] * 4, "thousand_line": [NO] * 4}, "mixed"),
        ({"moderate_line": [YES] * 4, "gpt2_straight": [NO] * 4}, "mixed"),
        ({"moderate_line": [NO] * 4, "gpt2_straight": [NO] * 4}, "fails"),
        # a kind that leaves it open does not decide
        ({"moderate_line": [YES] * 4, "gpt2_straight": [NONE] * 4}, "holds"),
        ({"gpt2_straight": [NONE] * 4}, "open"),
    ],
)
def test_a_statement_is_judged_once_for_each_kind_of_evidence(outcomes, whole):
    rows = claims.cases([{"k": 10}] * 4)
    judged = {name: claims.judge(name, rows, holds) for name, holds in outcomes.items()}
    assert findings.tally("paper", judged) == {whole: 1}


def test_a_question_of_ours_is_answered():
    answers = [decided(new_text=holds)["new_text"].said for holds in (YES, NO, NONE)]
    assert answers == ["yes", "no", "open"]
    assert decided(top1_line=NO)["top1_line"].said == "differs"


def test_ranks_of_the_authors_are_evidence_of_theirs_alone(shown):
    rows = claims.cases([{"k": 1, "r2": 1.0, "family": name} for name in ("nano", NAME)])
    claims.claim("thousand_line", rows, [NO, YES])
    shown[1]("05_k_dependence", NAME)
    (finding,) = findings.by_authors().values()
    # one ladder on one text by design: one case decides, on their page and among the findings
    assert (finding.verdict, finding.count) == ("agrees", "1 of 1")
    alone = claims.judge("thousand_line", rows[1:], [YES])
    assert "one case is enough" in claims.line(alone)
    # what a page judges by them is their evidence too, whatever it is judged by without
    ratios = rows.assign(rounded=0.0, cut=0.0, basis=claims.RANKS)
    claims.claim("gpt2_lognormal", ratios, [NO, YES])
    shown[1]("09_appendix")
    collected = claims.collected("gpt2_lognormal", "09_appendix", ["all"])
    kinds = [findings.kind(of) for of in (finding, collected, WORDS["gpt2_lognormal"])]
    assert kinds == [findings.AUTHORS] * 2 + [findings.FIGURES]
    assert finding.title.startswith("A line")


def test_an_authors_paragraph_stands_for_its_verdicts_alone():
    judged = planted_findings()
    right = {"top1_line": "our ladders: agrees", "gpt2_line": "authors' counts: differs"}
    assert findings.written_for(judged, **right)
    for claim, other in (("gpt2_line", "agrees"), ("top1_line", "our grid: agrees")):
        assert not findings.written_for(judged, **{claim: other})
    assert not findings.written_for(judged, **right, new_text="our ladders: agrees")


def test_every_claim_of_a_statement_exists_and_has_a_kind_of_evidence():
    listed = read_yaml(root() / "book" / "findings.yml")
    names = [name for rows in listed.values() for claims in rows.values() for name in claims]
    assert len(set(names)) == len(names) and set(names) == set(WORDS)
    assert [len(rows) for rows in listed.values()] == [18, 12]
    assert {findings.kind(words) for words in WORDS.values()} <= set(
        sum(findings.COLUMNS.values(), ())
    )


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_claim_has_its_words_its_pages_and_one_rule(words):
    for page in words.pages:
        folder = "book" if page.startswith("derivations/") else "notebooks"
        assert (root() / folder / f"{page}.md").is_file(), page
    assert words.basis in BASIS
    assert bool(words.proved) == (words.basis == "proved") and bool(words.changes) != bool(
        words.proved
    )
    assert words.proved in ("", "agrees", "differs") and not (words.rule and words.proved)
    # judged by its first page, or by that of findings, if it is not proved; a name may be made of
    # two, for two kinds of evidence
    pages = [root() / f"notebooks/{page}.md" for page in (words.pages[0], "17_findings")]
    text = "".join(path.read_text() for path in pages if path.is_file())
    assert words.proved or re.sub("_(grid|published)$", "", words.name) in text
