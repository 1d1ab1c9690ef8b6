"""Histograms of ranks: what is refused, and wide bins that lose no token."""

import numpy as np
import pytest
from plantedranks import V, planted_pmf

from paper.histogram import as_histogram, rank_histogram
from paper.rank_fit import fit_rank_law
from rbplib.families import InputError


def test_hostile_input():
    with pytest.raises(InputError, match="did you mean 'weibull'"):
        fit_rank_law([3, 2, 1], "weibul")
    with pytest.raises(InputError, match="empty"):
        fit_rank_law(np.zeros(10), "zipf")
    with pytest.raises(InputError, match="at least 0"):
        fit_rank_law([1, -1, 3], "zipf")
    with pytest.raises(InputError, match="two tokens"):
        fit_rank_law([5], "zipf")
    with pytest.raises(InputError, match="no scored token"):
        rank_histogram(np.array([], dtype=int), 10)
    with pytest.raises(InputError, match="outside 1 to 10"):
        rank_histogram(np.array([0, 3]), 10)
    with pytest.raises(InputError, match="whole numbers"):
        rank_histogram(np.array([1.5, 3]), 10)


def test_wide_bins_cover_every_rank_once():
    ranks = np.random.default_rng(3).choice(V, 20_000, p=planted_pmf("zipf", (1.2,))) + 1
    histogram = rank_histogram(ranks, V)
    assert histogram.single and histogram.total == 20_000
    low, high, share = histogram.wide()
    assert low[0] == 1 and high[-1] == V and np.array_equal(low[1:], high[:-1] + 1)
    assert np.allclose(share, [np.mean((ranks >= a) & (ranks <= b)) for a, b in zip(low, high, strict=True)])
    assert as_histogram(histogram) is histogram
