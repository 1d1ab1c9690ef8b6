"""What the authors' GPT-2 figures say: the digitised rank histogram, the printed fit, and the scatter of the points.

Nothing here was measured by this project; see published/README.md.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from paper import lognormal, published
from paper import lognormal_paper as paper
from paper.histogram import RankHistogram
from paper.likelihood import Likelihood
from paper.lognormal_fit import rounded_lognormal_nll
from paper.rank_fit import fit_rank_law
from paper.rank_laws import CANDIDATES
from paper.steps import size_spread, y_se

VOCABULARY = 50_257
MU, SIGMA, ZETA = -65.192, 12.892, 1.402  # printed in the authors' figure of GPT-2's ranks
PRINTED = (MU, SIGMA)
PRINTED_RATIO = -3818.005  # printed there: log likelihood of the power law less that of the lognormal
N_TOKENS = 3.2e5  # the sample size that this ratio implies to two digits: ratio_parts().n_tokens


def gpt2_ranks(n_tokens=N_TOKENS):
    """The digitised GPT-2 rank histogram as counts of n_tokens tokens."""
    low, high, mass = published.gpt2_histogram()
    return RankHistogram(low=low, high=high, count=n_tokens * mass / mass.sum(), vocab_size=VOCABULARY)


def four_meanings():
    """-log p_1 that the printed pair (mu, sigma) stands for, by reading: nats, {reading: value}."""
    one = RankHistogram(low=np.array([1]), high=np.array([1]), count=np.ones(1), vocab_size=VOCABULARY)
    return {
        "the data (the authors' figure of RBP_1)": float(published.gpt2_reference("neg_log_rbp")[1][0]),
        "fitted likelihood: rounded, infinite support": rounded_lognormal_nll(one, MU, SIGMA),
        "Eq. 10, exact sum": float(lognormal.neg_log_p1(MU, SIGMA)),
        "Eqs. 16 and 20, as written": float(paper.neg_log_p1(MU, SIGMA)),
    }


class RatioParts(NamedTuple):
    """What the printed likelihood ratio of -3818 is made of: a power law less a lognormal, step by step more alike."""

    n_tokens: float  # sample size at which the digitised histogram gives the printed ratio
    names: tuple[str, ...]
    ratios: np.ndarray  # float64 (5,), nats of the whole sample; below 0 the lognormal leads
    exponents: np.ndarray  # float64 (5,), of the power law


def ratio_parts():
    """Power laws against lognormals on the digitised histogram, scaled to the printed ratio.

    Three against the authors' printed pair on its endless support; then both sides on 1..V, the pair as printed and at
    its maximum. There the lognormal holds the power law as its edge beta = 0, so the last ratio is never above 0.
    """
    ranks = gpt2_ranks()
    low, high, share = ranks.wide()
    endless = -rounded_lognormal_nll(ranks, MU, SIGMA)
    on_V = -Likelihood(ranks, CANDIDATES["lognormal_rounded"]).value(np.array([1 - MU / SIGMA**2, 0.5 / SIGMA**2]))

    def zeta(a):
        return share @ np.log((special.zeta(a, low.astype(float)) - special.zeta(a, high + 1.0)) / special.zeta(a))

    def pareto(a):
        return share @ np.log(((low - 0.5) ** (1 - a) - (high + 0.5) ** (1 - a)) / 0.5 ** (1 - a))

    best = [optimize.minimize_scalar(lambda a, f=f: -f(a), bounds=(1.05, 3), method="bounded") for f in (zeta, pareto)]
    power, curved = (fit_rank_law(ranks, name) for name in ("pareto_rounded", "lognormal_rounded"))
    cut = power.values[0]
    parts = {  # exponent, and log score per token less that of the lognormal
        "zeta, printed exponent (as compared)": (ZETA, zeta(ZETA) - endless),
        "zeta at its maximum": (best[0].x, -best[0].fun - endless),
        "Pareto, rounded like the lognormal": (best[1].x, -best[1].fun - endless),
        "both on 1..V, the pair as printed": (cut, -power.nll - on_V),
        "both on 1..V, at their maxima": (cut, min(0.0, curved.nll - power.nll)),
    }
    exponents, scores = np.array(list(parts.values())).T
    n_tokens = PRINTED_RATIO / scores[0]
    return RatioParts(n_tokens=n_tokens, names=tuple(parts), ratios=n_tokens * scores, exponents=exponents)


def anchor(fit):
    """(mu, sigma) of a fitted lognormal; on the ridge, where they are not finite, the printed pair instead."""
    found = tuple(fit.conventional.values())
    return found if np.isfinite(found).all() else PRINTED


def ridge_losses(mus, n_tokens=N_TOKENS):
    """(best mu, best sigma, log likelihood lost at each mu) of the rounded lognormal on an infinite support."""
    ranks = gpt2_ranks(n_tokens)

    def nll(log_sigma, mu):
        return rounded_lognormal_nll(ranks, mu, np.exp(log_sigma))

    def least(mu):  # over sigma, within a factor e of the ridge
        at, tight = 0.5 * np.log(max(abs(mu), 1.0) / 0.4), {"xatol": 1e-9}
        return optimize.minimize_scalar(nll, args=(mu,), bounds=(at - 1, at + 1), method="bounded", options=tight).fun

    start, tight = (-62, np.log(12.6)), {"xatol": 1e-6, "fatol": 1e-13}
    best = optimize.minimize(lambda x: nll(x[1], x[0]), start, method="Nelder-Mead", options=tight)
    lost = -n_tokens * (np.array([least(mu) for mu in mus]) - best.fun)
    return float(best.x[0]), float(np.exp(best.x[1])), lost


def figure_lack_of_fit(n_tokens=N_TOKENS):
    """Is the scatter in the authors' GPT-2 figures sampling noise? {column: float64 (5,)}, a row per k.

    Misses come from the histogram of the smallest model, those of the larger ones from the printed slope; the scatter
    from slope and R^2. Q = SSR / mean SE^2 on two degrees of freedom.
    """
    S = published.gpt2_reference("neg_log_rbp")[0]
    ks, slopes, _ = published.gpt2_reference("slope")
    r2 = published.gpt2_reference("r_squared")[1]
    _, high, share = gpt2_ranks().wide()
    q = 1 - np.interp(np.log(ks + 0.5), np.log(np.r_[0.5, high + 0.5]), np.r_[0, share.cumsum()])
    y = np.log(-np.log1p(-q))[:, None] + slopes[:, None] * np.log(S / S[0])  # (5, 4)
    variance = np.mean(y_se(-np.expm1(-np.exp(y)), n_tokens) ** 2, axis=1)
    spread = size_spread(S)
    ssr = slopes**2 * spread * (1 - r2) / r2
    return {
        "k": ks.astype(int),
        "misses, smallest model": np.round(q * n_tokens).astype(int),
        "alpha": -slopes,
        "R²": r2,
        "residual rms": np.sqrt(ssr / 2),
        "noise of one point": np.sqrt(variance),
        "Q": ssr / variance,
        "p": stats.chi2.sf(ssr / variance, 2),
        "slope in standard errors": slopes / np.sqrt(variance / spread),
    }
