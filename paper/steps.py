"""The noise of y = log(-log RBP_k) by formula and between trainings, and the weights by which an
exponent is a sum of y."""

import numpy as np
import pandas as pd


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
