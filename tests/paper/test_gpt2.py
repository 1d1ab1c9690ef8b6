"""What the authors' GPT-2 figures say: numbers that pages quote from the histogram."""

import numpy as np
import pytest
from scipy import stats

from paper import gpt2
from paper.distributions import fit_rank_law
from paper.lognormal import rounded_lognormal_nll

RANKS = gpt2.gpt2_ranks()


@pytest.mark.parametrize(
    "name, kl, max_drbp, p_1",
    [
        ("zipf_mandelbrot_cutoff", 0.0005, 0.0036, 0.4157),
        ("two_lognormals", 0.0007, 0.0021, 0.4156),
        ("frechet", 0.0079, 0.0124, 0.4145),
        ("lognormal_ceiling", 0.0080, 0.0239, 0.4234),
        ("lognormal_rounded", 0.0228, 0.0592, 0.3559),
        ("zipf", 0.0327, 0.0802, 0.3350),
    ],
)
def test_candidates_on_the_digitised_histogram(name, kl, max_drbp, p_1):
    fit = fit_rank_law(RANKS, name)
    assert [fit.kl, fit.max_drbp, fit.pmf[0]] == pytest.approx([kl, max_drbp, p_1], abs=6e-5)


def test_what_the_printed_likelihood_ratio_measures():
    """Most of -3818 comes from a rounding kernel on one side only, and from a crude exponent."""
    parts = gpt2.ratio_parts()
    assert parts.n_tokens == pytest.approx(gpt2.N_TOKENS, rel=0.01)
    assert parts.exponents == pytest.approx([1.402, 1.435, 1.416, 1.395, 1.395], abs=1e-3)
    assert parts.ratios[:4] == pytest.approx([-3818.005, -2880, -167, 720], rel=6e-3)
    assert -1e-3 < parts.ratios[4] <= 0  # on the same support the power law ties


def test_likelihood_along_the_ridge():
    mu, sigma, lost = gpt2.ridge_losses((-50, -65.2, -80, -100, -200, -500))
    assert [mu, sigma] == pytest.approx([-62.2, 12.62], rel=2e-3)
    assert lost == pytest.approx([-7.6, -0.3, -7.1, -21, -74.5, -125.4], abs=0.3)
    at = rounded_lognormal_nll(RANKS, -65.2, sigma) - rounded_lognormal_nll(RANKS, mu, sigma)
    assert -gpt2.N_TOKENS * at <= lost[1]  # another sigma is no better than the best


def test_what_the_printed_pair_means():
    readings = list(gpt2.four_meanings().values())
    assert readings == pytest.approx([0.877, 1.0226, 1.1199, 1.0851], abs=6e-4)
    assert gpt2.anchor(fit_rank_law(RANKS, "lognormal")) == gpt2.PRINTED  # on the ridge
    inside = fit_rank_law(1e6 * np.exp(-(np.log(np.arange(1, 500)) ** 2)), "lognormal")
    assert gpt2.anchor(inside) == pytest.approx((0.5, np.sqrt(0.5)), abs=1e-3)


def test_lack_of_fit_on_the_authors_figures():
    columns = gpt2.figure_lack_of_fit()
    assert columns["k"].tolist() == [1, 10, 100, 1000, 10_000]
    misses = columns["misses, smallest model"]
    assert misses == pytest.approx([185e3, 97e3, 44e3, 13e3, 1.2e3], rel=0.035)
    assert columns["Q"] == pytest.approx([41, 62, 55, 67, 4.7], rel=0.035)
    z = columns["slope in standard errors"]
    assert z == pytest.approx([-49, -58, -52, -28, 7.0], rel=0.035)
    assert columns["p"] == pytest.approx(stats.chi2(2).sf(columns["Q"]))
