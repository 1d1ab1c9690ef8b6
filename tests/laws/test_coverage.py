"""Intervals hold the planted exponent at their stated rate; leaving out pairing or clustering breaks that."""

import numpy as np
import pytest

from rbplib.laws.coverage import Design, _intervals, coverage, drawn_misses
from rbplib.laws.law import fit
from rbplib.laws.losses import Loss
from rbplib.pages.law_tables import coverage_frame

FAMILIES = 2000  # simulation error of a rate of 95%: half a percentage point


def rates(design, methods, families=FAMILIES, **options):
    found = coverage(design, methods, families, **options)
    return {(row["method"], row["target"]): row for _, row in found.iterrows()}


def test_paired_document_intervals_cover_between_93_and_97_percent():
    for design in (Design(), Design(documents=100, tokens=128, alpha=0.05), Design(documents=400, clustering=0.3)):
        for c in rates(design, ("paired documents", "paired documents, BCa")).values():
            assert 0.93 - 2 * c["simulation error"] < c["covered"] < 0.97 + 2 * c["simulation error"], c


def test_without_pairing_the_exponent_s_interval_is_several_times_too_wide():
    found = rates(Design(), ("paired documents", "unpaired documents"), families=500)
    paired, unpaired = found["paired documents", "alpha"], found["unpaired documents", "alpha"]
    assert unpaired["covered"] > 0.99 and unpaired["mean width"] > 3 * paired["mean width"]


def test_without_clustering_the_interval_of_rbp_is_far_too_short():
    found = rates(Design(), ("paired documents", "independent tokens"), families=500)
    assert found["independent tokens", "RBP"]["covered"] < 0.6
    assert found["paired documents", "RBP"]["covered"] > 0.92


def test_few_misses_cost_coverage():
    design = Design(loss=0.0002)
    few = rates(design, ("paired documents",), families=500)["paired documents", "alpha"]
    assert design.expected_misses < 10 and few["covered"] < 0.9


def test_drawn_documents_have_the_planted_rates():
    design = Design(documents=2000)
    misses, totals = drawn_misses(design, 20, np.random.default_rng(0))
    assert misses.sum(axis=(0, 1)) / totals.sum() == pytest.approx(design.miss, rel=0.02)
    assert (np.diff(misses, axis=2) <= 0).all() and (misses[:, :, 0] <= totals).all()
    with pytest.raises(ValueError, match="differ that much"):
        drawn_misses(Design(clustering=5.0), 1, np.random.default_rng(0))


def test_rows_name_their_design():
    rows = coverage_frame({"small": Design(documents=30)}, ("independent tokens",), families=50)
    assert list(rows["target"]) == ["alpha", "RBP"] and rows["design"][0] == "small"


@pytest.mark.parametrize("method, name", [("percentile", "paired documents"), ("bca", "paired documents, BCa")])
def test_the_intervals_that_are_counted_are_those_that_pages_show(method, name):
    """The path of the simulation and that of `fit` give one interval for one family and seed."""
    design = Design(documents=60)
    misses, totals = drawn_misses(design, 3, np.random.default_rng(1))
    ends = _intervals(name, misses, totals, design, 400, 9, 0.95)["alpha"]
    for i in range(3):
        loss = Loss(sums=totals[i][:, None] - misses[i], totals=totals[i], S=design.S, k=1, models=tuple("abcdefg"))
        assert fit(loss, n_bootstrap=400, seed=9, method=method).ci_tokens == pytest.approx(tuple(ends[:, i]))
