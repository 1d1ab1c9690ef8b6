"""How trainings of one size differ, pooled."""

import numpy as np

from rbplib.law import EXPLAINED as EXPLAINED
from rbplib.law import Law as Law
from rbplib.law import fit as fit

NONE = (np.nan, np.nan)


def fit_law(curve, k=1, *how, **options):
    """`fit` of -log RBP_k at one k of a curve; estimator and options as there."""
    return fit(curve.loss(k), *how, **options)


def spread_of_trainings(y, sizes):
    """(sd, degrees of freedom) of y (R,) between models of one size, pooled over sizes.

    (NaN, 0) where no size is there twice.
    """
    import pandas as pd

    groups = pd.Series(y, sizes).dropna().groupby(level=0)
    spare = groups.size() - 1
    if not spare.sum():
        return np.nan, 0
    return float(np.sqrt((groups.var() * spare).sum() / spare.sum())), int(spare.sum())


def pooled_df(first, first_df, second, second_df):
    """Degrees of freedom of the sum of two estimated variances (Welch and Satterthwaite)."""
    weights = first**2 / first_df + second**2 / second_df
    return (first + second) ** 2 / weights if weights else np.nan
