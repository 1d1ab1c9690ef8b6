"""The candidates' formulas against their textbook forms."""

import numpy as np
from plantedranks import PLANTED
from scipy import stats

from paper.rank_laws import CANDIDATES


def test_every_candidate_has_a_planted_case():
    assert set(PLANTED) == set(CANDIDATES)


def test_cells_against_scipy():
    """Ceiling and rounded cells, and the count families, equal their textbook forms."""
    k = np.arange(1.0, 300)
    n = stats.norm
    ceiling = n.cdf((np.log(k) - 0.8) / 2.2) - np.r_[0, n.cdf((np.log(k[:-1]) - 0.8) / 2.2)]
    assert np.allclose(np.exp(CANDIDATES["lognormal_ceiling"].log_mass(k, (0.8, 2.2))), ceiling, rtol=1e-9)
    mu, sigma = 0.5, 1.7
    s, beta = 1 - mu / sigma**2, 0.5 / sigma**2
    rounded = n.cdf((np.log(k + 0.5) - mu) / sigma) - n.cdf((np.log(k - 0.5) - mu) / sigma)
    ours = np.exp(CANDIDATES["lognormal_rounded"].log_mass(k, (s, beta)))
    assert np.allclose(ours / ours[0], rounded / rounded[0], rtol=1e-9)
    weibull = stats.weibull_min(0.4, scale=6.0)
    assert np.allclose(
        np.exp(CANDIDATES["weibull"].log_mass(k, (6.0, 0.4))), weibull.cdf(k) - weibull.cdf(k - 1), rtol=1e-9
    )
    frechet = np.exp(-0.9 * k**-0.5)
    assert np.allclose(
        np.exp(CANDIDATES["frechet"].log_mass(k, (0.9, 0.5))), frechet - np.r_[0, frechet[:-1]], rtol=1e-8
    )
    yule = stats.yulesimon(0.6).pmf(k)
    ours = np.exp(CANDIDATES["yule"].log_mass(k, (0.6,)))
    assert np.allclose(ours / ours[0], yule / yule[0], rtol=1e-9)
    bnb = stats.betanbinom(3, 0.9, 1.5).pmf(k - 1)
    ours = np.exp(CANDIDATES["beta_negative_binomial"].log_mass(k, (3.0, 0.9, 1.5)))
    assert np.allclose(ours / ours[0], bnb / bnb[0], rtol=1e-9)
