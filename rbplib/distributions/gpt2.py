"""What the authors' GPT-2 figures say: the digitised rank histogram, the printed fit, and the scatter of the points.

Nothing here was measured by this project; see published/README.md.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from rbplib.distributions import theory
from rbplib.distributions.fit import RankHistogram, fit_rank_law, rounded_lognormal_nll
from rbplib.laws import published
from rbplib.laws.noise import log_loss_se, size_spread

VOCABULARY = 50_257
MU, SIGMA, ZETA = -65.192, 12.892, 1.402  # printed in the authors' figure of GPT-2's ranks
PRINTED_RATIO = -3818.005  # printed there: log likelihood of the power law less that of the lognormal


def gpt2_ranks(n_tokens=3.17e5):
    """The digitised GPT-2 rank histogram as counts of n_tokens tokens."""
    low, high, mass = published.gpt2_histogram()
    return RankHistogram(low, high, n_tokens * mass / mass.sum(), VOCABULARY)


def four_meanings():
    """-log p_1 that the printed pair (mu, sigma) stands for, by reading: nats, {reading: value}."""
    one = RankHistogram(np.array([1]), np.array([1]), np.ones(1), VOCABULARY)
    return {
        "the data (the authors' figure of RBP_1)": float(published.gpt2_reference("neg_log_rbp")[1][0]),
        "fitted likelihood: rounded, infinite support": rounded_lognormal_nll(one, MU, SIGMA),
        "Eq. 10, exact sum": float(theory.neg_log_p1(MU, SIGMA)),
        "Eqs. 16 and 20, as written": float(theory.paper_neg_log_p1(MU, SIGMA)),
    }


@dataclass(frozen=True)
class RatioParts:
    """What the printed likelihood ratio of -3818 is made of; each value is against the authors' lognormal, nats."""

    n_tokens: float  # sample size at which the digitised histogram gives the printed ratio
    names: tuple[str, ...]
    ratios: np.ndarray
    exponents: np.ndarray


def ratio_parts():
    """Power laws on the digitised histogram, each against the authors' lognormal, scaled to the printed ratio."""
    low, high, mass = published.gpt2_histogram()
    m, ranks = mass / mass.sum(), gpt2_ranks()
    lognormal = -rounded_lognormal_nll(ranks, MU, SIGMA)

    def zeta(a):
        return m @ np.log((special.zeta(a, low.astype(float)) - special.zeta(a, high + 1.0)) / special.zeta(a))

    def pareto(a):
        return m @ np.log(((low - 0.5) ** (1 - a) - (high + 0.5) ** (1 - a)) / 0.5 ** (1 - a))

    best = [optimize.minimize_scalar(lambda a, f=f: -f(a), bounds=(1.05, 3), method="bounded") for f in (zeta, pareto)]
    cut = [fit_rank_law(ranks, f) for f in ("zipf", "pareto_rounded")]
    scale = PRINTED_RATIO / (zeta(ZETA) - lognormal)
    values = (zeta(ZETA), -best[0].fun, -cut[0].nll, -best[1].fun, -cut[1].nll)
    names = (
        "zeta at the printed exponent (what was compared)",
        "zeta at its maximum likelihood",
        "Zipf on 1..V",
        "Pareto rounded like the lognormal, infinite support",
        "Pareto rounded, on 1..V",
    )
    exponents = (ZETA, best[0].x, cut[0].values[0], best[1].x, cut[1].values[0])
    return RatioParts(scale, names, scale * (np.array(values) - lognormal), np.array(exponents))


def ridge_losses(mus, n_tokens=3.17e5):
    """(best mu, best sigma, log likelihood lost at each mu) of the rounded lognormal on an infinite support."""
    ranks = gpt2_ranks(n_tokens)
    best = optimize.minimize(
        lambda x: rounded_lognormal_nll(ranks, x[0], np.exp(x[1])), (-62, np.log(12.6)), method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-13},
    )  # fmt: skip
    lost = []
    for mu in mus:
        centre = 0.5 * np.log(abs(mu) / 0.39)
        at = optimize.minimize_scalar(
            lambda log_sigma, mu=mu: rounded_lognormal_nll(ranks, mu, np.exp(log_sigma)),
            bounds=(centre - 1, centre + 1), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        lost.append(-n_tokens * (at.fun - best.fun))
    return float(best.x[0]), float(np.exp(best.x[1])), np.array(lost)


def figure_lack_of_fit(n_tokens=3.17e5, deff=1.0):
    """Is the scatter in the authors' GPT-2 figures sampling noise? One row per k, for tables on pages.

    Misses come from the histogram of the smallest model, those of the larger ones from the printed slope; the scatter
    from slope and R^2. Q = SSR / mean SE^2 on two degrees of freedom.
    """
    import pandas as pd

    S = published.gpt2_reference("neg_log_rbp")[0]
    ks, slopes, _ = published.gpt2_reference("slope")
    r2 = published.gpt2_reference("r_squared")[1]
    low, high, mass = published.gpt2_histogram()
    edges, cdf = np.log(np.r_[0.5, high + 0.5]), np.r_[0, (mass / mass.sum()).cumsum()]
    spread, rows = size_spread(S), []
    for k, slope, fit in zip(ks, slopes, r2, strict=True):
        q = 1 - np.interp(np.log(k + 0.5), edges, cdf)
        y = np.log(-np.log1p(-q)) + slope * np.log(S / S[0])
        variance = np.mean(log_loss_se(-np.expm1(-np.exp(y)), n_tokens, deff) ** 2)
        ssr = slope**2 * spread * (1 - fit) / fit
        rows.append(
            {
                "k": int(k),
                "misses, smallest model": round(q * n_tokens),
                "alpha": -slope,
                "R²": fit,
                "residual rms": np.sqrt(ssr / 2),
                "noise of one point": np.sqrt(variance),
                "Q": ssr / variance,
                "p": stats.chi2.sf(ssr / variance, 2),
                "slope in standard errors": slope / np.sqrt(variance / spread),
            }
        )
    return pd.DataFrame(rows)
