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
    rng = np.random.default_rng(0)
    S = np.tile(np.geomspace(2e3, 2e3 * 10**2.5, 6), 3)
    source = np.repeat(np.arange(sources), documents)
    shared = rng.normal(0, 0.3, sources)[source] + rng.normal(0, 0.3, len(source))
    own = rng.normal(0, 0.03, (sources, len(S)))[source]
    own += rng.normal(0, 0.08, (len(source), len(S)))
    y = np.log(1.5) - 0.06 * np.log(S / S[0]) + rng.normal(0, 0.015, len(S))
    totals = rng.integers(110, 331, len(source))
    hits = rng.binomial(totals[:, None], np.exp(-np.exp(y + shared[:, None] + own)))
    every = Loss(hits, totals, S, k=1, models=tuple(map(str, range(len(S)))), source=source)
    return replace(every.keep(np.arange(6)), repeats=every)


SOURCES = Design.like(measured(40, 12))


@pytest.fixture(scope="module")
def counted():
    """{(design, question, noise): share} of 250 families of each design."""
    designs = {"sources": replace(SOURCES, training_sd=0.015)}
    designs["alike"] = replace(Design.like(measured(300, 1)), training_sd=0.015)
    designs["one training"] = replace(SOURCES, training_sd=0.0)
    frame = coverage(designs, families=250, n_resamples=300)
    return frame.set_index(["design", "question", "noise"])["share"]


def test_intervals_over_sources_cover_where_those_over_documents_do_not(counted):
    assert 0.90 < counted["sources", THESE, "other text"] < 0.98
    assert counted["sources", THESE, "documents"] < counted["sources", THESE, "other text"]
    assert counted["alike", THESE, "documents"] == counted["alike", THESE, "other text"] > 0.91


def test_only_intervals_that_know_the_trainings_hold_the_law_of_any_training(counted):
    assert counted["alike", ANY, "other text"] < 0.8
    for design in ("sources", "alike"):
        for noise in (TOGETHER, "other sizes"):
            assert 0.91 < counted[design, ANY, noise] < 0.99


def test_a_true_law_is_rejected_as_often_as_said_only_against_the_noise_there_is(counted):
    assert counted["alike", TRUE_LAW, "other text"] > 0.5  # trainings scatter, and it does not know
    for design in ("sources", "alike"):
        assert 0.01 < counted[design, TRUE_LAW, TOGETHER] < 0.1
    assert counted["one training", TRUE_LAW, "other text"] < 0.12


def test_exponents_are_drawn_by_tokens_documents_and_sources():
    """Documents and sources as a law's own intervals."""
    loss = replace(rbp_loss(TABLES, 1), source=np.arange(120) // 4)
    drawn = drawn_exponents(loss, TABLES, 2000)
    ways = ["tokens", "documents", "sources"]
    assert list(drawn) == ways + [f"{way}, unpaired" for way in ways]
    for way, of in (("sources", loss), ("documents", loss.over_documents())):
        ends = fit(of, n_bootstrap=2000).ci_tokens
        assert np.quantile(drawn[way], [0.025, 0.975]) == pytest.approx(ends, rel=1e-9)


def test_a_bend_has_the_size_that_was_asked_for_and_is_seen_where_it_is_large():
    bent = SOURCES.bent(0.08)
    x, y = np.log(bent.every.S[:6]), bent.y[:6]
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    assert np.sqrt(rest @ rest / 4) == pytest.approx(0.08)
    rates = coverage({"": SOURCES.bent(0.06)}, 40, 100).set_index(["question", "noise"])["share"]
    assert rates[TRUE_LAW, TOGETHER] > 0.7
