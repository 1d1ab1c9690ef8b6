"""What the authors published of GPT-2: numbers that pages quote from histogram and counts."""

import pytest

from paper import gpt2

RANKS = gpt2.gpt2_ranks()


def test_the_digitised_histogram_begins_as_counted():
    assert RANKS.share[0] == pytest.approx(132_065 / 317_414, abs=2e-3)


def test_what_the_printed_likelihood_ratio_measures():
    """Most of -3818 comes from a crude exponent, and from a rounding kernel on one side only."""
    printed, rounded, cut = gpt2.ratio_parts(RANKS).values()
    assert [printed, rounded] == pytest.approx([-3818.005, -167], rel=6e-3)
    assert -1e-3 < cut <= 0  # on the same support the power law ties
