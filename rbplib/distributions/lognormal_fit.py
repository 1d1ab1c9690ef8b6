"""What a fitted lognormal says and what it leaves open: mu/sigma, the exponent at the pivot, the ridge.

Far out along mu = -lam sigma^2 any mu will do: the lognormal is then a power law, and only its exponent has a meaning.
Derived in book/derivations/rank_laws.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from rbplib.distributions.candidates import CANDIDATES, IN_MU_SIGMA, PAPER
from rbplib.distributions.fit import fit_rank_law
from rbplib.distributions.histogram import as_histogram, table_histogram
from rbplib.distributions.likelihood import likelihood
from rbplib.settings import check_choice


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


def predicted_ratio(fit):
    """Exponent of the rank entropy over that of -log p_1 by a fitted lognormal, lam moving at fixed beta, on 1..V."""
    t = np.log(np.arange(1, len(fit.pmf) + 1.0))
    s, beta = fit.values
    first, second, both, third = (fit.pmf @ v for v in (t, t**2, t * t, t**3))
    log_z = -np.log(fit.pmf[0])
    entropy = log_z + s * first + beta * second
    return float((s * (both - first**2) + beta * (third - first * second)) / entropy / (first / log_z))


def predicted_ratios(tables):
    """`predicted_ratio` of the paper's lognormal fitted to each model: (smallest, largest)."""
    found = [predicted_ratio(fit_rank_law(table_histogram(t), PAPER)) for t in tables]
    return min(found), max(found)


def best_at(mu, nll, width=2.5):
    """Smallest nll(mu, sigma) over sigma, within a factor exp(width) of the ridge."""
    centre = 0.5 * np.log(max(abs(mu), 1.0) / 0.4)
    bounds = (centre - width, centre + width)
    found = minimize_scalar(
        lambda log_sigma: nll(mu, np.exp(log_sigma)), bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    return found.fun


def ridge_profile(histogram, mus, candidate="lognormal_rounded"):
    """Largest log likelihood (nats, whole sample) of a lognormal at fixed mu, less that of the best fit; (len(mus),).

    Along the ridge this hardly falls; mu = -inf stands for the power-law edge beta = 0.

    Args:
        histogram: RankHistogram or counts. mus: floats. candidate: "lognormal" or "lognormal_rounded".
    """
    check_choice(candidate, IN_MU_SIGMA, "lognormal")
    histogram = as_histogram(histogram)
    value = likelihood(histogram, CANDIDATES[candidate]).value

    def nll(mu, sigma):
        return value(np.array([1 - mu / sigma**2, 0.5 / sigma**2]))

    def edge(s):
        return value(np.array([s, 0.0]))

    lowest = [
        minimize_scalar(edge, bounds=(0.0, 8.0), method="bounded").fun
        if np.isneginf(mu)
        else min(best_at(mu, nll, width) for width in (1.0, 2.5))
        for mu in mus
    ]
    return (value(fit_rank_law(histogram, candidate).values) - np.array(lowest)) * histogram.total


def rounded_lognormal_nll(histogram, mu, sigma, vocab_size=np.inf):
    """Negative log likelihood per token of the rounded lognormal with location mu and scale sigma.

    With an infinite support, conditioned on x > 1/2, this is what the `powerlaw` package fits to discrete data; with a
    finite one the same distribution on 1..V. Label eq-rounded.
    """

    def log_above(x):  # log P(X > x)
        return log_ndtr((mu - np.log(x)) / sigma)

    def log_between(a, b):
        return log_above(a) + np.log(-np.expm1(log_above(b) - log_above(a)))

    cells = log_between(histogram.low - 0.5, histogram.high + 0.5)
    whole = log_above(0.5) if np.isinf(vocab_size) else log_between(0.5, vocab_size + 0.5)
    return float(-(histogram.count @ (cells - whole)) / histogram.total)
