"""The lognormal distribution of ranks, p_k = psi(k)/c for k = 1, 2, ..., in exact sums.

Its natural parameters are

    lam = -mu / sigma^2,   beta = 1 / (2 sigma^2),   s = 1 + lam,   p_k = k^-s exp(-beta ln^2 k) / Z(lam, beta),

because the term mu^2/(2 sigma^2) then never appears (it cancels in every quantity below). Sums over all ranks are exact
to rounding: the first ranks are added one by one, the rest by Euler-Maclaurin. Derived in book/derivations/lognormal.
All functions broadcast over their parameters.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

HEAD = 1000  # ranks added one by one; beyond them the Euler-Maclaurin remainder is below rounding
# Euler-Maclaurin's sum less integral, exact for polynomials through the first ranks, whose values replace derivatives:
# the n-th power gives 1/2 at n = 0 and -B_(n+1)/(n+1) after that
EDGE = np.linalg.solve(
    np.vander(np.arange(8.0), increasing=True).T, [1 / 2, -1 / 12, 0, 1 / 120, 0, -1 / 252, 0, 1 / 240]
)
LEGENDRE, FADE = np.polynomial.legendre.leggauss(80), 40.0  # exp(-40) is below rounding
SQRT_2PI = np.sqrt(2 * np.pi)


class Natural(NamedTuple):
    """Natural parameters of the lognormal; beta = 0 is the zeta distribution with exponent 1 + lam."""

    lam: np.ndarray
    beta: np.ndarray


class LocalExponents(NamedTuple):
    """Minus d log y / d log S for y = -log p_1 and y = rank entropy, per unit of d lam / d log S."""

    neg_log_p1: np.ndarray
    entropy: np.ndarray


def natural(mu, sigma):
    """Natural parameters (lam, beta) of the lognormal with location mu and scale sigma > 0 (label eq-natural)."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    if np.any(sigma <= 0):
        raise ValueError("sigma must be positive; for the power-law limit use beta = 0 instead.")
    return Natural(-mu / sigma**2, 0.5 / sigma**2)


def mills(a):
    """Mills ratio m(a) = (1 - Phi(a)) / phi(a) of the standard normal, without underflow for large a."""
    return np.sqrt(np.pi / 2) * special.erfcx(np.asarray(a, float) / np.sqrt(2))


def _tail_integrals(lam, beta, T, orders, shift):
    """Integrals over t > T of t^j exp(-lam t - beta t^2 - shift), j = 0..orders-1; an array (orders, P).

    By one Gauss-Legendre rule over the t > T where the integrand is above exp(-FADE) of its largest value.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.maximum(T, np.where(beta > 0, -lam / (2 * beta), T))
        left = np.minimum(peak - T, np.sqrt(FADE / beta))
    fall = np.maximum(lam + 2 * beta * peak, 0.0)  # rate of decay at the peak: 0 inside, more at the edge
    right = 2 * FADE / (fall + np.sqrt(fall**2 + 4 * beta * FADE))
    nodes, weights = LEGENDRE
    t = peak - left + (left + right) * (1 + nodes[:, None]) / 2  # (80, P)
    mass = np.exp(-lam * t - beta * t**2 - shift) * weights[:, None] * (left + right) / 2
    return np.stack([(mass * t**j).sum(0) for j in range(orders)])


def lattice_sums(lam, beta, start=1, orders=3):
    """Sums over ranks k >= start of k^-(1+lam) exp(-beta ln^2 k) ln^j k, for j = 0..orders-1 (label eq-lattice).

    Args:
        lam, beta: floats or arrays of one shape; beta >= 0, and lam > 0 where beta = 0.
    Returns:
        sums: float64 (orders, *shape), multiplied by exp(-shift).
        shift: float64 (*shape), a log scale that keeps the sums from overflowing.
    Raises:
        ValueError: the sum diverges.
    Cost: HEAD exponentials per parameter pair.

    >>> sums, shift = lattice_sums(1.0, 0.0)      # the zeta law: the sum of 1/k^2
    >>> bool(abs(sums[0] * np.exp(shift) - np.pi**2 / 6) < 1e-14)
    True
    """
    lam, beta = np.broadcast_arrays(np.asarray(lam, float), np.asarray(beta, float))
    shape = lam.shape
    lam, beta = lam.ravel(), beta.ravel()
    if not (np.isfinite(lam).all() and np.isfinite(beta).all()):
        raise ValueError("lam and beta must be finite numbers.")
    if np.any(beta < 0) or np.any((beta == 0) & (lam <= 0)):
        raise ValueError("the sum over all ranks diverges: it needs beta > 0, or beta = 0 with lam > 0.")
    K = max(HEAD, int(start))
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where((lam < 0) & (beta > 0), lam**2 / (4 * beta), 0.0)
    sums = _tail_integrals(lam, beta, np.log(K), orders, shift)
    t = np.log(np.arange(int(start), K + len(EDGE), dtype=float))  # (H,)
    powers = t[:, None] ** np.arange(orders) * np.r_[np.ones(K - int(start)), EDGE][:, None]  # (H, orders)
    for lo in range(0, lam.size, 512):  # a bounded block at a time
        part = slice(lo, lo + 512)
        terms = np.exp(-np.outer(1 + lam[part], t) - np.outer(beta[part], t**2) - shift[part, None])  # (P, H)
        sums[:, part] += (terms @ powers).T
    return sums.reshape((orders, *shape)), shift.reshape(shape)


def log_z(lam, beta):
    """log Z(lam, beta), which is also -log p_1 exactly: the k = 1 term of Z is 1 (label eq-logz). Unit: nats."""
    sums, shift = lattice_sums(lam, beta, start=2, orders=1)
    with np.errstate(divide="ignore"):
        return np.logaddexp(0.0, shift + np.log(sums[0]))  # accurate also where p_1 is within rounding of 1


def neg_log_p1(mu, sigma):
    """-log p_1 of the lognormal, exactly; what paper Eq. 16 states. Unit: nats."""
    return log_z(*natural(mu, sigma))


def log_moments(lam, beta, orders=2):
    """E[ln^j R] for j = 1..orders under the lognormal; an array (orders, *shape), units nats^j."""
    sums, shift = lattice_sums(lam, beta, start=2, orders=orders + 1)
    return sums[1:] * np.exp(shift - log_z(lam, beta))


def _anchored_entropy(lam, beta):
    """Entropy where the mode is a rank above 1: terms are taken relative to the mode, so nothing cancels. Scalars."""
    s = 1 + lam
    mode = float(np.clip(np.round(np.exp(min(-s / (2 * beta), 20.0))), 1, HEAD // 2))
    anchor = s * np.log(mode) + beta * np.log(mode) ** 2
    t = np.log(np.delete(np.arange(1.0, HEAD), int(mode) - 1))
    u = s * t + beta * t**2 - anchor  # minus the log of p_k over p_mode
    (m0, m1, m2), shift = lattice_sums(lam, beta, start=HEAD, orders=3)
    scale = np.exp(shift + anchor)
    others = np.exp(-u).sum() + m0 * scale
    weighted = (u * np.exp(-u)).sum() + (s * m1 + beta * m2 - anchor * m0) * scale
    return np.log1p(others) + weighted / (1 + others)


def rank_entropy(lam, beta):
    """Entropy of the rank, H = log Z + s E ln R + beta E ln^2 R (label eq-entropy). Paper Eq. 17 calls it CE. Nats."""
    lam, beta = np.broadcast_arrays(np.asarray(lam, float), np.asarray(beta, float))
    first, second = log_moments(lam, beta, 2)
    H = np.array(log_z(lam, beta) + (1 + lam) * first + beta * second)
    inside = (lam < -1) & (-(1 + lam) < 2 * beta * np.log(HEAD // 2))
    H[inside] = np.vectorize(_anchored_entropy, otypes=[float])(lam[inside], beta[inside])
    return H[()]


def log_covariance(lam, beta):
    """Covariance matrix of (ln R, ln^2 R), which is the Fisher information of (lam, beta); an array (2, 2, *shape)."""
    m1, m2, m3, m4 = log_moments(lam, beta, 4)
    return np.array([[m2 - m1**2, m3 - m1 * m2], [m3 - m1 * m2, m4 - m2**2]])


def misses(k, lam, beta):
    """1 - RBP_k under the lognormal for rank thresholds k; an array (*k.shape). Scalar lam and beta."""
    k = np.atleast_1d(np.asarray(k, dtype=np.int64))
    if np.any(k < 1):
        raise ValueError("rank thresholds k must be at least 1.")
    scale, found = log_z(lam, beta), [lattice_sums(lam, beta, start=d + 1, orders=1) for d in k.ravel()]
    return np.reshape([sums[0] * np.exp(shift - scale) for sums, shift in found], k.shape)


def local_exponents(lam, beta):
    """Local exponents of -log p_1 and of the rank entropy when lam = lam_0 + g ln S at fixed beta, divided by g.

    e_1 = E ln R / log Z and e_H = (s V11 + beta V12) / H with V the covariance of (ln R, ln^2 R); label eq-exponents.
    """
    lam, beta = np.asarray(lam, float), np.asarray(beta, float)
    V = log_covariance(lam, beta)
    first = log_moments(lam, beta, 1)[0] / log_z(lam, beta)
    return LocalExponents(first, ((1 + lam) * V[0, 0] + beta * V[0, 1]) / rank_entropy(lam, beta))


def exact_c(mu, sigma):
    """The normaliser c = sum of psi(k), paper Eq. 11, as Z psi(1); underflows where psi(1) does."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return np.exp(neg_log_p1(mu, sigma) - 0.5 * (mu / sigma) ** 2) / (SQRT_2PI * sigma)
