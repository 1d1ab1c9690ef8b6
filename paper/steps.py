"""The noise of log(-log RBP_k), measured and by formula: what R^2 would a true power law show?

The sources are resampled; what they make of y = log(-log RBP_k) is laid on an exact power law,
which is fitted again (theory: SE about 1/sqrt(m)).
And the weights by which an exponent is a sum of y.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rbplib.bootstrap import line
from rbplib.law import fit


@dataclass(frozen=True)
class NoiseFloor:
    """One k of one curve.

    misses: int64 (M,). r2: measured. sd: float64 (M,), of y over resampled sources. r2_band: 5%,
    50% and 95% of R^2 under an exact law with this noise; worse: the share of those below the
    measured one. NaN where some model has no miss, whose logarithm does not exist.
    """

    k: int
    misses: np.ndarray
    r2: float
    sd: np.ndarray
    r2_band: np.ndarray
    worse: float


def noise_floor(loss, alpha=None, n_bootstrap=10_000, seed=42):
    """NoiseFloor of -log RBP_k at one k.

    Args:
        loss: Loss of at least three models.
        alpha: exponent of the exact law; the maximum-likelihood one when not given.
    """
    law = fit(loss, n_bootstrap=n_bootstrap, seed=seed)
    drawn = loss.resampled(n_bootstrap, seed)
    if alpha is None:
        alpha = fit(loss, "binomial", n_bootstrap=0).alpha
    sd = np.full(len(loss.models), np.nan)
    band = np.full(3, np.nan)
    worse = np.nan
    if drawn is not None and law.n_models == len(loss.models) and np.isfinite(law.alpha):
        # the noise of the text, laid on an exact law that is fitted again
        y = drawn.y[np.isfinite(drawn.y).all(axis=1)]  # (B, M)
        x = np.log(loss.S)
        away = x - x.mean()
        exact = law.y.mean() - alpha * away
        _, _, r2 = line(exact + y - law.y, x)
        sd = y.std(axis=0)
        band = np.quantile(r2, [0.05, 0.5, 0.95])
        worse = float((r2 < law.r2).mean())
    return NoiseFloor(loss.k, loss.misses, law.r2, sd, band, worse)


def slope_weights(S):
    """Weights whose sum with y is the exponent, float64 (M,): least squares on log S,
    the sign turned."""
    x = np.log(S)
    x = x - x.mean()
    return -x / (x @ x)


def step_weights(S):
    """Weights whose products with y are the exponents between neighbouring sizes,
    float64 (sizes - 1, M).

    Models of one size count by their mean.
    """
    x, which = np.unique(np.log(S), return_inverse=True)
    member = which == np.arange(len(x))[:, None]
    means = member / np.bincount(which)[:, None]
    return -np.diff(means, axis=0) / np.diff(x)[:, None]


def y_se(q, n):
    """Standard error of y = log(-log RBP_k) at miss rate q = 1 - RBP_k from n
    independent tokens (label eq-se)."""
    q = np.asarray(q, float)
    return np.sqrt(q / (n * (1 - q))) / -np.log1p(-q)


def size_spread(S):
    """S_xx, the sum of squared deviations of ln S:
    the leverage a ladder of model sizes gives to a slope."""
    x = np.log(np.asarray(S, float))
    away = x - x.mean()
    return float((away**2).sum())


def spread_of_trainings(y, sizes):
    """(sd, degrees of freedom) of y (R,) between models of one size, pooled over sizes.

    (NaN, 0) where no size is there twice.
    """
    groups = pd.Series(y, sizes).dropna().groupby(level=0)
    spare = groups.size() - 1
    if not spare.sum():
        return np.nan, 0
    return float(np.sqrt((groups.var() * spare).sum() / spare.sum())), int(spare.sum())
