"""The difference of two exponents on one text: what the two share cancels."""

import numpy as np

from rbplib.laws.bootstrap import line, percentile_interval
from rbplib.laws.uncertainty import NONE
from rbplib.settings import InputError


def exponent_difference(first, second, n_bootstrap=10_000, seed=42, level=0.95):
    """Exponent of the second loss less that of the first, by least squares, with its interval over sources.

    Both exponents come from the same resampled sources, so what they share cancels.

    Args:
        first, second: Loss of the same models on the same documents.
    Returns:
        (difference, (low end, high end)); NaN ends: few sources; all NaN: one has no exponent, or leaves a model out.
    """
    check_models(first, 1)
    x = np.log(first.S)
    if len(np.unique(x)) < 3 or first.equal or second.equal:
        return np.nan, NONE
    difference = float(line(first.y, x)[0] - line(second.y, x)[0])
    drawn = [loss.resampled(n_bootstrap, seed) for loss in (first, second)]
    if drawn[0] is None:
        return difference, NONE
    slopes = [line(d.y, x)[0] for d in drawn]
    low, high = percentile_interval((slopes[0] - slopes[1])[:, None], level)[:, 0]
    return difference, (float(low), float(high))


def check_models(loss, sizes=3):
    """InputError for a model given twice, or for fewer than so many sizes."""
    if len(np.unique(loss.S)) < sizes:
        raise InputError(
            f"{loss.family} has {len(np.unique(loss.S))} model size(s) on {loss.corpus}: a fit needs three."
        )
    if len(set(loss.models)) < len(loss.models):
        twice = next(m for m in loss.models if loss.models.count(m) > 1)
        raise InputError(f"{loss.family} holds the model {twice!r} twice on {loss.corpus}: name it once.")
