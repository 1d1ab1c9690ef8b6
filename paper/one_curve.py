"""RBP as a curve in cross-entropy: how near to one curve the models of a text lie,
and what is left.

With x = log(cross-entropy) and y = log(-log RBP_k), y = f(x) gives dy/dlog S = f'(x) dx/dlog S: the
slope of the curve is the ratio of the two exponents (notebooks/13_one_curve).
Here f is a quadratic.
"""

from operator import attrgetter, itemgetter

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from scipy.special import fdtrc

from paper.steps import slope_weights, spread_of_trainings
from rbplib.forecasting import extrapolate
from rbplib.losses import cross_entropy, rbp_losses

DEGREE = 2
REPEATS = attrgetter("repeats")


# columns of rows, which a frame without any row has too
CURVE = "corpus k models r2 sd times p_of_one_curve slope".split()
FAMILY = "family corpus k ratio slope given off".split()
AHEAD = "family corpus k entropy rbp nearer entropy_noise rbp_noise".split()


def comparable(ladders, ks):
    """{(corpus, size of vocabulary, k): [(cross-entropy, -log RBP_k) as Loss]}, a pair a Ladder.

    ladders: {(family, corpus): Ladder}. Losses per token of unlike vocabularies are not compared,
    and a k beyond a vocabulary is left out.
    """
    groups = {}
    for (_, corpus), ladder in ladders.items():
        counted = [k for k in ks if k <= ladder.vocab_size]
        if not counted:
            continue
        entropy, losses = cross_entropy(ladder), rbp_losses(ladder, counted)
        for k in counted:
            group = groups.setdefault((corpus, ladder.vocab_size, k), [])
            group.append((entropy, losses[k]))
    return groups


def points(pairs):
    """Models that have both losses, of pairs of Loss: data frame family, S, x, y."""
    rows = []
    for entropy, loss in pairs:
        columns = {"family": loss.family, "S": loss.S, "x": entropy.y, "y": loss.y}
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows).dropna()


def one_curve(rows):
    """The Polynomial of least squares y = f(x) through all rows of a frame.

    None where there are too few different x, or all y are alike.
    """
    if rows["x"].nunique() <= DEGREE + 1 or rows["y"].nunique() == 1:
        return None
    return Polynomial.fit(rows["x"], rows["y"], DEGREE)


def others(rows):
    """(family, its rows, f through all other families) of each, where these carry a curve."""
    for family, part in rows.groupby("family", sort=False):
        f = one_curve(rows[rows["family"] != family])
        if f is not None:
            yield family, part, f


def curve_rows(groups):
    """Is one curve enough? A row per group of `comparable`: corpus, k, models, r2, sd (in logs).

    sd: of the residuals; times: sd over the scatter of the same residuals between trainings of one
    size; p_of_one_curve: F test of the two variances, NaN where no trainings are known; slope: of f
    in the middle of the models.
    """
    records = []
    for (corpus, _, k), pairs in groups.items():
        rows = points(pairs)
        f = one_curve(rows)
        if f is None:
            continue
        # what is left beside the curve, and what trainings make of it
        off = rows["y"] - f(rows["x"])
        spare, squares = len(rows) - DEGREE - 1, np.sum(off**2)
        scatter = [(np.nan, 0)]
        for entropy, loss in (map(REPEATS, pair) for pair in pairs):
            if entropy and loss:
                scatter.append(spread_of_trainings(loss.y - f(entropy.y), loss.S))
        noise, df = max(scatter, key=itemgetter(1))
        sd = np.sqrt(squares / spare)
        r2 = 1 - squares / np.var(rows["y"]) / len(rows)
        times = sd / noise
        records.append(
            {
                "corpus": corpus,
                "k": k,
                "models": len(rows),
                "r2": r2,
                "sd": sd,
                "times": times,
                "slope": f.deriv()(rows["x"].mean()),
                "p_of_one_curve": float(fdtrc(spare, df, times**2)) if df else np.nan,
            }
        )
    return records


def family_rows(groups):
    """What the curve f of all other families says of one: a row per family, corpus and k.

    Of three sizes or more. ratio: its exponent of -log RBP_k over that of cross-entropy; slope: the
    same with f(cross-entropy) in the place of -log RBP_k; given: that exponent over its own. off:
    root mean square error of f in log loss.
    """
    records = []
    for (corpus, _, k), pairs in groups.items():
        for family, part, f in others(points(pairs)):
            # not of two sizes, or of equal losses
            alike = min(np.ptp(part["x"]), np.ptp(part["y"])) < 1e-12
            if part["S"].nunique() < 3 or alike:
                continue
            # exponents are weighted sums of logarithms
            weights, of_f = slope_weights(part["S"]), f(part["x"])
            of_x, of_y, given = (weights @ y for y in (part["x"], part["y"], of_f))
            off = part["y"] - of_f
            records.append(
                {
                    "family": family,
                    "corpus": corpus,
                    "k": k,
                    "ratio": of_y / of_x,
                    "slope": given / of_x,
                    "given": given / of_y,
                    "off": np.sqrt(np.mean(off**2)),
                }
            )
    return records


def ahead(loss, n_bootstrap=1000, seed=42):
    """How far the line through all smaller models misses the largest: (in ln S, in its own noise).

    The first is the error in log loss over the exponent: how much larger the model seems. The noise
    is the standard deviation of its log loss over resampled sources, and trainings where known; NaN
    where sources are not known.
    """
    rest, largest = loss.split()
    forecast = extrapolate(rest, largest.S)
    miss = float((forecast.y - largest.y)[0])
    drawn = largest.resampled(n_bootstrap, seed)
    text = np.nan if drawn is None else np.nanstd(drawn.y)
    noise = np.hypot(text, np.nan_to_num(loss.training_noise()[0]))
    return abs(miss / forecast.laws["least_squares"].alpha), abs(miss / noise)


def ahead_rows(pairs, n_bootstrap=1000, seed=42):
    """A row per pair of Loss (cross-entropy, -log RBP_k) of four sizes or more, all with a value.

    entropy, rbp: how far the forecast of each misses, in ln S; entropy_noise, rbp_noise: the same
    in units of noise; nearer: rbp less entropy, below 0 where the line of -log RBP_k comes nearer.
    """
    records = []
    for pair in pairs:
        whole = all(np.isfinite(loss.y).all() and not loss.equal for loss in pair)
        # both forecasts of the largest model
        if whole and len(np.unique(pair[1].S)) > 3:
            misses = (ahead(loss, n_bootstrap, seed) for loss in pair)
            (entropy, in_noise), (rbp, rbp_in_noise) = misses
            records.append(
                {
                    "family": pair[1].family,
                    "corpus": pair[1].corpus,
                    "k": pair[1].k,
                    "entropy": entropy,
                    "rbp": rbp,
                    "nearer": rbp - entropy,
                    "entropy_noise": in_noise,
                    "rbp_noise": rbp_in_noise,
                }
            )
    return records
