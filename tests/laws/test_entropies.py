"""Rank entropy: one calibrated profile makes it the cross-entropy; its interval by simulation."""

import numpy as np
import pytest

from paper.curves import family_losses, gap, rank_entropy
from tests.paper.plantedranks import TABLES


def test_a_calibrated_common_profile_makes_both_entropies_equal():
    losses = family_losses(TABLES)
    difference, (low, high) = gap(losses["cross-entropy"], losses["rank entropy"], n_bootstrap=500)
    assert np.abs(difference).max() < 5e-3
    assert np.all((low - 2e-3 < 0) & (high + 2e-3 > 0))


def test_the_first_order_interval_is_that_of_a_full_resample():
    entropy = family_losses(TABLES)["rank entropy"]
    assert entropy.values == pytest.approx([rank_entropy(t.rank())[0] for t in TABLES], rel=1e-12)
    rng, ranks = np.random.default_rng(1), TABLES[0].rank().reshape(120, 150)
    full = [rank_entropy(ranks[rng.integers(0, 120, 120)].ravel())[0] for _ in range(400)]
    assert entropy.resampled(800, 42).loss[:, 0].std() == pytest.approx(np.std(full), rel=0.15)
