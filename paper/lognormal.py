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

import numpy as np
import pandas as pd
from scipy import optimize, special

from paper.distributions import (
    CANDIDATES,
    Likelihood,
    as_histogram,
    fit_rank_law,
)

HEAD = 1000  # ranks added one by one; beyond them Euler-Maclaurin's remainder is below rounding
# Euler-Maclaurin's sum less integral, exact for polynomials through the first ranks, whose values
# replace derivatives: the n-th power gives 1/2 at n = 0 and -B_(n+1)/(n+1) after that
EDGE = np.linalg.solve(
    np.vander(np.arange(8.0), increasing=True).T,
    [1 / 2, -1 / 12, 0, 1 / 120, 0, -1 / 252, 0, 1 / 240],
)
LEGENDRE, FADE = np.polynomial.legendre.leggauss(80), 40.0  # exp(-40) is below rounding


def natural(mu, sigma):
    """(lam, beta) of the lognormal with location mu and scale sigma > 0 (label eq-natural)."""
    mu, sigma = np.asarray(mu, float), np.asarray(sigma, float)
    return -mu / sigma**2, 0.5 / sigma**2


# --- exact sums


def _tail_integrals(lam, beta, T, orders):
    """Integrals over t > T of t^j exp(-lam t - beta t^2), j = 0..orders-1: (orders, P).

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
    mass = np.exp(-lam * t - beta * t**2) * weights * (left + right) / 2
    return np.stack([(mass * t**j).sum(0) for j in range(orders)])


def lattice_sums(lam, beta, orders):
    """Sums over ranks k >= 2 of k^-(1+lam) exp(-beta ln^2 k) ln^j k, j = 0..orders-1.

    Label eq-lattice.

    Args:
        lam, beta: floats or arrays of one shape; beta >= 0, and lam > 0 where beta = 0. Their sums
            overflow beyond mu = 37 sigma, far from any law of ranks.
    Returns:
        float64 (orders, *shape).
    Cost: HEAD exponentials per parameter pair.

    >>> bool(abs(1 + lattice_sums(1.0, 0.0, 1)[0] - np.pi**2 / 6) < 1e-14)   # the sum of 1/k^2
    True
    """
    lam, beta = np.broadcast_arrays(np.asarray(lam, float), np.asarray(beta, float))
    shape, lam, beta = lam.shape, lam.ravel(), beta.ravel()

    # an integral from HEAD on, and the ranks before it, those of the edge with their weights
    t = np.log(np.arange(2.0, HEAD + len(EDGE)))  # (H,)
    weights = np.r_[np.ones(HEAD - 2), EDGE]
    terms = np.exp(-np.outer(1 + lam, t) - np.outer(beta, t**2))  # (P, H)
    head = (terms @ (t[:, None] ** np.arange(orders) * weights[:, None])).T
    return (head + _tail_integrals(lam, beta, np.log(HEAD), orders)).reshape((orders, *shape))


def log_z(lam, beta):
    """log Z(lam, beta), also -log p_1 exactly: the k = 1 term of Z is 1 (label eq-logz). Nats."""
    return np.log1p(lattice_sums(lam, beta, 1)[0])


def neg_log_p1(mu, sigma):
    """-log p_1 of the lognormal, exactly; what paper Eq. 16 states. Unit: nats."""
    return log_z(*natural(mu, sigma))


def log_moments(lam, beta, orders=2):
    """E[ln^j R] for j = 1..orders under the lognormal; an array (orders, *shape), nats^j."""
    sums = lattice_sums(lam, beta, orders + 1)
    return sums[1:] / (1 + sums[0])


def rank_entropy(lam, beta):
    """Entropy of the rank, H = log Z + s E ln R + beta E ln^2 R (label eq-entropy). Nats.

    Paper Eq. 17 calls it CE.
    """
    first, second = log_moments(lam, beta)
    return log_z(lam, beta) + (1 + lam) * first + beta * second


def local_exponents(lam, beta):
    """Local exponents of -log p_1 and of the rank entropy, lam = lam_0 + g ln S, divided by g.

    (-log p_1's, the entropy's): e_1 = E ln R / log Z and e_H = (s V11 + beta V12) / H with V the covariance of (ln R, ln^2 R);
    beta is fixed; label eq-exponents.
    """
    lam, beta = np.asarray(lam, float), np.asarray(beta, float)
    m1, m2, m3 = log_moments(lam, beta, 3)
    fall = (1 + lam) * (m2 - m1**2) + beta * (m3 - m1 * m2)
    return m1 / log_z(lam, beta), fall / rank_entropy(lam, beta)


# --- Appendix B as the paper writes it


def _over_density(mu, sigma):
    """Logs of P / phi(a) and of Eq. 20's c / phi(a): finite where P, phi and c underflow."""
    ratio, sigma = np.asarray(mu, float) / sigma, np.asarray(sigma, float)
    P = np.log(2 * np.pi) / 2 + 0.5 * ratio**2 + special.log_ndtr(ratio)
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
    exact = natural(mu, sigma)
    return {
        "-log p_1": (paper_neg_log_p1(mu, sigma), log_z(*exact)),
        "H": (paper_entropy(mu, sigma), rank_entropy(*exact)),
    }


# --- the second hypothesis, paper section 5.2: mu/sigma falls with S, or with log S


def _progress(S, scale):
    """log(S/S_0) or S/S_0 - 1, with S_0 = S[0]."""
    S = np.asarray(S, float) / S[0]
    return np.log(S) if scale == "log S" else S - 1


def parameter_path(S, mu, sigma, rate, scale="log S"):
    """(mu, sigma), float64 (M,) each, at sizes S when mu/sigma = r_0 - rate x(S) at one sigma.

    Args:
        S: float (M,), sizes, S_0 = S[0]; mu, sigma: the lognormal at S_0; rate: float.
        scale: x, "log S" for log(S/S_0) or "S" for S/S_0 - 1.
    """
    moved = mu - sigma * rate * _progress(S, scale)
    return moved, np.full_like(moved, sigma)


def calibrated_rate(S, mu, sigma, factor, scale="log S"):
    """The rate at which -log p_1 falls by `factor` from first to last size; NaN where none does."""
    start = neg_log_p1(mu, sigma)

    def gap(rate):
        path = parameter_path(S, mu, sigma, rate, scale)
        return float(neg_log_p1(*path)[-1] / start - factor)

    for rate in np.geomspace(1e-3, 1e4, 57) / _progress(S, scale)[-1]:
        if gap(rate) < 0:
            return optimize.brentq(gap, 0.0, rate, xtol=1e-15)
    return np.nan


# --- what a fitted lognormal says and what it leaves open


def pivot_exponent(fit):
    """s + 2 beta t_0: the local exponent at the log-rank t_0 where it does not depend on beta.

    Label eq-pivot-exponent.
    """
    s, beta = fit.values
    return float(s + beta * fit.information[0, 1] / fit.information[0, 0])


def predicted_ratio(s, beta, V):
    """Exponent of -log p_1 over that of the rank entropy, s moving at fixed beta on 1..V."""
    t = np.log(np.arange(1, V + 1.0))
    p = special.softmax(-s * t - beta * t**2)
    C = np.cov(t, t**2, aweights=p, ddof=0)
    of_entropy = (s * C[0, 0] + beta * C[0, 1]) / special.entr(p).sum()
    return float(p @ t / -np.log(p[0]) / of_entropy)


def ridge(histogram, sigmas):
    """The rounded lognormal on 1..V with the best mu for each sigma: its likelihood hardly falls.

    histogram: RankHistogram or counts. sigmas: float64 (n,); infinity is the edge beta = 0.
    Returns:
        data frame: sigma, mu, by how many nats per token each is below the best fit, and its RBP_1.
    """
    histogram, rounded = as_histogram(histogram), CANDIDATES["lognormal_rounded"]
    likelihood = Likelihood(histogram, rounded)
    best = likelihood.value(fit_rank_law(histogram, "lognormal_rounded").values)
    how = {"bounds": rounded.ranges["s"], "method": "bounded", "options": {"xatol": 1e-7}}
    rows = []
    for sigma in sigmas:
        beta = 0.5 / sigma**2
        end = optimize.minimize_scalar(lambda s, beta=beta: likelihood.value([s, beta]), **how)
        first = np.exp(likelihood.log_mass([end.x, beta])[0][0])
        rows.append((sigma, (1 - end.x) * sigma**2, end.fun - best, first))
    return pd.DataFrame(rows, columns=["sigma", "mu", "below", "RBP_1"])


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
