"""Paired bootstrap over the sources of a text, and the straight line of every law.

A source (a package, an article, a problem) is drawn with all of its documents. A resample is a row
of counts: how often each source was drawn. Sums over a resample are one matrix product of these
counts with the sums of the sources, for all models at once: every model is scored on the same
resampled text, and no ratio is formed before its sums are complete. Models are on the last axis.
"""

from functools import lru_cache, partial, wraps

import numpy as np

LEVEL = 0.95  # of all intervals: page 16 tries this one
ENDS = (1 - LEVEL) / 2, (1 + LEVEL) / 2  # shares below the ends of one
MIN_DOCUMENTS = 20  # below this a percentile interval is visibly too short (page 16)
MIN_RESAMPLES = 100  # below this the ends of an interval are those of a few draws
MAX_UNDEFINED = 0.05  # share of resamples without a value above which no interval is given
BLOCK = 50_000  # counts made at once: few enough to stay near the cache, enough for a product
KEPT = 1 << 24  # counts kept for the next loss on the same sources: 64 MB


def kept(function, most=256):
    """A function of one float64 matrix, and numbers, whose last values are kept: thousands of fits
    share a few."""

    @lru_cache(most)
    def by_bytes(data, shape, *numbers):
        value = function(np.frombuffer(data).reshape(shape), *numbers)
        value.flags.writeable = False
        return value

    def keeping(matrix, *numbers):
        return by_bytes(np.ascontiguousarray(matrix, float).tobytes(), matrix.shape, *numbers)

    return wraps(function)(keeping)


def resampled_counts(n_sources, n_resamples, seed):
    """Yield how often each source occurs in each resample, block by block.

    Indices are drawn as `scipy.stats.bootstrap` draws them, so one seed means the same resamples
    in both; the size of a block changes nothing.

    Yields:
        float32 (b, U), blocks that concatenate to (n_resamples, U); each row sums to U.
    """
    rng = np.random.default_rng(seed)
    rows = max(1, BLOCK // n_sources)
    for start in range(0, n_resamples, rows):
        shape = min(rows, n_resamples - start), n_sources
        drawn = rng.integers(0, n_sources, shape, np.int32)  # the same numbers as of int64, sooner
        drawn = drawn + n_sources * np.arange(shape[0])[:, None]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size)
        yield counts.reshape(shape).astype(np.float32)


@lru_cache(maxsize=12)
def kept_counts(n_sources, n_resamples, seed):
    """`resampled_counts` as a list that the next losses on as many sources find again."""
    return list(resampled_counts(n_sources, n_resamples, seed))


@partial(kept, most=2)
def resampled_sums(values, n_resamples, seed):
    """Sums of the values of sources over resamples.

    Args:
        values: array (U, P), integers or floats. seed: int; one seed, one set of resamples.
    Returns:
        float64 (n_resamples, P).
    Cost: n_resamples * U random integers, once for all values on as many sources, and a product;
        nothing for the next law of the same values.
    """
    counted = kept_counts if len(values) * n_resamples <= KEPT else resampled_counts
    return np.concatenate([n @ values for n in counted(len(values), n_resamples, seed)])


def resampled(values, source, n_bootstrap=10_000, seed=42):
    """Sums of what is known of documents, over resamples of their sources.

    >>> hits, totals = [3, 4, 5] * 10, [9, 9, 9] * 10
    >>> drawn = resampled(np.column_stack([hits, totals]), np.arange(30), n_bootstrap=400)
    >>> drawn.shape, percentile_interval(drawn[:, 0] / drawn[:, 1]).round(2).tolist()
    ((400, 2), [0.41, 0.47])

    Args:
        values: (D, P), integers or floats, a row a document. source: int (D,), see `Loss`.
        n_bootstrap: resamples. seed: int; one seed, one set of them, for any values.
    Returns:
        float64 (n_bootstrap, P); None with fewer than 20 sources, or no resamples.
    Cost: a matrix product (n_bootstrap, sources) by (sources, P).
    """
    sums = sum_by_source(np.asarray(values), np.asarray(source))
    if len(sums) < MIN_DOCUMENTS or not n_bootstrap:
        return None
    return resampled_sums(sums, n_bootstrap, seed)


def sum_by_source(values, source):
    """Rows of documents (D, ...) added up by source, (U, ...)."""
    order = np.argsort(source, kind="stable")
    return np.add.reduceat(values[order], np.flatnonzero(np.diff(source[order], prepend=-1)))


def percentile_interval(samples):
    """Percentile interval of 95% of each column.

    Args:
        samples: float (B, ...), resamples on the first axis.
    Returns:
        float64 (2, ...), low and high; NaN where more than 5% of a column is not finite.

    >>> percentile_interval(np.arange(201.0)).round(6).tolist()
    [5.0, 195.0]
    """
    finite = np.isfinite(samples)
    enough = finite.mean(axis=0) >= 1 - MAX_UNDEFINED
    samples = np.where(enough, np.where(finite, samples, np.nan), 0.0)
    quantile = np.quantile if finite.all() else np.nanquantile  # as one, and slower
    return np.where(enough, quantile(samples, ENDS, axis=0), np.nan)


pinv = kept(np.linalg.pinv)  # of a design (n, P)


def line(y, x):
    """The straight line of every law: least squares of y on x, for any number of rows at once.

    Args:
        y: float64 (..., M). x: float64 (M,), not all equal.
    Returns:
        slope, intercept, r2: float64 (...); r2 is NaN where y is flat: nothing to explain.

    >>> [round(float(value), 3) for value in line([1.0, 2.1, 2.9], [0.0, 1.0, 2.0])]
    [0.95, 1.05, 0.992]
    """
    # a column's own variance is another, its own axes too
    y, x = np.asarray(y), np.asarray(x)
    centred, mean, variance = x - x.mean(), y.mean(axis=-1), y.var(axis=-1)
    slope = y @ centred / (centred @ centred)
    flat = ~(variance > 1e-14 * (1 + mean**2))
    explained = slope**2 * x.var() / np.where(flat, 1, variance)
    r2 = np.where(flat, np.nan, np.minimum(explained, 1.0))
    return slope, mean - slope * x.mean(), r2
