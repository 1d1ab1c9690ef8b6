"""How many times the parameters one family needs to be as good as another.

Two laws are lines of y = log loss in x = log S. At a size S of the first, the second is as good at
the size where its line passes the same y; the ratio of the two sizes is the number asked for. It is
uncertain in two ways, kept apart as those of a law are: which text was scored (bootstrap of the
sources, the same ones for both families where both read the same text), and how the few models
scatter about their lines (Fieller's interval, which says so where a line is too flat to tell).
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.bootstrap import line, percentile_interval
from rbplib.families import InputError
from rbplib.losses import Loss, check_models, check_resamples
from rbplib.noise import training_quantile


@dataclass(frozen=True)
class Comparison:
    """Family b against family a at a size of a; NaN marks what could not be computed.

    Attributes:
        S: non-embedding parameters of a. as_good: those of b by its line.
        ratio: as_good over S.
        intervals: {"text" | "models": (low, high)} of the ratio.
        paired: whether both families were scored on the same sources, and drawn together.
        beyond: decades of as_good outside the sizes of b; 0 inside them.
    """

    a: Loss
    b: Loss
    S: float
    as_good: float
    ratio: float
    intervals: dict
    paired: bool
    beyond: float


def compare(a, b, S=None, n_bootstrap=10_000, seed=42, level=0.95):
    """Compare two losses of one kind: how many times the parameters b needs to be as good as a.

    >>> from rbplib import table_losses
    >>> import pandas as pd
    >>> sizes = [1e6, 1e7, 1e8]
    >>> a, b = (table_losses(pd.DataFrame({"model": ["s", "m", "l"], "S": sizes, "loss_se": .01,
    ...     "loss": [(x / times) ** -0.1 for x in sizes]}))[0] for times in (1, 3))
    >>> round(compare(a, b).ratio, 6)
    3.0

    Args:
        a, b: Loss, of three sizes or more each; models without a value are left out.
        S: size of a, non-embedding parameters; its largest by default.
        n_bootstrap: resamples of the sources, 100 or more; 0 for none.
    Returns:
        Comparison; without a ratio where b gets no better with size.
    Raises:
        InputError: fewer than three sizes; hits at another k, or hits against nats; a size not
            above 0.
    Cost: two matrix products, as of two fits.
    """
    if (a.hits, a.k) != (b.hits, b.k):
        raise InputError(f"{a.name} is not compared with {b.name}: choose one k, or one loss.")
    check_resamples(n_bootstrap)
    a, b = (part.keep(np.flatnonzero(np.isfinite(part.y))) for part in (a, b))
    check_models(a)
    check_models(b)
    S = float(a.S.max() if S is None else S)
    if not 0 < S < np.inf:
        raise InputError("a size is above 0: give non-embedding parameters, such as 13e9.")
    x = np.log(S)

    # the ratio, and those of resamples: one seed draws the same sources for both
    ratio = as_good_ratio(a.y, b.y, a, b, x)
    b, paired = same_sources(a, b)
    draws = a.resampled(n_bootstrap, seed), b.resampled(n_bootstrap, seed + (not paired))
    text = np.full(2, np.nan)
    if None not in draws:
        drawn_a, drawn_b = (values.y for values in draws)
        text = percentile_interval(as_good_ratio(drawn_a, drawn_b, a, b, x), level)

    # on the scale of sizes
    outside = max(x + ratio - np.log(b.S.max()), np.log(b.S.min()) - x - ratio, 0.0)
    beyond = float(outside / np.log(10)) if np.isfinite(ratio) else np.nan
    with np.errstate(over="ignore"):
        text, models = np.exp([text, fieller(a, b, x, level) - x]).tolist()
        intervals = {"text": tuple(text), "models": tuple(models)}
        as_good, ratio = np.exp([x + ratio, ratio]).tolist()
    return Comparison(a, b, S, as_good, ratio, intervals, paired, beyond)


def same_sources(a, b):
    """(b, whether both losses are of the same sources); those with names in the order of a."""
    if a.labels or b.labels:
        places = {label: i for i, label in enumerate(b.labels or ())}
        order = [places.get(label) for label in a.labels or ()]
        if None in order or not 1 < len(order) == len(places):
            return b, False
        return replace(b, sums=b.sums[order], totals=b.totals[order], labels=a.labels), True
    alike = a.corpus == b.corpus and a.se is None and b.se is None and len(a.totals) > 1
    return b, alike and all(map(np.array_equal, (a.units, a.used), (b.units, b.used)))


def as_good_ratio(y_a, y_b, a, b, x):
    """Log of the ratio at log sizes x of a, float64 (...,), from log losses (..., M) of both.

    NaN where the line of b does not fall.
    """
    slope_a, intercept_a, _ = line(y_a, np.log(a.S))
    slope_b, intercept_b, _ = line(y_b, np.log(b.S))
    falling = slope_b < 0
    there = (slope_a * x + intercept_a - intercept_b) / np.where(falling, slope_b, -1)
    return np.where(falling, there - x, np.nan)


def fieller(a, b, x, level):
    """Ends of the log size of b that is as good as a at log size x, float64 (2,).

    Where two lines pass one y, their difference over its standard error is about Student's t, with
    the degrees of freedom of Welch and Satterthwaite. NaN where the slope of b is not told from 0:
    then no size, or every size, may do.
    """
    # each line: slope, middle, what is left about it, and how that moves its height and its slope
    lines = []
    for loss in (a, b):
        sizes = np.log(loss.S)
        slope, intercept, _ = line(loss.y, sizes)
        df = len(sizes) - 2
        variance = ((loss.y - slope * sizes - intercept) ** 2).sum() / df
        lines.append((slope, sizes.mean(), variance, len(sizes) * sizes.var(), df))
    (slope_a, middle_a, of_a, spread_a, df_a), (slope, middle, variance, spread, df_b) = lines
    if not slope < 0:
        return np.full(2, np.nan)

    # how far y of a lies above the middle of b, and both variances there
    ahead = a.y.mean() + slope_a * (x - middle_a) - b.y.mean()
    of_a = of_a * (1 / len(a.S) + (x - middle_a) ** 2 / spread_a)
    of_b = variance * (1 / len(b.S) + (ahead / slope) ** 2 / spread)
    total = of_a + of_b
    df = total**2 / (of_a**2 / df_a + of_b**2 / df_b) if total else min(df_a, df_b)
    t = training_quantile(df, level)

    # (ahead - slope z)^2 <= t^2 (of_a + variance (1 / n_b + z^2 / spread)), z from the middle of b
    square = slope**2 - t**2 * variance / spread
    if square <= 0:
        return np.full(2, np.nan)
    rest = ahead**2 - t**2 * (of_a + variance / len(b.S))
    root = np.sqrt(max((ahead * slope) ** 2 - square * rest, 0.0))
    return middle + (ahead * slope + np.array([-root, root])) / square
