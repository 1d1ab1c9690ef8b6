"""Sampling noise of a measured law: the formulas against simulation, and the numbers the derivation pages quote."""

import numpy as np
import pytest
from scipy import stats

from paper import steps as noise


def close(found, stated, rtol=0.0, atol=0.0):
    assert np.allclose(np.asarray(found, float), stated, rtol=rtol, atol=atol), (found, stated)


def largest_rbp(alpha, S, n, deff=1.0, r2=0.9):
    """Largest RBP_k at which a valid law with exponent alpha still shows the given R^2 on n tokens (label eq-floor)."""
    needed = (len(S) - 2) * r2 / (1 - r2) / (alpha**2 * noise.size_spread(S))
    return 1 - needed * deff / n


def y_bias(q, n):
    """Second-order bias of y = log(-log RBP_k), about -1/(2 m) at m = n q misses (label eq-bias)."""
    L = -np.log1p(-q)
    return 0.5 * q / (n * (1 - q)) * (L - 1) / L**2


def test_standard_error_and_bias_against_simulation():
    rng = np.random.default_rng(3)
    for n, q in ((20_000, 0.005), (5_000, 0.3)):
        m = rng.binomial(n, q, size=200_000)
        y = np.log(-np.log1p(-m / n))
        assert np.isclose(y.std(), noise.y_se(q, n), rtol=0.02)
        slope = 1 / ((1 - q) * -np.log1p(-q))  # subtracting the linear part, whose mean is known, quietens the mean
        bias = (y - slope * (m / n - q)).mean() - np.log(-np.log1p(-q))
        assert np.isclose(bias, y_bias(q, n), rtol=0.02)
    assert np.isclose(noise.y_se(0.01, 1e4, deff=4), 2 * noise.y_se(0.01, 1e4))


def test_slope_noise_against_simulation():
    """The slope's standard error and the R^2 to expect when a true law is seen through m misses."""
    rng = np.random.default_rng(5)
    S, alpha, m = np.geomspace(1e7, 1e10, 7), 0.1, 1000
    x = np.log(S) - np.log(S).mean()
    y = -alpha * x + rng.normal(0, 1 / np.sqrt(m), size=(20_000, 7))
    slope = -(y @ x) / (x @ x)
    residual = y - y.mean(1, keepdims=True) + slope[:, None] * x
    r2 = 1 - (residual**2).sum(1) / ((y - y.mean(1, keepdims=True)) ** 2).sum(1)
    assert np.isclose(slope.std(), 1 / np.sqrt(noise.size_spread(S) * m), rtol=0.02)
    assert np.isclose(np.median(r2), noise.expected_r2(alpha, S, m), atol=0.01)
    n = 500_000
    edge = largest_rbp(alpha, S, n, r2=0.9)
    assert np.isclose(noise.expected_r2(alpha, S, n * (1 - edge)), 0.9)


def test_misses_and_precision():
    S = np.geomspace(1, 1000, 7)
    t5 = stats.t.ppf(0.975, 5)
    needed = [noise.misses_needed(S, h, z) for h, z in ((0.01, 1.96), (0.01, t5), (0.005, 1.96), (0.005, t5))]
    close(needed, (1035, 1780, 4140, 7122), atol=1)
    tops = [[1 - m * deff / 5e5 for deff in (1, 4, 10)] for m in needed]
    stated = [(0.9979, 0.9917, 0.9793), (0.9964, 0.9858, 0.9644), (0.9917, 0.967, 0.917), (0.9858, 0.943, 0.858)]
    close(tops, stated, atol=6e-4)
    close(noise.size_spread(S), 37.1, atol=0.05)
    close([noise.y_se(1e-4, 1e6), noise.y_se(1e-4, 5e4)], (0.100, 0.447), atol=6e-4)


R2_TABLE = {  # alpha: median R^2 at m = 10, 30, 100, 300, 1000
    0.06: (0.23, 0.47, 0.75, 0.91, 0.97),
    0.10: (0.44, 0.71, 0.89, 0.96, 0.99),
    0.20: (0.76, 0.90, 0.97, 0.99, 1.00),
}


@pytest.mark.parametrize("alpha", R2_TABLE)
def test_r2_of_a_valid_law(alpha):
    rng = np.random.default_rng(0)
    S = np.geomspace(1, 1000, 7)
    x = np.log(S) - np.log(S).mean()
    medians = []
    for m in (10, 30, 100, 300, 1000):
        n = int(m / 1e-4)
        seen = rng.binomial(n, -np.expm1(-1e-4 * np.exp(-alpha * x)), size=(4000, 7))
        y = np.log(-np.log1p(-np.maximum(seen, 0.5) / n))
        slope = -(y @ x) / (x @ x)
        y = y - y.mean(1, keepdims=True)
        medians.append(np.median(slope**2 * (x @ x) / (y**2).sum(1)))
    close(medians, R2_TABLE[alpha], atol=0.025)
