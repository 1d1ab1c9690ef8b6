"""What a fitted lognormal says: the ridge, the exponent at the pivot, the likelihood that `powerlaw` maximises."""

import numpy as np
from plantedranks import planted_pmf
from scipy import optimize, stats

from paper.histogram import rank_histogram
from paper.lognormal_fit import mu_over_sigma, pivot_exponent, ridge, rounded_lognormal_nll
from paper.rank_fit import fit_rank_law


def test_likelihood_falls_slowly_along_the_ridge():
    counts = 1e5 * planted_pmf("pareto_rounded", (1.4,))
    fit, mu, below = ridge(counts, np.array([3, 10, 30, 100, np.inf]))
    assert np.all(np.diff(below) < 0) and abs(below[-1]) < 1e-8 and mu[-1] == -np.inf
    assert np.allclose(mu[2:4], [-0.4 * 30**2, -0.4 * 100**2], rtol=0.02) and fit.status == "ridge"


def test_the_ridge_is_where_scipy_finds_the_best_mu():
    counts, ranks = 1e5 * planted_pmf("lognormal_ceiling", (1.0, 2.5)), np.arange(len(planted_pmf("zipf", (1.0,)))) + 1

    def nll(mu, sigma):
        ends = stats.lognorm(sigma, scale=np.exp(mu)).sf(np.append(0.5, ranks + 0.5))
        return -(counts @ np.log((ends[:-1] - ends[1:]) / (ends[0] - ends[-1]))) / counts.sum()

    sigmas = np.array([1.5, 2.5, 6.0])
    fit, mu, below = ridge(counts, sigmas)
    for sigma, at, lost in zip(sigmas, mu, below, strict=True):
        best = optimize.minimize_scalar(nll, args=(sigma,), bounds=(-12, 6), method="bounded")
        assert np.isclose(at, best.x, atol=2e-3) and np.isclose(lost, best.fun - fit.nll, atol=1e-7)


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
