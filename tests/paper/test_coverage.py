"""Intervals hold a planted law at their rate and tests reject it at theirs, where sources and
trainings differ."""

from dataclasses import replace

import numpy as np
import pytest

from paper.coverage import ANY, THESE, TOGETHER, TRUE_LAW, Design, coverage, drawn_exponents
from rbplib import Loss, fit, rbp_loss
from tests.paper.plantedranks import TABLES


def measured(sources, documents):
    """A Loss of hits, its sources of unlike difficulty, with its trainings of every size."""
    rng, count = np.random.default_rng(0), sources * documents
    S, source = np.tile(np.geomspace(2e3, 6e5, 6), 3), np.repeat(np.arange(sources), documents)
    hard = rng.normal(0, 0.3, sources)[source] + rng.normal(0, 0.3, count)
    y = np.log(1.5) - 0.06 * np.log(S / S[0]) + rng.normal(0, 0.015, len(S)) + hard[:, None]
    y += rng.normal(0, 0.06, (sources, len(S)))[source] + rng.normal(0, 0.08, (count, len(S)))
    totals = rng.integers(110, 331, count)
    hits = rng.binomial(totals[:, None], np.exp(-np.exp(y)))
    every = Loss(hits, totals, S, k=1, models=tuple(map(str, range(len(S)))), source=source)
    return replace(every.keep(np.arange(6)), repeats=every)


SOURCES = Design.like(measured(40, 12))


@pytest.fixture(scope="module")
def shares():
    """{(design, question, noise): share} of 200 families of each design."""
    designs = {"sources": replace(SOURCES, training_sd=0.015)}
    designs["alike"] = replace(Design.like(measured(300, 1)), training_sd=0.015)
    designs["one training"] = replace(SOURCES, training_sd=0.0)
    frame = coverage(designs, families=200, n_resamples=200)
    return frame.set_index(["design", "question", "noise"])["share"]


@pytest.mark.parametrize(
    ("case", "low", "high"),
    [
        (("sources", THESE, "other text"), 0.9, 0.98),
        # only those that know the trainings hold the law of any training
        (("alike", ANY, "other text"), 0, 0.8),
        (("sources", ANY, TOGETHER), 0.91, 0.99),
        (("alike", ANY, "other sizes"), 0.91, 0.99),
        # a true law is rejected as often as said, against the noise there is
        (("alike", TRUE_LAW, "other text"), 0.5, 1),
        (("alike", TRUE_LAW, TOGETHER), 0.01, 0.1),
        (("one training", TRUE_LAW, "other text"), 0, 0.12),
    ],
)
def test_intervals_hold_and_tests_reject_as_often_as_they_say(shares, case, low, high):
    assert low <= shares[case] <= high


def test_documents_are_not_enough_where_sources_are_fewer(shares):
    assert shares["sources", THESE, "documents"] < shares["sources", THESE, "other text"]
    assert shares["alike", THESE, "documents"] == shares["alike", THESE, "other text"]


def test_exponents_are_drawn_by_tokens_documents_and_sources():
    """Documents and sources as a law's own intervals."""
    loss = replace(rbp_loss(TABLES, 1), source=np.arange(120) // 4)
    drawn = drawn_exponents(loss, TABLES, 2000)
    ways = ["tokens", "documents", "sources"]
    assert list(drawn) == ways + [f"{way}, unpaired" for way in ways]
    for way, units in (("sources", loss), ("documents", loss.over_documents())):
        ends = fit(units, n_bootstrap=2000).ci_tokens
        assert np.quantile(drawn[way], [0.025, 0.975]) == pytest.approx(ends, rel=1e-9)


def test_a_bend_has_its_size_and_is_seen_where_it_is_large():
    bent = SOURCES.bent(0.08)
    x, y = np.log(bent.every.S[:6]), bent.y[:6]
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    assert np.sqrt(rest @ rest / 4) == pytest.approx(0.08)
    rates = coverage({"": SOURCES.bent(0.06)}, 40, 100).set_index(["question", "noise"])["share"]
    assert rates[TRUE_LAW, TOGETHER] > 0.7
