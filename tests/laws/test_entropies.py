"""Rank entropy: one calibrated profile makes it the cross-entropy; its interval by simulation."""

import numpy as np
import pytest

from paper.curves import family_losses, gap, rank_entropy
from tests.ranktables import rank_table


@pytest.fixture(scope="module")
def tables():
    """Models whose logprob is the log of a known rank law, the same at every position."""
    rng, tables = np.random.default_rng(0), []
    document, position = np.divmod(np.arange(120 * 150), 150)
    for S in (1e4, 1e5, 1e6):
        p = np.arange(1.0, 41) ** -(1.2 + 0.1 * np.log(S / 1e4))
        p /= p.sum()
        greater = rng.choice(40, size=len(document), p=p)
        about = {"nonembedding_params": S, "vocab_size": 40, "logprob": np.log(p)[greater]}
        tables.append(rank_table(greater + 1, document, position + 1, **about))
    return tables


def test_a_calibrated_common_profile_makes_both_entropies_equal(tables):
    losses = family_losses(tables)
    difference, (low, high) = gap(losses["cross-entropy"], losses["rank entropy"], n_bootstrap=500)
    assert np.abs(difference).max() < 5e-3
    assert np.all((low - 2e-3 < 0) & (high + 2e-3 > 0))


def test_the_first_order_interval_is_that_of_a_full_resample(tables):
    entropy = family_losses(tables)["rank entropy"]
    assert entropy.values == pytest.approx([rank_entropy(t.rank())[0] for t in tables], rel=1e-12)
    rng, ranks = np.random.default_rng(1), tables[0].rank().reshape(120, 150)
    full = [rank_entropy(ranks[rng.integers(0, 120, 120)].ravel())[0] for _ in range(400)]
    assert entropy.resampled(800, 42).loss[:, 0].std() == pytest.approx(np.std(full), rel=0.15)
