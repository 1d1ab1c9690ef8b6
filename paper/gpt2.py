"""What the authors published of GPT-2: the digitised rank histogram, the printed fit, the counts.

Nothing here was measured by this project; see published/README.md.
"""

import numpy as np
from scipy import optimize, special

from paper import published
from paper.distributions import RankHistogram, table_histogram
from paper.lognormal import ridge
from paper.show.claims import NAME
from paper.show.claims import RANKS as RANKS
from rbplib.families import yaml_file
from rbplib.table import family_tables

VOCABULARY = 50_257
MU, SIGMA, ZETA = -65.192, 12.892, 1.402  # printed in the authors' figure of GPT-2's ranks
PRINTED = (MU, SIGMA)
PRINTED_RATIO = -3818.005  # printed there: log likelihood of the power law less the lognormal's
N_TOKENS = 317_414  # as counted


def ranked(raw):
    """Rank tables of a family on Wikipedia by size; none where `raw` is empty, or is the authors'
    and was not fetched. InputError: another name that is not here, or what is damaged."""
    if not raw or (raw == NAME and not yaml_file("family", raw)):
        return []
    return family_tables(raw, "wikipedia")[0]


def gpt2_ranks(raw=""):
    """RankHistogram of the smallest GPT-2: of the authors' own ranks, the family `raw`, where they
    were fetched, of single ranks; else digitised from their figure, N_TOKENS tokens in wide bins.

    Raises InputError: another family that is not here, or damaged tables.
    """
    if tables := ranked(raw):
        return table_histogram(tables[0])
    rows = published.read("gpt2_rank_histogram")
    low, high, mass = (column.to_numpy() for _, column in rows.items())
    return RankHistogram(low, high, N_TOKENS * mass / mass.sum(), VOCABULARY)


def ratio_parts(ranks):
    """The printed likelihood ratio, and what is left of it as both laws are treated more alike.

    {what is compared: nats of the whole sample, the first as printed}; below 0 the lognormal leads.
    ranks: a RankHistogram whose bins may be wide, as of `gpt2_ranks`.
    On 1..V the lognormal holds the power law as its edge beta = 0, so the last is never above 0.
    """
    low, high, share = ranks.low, ranks.high, ranks.share

    def log_above(x):  # log P(X > x) of the printed lognormal
        return special.log_ndtr((MU - np.log(x)) / SIGMA)

    def pareto(a):  # rounded, less log likelihood
        mass = (low - 0.5) ** (1 - a) - (high + 0.5) ** (1 - a)
        return -share @ np.log(mass / 0.5 ** (1 - a))

    # on the authors' support without end: the lognormal is rounded,
    # given X > 1/2 (label eq-rounded)
    lower = log_above(low - 0.5)
    upper = log_above(high + 0.5)
    lognormal = share @ (lower + np.log(-np.expm1(upper - lower)) - log_above(0.5))
    above = special.zeta(ZETA, low.astype(float)) - special.zeta(ZETA, high + 1.0)
    zeta = share @ np.log(above / special.zeta(ZETA))
    best = optimize.minimize_scalar(pareto, bounds=(1.05, 3), method="bounded")

    # on the ranks that there are, where the power law is the lognormal of infinite sigma
    (behind,) = ridge(ranks, np.array([np.inf]))
    scores = {
        "as printed": zeta - lognormal,
        "both rounded": -best.fun - lognormal,
        "both rounded, on 1..|V|": min(0.0, -behind),
    }
    times = PRINTED_RATIO / scores["as printed"]
    return {name: float(times * score) for name, score in scores.items()}
