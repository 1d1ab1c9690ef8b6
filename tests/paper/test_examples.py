"""The correlation of rank and probability on the page of the metric."""

import numpy as np
from scipy.stats import bootstrap, pearsonr

from paper.examples import correlation
from tests.ranktables import rank_table


def test_the_correlation_of_rank_and_probability_and_its_interval_over_documents():
    rng = np.random.default_rng(1)
    rank = rng.integers(1, 50, 4000)
    logprob = -np.log(rank) - rng.exponential(0.5, len(rank))
    r, (low, high) = correlation(rank_table(rank, np.arange(4000), logprob=logprob), 2000)
    data = np.log(rank), logprob
    theirs = bootstrap(
        data,
        lambda x, y: -pearsonr(x, y)[0],
        paired=True,
        vectorized=False,
        n_resamples=500,
        method="percentile",
        rng=rng,
    ).confidence_interval
    assert np.isclose(r, -pearsonr(*data)[0])
    np.testing.assert_allclose((low, high), theirs, atol=0.002)


def test_no_correlation_of_what_is_always_the_same_and_no_interval_of_one_document():
    assert np.isnan(correlation(rank_table([3, 3, 3], [0, 0, 1]))[0])
    r, interval = correlation(rank_table([1, 2, 3], [0, 0, 0], logprob=np.array([-1.0, -2, -4])))
    assert 0.9 < r < 1 and np.isnan(interval).all()
