"""Intervals hold a planted law at their rate and tests reject it at theirs, where sources and
trainings differ."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from paper.coverage import (
    ANY,
    NEXT,
    RBP,
    THESE,
    Design,
    coverage,
    drawn_exponents,
    judged,
    power,
    spans,
    token_interval,
)
from paper.curves import rbp_curve
from paper.forecasts import extrapolate
from paper.laws import fit
from rbplib.bootstrap import line
from tests.paper.plantedranks import TABLES

FEW_SOURCES_OF_MANY = Design.plain(sources=30, documents=16, between=(0.4, 0.08))


@pytest.fixture(scope="module")
def counted():
    """{(design, target, interval): share covered} and {(design, noise): share rejected}, 300
    families of each."""
    designs = {"sources": FEW_SOURCES_OF_MANY, "alike": Design.plain(sources=300, documents=1)}
    designs["one training"] = replace(FEW_SOURCES_OF_MANY, training_sd=0.0)
    covered, rejected = coverage(designs, families=300, n_resamples=400)
    return (
        covered.set_index(["design", "of", "interval"])["covered"],
        rejected.set_index(["design", "against"])["rejected"],
    )


def test_intervals_over_sources_cover_where_those_over_documents_do_not(counted):
    covered, _ = counted
    assert (
        0.90 < covered["sources", THESE, "sources"] < 0.98
    )  # 30 sources: a percentile interval is a little short
    assert (
        covered["sources", THESE, "documents"] < 0.8 and covered["sources", RBP, "documents"] < 0.75
    )
    assert covered["sources", RBP, "sources"] > 0.88
    assert covered["alike", THESE, "documents"] == covered["alike", THESE, "sources"] > 0.92


def test_only_intervals_that_know_the_trainings_hold_the_law_of_any_training(counted):
    covered, _ = counted
    assert covered["alike", ANY, "sources"] < 0.7
    for design in ("sources", "alike"):
        for interval in ("sources and trainings", "models"):
            assert 0.92 < covered[design, ANY, interval] < 0.985
    assert 0.91 < covered["alike", NEXT, "models"] < 0.98


def test_the_test_of_the_law_rejects_a_true_one_as_often_as_it_says_only_against_the_noise_there_is(
    counted,
):
    _, rejected = counted
    assert rejected["alike", "sources"] > 0.8  # trainings scatter, and it does not know
    for design in ("sources", "alike"):
        assert 0.015 < rejected[design, "sources and trainings"] < 0.09
    assert rejected["one training", "documents"] > 0.3
    assert (
        rejected["one training", "sources"] < 0.12
        and rejected["one training", "sources and trainings"] < 0.08
    )


def test_the_components_of_a_drawn_family_are_found_again():
    design = Design.plain(sources=400, documents=8, tokens=400, between=(0.3, 0.05))
    loss, _ = design.losses(1, np.random.default_rng(1))[0]
    found = Design.of(loss)
    for name, size in (("between", 0.3**2), ("within", 0.4**2)):
        matrix = getattr(found, name)
        assert matrix.shape == (18, 18) and np.mean(matrix) == pytest.approx(size, rel=0.2)
    own = np.diag(found.within) - found.within.mean()
    assert own.mean() == pytest.approx(0.1**2, rel=0.3)
    assert found.models == 6 and found.training_sd == pytest.approx(0.015, rel=0.6)
    assert (found.alpha, found.loss) == (pytest.approx(0.06, abs=0.01), pytest.approx(1.5, rel=0.1))
    again = [fit(drawn, n_bootstrap=200) for drawn, _ in found.losses(10, np.random.default_rng(2))]
    law = fit(loss, n_bootstrap=200)
    assert np.mean([a.noise_sd for a in again]) == pytest.approx(law.noise_sd, rel=0.15)
    width = np.mean([np.diff(a.over_documents.ci_tokens) for a in again])
    assert width == pytest.approx(np.diff(law.over_documents.ci_tokens), rel=0.2)


def test_what_is_counted_is_what_pages_show():
    loss, y = FEW_SOURCES_OF_MANY.losses(1, np.random.default_rng(3))[0]
    law, held = fit(loss, n_bootstrap=300, seed=5), extrapolate(loss)
    intervals, p = judged(loss, y, 0.06, 300, 5)
    shown = {
        (THESE, "sources"): law.ci_tokens,
        (THESE, "documents"): law.over_documents.ci_tokens,
        (ANY, "sources and trainings"): law.ci_trainings,
        (ANY, "models"): law.ci_models,
        (NEXT, "models"): tuple(held.interval[:, 0]),
    }
    for key, interval in shown.items():
        assert intervals[key][:2] == pytest.approx(interval, rel=1e-9), key
    assert intervals[THESE, "sources"][2] == pytest.approx(-line(y, np.log(loss.S))[0])
    assert list(p.values()) == [
        law.over_documents.lack_of_fit_p,
        law.lack_of_fit_p,
        law.trained_lack_of_fit_p,
    ]


def test_few_sources_or_misses_leave_families_without_an_interval():
    designs = {"ten": Design.plain(sources=10), "no miss": Design.plain(loss=1e-7)}
    covered, rejected = coverage(designs, families=20, n_resamples=100)
    table = covered.set_index(["design", "of", "interval"])["without interval"]
    assert table["ten", ANY, "sources and trainings"] == 1 and table["ten", THESE, "sources"] == 0
    assert table["no miss", THESE, "sources"] > 0.5
    assert rejected.set_index(["design", "against"])["without p"]["ten", "sources"] == 1


def test_a_family_that_is_not_among_its_repeats_is_drawn_so():
    measured = Design.plain(sources=30, documents=2).losses(1, np.random.default_rng(3))[0][0]
    apart = replace(measured, repeats=measured.repeats.keep(np.arange(6, 18)))
    for loss, among in ((measured, True), (apart, False)):
        design = Design.of(loss)
        assert design.among == among and len(design.S) == 18
        drawn = design.losses(1, np.random.default_rng(4))[0][0]
        own = (drawn.repeats.sums == drawn.sums[:, :1]).all(axis=0).any()
        assert own == among and len(drawn.repeats.S) == (18 if among else 12)


def test_exponents_are_drawn_by_tokens_documents_and_sources():
    """Documents and sources as a law's own intervals, tokens as if each were a document; unpaired
    as normal theory."""
    tables = [
        replace(t, columns=t.columns | {"token": TABLES[0].token}) for t in TABLES
    ]  # of the same text
    loss = replace(rbp_curve(tables, [1]).loss(1), source=np.arange(120) // 4)
    drawn, law = drawn_exponents(loss, tables, 2000), fit(loss, n_bootstrap=2000)
    ways = ["tokens", "documents", "sources"]
    assert list(drawn) == ways + [f"{way}, unpaired" for way in ways]
    for way, known in (("sources", law), ("documents", law.over_documents)):
        assert np.quantile(drawn[way], [0.025, 0.975]) == pytest.approx(known.ci_tokens, rel=1e-9)
    hits = np.stack([t.rank() == 1 for t in TABLES], axis=1).astype(int)
    apart = replace(loss, sums=hits, totals=np.ones(len(hits), int), source=None)
    tokens = -line(apart.resampled(1000, 1).y, np.log(loss.S))[0]
    assert drawn["tokens"].std() == pytest.approx(tokens.std(), rel=0.1)
    assert drawn["tokens"].mean() == pytest.approx(law.alpha, abs=0.1 * tokens.std())
    low, high = token_interval(loss, law.alpha)
    assert np.diff(np.quantile(drawn["tokens, unpaired"], [0.025, 0.975])) == pytest.approx(
        high - low, rel=0.1
    )


def test_a_bend_has_the_size_that_was_asked_for_and_is_seen_where_it_is_large():
    design = Design.plain(sources=60, documents=2, training_sd=0.02)
    bent = {times: replace(design, bend=0.02 * times) for times in (1, 4)}
    x, y = np.log(design.S[:6]), bent[4].y[:6]
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    assert np.sqrt(rest @ rest / 4) == pytest.approx(0.08) and bent[4].y[6:12] == pytest.approx(y)
    rows = power({"bent": design}, {"bent": 0.02}, 40, 100).set_index("bend over noise")
    assert list(rows["bend"]) == [0.02 * times for times in (1, 1.5, 2, 3)]
    assert rows["sources and trainings"][1] < 0.5 and rows["sources and trainings"][3] > 0.8
    assert not len(power({"bent": design}, {"bent": 0.0}, 40, 100))


def test_rates_span_the_designs_that_have_an_interval():
    columns = ["design", "of", "interval", "covered", "without interval"]
    rows = [("a", "x", "i", 0.9, 0.0), ("b", "x", "i", 0.95, 0.5), ("c", "x", "i", 0.0, 1.0)]
    frame = pd.DataFrame(rows, columns=columns)
    table = spans(frame, "covered", {"all": ["a", "b", "c"], "none": ["c"]})
    assert table.to_dict("records") == [
        {"of": "x", "interval": "i", "all": "90% to 95%", "none": "no value"}
    ]
