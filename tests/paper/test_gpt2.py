"""What the authors published of GPT-2: numbers that pages quote from histogram and counts."""

import numpy as np
import pytest

import rbplib
from paper import gpt2, published

RANKS = gpt2.gpt2_ranks()


def test_the_digitised_histogram_begins_as_counted():
    assert RANKS.share[0] == pytest.approx(132_065 / 317_414, abs=2e-3)


def test_what_the_printed_likelihood_ratio_measures():
    """Most of -3818 comes from a crude exponent, and from a rounding kernel on one side only."""
    printed, rounded, cut = gpt2.ratio_parts(RANKS).values()
    assert [printed, rounded] == pytest.approx([-3818.005, -167], rel=6e-3)
    assert -1e-3 < cut <= 0  # on the same support the power law ties


@pytest.mark.parametrize("k", [1, 10_000])
def test_the_slope_in_standard_errors_of_independent_tokens(k):
    rows = published.gpt2_counts().query("N == 1 and k == @k")
    share, x = rows.hits / 317_414, np.log(rows.S)
    slope, _ = np.polyfit(x, np.log(-np.log(share)), 1)
    # by the delta method, of log(-log share)
    variance = np.mean((1 - share) / (317_414 * share) / np.log(share) ** 2)
    errors = -slope / np.sqrt(variance / np.sum((x - x.mean()) ** 2))
    law = rbplib.fit(S=rows.S, hits=rows.hits, totals=317_414)
    assert gpt2.token_errors(law) == pytest.approx(errors, rel=1e-3)


def test_articles_are_as_long_as_their_runs_tell():
    # published/README.md: windows of N are T - (N - 1) * 1,000, so 1,000 articles
    assert gpt2.article_tokens() == pytest.approx(317_414 / 1_000)
