"""Forecasts held against models that were left out: fit the smaller models, predict the largest,
compare, and count."""

import numpy as np

from paper.show.numbers import share
from rbplib.forecasting import FAR


def tried(frame):
    """What models left out come to, see `rbp.backtest`: a list of one dict, or of none.

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
