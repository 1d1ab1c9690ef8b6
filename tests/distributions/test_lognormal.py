"""The lognormal rank law against high-precision sums, Appendix B by computer algebra, emergence and noise simulated."""

import functools

import mpmath as mp
import numpy as np
import pytest

from rbplib.distributions import theory
from rbplib.laws import noise, runs

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
        law = theory.natural(mu, sigma)
        got = (theory.log_z(*law), theory.log_moments(*law, 1)[0], theory.rank_entropy(*law), theory.exact_c(mu, sigma))
        for name, ours, true in zip(("-log p1", "E ln R", "entropy", "c"), got, (neg, mean, entropy, c), strict=True):
            assert abs(mp.mpf(float(ours)) / true - 1) < 1e-10, (name, ratio, sigma)


def test_zeta_limit_and_overflow_scale():
    """beta = 0 is the zeta law; a huge mu neither overflows nor loses digits."""
    s = 1.3922
    assert np.isclose(theory.log_z(s - 1, 0.0), float(mp.log(mp.zeta(s))), rtol=1e-13)
    mean = float(-mp.zeta(s, derivative=1) / mp.zeta(s))
    assert np.isclose(theory.log_moments(s - 1, 0.0, 1)[0], mean, rtol=1e-12)
    assert np.isclose(theory.neg_log_p1(600.0, 10.0), 1800 + np.log(np.sqrt(2 * np.pi) * 10), rtol=1e-12)
    # the zeta law is the limit along the ridge mu = -lam sigma^2
    gaps = [abs(theory.log_z(s - 1, 0.5 / sd**2) - theory.log_z(s - 1, 0.0)) for sd in (1e2, 1e3, 1e4)]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-6


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="sigma must be positive"):
        theory.natural(1.0, 0.0)
    with pytest.raises(ValueError, match="diverges"):
        theory.log_z(-0.5, 0.0)
    with pytest.raises(ValueError, match="diverges"):
        theory.log_z(0.5, -0.01)
    with pytest.raises(ValueError, match="at least 1"):
        theory.misses([0], 0.5, 0.1)
    with pytest.raises(ValueError, match="icc"):
        runs.log_run_beta(0.5, 10, 0.0)


def test_misses_are_sums_of_probabilities():
    """RBP_k below, at and above the switch from terms to Euler-Maclaurin equals a plain cumulative sum."""
    lam, beta = theory.natural(1.0, 1.6)
    k = np.arange(1, 400_001.0)
    p = np.exp(-(1 + lam) * np.log(k) - beta * np.log(k) ** 2)
    tail = p[::-1].cumsum()[::-1]
    ks = np.array([1, 2, 999, 1000, 1001, 5000])
    assert np.allclose(theory.misses(ks, lam, beta), tail[ks] / tail[0], rtol=1e-9)
    assert np.allclose(theory.rbp(ks, lam, beta), 1 - tail[ks] / tail[0], rtol=1e-12)


def test_derivatives_of_log_z():
    """E ln R and its covariance are the derivatives of log Z, and H = (1 - s d_lam - beta d_beta) log Z."""
    lam, beta, h = 0.4, 0.02, 1e-5
    d_lam = (theory.log_z(lam + h, beta) - theory.log_z(lam - h, beta)) / (2 * h)
    d_beta = (theory.log_z(lam, beta + h) - theory.log_z(lam, beta - h)) / (2 * h)
    first, second = theory.log_moments(lam, beta, 2)
    assert np.isclose(-d_lam, first, rtol=1e-7) and np.isclose(-d_beta, second, rtol=1e-6)
    assert np.isclose(
        theory.rank_entropy(lam, beta), theory.log_z(lam, beta) - (1 + lam) * d_lam - beta * d_beta, rtol=1e-7
    )
    V = theory.log_covariance(lam, beta)
    slope = (theory.log_moments(lam + h, beta, 1)[0] - theory.log_moments(lam - h, beta, 1)[0]) / (2 * h)
    assert np.isclose(V[0, 0], -slope, rtol=1e-6)


def test_local_exponents_are_derivatives():
    lam, beta, g = 0.39, 0.003, 1e-5
    got = theory.local_exponents(lam, beta)
    for ours, f in ((got.neg_log_p1, theory.log_z), (got.entropy, theory.rank_entropy)):
        direct = -(np.log(f(lam + g, beta)) - np.log(f(lam - g, beta))) / (2 * g)
        assert np.isclose(ours, direct, rtol=1e-6)


def test_mills_bounds_hold():
    ratio, sigma = np.meshgrid(np.linspace(-10, 3, 27), np.geomspace(0.1, 50, 23))
    mu = ratio * sigma
    exact = theory.neg_log_p1(mu, sigma)
    lower, upper = theory.neg_log_p1_bounds(mu, sigma)
    assert np.all(exact[np.isfinite(upper)] <= upper[np.isfinite(upper)])
    assert np.all(exact[np.isfinite(lower)] >= lower[np.isfinite(lower)])
    assert np.isfinite(upper).mean() > 0.5 and np.isfinite(lower).mean() > 0.3
    left = (mu < 0) & np.isfinite(upper)
    assert np.all(upper[left] < np.log1p(sigma[left] ** 2 / -mu[left]))
    # the paper's Eq. 16 with Eq. 20 *is* the lower bound, so it always errs on one side there
    assert np.allclose(theory.paper_neg_log_p1(mu, sigma), np.log(0.5 + sigma * theory.mills(-ratio)), atol=1e-9)


def test_appendix_b_algebra():
    """Eqs. 18, 19 and 21 are one expression, and Eqs. 14, 15 are the stated integrals."""
    import sympy as sp

    mu = sp.Symbol("mu", real=True)
    sigma, c, P, phi = sp.symbols("sigma c P phi", positive=True)
    I1, I2 = mu * P + sigma * phi, (mu**2 + sigma**2) * P + mu * sigma * phi
    head = sp.log(sp.sqrt(2 * sp.pi) * sigma) + sp.log(c)
    eq18 = head + ((I2 - 2 * mu * I1 + mu**2 * c) / (2 * sigma**2) + I1) / c
    inner19 = P * ((mu**2 + sigma**2) / (2 * sigma**2) + mu) + phi * (mu / (2 * sigma) + sigma)
    eq19 = head + mu**2 / (2 * sigma**2) + (inner19 - mu / sigma**2 * (mu * P + sigma * phi)) / c
    inner21 = P * ((sigma**2 - mu**2) / (2 * sigma**2) + mu) + phi * (sigma - mu / (2 * sigma))
    eq21 = head + mu**2 / (2 * sigma**2) + inner21 / c
    assert sp.simplify(eq18 - eq19) == 0 and sp.simplify(eq19 - eq21) == 0

    t = sp.Symbol("t", real=True)
    density = sp.exp(-((t - mu) ** 2) / (2 * sigma**2)) / (sp.sqrt(2 * sp.pi) * sigma)
    upper = (1 + sp.erf(mu / (sigma * sp.sqrt(2)))) / 2
    edge = sp.exp(-(mu**2) / (2 * sigma**2)) / sp.sqrt(2 * sp.pi)
    for power, stated in ((1, I1), (2, I2)):
        integral = sp.integrate(t**power * density, (t, 0, sp.oo), conds="none")
        assert sp.simplify((integral - stated.subs({P: upper, phi: edge})).rewrite(sp.erf)) == 0


def test_appendix_b_functions_agree_with_each_other():
    ratio, sigma = np.meshgrid(np.linspace(-8, 6, 15), np.geomspace(0.3, 50, 12))
    mu = ratio * sigma
    e18, e19, e21 = (f(mu, sigma) for f in (theory.paper_entropy_18, theory.paper_entropy_19, theory.paper_entropy_21))
    assert np.allclose(e18, e21, rtol=1e-6, atol=1e-6) and np.allclose(e19, e21, rtol=1e-6, atol=1e-6)
    exact = theory.rank_entropy(*theory.natural(mu, sigma))
    assert np.allclose(theory.paper_entropy_17(mu, sigma), exact, rtol=1e-9, atol=1e-9)
    assert np.allclose(theory.paper_neg_log_p1(mu, sigma, theory.exact_c(mu, sigma)), theory.neg_log_p1(mu, sigma))


def simulated_runs(p, N, icc, rho, runs, seed):
    """Share of runs of N hits, drawn one step at a time."""
    rng = np.random.default_rng(seed)
    rate = rng.beta(*runs.beta_parameters(p, icc), size=runs) if icc else np.full(runs, p)
    hit = rng.random(runs) < rate
    alive = hit.copy()
    for _ in range(N - 1):
        chance = rate + rho * (hit - rate)  # stationary chain with lag-1 autocorrelation rho
        hit = rng.random(runs) < chance
        alive &= hit
    return alive.mean()


@pytest.mark.parametrize("icc, rho", [(0.0, 0.2), (0.05, 0.0), (0.05, 0.2), (0.2, 0.1)])
def test_run_success_against_simulation(icc, rho):
    runs = 400_000
    got = np.exp(runs.log_run_both(0.8, 10, icc, rho))
    seen = simulated_runs(0.8, 10, icc, rho, runs, seed=7)
    assert abs(got - seen) < 4 * np.sqrt(got * (1 - got) / runs)


def test_run_success_special_cases_agree():
    assert np.isclose(runs.log_run_markov(0.6, 50, 0.0), runs.log_run_independent(0.6, 50))
    assert np.isclose(runs.log_run_both(0.6, 51, 0.02, 0.0), runs.log_run_beta(0.6, 51, 0.02), rtol=1e-12)
    assert runs.log_run_both(0.6, 5, 0, 0.3) == runs.log_run_markov(0.6, 5, 0.3)
    # Jensen: differing documents never lower p_N
    assert runs.log_run_beta(0.6, 20, 0.05) > runs.log_run_independent(0.6, 20)
    # a power law in N with exponent b
    a, b = runs.beta_parameters(0.7, 0.3)
    N = np.array([1e5, 1e6])
    assert np.isclose(np.diff(runs.log_run_beta(0.7, N, 0.3))[0] / np.log(10), -b, rtol=1e-3)


def test_standard_error_and_bias_against_simulation():
    rng = np.random.default_rng(3)
    for n, q in ((20_000, 0.005), (5_000, 0.3)):
        m = rng.binomial(n, q, size=200_000)
        y = np.log(-np.log1p(-m / n))
        assert np.isclose(y.std(), noise.log_loss_se(q, n), rtol=0.02)
        slope = 1 / ((1 - q) * -np.log1p(-q))  # subtracting the linear part, whose mean is known, quietens the mean
        bias = (y - slope * (m / n - q)).mean() - np.log(-np.log1p(-q))
        assert np.isclose(bias, noise.log_loss_bias(q, n), rtol=0.02)
    assert np.isclose(noise.log_loss_se(0.01, 1e4, deff=4), 2 * noise.log_loss_se(0.01, 1e4))


def test_slope_noise_against_simulation():
    """The slope's standard error and the R^2 to expect when a true law is seen through m misses."""
    rng = np.random.default_rng(5)
    S, alpha, m = np.geomspace(1e7, 1e10, 7), 0.1, 1000
    x = np.log(S) - np.log(S).mean()
    y = -alpha * x + rng.normal(0, 1 / np.sqrt(m), size=(20_000, 7))
    slope = -(y @ x) / (x @ x)
    residual = y - y.mean(1, keepdims=True) + slope[:, None] * x
    r2 = 1 - (residual**2).sum(1) / ((y - y.mean(1, keepdims=True)) ** 2).sum(1)
    assert np.isclose(slope.std(), noise.slope_se(S, m), rtol=0.02)
    assert np.isclose(np.median(r2), noise.expected_r2(alpha, S, m), atol=0.01)
    n = 500_000
    edge = noise.largest_rbp(alpha, S, n, r2=0.9)
    assert np.isclose(noise.expected_r2(alpha, S, n * (1 - edge)), 0.9)
