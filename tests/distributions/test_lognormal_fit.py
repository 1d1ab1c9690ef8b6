"""What a fitted lognormal says: the ridge, the exponent at the pivot, the likelihood that `powerlaw` maximises."""

import numpy as np
from plantedranks import planted_pmf
from scipy import stats

from rbplib.distributions.fit import fit_rank_law
from rbplib.distributions.histogram import rank_histogram
from rbplib.distributions.lognormal_fit import mu_over_sigma, pivot_exponent, ridge_profile, rounded_lognormal_nll


def test_likelihood_falls_slowly_along_the_ridge():
    profile = ridge_profile(1e5 * planted_pmf("pareto_rounded", (1.4,)), [-10, -100, -1000, -np.inf])
    assert np.all(np.diff(profile) > 0) and abs(profile[-1]) < 1e-3


def test_what_data_fix_and_what_they_do_not():
    """Inside, mu/sigma is that of the planted pair; on the edge it is infinite, and the pivot's exponent the power."""
    inside = fit_rank_law(1e6 * planted_pmf("lognormal", (0.9, 0.06)), "lognormal")
    assert np.isclose(mu_over_sigma(inside), 0.1 / np.sqrt(0.12), atol=1e-3)
    edge = fit_rank_law(1e6 * planted_pmf("zipf", (1.4,)), "lognormal")
    assert mu_over_sigma(edge) == -np.inf or mu_over_sigma(edge) < -100
    exponent, se = pivot_exponent(edge)
    assert abs(exponent - 1.4) < 3 * se < 0.01


def test_rounded_lognormal_is_what_powerlaw_fits():
    """The infinite-support likelihood equals a direct difference of the distribution function."""
    ranks = np.array([1, 1, 1, 2, 3, 7, 40])
    histogram = rank_histogram(ranks, 100)
    cdf = stats.lognorm(2.0, scale=np.exp(0.3)).cdf
    whole = 1 - cdf(0.5)
    direct = -np.mean(np.log((cdf(ranks + 0.5) - cdf(ranks - 0.5)) / whole))
    assert np.isclose(rounded_lognormal_nll(histogram, 0.3, 2.0), direct, rtol=1e-12)
