"""Exact sums of the lognormal distribution of ranks against high-precision ones."""

import functools

import mpmath as mp
import numpy as np
import pytest

from paper import lognormal
from paper import lognormal_paper as paper

RATIOS = (-10, -8, -5.057, -3, -1, -0.3, 0, 0.5, 1, 2, 3, 4.5, 6)  # mu / sigma
SIGMAS = (0.1, 0.2, 0.4, 0.75, 1, 2, 5, 12.892, 25, 50)


def reference(mu, sigma):
    """(-log p_1, E ln R, entropy, c) in high precision: terms one by one, then the Abel-Plana formula for the rest.

    Nothing is shared with the library: the paper's own psi(k) is summed, with no natural parameters, and the tail
    uses contour integrals in place of Euler-Maclaurin. 60 digits for the sums (p_1 comes within 1e-41 of 1), 30 for the
    contour integrals.
    """
    with mp.workdps(60):
        mu, sigma = mp.mpf(str(mu)), mp.mpf(str(sigma))

        def psi(x):
            return mp.exp(-((mp.log(x) - mu) ** 2) / (2 * sigma**2)) / (mp.sqrt(2 * mp.pi) * sigma * x)

        @functools.cache
        def contour(y):  # shared by the three integrands
            x = mp.mpc(K, y)
            return psi(x) / mp.expm1(2 * mp.pi * y), mp.log(x)

        K = 150
        top = mp.log(K)
        decay = (1 + (top - mu) / sigma**2) / K  # minus the log-derivative at K
        head = [psi(k) for k in range(1, K)]
        logs = [mp.log(k) for k in range(1, K)]
        sums = [mp.fsum(h * t**j for h, t in zip(head, logs, strict=True)) for j in range(3)]
        if not (decay > 0.3 and psi(K) < mp.mpf(10) ** -60 * head[1]):
            a = (top - mu) / sigma
            phi, Q = mp.npdf(a), mp.erfc(a / mp.sqrt(2)) / 2  # the tail of the density and its two moments
            tails = [Q, mu * Q + sigma * phi, (mu**2 + sigma**2) * Q + sigma * (2 * mu + sigma * a) * phi]
            with mp.workdps(30):
                powers = [lambda y, j=j: mp.im(contour(y)[0] * contour(y)[1] ** j) for j in range(3)]
                turns = [mp.quad(f, [mp.mpf("1e-30"), 2, 5, 11]) for f in powers]
            for j in range(3):
                sums[j] += tails[j] + psi(K) * top**j / 2 - 2 * turns[j]
        c, first, second = sums
        spread = (second - 2 * mu * first + mu**2 * c) / (2 * sigma**2)
        entropy = mp.log(mp.sqrt(2 * mp.pi) * sigma) + mp.log(c) + (spread + first) / c  # Eq. 17, word for word
        return mp.log(c / psi(1)), first / c, entropy, c


@pytest.mark.parametrize("sigma", SIGMAS)
def test_sums_agree_with_thirty_digits(sigma):
    """Relative error at most 1e-10 over the grid, also where p_1 is within 1e-40 of 1."""
    for ratio in RATIOS:
        mu = float(mp.mpf(str(ratio)) * mp.mpf(str(sigma)))
        neg, mean, entropy, c = reference(mu, sigma)
        law = lognormal.natural(mu, sigma)
        got = (
            lognormal.log_z(*law),
            lognormal.log_moments(*law, 1)[0],
            lognormal.rank_entropy(*law),
            lognormal.exact_c(mu, sigma),
        )
        for name, ours, true in zip(("-log p1", "E ln R", "entropy", "c"), got, (neg, mean, entropy, c), strict=True):
            assert abs(mp.mpf(float(ours)) / true - 1) < 1e-10, (name, ratio, sigma)


def test_zeta_limit_and_overflow_scale():
    """beta = 0 is the zeta law; a huge mu neither overflows nor loses digits."""
    s = 1.3922
    assert np.isclose(lognormal.log_z(s - 1, 0.0), float(mp.log(mp.zeta(s))), rtol=1e-13)
    mean = float(-mp.zeta(s, derivative=1) / mp.zeta(s))
    assert np.isclose(lognormal.log_moments(s - 1, 0.0, 1)[0], mean, rtol=1e-12)
    assert np.isclose(lognormal.neg_log_p1(600.0, 10.0), 1800 + np.log(np.sqrt(2 * np.pi) * 10), rtol=1e-12)
    # the zeta law is the limit along the ridge mu = -lam sigma^2
    gaps = [abs(lognormal.log_z(s - 1, 0.5 / sd**2) - lognormal.log_z(s - 1, 0.0)) for sd in (1e2, 1e3, 1e4)]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-6


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="sigma must be positive"):
        lognormal.natural(1.0, 0.0)
    with pytest.raises(ValueError, match="diverges"):
        lognormal.log_z(-0.5, 0.0)
    with pytest.raises(ValueError, match="diverges"):
        lognormal.log_z(0.5, -0.01)
    with pytest.raises(ValueError, match="at least 1"):
        lognormal.misses([0], 0.5, 0.1)


def test_misses_are_sums_of_probabilities():
    """RBP_k below, at and above the switch from terms to Euler-Maclaurin equals a plain cumulative sum."""
    lam, beta = lognormal.natural(1.0, 1.6)
    k = np.arange(1, 400_001.0)
    p = np.exp(-(1 + lam) * np.log(k) - beta * np.log(k) ** 2)
    tail = p[::-1].cumsum()[::-1]
    ks = np.array([1, 2, 999, 1000, 1001, 5000])
    assert np.allclose(lognormal.misses(ks, lam, beta), tail[ks] / tail[0], rtol=1e-9)
    assert np.allclose(1 - lognormal.misses(ks, lam, beta), 1 - tail[ks] / tail[0], rtol=1e-12)


def test_derivatives_of_log_z():
    """E ln R and its covariance are the derivatives of log Z, and H = (1 - s d_lam - beta d_beta) log Z."""
    lam, beta, h = 0.4, 0.02, 1e-5
    d_lam = (lognormal.log_z(lam + h, beta) - lognormal.log_z(lam - h, beta)) / (2 * h)
    d_beta = (lognormal.log_z(lam, beta + h) - lognormal.log_z(lam, beta - h)) / (2 * h)
    first, second = lognormal.log_moments(lam, beta, 2)
    assert np.isclose(-d_lam, first, rtol=1e-7) and np.isclose(-d_beta, second, rtol=1e-6)
    assert np.isclose(
        lognormal.rank_entropy(lam, beta), lognormal.log_z(lam, beta) - (1 + lam) * d_lam - beta * d_beta, rtol=1e-7
    )
    V = lognormal.log_covariance(lam, beta)
    slope = (lognormal.log_moments(lam + h, beta, 1)[0] - lognormal.log_moments(lam - h, beta, 1)[0]) / (2 * h)
    assert np.isclose(V[0, 0], -slope, rtol=1e-6)


def test_local_exponents_are_derivatives():
    lam, beta, g = 0.39, 0.003, 1e-5
    got = lognormal.local_exponents(lam, beta)
    for ours, f in ((got.neg_log_p1, lognormal.log_z), (got.entropy, lognormal.rank_entropy)):
        direct = -(np.log(f(lam + g, beta)) - np.log(f(lam - g, beta))) / (2 * g)
        assert np.isclose(ours, direct, rtol=1e-6)


def neg_log_p1_bounds(mu, sigma):
    """Lower and upper bound of -log p_1 from the Mills ratio, log(1/2 + sigma m(a)) and log(1 + sigma m(a)).

    The upper one holds for mu < sigma^2 (a falling summand), the lower one for mu <= 0 and sigma >= 1/sqrt(2) (a convex
    one); elsewhere the entry is NaN. Label eq-mills-bounds.
    """
    area = sigma * lognormal.mills(-mu / sigma)
    lower = np.where((mu <= 0) & (sigma >= np.sqrt(0.5)), np.log(0.5 + area), np.nan)
    return lower, np.where(mu < sigma**2, np.log1p(area), np.nan)


def test_mills_bounds_hold():
    ratio, sigma = np.meshgrid(np.linspace(-10, 3, 27), np.geomspace(0.1, 50, 23))
    mu = ratio * sigma
    exact = lognormal.neg_log_p1(mu, sigma)
    lower, upper = neg_log_p1_bounds(mu, sigma)
    assert np.all(exact[np.isfinite(upper)] <= upper[np.isfinite(upper)])
    assert np.all(exact[np.isfinite(lower)] >= lower[np.isfinite(lower)])
    assert np.isfinite(upper).mean() > 0.5 and np.isfinite(lower).mean() > 0.3
    left = (mu < 0) & np.isfinite(upper)
    assert np.all(upper[left] < np.log1p(sigma[left] ** 2 / -mu[left]))
    # the paper's Eq. 16 with Eq. 20 *is* the lower bound, so it always errs on one side there
    assert np.allclose(paper.neg_log_p1(mu, sigma), np.log(0.5 + sigma * lognormal.mills(-ratio)), atol=1e-9)
