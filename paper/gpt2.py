"""What the authors published of GPT-2: the digitised rank histogram, the printed fit, the counts.

Nothing here was measured by this project; see published/README.md.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from paper import published
from paper.distributions import CANDIDATES, Likelihood, RankHistogram, fit_rank_law
from paper.lognormal import rounded_lognormal_nll
from paper.steps import size_spread, y_se

VOCABULARY = 50_257
MU, SIGMA, ZETA = -65.192, 12.892, 1.402  # printed in the authors' figure of GPT-2's ranks
PRINTED = (MU, SIGMA)
PRINTED_RATIO = -3818.005  # printed there: log likelihood of the power law less the lognormal's
N_TOKENS = 317_414  # as counted; the ratio implies as many to two digits: ratio_parts().n_tokens


def gpt2_ranks(n_tokens=N_TOKENS):
    """The digitised GPT-2 rank histogram as counts of n_tokens tokens."""
    low, high, mass = published.gpt2_histogram()
    return RankHistogram(low, high, n_tokens * mass / mass.sum(), VOCABULARY)


class RatioParts(NamedTuple):
    """What the printed likelihood ratio of -3818 is made of: power laws less lognormals."""

    n_tokens: float  # sample size at which the digitised histogram gives the printed ratio
    names: tuple[str, ...]
    ratios: np.ndarray  # float64 (5,), nats of the whole sample; below 0 the lognormal leads
    exponents: np.ndarray  # float64 (5,), of the power law


def ratio_parts():
    """Power laws against lognormals on the digitised histogram, scaled to the printed ratio.

    Three against the authors' printed pair on its endless support; then both sides on 1..V, the
    pair as printed and at its maximum. There the lognormal holds the power law as its edge
    beta = 0, so the last ratio is never above 0.
    """
    ranks = gpt2_ranks()
    low, high, share = ranks.wide()

    def zeta(a):
        above = special.zeta(a, low.astype(float)) - special.zeta(a, high + 1.0)
        return share @ np.log(above / special.zeta(a))

    def pareto(a):
        mass = (low - 0.5) ** (1 - a) - (high + 0.5) ** (1 - a)
        return share @ np.log(mass / 0.5 ** (1 - a))

    def maximum(score):
        best = optimize.minimize_scalar(lambda a: -score(a), bounds=(1.05, 3), method="bounded")
        return best.x, -best.fun

    # the lognormal: as printed, without an end and on 1..V, and at its maximum there
    endless = -rounded_lognormal_nll(ranks, MU, SIGMA)
    likelihood = Likelihood(ranks, CANDIDATES["lognormal_rounded"])
    printed = -likelihood.value(np.array([1 - MU / SIGMA**2, 0.5 / SIGMA**2]))
    power, curved = fit_rank_law(ranks, "pareto_rounded"), fit_rank_law(ranks, "lognormal_rounded")

    # exponent, and log score per token less that of the lognormal
    best_zeta, best_pareto, s = maximum(zeta), maximum(pareto), power.values[0]
    parts = {
        "zeta, printed exponent (as compared)": (ZETA, zeta(ZETA) - endless),
        "zeta at its maximum": (best_zeta[0], best_zeta[1] - endless),
        "Pareto, rounded like the lognormal": (best_pareto[0], best_pareto[1] - endless),
        "both on 1..V, the pair as printed": (s, -power.nll - printed),
        "both on 1..V, at their maxima": (s, min(0.0, curved.nll - power.nll)),
    }
    exponents, scores = np.array(list(parts.values())).T
    n_tokens = PRINTED_RATIO / scores[0]
    return RatioParts(n_tokens, tuple(parts), n_tokens * scores, exponents)


def anchor(fit):
    """(mu, sigma) of a fitted lognormal; on the ridge, where they are infinite, the printed
    pair.
    """
    pair = tuple(fit.conventional.values())
    return pair if np.isfinite(pair).all() else PRINTED


def token_noise(law):
    """The slope of a plain law against the noise of independent tokens, {name: float}.

    `errors`: the exponent in standard errors. `excuses slope`: how many times as large that
    variance must be so that the slope is no longer told from 0 at 5%.
    """
    n = law.loss.total
    variance = np.mean(y_se(law.loss.misses / n, n) ** 2)
    errors = law.alpha / np.sqrt(variance / size_spread(law.S))
    return {"errors": float(errors), "excuses slope": float((errors / 1.96) ** 2)}
