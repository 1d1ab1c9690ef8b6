"""What a fitted lognormal says and what it leaves open: mu/sigma, the exponent at the pivot, the ridge.

Far out along mu = -lam sigma^2 any mu will do: the lognormal is then a power law, and only its exponent has a meaning.
Derived in book/derivations/rank_laws.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr, log_ndtr, softmax

from paper.histogram import as_histogram, table_histogram
from paper.likelihood import Likelihood
from paper.rank_fit import fit_rank_law
from paper.rank_laws import CANDIDATES, PAPER


def mu_over_sigma(fit):
    """mu/sigma = (1 - s) / sqrt(2 beta); infinite on the power-law edge."""
    s, beta = fit.values
    with np.errstate(divide="ignore"):
        return float((1 - s) / np.sqrt(2 * beta))


def pivot_exponent(fit):
    """(s + 2 beta t_0, its standard error): the local exponent at the log-rank t_0 where it does not depend on beta.

    Label eq-pivot-exponent.
    """
    (i11, i12), _ = fit.information
    s, beta = fit.values
    return float(s + beta * i12 / i11), float(1 / np.sqrt(fit.n_tokens * i11))


def predicted_ratio(s, beta, V):
    """Exponent of -log p_1 over that of the rank entropy by the lognormal on 1..V, s moving at fixed beta."""
    t = np.log(np.arange(1, V + 1.0))
    p = softmax(-s * t - beta * t**2)
    C = np.cov(t, t**2, aweights=p, ddof=0)
    return float(p @ t / -np.log(p[0]) * entr(p).sum() / (s * C[0, 0] + beta * C[0, 1]))


def predicted_ratios(tables):
    """`predicted_ratio` of the paper's lognormal fitted to each model: (smallest, largest)."""
    fits = [fit_rank_law(table_histogram(t), PAPER) for t in tables]
    found = [predicted_ratio(*fit.values, len(fit.pmf)) for fit in fits]
    return min(found), max(found)


def ridge(histogram, sigmas):
    """The rounded lognormal on 1..V with the best mu for each sigma: along the ridge its likelihood hardly falls.

    histogram: RankHistogram or counts. sigmas: float64 (n,); infinity is the power-law edge beta = 0.
    Returns:
        RankDistribution of the best fit; mu, float64 (n,); by how many nats per token each is below that fit, (n,).
    """
    histogram, rounded = as_histogram(histogram), CANDIDATES["lognormal_rounded"]
    fit, value = fit_rank_law(histogram, rounded.name), Likelihood(histogram, rounded).value
    how = {"bounds": rounded.ranges["s"][:2], "method": "bounded", "options": {"xatol": 1e-7}}
    found = [minimize_scalar(lambda s, beta=beta: value(np.array([s, beta])), **how) for beta in 0.5 / sigmas**2]
    s, nll = np.transpose([(one.x, one.fun) for one in found])
    return fit, (1 - s) * sigmas**2, nll - value(fit.values)


def rounded_lognormal_nll(histogram, mu, sigma):
    """Negative log likelihood per token of the rounded lognormal with location mu and scale sigma, given x > 1/2.

    The support has no end: this is what the `powerlaw` package fits to discrete data. Label eq-rounded.
    """

    def log_above(x):  # log P(X > x)
        return log_ndtr((mu - np.log(x)) / sigma)

    lower, upper = log_above(histogram.low - 0.5), log_above(histogram.high + 0.5)
    cells = lower + np.log(-np.expm1(upper - lower)) - log_above(0.5)
    return float(-(histogram.count @ cells) / histogram.total)
