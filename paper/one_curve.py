"""RBP as a curve in cross-entropy: how near to one curve all models of a text lie, what its slope says, what is left.

With x = log(cross-entropy) and y = log(-log RBP_k), y = f(x) gives dy/dlog S = f'(x) dx/dlog S: the slope of the curve
is the ratio of the two exponents (notebooks/23_one_curve). Here f is a quadratic.
"""

from itertools import product

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from scipy.special import fdtrc

from paper.forecasts import extrapolate
from paper.steps import slope_weights

DEGREE = 2


def one_curve(parts):
    """(f, x, y): the Polynomial of least squares y = f(x) through all parts, and their points, float64 (n,) each.

    parts: list of (x (m,), y (m,)) of a family each; what is not finite is left out. f is None where there are too few
    different x, or all y are alike.
    """
    x, y = (
        np.concatenate([np.zeros(0), *side]) for side in (*zip(*parts, strict=True), (), ())[:2]
    )
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(np.unique(x)) <= DEGREE + 1 or np.ptp(y) == 0:
        return None, x, y
    return Polynomial.fit(x, y, DEGREE), x, y


def without_each(parts):
    """[f through all other parts] of each part, None where they do not carry one."""
    return [one_curve(parts[:i] + parts[i + 1 :])[0] for i in range(len(parts))]


def comparable(curves, ks):
    """{(corpus, size of vocabulary, k): [(cross-entropy, -log RBP_k) as Loss]}, a pair for each Curve that counts k.

    Losses per token of unlike vocabularies are not compared.
    """
    groups = {}
    for curve, k in product(curves, ks):
        if k in curve.ks:
            pair = curve.cross_entropy_loss(), curve.loss(k)
            groups.setdefault((curve.corpus, curve.vocab_size, k), []).append(pair)
    return groups


def logs(pairs):
    """The parts that `one_curve` takes, of pairs of Loss."""
    return [(entropy.y, loss.y) for entropy, loss in pairs]


def between_trainings(f, pair):
    """(variance of y - f(x) between trainings of one size, degrees of freedom) of a pair; (NaN, 0): not known."""
    entropy, loss = (part.repeats for part in pair)
    if entropy is None or loss is None:
        return np.nan, 0
    groups = pd.Series(loss.y - f(entropy.y)).groupby(loss.S)
    each = groups.count() - 1
    spare = int(each.sum())
    return (float((groups.var() * each).sum() / spare) if spare else np.nan), spare


def curve_rows(groups):
    """Is one curve enough? A row per group of `comparable`: corpus, k, models, r2, sd (of the residuals, in logs).

    times: sd over the scatter of the same residuals between trainings of one size; p_of_one_curve: F test of the two
    variances, NaN where no trainings are known; slope: of f in the middle of the models.
    """
    rows = []
    for (corpus, _, k), pairs in groups.items():
        f, x, y = one_curve(logs(pairs))
        if f is None:
            continue
        # what is left beside the curve, and what trainings make of it
        spare, squares = len(x) - DEGREE - 1, np.sum((y - f(x)) ** 2)
        known = [between_trainings(f, pair) for pair in pairs]
        variance, df = max(known, key=lambda case: case[1])
        times = np.sqrt(squares / spare / variance)
        row = {"corpus": corpus, "k": k, "models": len(x), "r2": 1 - squares / np.var(y) / len(y)}
        row |= {"sd": np.sqrt(squares / spare), "times": times, "slope": f.deriv()(x.mean())}
        p = float(fdtrc(spare, df, times**2)) if df else np.nan
        rows.append(row | {"p_of_one_curve": p})
    return rows


def family_rows(groups):
    """What the curve f of all other families says of one: a row per family of three sizes or more, corpus and k.

    ratio: its exponent of -log RBP_k over that of cross-entropy; slope: the same with f(cross-entropy) in the place of
    -log RBP_k; given: that exponent over its own. off: root mean square error of f in log loss.
    """
    rows = []
    for (corpus, _, k), pairs in groups.items():
        for f, (entropy, loss) in zip(without_each(logs(pairs)), pairs, strict=True):
            known = np.isfinite(entropy.y) & np.isfinite(loss.y)
            if f is None or len(np.unique(loss.S[known])) < 3 or loss.equal or entropy.equal:
                continue
            weights, x, y = slope_weights(loss.S[known]), entropy.y[known], loss.y[known]
            of_x, of_y, of_f = weights @ x, weights @ y, weights @ f(x)
            row = {"family": loss.family, "corpus": corpus, "k": k, "ratio": of_y / of_x}
            row |= {"slope": of_f / of_x, "given": of_f / of_y}
            rows.append(row | {"off": np.sqrt(np.mean((y - f(x)) ** 2))})
    return rows


# --- the larger model


def ahead(loss, n_bootstrap=1000, seed=42):
    """How far the line through all smaller models misses the largest: (in ln S, in units of its own noise).

    The first is the error in log loss over the exponent: how much larger the model seems. The noise is the standard
    deviation of its log loss over resampled sources, and trainings where known; NaN where sources are not known.
    """
    forecast = extrapolate(loss)
    miss = float((forecast.predicted - forecast.observed)[0])
    drawn = loss.keep(np.argsort(loss.S, kind="stable")[-1:]).resampled(n_bootstrap, seed)
    text = np.nan if drawn is None else np.nanstd(drawn.y)
    noise = np.hypot(text, np.nan_to_num(loss.training_noise()[0]))
    return abs(miss / forecast.law.alpha), abs(miss / noise)


def ahead_rows(pairs, n_bootstrap=1000, seed=42):
    """A row per pair of Loss (cross-entropy, -log RBP_k) of four sizes or more, all with a value.

    entropy, rbp: how far the forecast of each misses, in ln S; entropy_noise, rbp_noise: the same in units of noise;
    nearer: rbp less entropy, below 0 where the line of -log RBP_k comes nearer.
    """
    rows = []
    for pair in pairs:
        whole = all(np.isfinite(loss.y).all() and not loss.equal for loss in pair)
        if whole and len(np.unique(pair[1].S)) > 3:
            misses = [ahead(loss, n_bootstrap, seed) for loss in pair]
            (entropy, entropy_noise), (rbp, rbp_noise) = misses
            row = {"family": pair[1].family, "corpus": pair[1].corpus, "k": pair[1].k}
            row |= {"entropy": entropy, "rbp": rbp, "nearer": rbp - entropy}
            rows.append(row | {"entropy_noise": entropy_noise, "rbp_noise": rbp_noise})
    return rows


# --- models and checkpoints of others


def lambada_rows(points):
    """What the curve f of all other families says of each: a row per family of `published.lambada_points`.

    models; off: root mean square error of f in log loss; bias: its mean; passages: root mean square standard error by
    the choice of passages, as if independent.
    """
    families = dict(list(points.groupby("family")))
    parts = [(part["x"].to_numpy(), part["y"].to_numpy()) for part in families.values()]
    rows = []
    for f, (family, part) in zip(without_each(parts), families.items(), strict=True):
        if f is not None:
            error = part["y"] - f(part["x"].to_numpy())
            row = {"family": family, "models": len(part), "off": np.sqrt(np.mean(error**2))}
            passages = np.sqrt(np.mean(part["y_se"] ** 2))
            rows.append(row | {"bias": error.mean(), "passages": passages})
    return rows
