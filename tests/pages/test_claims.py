"""One rule per claim: what the file must hold, verdicts by count, planted cases that flip each, rows and lines."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from rbplib.laws.law import Law, Scatter
from rbplib.laws.runs import RunGap
from rbplib.pages import claims, evidence, open_questions
from rbplib.settings import InputError, root

RULES = claims.all_claims()
MEASURED = [rule for rule in RULES.values() if rule.holds]


def test_verdicts():
    assert claims.verdict([True] * 5) == "agrees"
    assert claims.verdict([False] * 5) == "differs"
    assert claims.verdict([True] * 3 + [False] * 2) == "mixed"
    assert claims.verdict([True, True]) == "cannot be told"
    assert claims.verdict([]) == "cannot be told"


def test_large_k_is_the_same_share_of_the_vocabulary():
    assert evidence.large_k(50_257, 20_000) == 20_000
    assert evidence.large_k(4096, 20_000) == 1630
    assert evidence.large_k(2, 20_000) == 1


@pytest.fixture(scope="module")
def published():
    return evidence.published_numbers()


@pytest.fixture(scope="module")
def theory(published):
    return claims.findings("theory", published)


def test_theory_rows_are_computed_and_typed(theory):
    assert {r.verdict for r in theory} <= {"agrees", "differs", "mixed", "cannot be told"}
    assert {r.rule.basis for r in theory} <= set(claims.BASIS)
    ours = " ".join(r.ours for r in theory)
    assert "−3.1%" in ours and "2.4%" in ours and "0.854" in ours  # the GPT-2 pair, from exact sums
    frame = claims.finding_frame(theory, "nano-pythia")
    assert len(frame) == len(theory) and frame["claim"].str.contains('<a href="').all()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_claim_has_a_rule_a_page_and_a_place(rule):
    """A number for each condition, pages of this book, a section of the paper or the mark of our own question."""
    for page in rule.pages:
        folder = "book" if page.startswith("derivations/") else "notebooks"
        assert (root() / folder / f"{page}.md").is_file(), page
    assert bool(rule.section) != rule.ours
    assert rule.basis in claims.BASIS and rule.part in ("law", "use", "theory", "")
    assert rule.claim and rule.paper and rule.found
    assert bool(rule.proved) == (rule.basis == "proved")
    assert rule.proved in ("", "agrees", "differs") and rule.reading in ("", "mixed")
    assert not (rule.holds and (rule.proved or rule.reading))
    words = {"at least", "above", "at most", "below", "between"}
    assert all(conditions.keys() <= words for conditions in {**(rule.holds or {}), **(rule.among or {})}.values())


KINDS = {"laws": Law, "run_laws": Law, "runs": RunGap}


@pytest.mark.parametrize("rule", MEASURED, ids=lambda rule: rule.name)
def test_each_number_of_a_rule_is_a_function_or_a_field(rule, published):
    for name in (*rule.holds, *(rule.among or {})):
        if name == "beyond_noise":
            continue
        elif rule.of in KINDS:
            records = (KINDS[rule.of], Scatter)  # a law answers for its scatter
            assert any(name in r.__dataclass_fields__ or hasattr(r, name) for r in records), name
        else:
            assert hasattr((published | planted_kinds())[rule.of][0], name), name


def planted_kinds():
    """One case of each kind that `evidence` makes, from stand-ins."""
    law = SimpleNamespace(k=1, r2=0.5, alpha=0.1, ci_tokens=(0.05, 0.15), lack_of_fit_p=0.5, corpus="docs")
    fit = SimpleNamespace(max_drbp=0.1, title="a law")
    order = ("zipf", "lognormal")
    result = SimpleNamespace(place=order.index, loss=np.array([0.0, 0.1]), best="zipf", candidates=order)
    return {
        "far": [evidence.far_case(law)],
        "rises": [SimpleNamespace(interval=(0.1, 0.2))],
        "pairs": [SimpleNamespace(ratio=1.0, interval=(-1, 1))],
        "contests": [evidence.contested(result, {"zipf": fit, "lognormal": fit})],
        "ladders": [SimpleNamespace(size_r2=0.5, log_size_r2=0.9, log_size_lead=0.4)],
    }


def meeting(conditions, meet):
    """A number that meets the conditions, or one that meets none of them."""
    if "between" in conditions:
        low, high = conditions["between"]
        return (low + high) / 2 if meet else high + 1
    low = conditions.get("at least", conditions.get("above"))
    high = conditions.get("at most", conditions.get("below"))
    inside = (low + high) / 2 if None not in (low, high) else low + 1e-3 if high is None else high - 1e-3
    return inside if meet else (low - 1 if high is None else high + 1)


@pytest.mark.parametrize("rule", MEASURED, ids=lambda rule: rule.name)
def test_planted_cases_flip_every_verdict(rule, monkeypatch):
    """Numbers that meet a rule agree; one number beyond one bound, in every case, differs; half of them is mixed."""
    monkeypatch.setattr(claims, "measure", lambda name, case: getattr(case, name))

    def planted(failing=None):
        numbers = {n: meeting(c, n != failing) for n, c in rule.holds.items()}
        numbers |= {n: meeting(c, True) for n, c in (rule.among or {}).items()}
        return SimpleNamespace(k=rule.ks[0] if rule.ks else 1, N=rule.N, corpus="docs", **numbers)

    def verdict(cases):
        found = [claims.holds(rule.holds, c) for c in cases]
        return claims.verdict(found, rule.enough)

    assert verdict([planted()] * 4) == "agrees"
    for name in rule.holds:
        assert verdict([planted(name)] * 4) == "differs"
        assert verdict([planted()] * 2 + [planted(name)] * 2) == "mixed"


def test_a_number_that_does_not_exist_decides_nothing():
    rule = {"r2": {"at least": 0.9}, "alpha": {"above": 0}}
    assert claims.holds(rule, SimpleNamespace(r2=np.nan, alpha=0.1)) is None
    assert claims.holds(rule, SimpleNamespace(r2=np.nan, alpha=-0.1)) is False  # failed whatever the other is
    assert claims.holds(rule, SimpleNamespace(r2=0.95, alpha=0.1)) is True


def test_how_far_an_interval_lies_from_zero():
    far = {(0.1, 0.2): 0.1, (-0.2, -0.1): -0.1, (-0.1, 0.1): 0.0, (0.0, 0.0): 0.0}
    assert {i: claims.beyond_noise(SimpleNamespace(interval=i)) for i in far} == far
    assert np.isnan(claims.beyond_noise(SimpleNamespace(interval=(np.nan, np.nan))))


def law(corpus, k=1, r2=0.99, alpha=0.05):
    """What the claims on laws read of a Law."""
    return SimpleNamespace(
        corpus=corpus, k=k, r2=r2, alpha=alpha, lack_of_fit_p=0.5, ci_tokens=(0.04, 0.06), scored_tokens=10**5
    )


def test_the_page_and_the_findings_judge_by_one_rule(monkeypatch):
    """The very same object, so that a change of the rule changes both."""
    said, judged, seen = [], claims.judged, []
    monkeypatch.setattr(claims, "say", said.append)
    monkeypatch.setattr(claims, "judged", lambda rule, *more, **how: seen.append(rule) or judged(rule, *more, **how))
    laws = [law(c, r2=r2) for c, r2 in zip("abcd", (0.976, 0.98, 0.99, 0.96), strict=True)]
    claims.judge("02_top1_law", laws=laws)
    on_page = {rule.name: rule.holds for rule in seen}
    assert said[0].endswith("here: R² 0.960 to 0.990; agrees on 3 of 4 corpora.")
    del seen[:]
    rows = {f.rule.name: f for f in claims.findings("law", {"laws": laws})}
    assert rows["top1_line"].verdict == "mixed" and rows["top1_line"].count == "3 of 4"
    for name, rule in on_page.items():
        assert rows[name].rule is RULES[name] and rows[name].rule.holds is rule


def test_several_ranks_take_a_line_each(monkeypatch):
    said = []
    monkeypatch.setattr(claims, "say", said.append)
    claims.judge("03_moderate_k", laws=[law(c, k) for c in "ab" for k in (10, 100, 7)])
    assert len(said) == 2 and all("2 of 2 corpora" in s for s in said)  # k = 7 is no claim, k = 50 was not measured
    assert "at k = 10." in said[0] and "at k = 100." in said[1]
    assert re.search(r"The paper: R² at least 0.97; here: R² 0.990 to 0.990", said[0])


def test_noise_explains_only_what_is_broken():
    rule = RULES["far_noise"]
    fine = SimpleNamespace(k=9, r2=0.95, worse=0.5, lack_of_fit_p=0.5)
    broken = [SimpleNamespace(k=9, r2=0.5, worse=w, lack_of_fit_p=p) for w, p in ((0.5, 0.5), (0.01, 0.5), (0.5, 0.01))]
    found = claims.judged(rule, [fine, *broken])
    assert found.held == [True, False, False]


def test_every_link_leads_to_a_page():
    assert claims.link("02_top1_law", "nano-gpt2") == "../nano-gpt2/02_top1_law.html"
    assert claims.link("10_published", "nano-gpt2") == "10_published.html"
    assert claims.link("derivations/entropy", "nano-gpt2") == "../../derivations/entropy.html"


def test_spread_ignores_what_has_no_value():
    assert f"{claims.Values([1.0, np.nan, 3.0])}" == "median 2, 1 to 3"
    assert f"{claims.Values([np.nan])}" == "no value"
    assert claims.Values([1.0, np.nan, 0.0]).told == "2 of 3" and claims.Values([1.0, np.nan, 0.0]).zeros == "1 of 2"


@pytest.mark.parametrize("field", ["claim", "ours", "verdict", "paper", "basis", "pages"])
def test_no_row_lacks_a_field(field, theory):
    assert all(getattr(r, field, None) or getattr(r.rule, field) for r in theory)


def test_training_question_needs_no_measurement():
    frame = open_questions.training_frame()
    assert (frame["R²"] > 0.9).any() and frame["alpha"].iloc[-1] > frame["alpha"].iloc[0]


def test_noise_verdicts():
    row = {"high": 0.1, "worse": 0.4, "lack_of_fit_p": 0.3, "r2": 0.5}
    verdict = lambda **changed: open_questions.noise_verdict(SimpleNamespace(**row | changed))  # noqa: E731
    assert verdict() == "noise suffices"
    assert verdict(lack_of_fit_p=0.001) == "a real break"
    assert verdict(high=-0.01) == "reversed beyond noise"


def test_an_unknown_condition_is_told_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'at least'"):
        claims.holds({"r2": {"at leest": 0.9}}, SimpleNamespace(r2=1.0))
