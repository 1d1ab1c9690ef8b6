"""Rank entropy: by hand, and its interval by simulation."""

import numpy as np
import pytest

import rbplib as rbp
from tests.paper.plantedranks import TABLES


def entropy_of(ranks):
    """Entropy of ranks in nats with the Miller-Madow correction, by hand."""
    p = np.unique(ranks, return_counts=True)[1] / len(ranks)
    return (len(p) - 1) / (2 * len(ranks)) - p @ np.log(p)


def test_the_first_order_interval_is_that_of_a_full_resample():
    entropy = rbp.rank_entropy(TABLES)
    assert entropy.values == pytest.approx([entropy_of(t.rank()) for t in TABLES], rel=1e-12)
    rng, ranks = np.random.default_rng(1), TABLES[0].rank().reshape(120, 150)
    full = [entropy_of(ranks[rng.integers(0, 120, 120)].ravel()) for _ in range(400)]
    assert entropy.resampled(800, 42).loss[:, 0].std() == pytest.approx(np.std(full), rel=0.15)
