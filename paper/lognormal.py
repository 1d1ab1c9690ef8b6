"""The lognormal distribution of ranks, p_k = psi(k)/c for k = 1, 2, ...: exact sums, the paper's
formulas beside them, and what a fitted one says.

Its natural parameters are

    lam = -mu / sigma^2,   beta = 1 / (2 sigma^2),   s = 1 + lam,
    p_k = k^-s exp(-beta ln^2 k) / Z(lam, beta),

because the term mu^2/(2 sigma^2) then never appears (it cancels in every quantity below). Sums over
all ranks are exact to rounding: the first ranks are added one by one, the rest is an integral with
a correction at its edge. Far out along mu = -lam sigma^2 any mu will do: the law is then a power
law, and only its exponent has a meaning. Derived in book/derivations/lognormal and rank_laws.
Functions of parameters broadcast over them.
"""

import numpy as np
from scipy import optimize, special

from paper.distributions import CANDIDATES, TINY, Likelihood, as_histogram, fit_rank_law

HEAD = 1000  # ranks added one by one; beyond them an integral and EDGE are exact to rounding
# by which a sum is above the integral from its first term on, in its first terms (Gregory)
EDGE = np.array([5 / 8, -1 / 6, 1 / 24])
LEGENDRE = np.polynomial.legendre.leggauss(80)
FADE = 40.0  # exp(-40) is below rounding


def natural(mu, sigma):
    """(lam, beta) of the lognormal with location mu and scale sigma > 0, floats or arrays.

    Label eq-natural.
    """
    return -mu / sigma**2, 0.5 / sigma**2


# --- exact sums


def tail(lam, beta):
    """Nodes t (..., 80) and weights (..., 80) of integrals of exp(-lam t - beta t^2) over t > T.

    T = ln HEAD. One Gauss-Legendre rule from T to where the integrand is exp(-FADE) of its largest.
    """
    # the peak of the integrand, its rate of decay there (0 inside), and how far it goes beyond
    T = np.log(HEAD)
    peak = np.maximum(T, -lam / np.maximum(2 * beta, TINY))
    fall = np.maximum(lam + 2 * beta * peak, 0.0)
    root = np.sqrt(fall**2 + 4 * beta * FADE)
    beyond = 2 * FADE / (fall + root)

    # the rule on that stretch
    nodes, weights = LEGENDRE
    half = (peak - T + beyond) / 2
    t = T + half * (1 + nodes)
    values = np.exp(-lam * t - beta * t**2)
    return t, values * weights * half


def lattice_sums(lam, beta, orders):
    """Sums over ranks k >= 2 of k^-(1+lam) exp(-beta ln^2 k) ln^j k, j = 0..orders-1.

    Label eq-lattice.

    Args:
        lam, beta: floats or arrays that broadcast; beta >= 0, and lam > 0 where beta = 0. Their
            sums overflow beyond mu = 37 sigma, far from any law of ranks.
    Returns:
        float64 (orders, *shape).
    Cost: HEAD exponentials per parameter pair.

    >>> bool(abs(1 + lattice_sums(1.0, 0.0, 1)[0] - np.pi**2 / 6) < 1e-14)   # the sum of 1/k^2
    True
    """
    lam = np.expand_dims(lam, -1)
    beta = np.expand_dims(beta, -1)

    # the ranks before HEAD, those of the edge with their weights, and an integral from there on
    t = np.log(np.arange(2.0, HEAD + len(EDGE)))
    mass = np.exp(-(1 + lam) * t - beta * t**2)
    mass[..., HEAD - 2 :] *= EDGE
    far, rest = tail(lam, beta)
    sums = []
    for j in range(orders):
        near = mass @ t**j
        beyond = (rest * far**j).sum(-1)
        sums.append(near + beyond)
    return np.stack(sums)


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

    (-log p_1's, the entropy's): e_1 = E ln R / log Z and e_H = (s V11 + beta V12) / H with V the
    covariance of (ln R, ln^2 R); beta is fixed; label eq-exponents.
    """
    m1, m2, m3 = log_moments(lam, beta, 3)
    variance = m2 - m1**2
    covariance = m3 - m1 * m2
    fall = (1 + lam) * variance + beta * covariance
    return m1 / log_z(lam, beta), fall / rank_entropy(lam, beta)


# --- Appendix B as the paper writes it


def formulas_and_sums(mu, sigma):
    """{quantity: (the paper's formula, the exact sum)}, arrays of the parameters' shape, in nats.

    "-log p_1": Eq. 16 with the c of Eq. 20. "H": Eq. 21, Eq. 17 with integrals for sums, which the
    paper calls the cross-entropy; it is 2% above the sum at the printed GPT-2 pair.
    """
    # logs of P / phi(a) and of c / phi(a), a = mu / sigma: finite where P, phi and c underflow
    ratio = mu / sigma
    square = ratio**2
    P = np.log(2 * np.pi) / 2 + 0.5 * square + special.log_ndtr(ratio)
    c = np.logaddexp(-np.log(2 * sigma), P)

    # log(sigma c / phi(a)), as mu^2 / 2 sigma^2 cancels; and Eq. 21
    first = c + np.log(sigma)
    inner = np.exp(P - c) * ((1 - square) / 2 + mu)
    edge = np.exp(-c) * (sigma - ratio / 2)
    exact = natural(mu, sigma)
    entropy = first + (inner + edge)
    return {
        "-log p_1": (first, log_z(*exact)),
        "H": (entropy, rank_entropy(*exact)),
    }


# --- the second hypothesis, paper section 5.2: mu/sigma falls with S, or with log S


def calibrated_fall(mu, sigma, factor):
    """How far mu/sigma falls, at one sigma, where -log p_1 falls by `factor`, between 0 and 1."""
    start = neg_log_p1(mu, sigma)
    most = 100 * sigma  # the exponent s rises by 100: nearly all tokens are hits

    def miss(fall):
        return neg_log_p1(mu - sigma * fall, sigma) / start - factor

    return optimize.brentq(miss, 0.0, most, xtol=1e-15)


def parameter_path(S, mu, sigma, fall, scale="log S"):
    """(mu, sigma), float64 (M,) each, at sizes S; mu/sigma falls by `fall` from first to last.

    Args:
        S: float (M,). mu, sigma: the lognormal at S[0]; sigma stays.
        scale: what mu/sigma is linear in, "log S" or "S".
    """
    x = np.asarray(S, float)
    if scale == "log S":
        x = np.log(x)
    # the way from the first size to each, and to the last
    way = x - x[0]
    moved = mu - sigma * fall * way / way[-1]
    return moved, np.full_like(moved, sigma)


# --- what a fitted lognormal says and what it leaves open


def pivot_exponent(fit):
    """s + 2 beta t_0: the local exponent at the log-rank t_0 where it does not depend on beta.

    Label eq-pivot-exponent.
    """
    s, beta = fit.values
    information = fit.information[0]
    return float(s + beta * information[1] / information[0])


def predicted_ratio(s, beta, V):
    """Exponent of -log p_1 over that of the rank entropy, s moving at fixed beta on 1..V."""
    t = np.log(np.arange(1, V + 1.0))
    p = special.softmax(-s * t - beta * t**2)
    C = np.cov(t, t**2, aweights=p, ddof=0)
    fall = s * C[0, 0] + beta * C[0, 1]
    of_entropy = fall / special.entr(p).sum()
    return float(p @ t / -np.log(p[0]) / of_entropy)


def ridge(histogram, sigmas):
    """Nats per token by which the rounded lognormal of each sigma, its mu free, is below the best.

    Args:
        histogram: RankHistogram or counts. sigmas: float64 (n,); infinity is the edge beta = 0.
    Returns:
        float64 (n,).
    """
    histogram = as_histogram(histogram)
    rounded = CANDIDATES["lognormal_rounded"]
    value = Likelihood(histogram, rounded).value
    how = {"bounds": rounded.ranges["s"], "method": "bounded", "options": {"xatol": 1e-7}}
    ends = []
    for beta in 0.5 / sigmas**2:
        best = optimize.minimize_scalar(lambda s, beta=beta: value([s, beta]), **how)
        ends.append(best.fun)
    return np.array(ends) - fit_rank_law(histogram, "lognormal_rounded").nll
