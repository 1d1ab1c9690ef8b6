"""Forecasts held against models that were left out: fit the smaller models, predict the largest,
compare, and count."""

from itertools import product

import numpy as np
import pandas as pd

from paper.laws import fit
from paper.show.numbers import share
from rbplib.families import InputError
from rbplib.forecasting import FAR, Forecast, forecast, one_a_size, widening
from rbplib.noise import training_quantile


def attempt(loss, S, **drawn):
    """`forecast`, or in a sentence why there is none; a sentence for a Loss is handed on."""
    try:
        return loss if isinstance(loss, str) else forecast(loss, S, **drawn)
    except InputError as error:
        return str(error)


def apart(loss, held_out=1):
    """(the smaller models, the largest `held_out`) of a Loss."""
    order = np.argsort(loss.S, kind="stable")
    return loss.keep(order[:-held_out]), loss.keep(order[-held_out:])


def extrapolate(loss, S, estimator="least_squares"):
    """Forecast of one form alone at sizes S: Student's t with the residual degrees of freedom.

    Without one to spare (three models and a law of three parameters) it has no interval.
    """
    law = fit(loss, estimator, n_bootstrap=0)
    y, half = law.y_at(S), np.full(len(S), np.nan)
    if np.isfinite(law.residual_sd):
        half = training_quantile(law.spare) * law.residual_sd * widening(law, S)
    return Forecast({estimator: law}, S, y, np.stack([y - half, y + half]))


def beside(forecast, true):
    """Columns of a table: a Forecast of the loss, float64 (H,), and what was measured, in nats."""
    low, high = forecast.interval
    return {
        "forecast": forecast.loss,
        "low": low,
        "high": high,
        "measured": true,
        "error": forecast.loss / true - 1,
        "inside": (low <= true) & (true <= high),
    }


def held_out_forecasts(losses):
    """Forecasts of the largest model of ladders, and of the largest two, from the rest,
    beside what was measured on the same text.

    Args:
        losses: list of Loss; ladders that leave fewer than three sizes
            with a value are passed over.
    Returns:
        data frame, a row per model left out: family, corpus, k, loss (its name), models (fitted),
        model, of (how many left out), S, horizon (decades beyond the largest fitted), forecast,
        low, high, measured (losses), error (forecast over measured, less 1), inside, and
        line_error, line_inside of the line with Student's t alone.
    Cost: about 10 ms a row.
    """
    rows = [pd.DataFrame()]
    for loss, count in product(losses, (1, 2)):
        rest, new = apart(one_a_size(loss), count)
        # the forecast, and the line alone
        ahead = attempt(rest, new.S)
        if isinstance(ahead, str):
            continue
        line = beside(extrapolate(rest, new.S), new.values)
        row = {
            "family": loss.family,
            "corpus": loss.corpus,
            "k": loss.k,
            "loss": loss.name,
            "models": len(rest.S),
            "model": new.models,
            "of": count,
            "S": new.S,
            "horizon": ahead.horizon,
            **beside(ahead, new.values),
            "line_error": line["error"],
            "line_inside": line["inside"],
        }
        rows.append(pd.DataFrame(row))
    return pd.concat(rows[1:] or rows, ignore_index=True)


def tried(frame):
    """What models left out come to, see `held_out_forecasts`: a list of one dict, or of none.

    left_out; worth: independent ones, as cases share models and text; share inside the interval,
    held: the same in words; error: median, worst_error, too_low: a share. Where a line was tried:
    line_worth, line_share, line_held of it alone, line_far and line_low, more than FAR decades
    beyond, how many lie inside and how many it forecast too low; reach: the furthest, in decades.
    """
    if not len(frame):
        return []
    errors = frame["error"].abs()
    case = {
        "left_out": len(frame),
        "worth": independent(frame["error"], frame),
        "share": frame["inside"].mean(),
        "held": count(frame["inside"]),
        "error": errors.median(),
        "worst_error": errors.max(),
        "too_low": (frame["error"] < 0).mean(),
    }
    if "line_inside" not in frame:
        return [case]
    # of the line alone, and far out
    far = frame[frame["horizon"] > FAR]
    line = {
        "line_worth": independent(frame["line_error"], frame),
        "line_share": frame["line_inside"].mean(),
        "line_held": count(frame["line_inside"]),
        "line_far": count(far["line_inside"]),
        "line_low": count(far["line_error"] < 0),
        "reach": frame["horizon"].max(),
    }
    return [case | line]


def independent(errors, frame):
    """How many independent cases the rows of a frame are worth, by the signs of their errors.

    Rows of one family share models, rows of one corpus share text. Two normal errors whose signs
    covary by c are correlated by sin(pi c / 2), and so, by less, is whether they lie in their
    intervals: the design effect is one plus the sum of that over pairs, by row. What all rows share
    is no such correlation, and is taken off where some share nothing.
    """
    signs = np.sign(errors.to_numpy())
    products, shared = np.outer(signs, signs), 0
    for weight, name in ((1, "family"), (2, "corpus")):
        names = frame[name].to_numpy() if name in frame else 0 * signs  # all share it
        shared = shared + weight * np.equal.outer(names, names)
    # what pairs have in common beside what all have
    shared[np.diag_indices(len(signs))] = -1
    common = products[shared == 0].mean() if (shared == 0).any() else 0.0
    together = 0.0
    for kind in (1, 2, 3):
        pairs = products[shared == kind]
        if len(pairs) and common < 1:
            covary = (pairs.mean() - common) / (1 - common)
            together += len(pairs) * both_inside(np.sin(np.pi / 2 * covary))
    return len(signs) / (1 + together / len(signs))


def both_inside(rho):
    """Correlation of two normal errors being inside their 95% intervals,
    themselves correlated by rho.

    P(|X| < z, |Y| < z) = 1 - 4 (T(z, a) + T(z, 1/a)), a = sqrt((1 - rho) / (1 + rho)), T Owen's.
    """
    from scipy.special import ndtri, owens_t

    rho = np.clip(rho, -0.9999, 0.9999)
    a, z = np.sqrt((1 - rho) / (1 + rho)), ndtri(0.975)
    both = 1 - 4 * (owens_t(z, a) + owens_t(z, 1 / a))
    return (both - 0.95**2) / (0.95 * 0.05)


def count(yes):
    """How many of a column are true, in words."""
    return share(yes.sum(), len(yes))
