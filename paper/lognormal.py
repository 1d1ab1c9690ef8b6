"""The lognormal distribution of ranks, p_k = psi(k)/c for k = 1, 2, ...: exact sums, the paper's
formulas beside them, and what a fitted one says.

Its natural parameters are

    lam = -mu / sigma^2,   beta = 1 / (2 sigma^2),   s = 1 + lam,
    p_k = k^-s exp(-beta ln^2 k) / Z(lam, beta),

because the term mu^2/(2 sigma^2) then never appears (it cancels in every quantity below). Sums over
all ranks are exact to rounding: the first ranks are added one by one, the rest by Euler-Maclaurin.
Far out along mu = -lam sigma^2 any mu will do: the law is then a power law, and only its exponent
has a meaning. Derived in book/derivations/lognormal and rank_laws. Functions of parameters
broadcast over them.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from paper.distributions import (
    CANDIDATES,
    PAPER,
    Likelihood,
    as_histogram,
    fit_rank_law,
    table_histogram,
)

HEAD = 1000  # ranks added one by one; beyond them Euler-Maclaurin's remainder is below rounding
# Euler-Maclaurin's sum less integral, exact for polynomials through the first ranks, whose values
# replace derivatives: the n-th power gives 1/2 at n = 0 and -B_(n+1)/(n+1) after that
EDGE = np.linalg.solve(
    np.vander(np.arange(8.0), increasing=True).T,
    [1 / 2, -1 / 12, 0, 1 / 120, 0, -1 / 252, 0, 1 / 240],
)
LEGENDRE, FADE = np.polynomial.legendre.leggauss(80), 40.0  # exp(-40) is below rounding
SQRT_2PI = np.sqrt(2 * np.pi)
KEEPS = {"sigma": 0, "mu": -1, "root": 0.5}  # sigma, mu or sigma^2/|mu/sigma|: a power of mu/sigma


class Natural(NamedTuple):
    """Natural parameters; beta = 0 is the zeta distribution with exponent 1 + lam."""

    lam: np.ndarray
    beta: np.ndarray


class LocalExponents(NamedTuple):
    """-d log y / d log S for y = -log p_1 and y = rank entropy, per unit of d lam / d log S."""

    neg_log_p1: np.ndarray
    entropy: np.ndarray


def natural(mu, sigma):
    """(lam, beta) of the lognormal with location mu and scale sigma > 0 (label eq-natural)."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return Natural(-mu / sigma**2, 0.5 / sigma**2)


def mills(a):
    """Mills ratio m(a) = (1 - Phi(a)) / phi(a) of the normal, without underflow for large a."""
    return np.sqrt(np.pi / 2) * special.erfcx(np.asarray(a, float) / np.sqrt(2))


# --- exact sums


def _tail_integrals(lam, beta, T, orders, shift):
    """Integrals over t > T of t^j exp(-lam t - beta t^2 - shift), j = 0..orders-1: (orders, P).

    By one Gauss-Legendre rule over the t > T where the integrand exceeds exp(-FADE) of its largest.
    """
    # the peak of the integrand, and how far it goes to both sides of it
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.maximum(T, np.where(beta > 0, -lam / (2 * beta), T))
        left = np.minimum(peak - T, np.sqrt(FADE / beta))
    fall = np.maximum(lam + 2 * beta * peak, 0.0)  # rate of decay at the peak: 0 inside
    right = 2 * FADE / (fall + np.sqrt(fall**2 + 4 * beta * FADE))

    # the rule on that stretch, (80, P)
    nodes, weights = (column[:, None] for column in LEGENDRE)
    t = peak - left + (left + right) * (1 + nodes) / 2
    mass = np.exp(-lam * t - beta * t**2 - shift) * weights * (left + right) / 2
    return np.stack([(mass * t**j).sum(0) for j in range(orders)])


def lattice_sums(lam, beta, start=1, orders=3):
    """Sums over ranks k >= start of k^-(1+lam) exp(-beta ln^2 k) ln^j k, j = 0..orders-1.

    Label eq-lattice.

    Args:
        lam, beta: floats or arrays of one shape; beta >= 0, and lam > 0 where beta = 0.
    Returns:
        sums: float64 (orders, *shape), multiplied by exp(-shift).
        shift: float64 (*shape), a log scale that keeps the sums from overflowing.
    Cost: HEAD exponentials per parameter pair.

    >>> sums, shift = lattice_sums(1.0, 0.0)      # the zeta law: the sum of 1/k^2
    >>> bool(abs(sums[0] * np.exp(shift) - np.pi**2 / 6) < 1e-14)
    True
    """
    lam, beta = np.broadcast_arrays(np.asarray(lam, float), np.asarray(beta, float))
    shape = lam.shape
    lam, beta = lam.ravel(), beta.ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where((lam < 0) & (beta > 0), lam**2 / (4 * beta), 0.0)

    # an integral from K on, and the ranks before it, those of the edge with their weights
    K = max(HEAD, start)
    sums = _tail_integrals(lam, beta, np.log(K), orders, shift)
    t = np.log(np.arange(start, K + len(EDGE), dtype=float))  # (H,)
    weights = np.r_[np.ones(K - start), EDGE]
    powers = t[:, None] ** np.arange(orders) * weights[:, None]  # (H, orders)
    for low in range(0, lam.size, 512):  # a bounded block at a time
        part = slice(low, low + 512)
        log_terms = -np.outer(1 + lam[part], t) - np.outer(beta[part], t**2) - shift[part, None]
        sums[:, part] += (np.exp(log_terms) @ powers).T
    return sums.reshape((orders, *shape)), shift.reshape(shape)


def log_z(lam, beta):
    """log Z(lam, beta), also -log p_1 exactly: the k = 1 term of Z is 1 (label eq-logz). Nats."""
    sums, shift = lattice_sums(lam, beta, start=2, orders=1)
    with np.errstate(divide="ignore"):  # accurate also where p_1 is within rounding of 1
        return np.logaddexp(0.0, shift + np.log(sums[0]))


def neg_log_p1(mu, sigma):
    """-log p_1 of the lognormal, exactly; what paper Eq. 16 states. Unit: nats."""
    return log_z(*natural(mu, sigma))


def log_moments(lam, beta, orders=2):
    """E[ln^j R] for j = 1..orders under the lognormal; an array (orders, *shape), nats^j."""
    sums, shift = lattice_sums(lam, beta, start=2, orders=orders + 1)
    return sums[1:] * np.exp(shift - log_z(lam, beta))


def _anchored_entropy(lam, beta):
    """Entropy where the mode is a rank above 1: terms relative to it, nothing cancels. Scalars."""
    # minus the log of p_k over p_mode, of the other ranks below HEAD
    s = 1 + lam
    peak = np.exp(min(-s / (2 * beta), 20.0))
    mode = int(np.clip(np.round(peak), 1, HEAD // 2))
    anchor = s * np.log(mode) + beta * np.log(mode) ** 2
    t = np.log(np.delete(np.arange(1.0, HEAD), mode - 1))
    u = s * t + beta * t**2 - anchor

    # and the sums of all others
    (m0, m1, m2), shift = lattice_sums(lam, beta, start=HEAD, orders=3)
    scale = np.exp(shift + anchor)
    far = s * m1 + beta * m2 - anchor * m0
    others = np.exp(-u).sum() + m0 * scale
    weighted = (u * np.exp(-u)).sum() + far * scale
    return np.log1p(others) + weighted / (1 + others)


def rank_entropy(lam, beta):
    """Entropy of the rank, H = log Z + s E ln R + beta E ln^2 R (label eq-entropy). Nats.

    Paper Eq. 17 calls it CE.
    """
    lam, beta = np.broadcast_arrays(np.asarray(lam, float), np.asarray(beta, float))
    first, second = log_moments(lam, beta, 2)
    H = np.array(log_z(lam, beta) + (1 + lam) * first + beta * second)
    inside = (lam < -1) & (-(1 + lam) < 2 * beta * np.log(HEAD // 2))
    H[inside] = np.vectorize(_anchored_entropy, otypes=[float])(lam[inside], beta[inside])
    return H[()]


def log_covariance(lam, beta):
    """Covariance of (ln R, ln^2 R), the Fisher information of (lam, beta): (2, 2, *shape)."""
    m1, m2, m3, m4 = log_moments(lam, beta, 4)
    return np.array([[m2 - m1**2, m3 - m1 * m2], [m3 - m1 * m2, m4 - m2**2]])


def misses(k, lam, beta):
    """1 - RBP_k under the lognormal at thresholds k; an array (*k.shape). Scalar lam and beta."""
    k = np.atleast_1d(np.asarray(k, dtype=np.int64))
    above, scale = np.empty(k.shape), log_z(lam, beta)
    for place, threshold in np.ndenumerate(k):
        sums, shift = lattice_sums(lam, beta, start=threshold + 1, orders=1)
        above[place] = sums[0] * np.exp(shift - scale)
    return above


def local_exponents(lam, beta):
    """Local exponents of -log p_1 and of the rank entropy, lam = lam_0 + g ln S, divided by g.

    e_1 = E ln R / log Z and e_H = (s V11 + beta V12) / H with V the covariance of (ln R, ln^2 R);
    beta is fixed; label eq-exponents.
    """
    lam, beta = np.asarray(lam, float), np.asarray(beta, float)
    V = log_covariance(lam, beta)
    first = log_moments(lam, beta, 1)[0] / log_z(lam, beta)
    second = ((1 + lam) * V[0, 0] + beta * V[0, 1]) / rank_entropy(lam, beta)
    return LocalExponents(first, second)


def exact_c(mu, sigma):
    """The normaliser c = sum of psi(k), paper Eq. 11, as Z psi(1); underflows where psi(1) does."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return np.exp(neg_log_p1(mu, sigma) - 0.5 * (mu / sigma) ** 2) / (SQRT_2PI * sigma)


# --- Appendix B as the paper writes it


def _normal(mu, sigma):
    """(mu, sigma, phi(a), P): the paper's phi(a) and P = Phi(mu/sigma), Eqs. 12 and 13."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return mu, sigma, np.exp(-0.5 * (mu / sigma) ** 2) / SQRT_2PI, special.ndtr(mu / sigma)


def paper_integrals(mu, sigma):
    """The truncated moments I_1 and I_2 of paper Eqs. 14 and 15."""
    mu, sigma, phi, P = _normal(mu, sigma)
    return mu * P + sigma * phi, (mu**2 + sigma**2) * P + mu * sigma * phi


def paper_c(mu, sigma):
    """Paper Eq. 20: c replaced by psi(1)/2 + P."""
    mu, sigma, phi, P = _normal(mu, sigma)
    return 0.5 * phi / sigma + P


def _over_density(mu, sigma):
    """Logs of P / phi(a) and of Eq. 20's c / phi(a): finite where P, phi and c underflow."""
    ratio, sigma = np.asarray(mu, float) / sigma, np.asarray(sigma, float)
    with np.errstate(over="ignore"):
        far = np.log(SQRT_2PI) + 0.5 * ratio**2 + special.log_ndtr(ratio)
        P = np.where(ratio < 0, np.log(mills(-np.minimum(ratio, 0.0))), far)
    return P, np.logaddexp(-np.log(2 * sigma), P)


def paper_neg_log_p1(mu, sigma):
    """Paper Eq. 16 with the c of Eq. 20, log(sigma c / phi(a)): mu^2/2 sigma^2 cancels. Nats."""
    return _over_density(mu, sigma)[1] + np.log(sigma)


def paper_entropy(mu, sigma):
    """Paper Eq. 21, which the paper calls the cross-entropy: Eq. 17 with integrals for sums. Nats.

    An approximation of `rank_entropy`, not equal to it: 2% above at the printed GPT-2 pair.
    """
    P, c = _over_density(mu, sigma)
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    inner = np.exp(P - c) * ((sigma**2 - mu**2) / (2 * sigma**2) + mu)
    edge = np.exp(-c) * (sigma - mu / (2 * sigma))
    return paper_neg_log_p1(mu, sigma) + (inner + edge)


def formulas_and_sums(mu, sigma):
    """{quantity: (the paper's formula, the exact sum)}, arrays of the parameters' shape."""
    exact, c = natural(mu, sigma), exact_c(mu, sigma)
    (first, second), moments = paper_integrals(mu, sigma), log_moments(*exact)
    return {
        "c": (paper_c(mu, sigma), c),
        "Σψ ln k": (first, moments[0] * c),
        "Σψ ln²k": (second, moments[1] * c),
        "-log p_1": (paper_neg_log_p1(mu, sigma), log_z(*exact)),
        "H": (paper_entropy(mu, sigma), rank_entropy(*exact)),
    }


# --- the second hypothesis, paper section 5.2: mu/sigma falls with S, or with log S


def _progress(S, scale):
    """log(S/S_0) or S/S_0 - 1, with S_0 = S[0]."""
    S = np.asarray(S, float) / S[0]
    return np.log(S) if scale == "log S" else S - 1


def parameter_path(S, mu, sigma, rate, scale="log S", keep="sigma"):
    """(mu, sigma), float64 (M,) each, at sizes S when mu/sigma = r_0 - rate x(S).

    Args:
        S: float (M,), sizes, S_0 = S[0]; mu, sigma: the lognormal at S_0; rate: float.
        scale: x, "log S" for log(S/S_0) or "S" for S/S_0 - 1. keep: one of KEEPS, for the paper
            leaves open which of mu and sigma moves.
    """
    ratio = mu / sigma - rate * _progress(S, scale)
    moved = sigma * np.abs(ratio / (mu / sigma)) ** KEEPS[keep]
    return ratio * moved, moved


def calibrated_rate(S, mu, sigma, factor, scale="log S", keep="sigma"):
    """The rate at which -log p_1 falls by `factor` from first to last size; NaN where none does."""
    start = neg_log_p1(mu, sigma)

    def gap(rate):
        path = parameter_path(S, mu, sigma, rate, scale, keep)
        return float(neg_log_p1(*path)[-1] / start - factor)

    for rate in np.geomspace(1e-3, 1e4, 57) / _progress(S, scale)[-1]:  # far out it overflows
        if gap(rate) < 0:
            return optimize.brentq(gap, 0.0, rate, xtol=1e-15)
    return np.nan


def exponents_over_k(misses, step=1e-4):
    """Relative exponents alpha_k / alpha_(k_0) when a distribution's parameters move by a little.

    misses: function of the size of the move, returning 1 - RBP_k at the k, float64 (K,).
    """
    change = np.log(np.log1p(-misses(step)) / np.log1p(-misses(-step)))
    return change / change[0]


def fixed_sigma_misses(ks, mu, sigma, vocab_size=None):
    """For exponents_over_k: the lognormal of Eq. 10, mu moving, on all ranks or on 1..V."""

    def moved(step):
        lam, beta = natural(mu - step * sigma, sigma)
        above = misses(ks, lam, beta)
        beyond = 0.0 if vocab_size is None else misses(vocab_size, lam, beta)[0]
        return (above - beyond) / (1 - beyond)

    return moved


def ceiling_misses(ks, mu, sigma):
    """For exponents_over_k: the lognormal of Eq. 9, R = ceil(X), RBP_k = Phi((ln k - mu)/sigma)."""
    return lambda step: stats.norm.sf((np.log(ks) - mu + step) / sigma)


# --- what a fitted lognormal says and what it leaves open


def mu_over_sigma(fit):
    """mu/sigma = (1 - s) / sqrt(2 beta); infinite on the power-law edge."""
    s, beta = fit.values
    with np.errstate(divide="ignore"):
        return float((1 - s) / np.sqrt(2 * beta))


def pivot_exponent(fit):
    """(s + 2 beta t_0, its standard error): the local exponent at a log-rank t_0 without beta.

    At t_0 it does not depend on beta; label eq-pivot-exponent.
    """
    (i11, i12), _ = fit.information
    s, beta = fit.values
    return float(s + beta * i12 / i11), float(1 / np.sqrt(fit.n_tokens * i11))


def predicted_ratio(s, beta, V):
    """Exponent of -log p_1 over that of the rank entropy, s moving at fixed beta on 1..V."""
    t = np.log(np.arange(1, V + 1.0))
    p = special.softmax(-s * t - beta * t**2)
    C = np.cov(t, t**2, aweights=p, ddof=0)
    of_entropy = (s * C[0, 0] + beta * C[0, 1]) / special.entr(p).sum()
    return float(p @ t / -np.log(p[0]) / of_entropy)


def predicted_ratios(tables):
    """`predicted_ratio` of the paper's lognormal fitted to each model: (smallest, largest)."""
    ratios = []
    for table in tables:
        fit = fit_rank_law(table_histogram(table), PAPER)
        ratios.append(predicted_ratio(*fit.values, len(fit.pmf)))
    return min(ratios), max(ratios)


def ridge(histogram, sigmas):
    """The rounded lognormal on 1..V with the best mu for each sigma: its likelihood hardly falls.

    histogram: RankHistogram or counts. sigmas: float64 (n,); infinity is the edge beta = 0.
    Returns:
        data frame: sigma, mu, by how many nats per token each is below the best fit, and its RBP_1.
    """
    histogram, rounded = as_histogram(histogram), CANDIDATES["lognormal_rounded"]
    fit, likelihood = fit_rank_law(histogram, rounded.name), Likelihood(histogram, rounded)
    low, high, _ = rounded.ranges["s"]

    def nll(s, beta):
        return likelihood.value(np.array([s, beta]))

    how = {"bounds": (low, high), "method": "bounded", "options": {"xatol": 1e-7}}
    ends = [optimize.minimize_scalar(nll, args=(beta,), **how) for beta in 0.5 / sigmas**2]
    s = np.array([end.x for end in ends])
    below = np.array([end.fun for end in ends]) - likelihood.value(fit.values)
    first = [np.exp(likelihood.log_mass(at)[0][0]) for at in zip(s, 0.5 / sigmas**2, strict=True)]
    columns = {"sigma": sigmas, "mu": (1 - s) * sigmas**2, "below": below, "RBP_1": first}
    return pd.DataFrame(columns)


def rounded_lognormal_nll(histogram, mu, sigma):
    """Negative log likelihood per token of the rounded lognormal (mu, sigma), given x > 1/2.

    Its support has no end: this is what the `powerlaw` package fits to discrete data. Label
    eq-rounded.
    """

    def log_above(x):  # log P(X > x)
        return special.log_ndtr((mu - np.log(x)) / sigma)

    lower, upper = log_above(histogram.low - 0.5), log_above(histogram.high + 0.5)
    cells = lower + np.log(-np.expm1(upper - lower)) - log_above(0.5)
    return float(-(histogram.count @ cells) / histogram.total)
