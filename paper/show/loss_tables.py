"""Tables of the page on the three losses: their values, their exponents, and how these differ."""

import numpy as np
import pandas as pd

from paper.families import NONE, exponent_difference
from paper.show.tables import ends
from paper.steps import size_spread, spread_of_trainings
from rbplib.law import exponent_ratio, fit
from rbplib.noise import half_width, own_seeds

NAMES = ("cross-entropy", "rank entropy", "-log RBP_1")


def loss_exponents(losses, n_bootstrap=10_000, seed=42):
    """One row per loss of NAMES that is here: exponent with its intervals, R²,
    and -log RBP_1 against it.

    The difference is its exponent less that of -log RBP_1, on the same resamples and trainings; the
    ratio is that of -log RBP_1 over its own by Fieller's theorem, NaN where the two rest on other
    models. Intervals with trainings are NaN where their scatter is not known.
    """
    top = losses["-log RBP_1"]
    top_law, rows = fit(top, n_bootstrap=n_bootstrap, seed=seed), []
    for name in NAMES:
        if name not in losses:
            continue
        # the loss that others are compared with
        loss, law, gap, interval, ratio, around = losses[name], top_law, np.nan, NONE, 1.0, NONE
        # any other: the difference and the ratio
        if loss is not top:
            law = fit(loss, n_bootstrap=n_bootstrap, seed=seed)
            gap, interval = exponent_difference(top, loss, n_bootstrap, seed)
            same = law.used == top_law.used
            ratio, around = exponent_ratio(law, top_law) if same else (np.nan, NONE)
        row = {"loss": name, "alpha": law.alpha, **ends(law.ci_tokens, "other text: ")}
        row |= {**ends(law.ci_trainings, "and trainings: "), "R²": law.r2}
        row |= {"less that of -log RBP_1": gap, **ends(interval, "difference: ")}
        trainings = with_trainings(top, loss, gap, interval)
        row |= {**ends(trainings, "difference, and trainings: "), "ratio": ratio}
        rows.append(row | ends(around, "ratio over other sizes: "))
    return pd.DataFrame(rows)


def with_trainings(first, second, gap, interval):
    """The 95% interval of `exponent_difference` with the scatter between
    trainings of both losses."""
    if not np.isfinite(gap) or first.repeats is None or second.repeats is None:
        return NONE
    sd, df = spread_of_trainings(first.repeats.y - second.repeats.y, first.repeats.S)
    # the variances of both noises
    sources = ((interval[1] - interval[0]) / 2 / 1.96) ** 2
    trainings = sd**2 / size_spread(first.S)
    if not sources + trainings > 0:
        return NONE
    half = half_width(sources, first.n_sources - 1, trainings, df, own_seeds(first, df))
    return gap - half, gap + half
