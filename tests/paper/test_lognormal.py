"""The lognormal of ranks: exact sums by mpmath, the paper's formulas word for word, fits."""

import mpmath as mp
import numpy as np
import pytest
from plantedranks import V, planted_pmf
from scipy import optimize, stats

from paper import lognormal
from paper.distributions import fit_rank_law


@pytest.mark.parametrize("ratio, sigma", [(-8, 2), (-0.3, 9), (1, 0.2), (3, 2)])
def test_sums_agree_with_many_digits(ratio, sigma):
    with mp.workdps(40):
        s = mp.mpf(str(sigma))
        mu, sums = mp.mpf(str(ratio)) * s, []

        def psi(x):
            return mp.npdf(mp.log(x), mu, s) / x

        # psi(k) log(k)^j: 500 terms, the rest by mpmath
        for j in range(3):
            head = mp.fsum(psi(k) * mp.log(k) ** j for k in range(1, 500))
            tail = mp.sumem(lambda x, j=j: psi(x) * mp.log(x) ** j, [500, mp.inf], tol=1e-25)
            sums.append(head + tail)
        c, first, second = sums
        spread = (second - 2 * mu * first + mu**2 * c) / (2 * s**2)
        H = mp.log(mp.sqrt(2 * mp.pi) * s * c) + (spread + first) / c  # Eq. 17, word for word
        exact = [float(x) for x in (mp.log(c / psi(1)), first / c, H)]
    law = lognormal.natural(ratio * sigma, sigma)
    ours = lognormal.log_z(*law), lognormal.log_moments(*law, 1)[0], lognormal.rank_entropy(*law)
    assert ours == pytest.approx(exact, rel=1e-9, abs=1e-14)


def test_local_exponents_are_derivatives():
    lam, beta, h = 0.39, 0.02, 1e-5
    local = lognormal.local_exponents(lam, beta)
    for exponent, f in zip(local, (lognormal.log_z, lognormal.rank_entropy), strict=True):
        direct = -np.log(f(lam + h, beta) / f(lam - h, beta)) / (2 * h)
        assert exponent == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize("ratio, sigma", [(-5, 2), (-38.7, 12.892), (-100, 5), (3, 2), (30, 1)])
def test_the_papers_formulas_word_for_word(ratio, sigma):
    """In double precision c is 0 below mu/sigma = -38.6: they hold also there."""
    with mp.workdps(1000):
        r, s = mp.mpf(ratio), mp.mpf(sigma)
        mu, P, phi = r * s, mp.ncdf(r), mp.npdf(r)
        c = phi / (2 * s) + P
        eq16 = mp.log(c) + mp.log(mp.sqrt(2 * mp.pi) * s) + r**2 / 2
        eq21 = eq16 + (P * ((s**2 - mu**2) / (2 * s**2) + mu) + phi * (s - mu / (2 * s))) / c
    formulas = lognormal.formulas_and_sums(ratio * sigma, sigma).values()
    assert [formula for formula, _ in formulas] == pytest.approx([float(eq16), float(eq21)])


def test_the_ridge_is_where_scipy_finds_the_best_mu():
    counts = 1e5 * planted_pmf("lognormal_ceiling", (1.0, np.log(2.5)))
    edges, sigmas = np.append(0.5, np.arange(1, V + 1) + 0.5), np.array([1.5, 6.0])
    fit = fit_rank_law(counts, "lognormal_rounded")

    def nll(mu, sigma):
        cells = -np.diff(stats.lognorm(sigma, scale=np.exp(mu)).sf(edges))
        return -(counts @ np.log(cells / cells.sum())) / counts.sum()

    for sigma, below in zip(sigmas, lognormal.ridge(counts, sigmas), strict=True):
        best = optimize.minimize_scalar(nll, args=(sigma,), bounds=(-12, 6), method="bounded")
        assert below == pytest.approx(best.fun - fit.nll, abs=1e-7)


def test_the_predicted_ratio_is_that_of_a_small_step():
    t, logs = np.log(np.arange(1, V + 1.0)), []
    for s in (0.9, 0.90001):
        p = np.exp(-s * t - 0.06 * t**2)
        p /= p.sum()
        logs.append(np.log([-np.log(p[0]), stats.entropy(p)]))
    one, other = logs[1] - logs[0]
    assert lognormal.predicted_ratio(0.9, 0.06, V) == pytest.approx(one / other, rel=1e-3)


def test_the_pivot_exponent_of_a_power_law_is_its_own():
    edge = fit_rank_law(1e6 * planted_pmf("zipf", (1.4,)), "lognormal")
    assert lognormal.pivot_exponent(edge) == pytest.approx(1.4, abs=0.01)
