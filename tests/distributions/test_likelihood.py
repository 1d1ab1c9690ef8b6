"""Short weighted sums over pivots against sums over all ranks, and the bins of a likelihood."""

import numpy as np
import pytest
from plantedranks import PLANTED

from paper.histogram import RankHistogram
from paper.likelihood import Likelihood, pivots, project
from paper.rank_laws import CANDIDATES


@pytest.mark.parametrize("size", [2, 47, 48, 49, 64, 70, 4096, 50257])
def test_pivots_sum_like_ranks(size):
    """The short weighted sum equals the long one, for sums of the mass and for sums over counts."""
    rng = np.random.default_rng(1)
    k = np.arange(1.0, size + 1)
    nodes, weights, blocks = pivots(size)
    for name, params in PLANTED.items():
        log_mass = CANDIDATES[name].log_mass(k, np.array(params))
        assert np.isclose(weights @ np.exp(CANDIDATES[name].log_mass(nodes, np.array(params))),
                          np.exp(log_mass).sum(), rtol=1e-9), name  # fmt: skip
    counts = rng.multinomial(10_000, np.full(size, 1 / size))
    assert np.isclose(project(counts, blocks) @ np.log(nodes), counts @ np.log(k), rtol=1e-10)


@pytest.mark.parametrize("size", [30, 60, 4096])
def test_bins_hold_the_mass_of_their_ranks(size):
    low = np.array([1, 4, 21])
    high = np.array([3, 20, size])
    k, histogram = np.arange(1.0, size + 1), RankHistogram(low, high, np.ones(3), size)
    cells = Likelihood(histogram, CANDIDATES["zipf"]).bins @ pivots(size)[0] ** -1.3
    assert np.allclose(cells, [(k[a - 1 : b] ** -1.3).sum() for a, b in zip(low, high, strict=True)], rtol=1e-9)
