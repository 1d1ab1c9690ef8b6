"""Runs of hits: planted dependence is measured back, and formulas against simulation."""

import numpy as np
import pytest

from rbplib import runs
from tests.ranktables import rank_table


def markov(seed, documents, n, p, rho, icc):
    """Hits (D, n) of documents whose rates differ by icc; neighbours hang together by rho."""
    rng = np.random.default_rng(seed)
    rates = np.full(documents, p)
    if icc:
        rates = rng.beta(p * (1 / icc - 1), (1 - p) * (1 / icc - 1), documents)
    hits = np.empty((documents, n), bool)
    hits[:, 0] = rng.random(documents) < rates
    for i in range(1, n):
        hits[:, i] = rng.random(documents) < rates + rho * (hits[:, i - 1] - rates)
    return hits


def test_planted_dependence_is_measured_back_and_explains_long_runs():
    hits = markov(1, 3000, 120, 0.7, 0.2, 0.05)
    document, position = np.indices(hits.shape).reshape(2, -1)
    table = rank_table(np.where(hits.ravel(), 1, 5), document, position + 1)
    dependence = runs.hit_dependence(table, 1)
    planted = pytest.approx((0.7, 0.2, 0.05), abs=0.012)
    assert (dependence.p, dependence.rho, dependence.plateau) == planted
    gap = runs.run_gap(table, 1, 20, dependence, n_bootstrap=500)
    assert gap["gap"] > 0.5 and gap["interval"][0] > 0
    assert gap["dependent"] == pytest.approx(gap["measured"], abs=0.15)


@pytest.mark.parametrize("icc, rho", [(0.0, 0.2), (0.05, 0.0), (0.2, 0.1)])
def test_run_success_against_simulation(icc, rho):
    share = np.exp(runs.log_run_both(0.8, 10, icc, rho))
    seen = markov(7, 400_000, 10, 0.8, rho, icc).all(axis=1).mean()
    assert abs(share - seen) < 4 * np.sqrt(share * (1 - share) / 400_000)
