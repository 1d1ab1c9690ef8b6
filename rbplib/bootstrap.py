"""Paired bootstrap: every model of a family is scored on the same resampled text.

What is drawn is a source (a package, an article, a problem), with all of its documents; where documents have none in
common, each is its own. A resample is a row of counts, how often each was drawn. Sums of a resample are then one matrix
product of those counts with the sources' sums, for all models at once, so nothing is copied and no ratio is formed
before its sums are complete. Arrays have the models on their last axis.
"""

from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

MIN_DOCUMENTS = 20  # below this a percentile interval is visibly too short (page 14_coverage)
MAX_UNDEFINED = 0.05  # share of resamples without a slope above which no interval is given
CELLS_PER_CHUNK = 500_000  # counts held at once: small enough to stay near the cache, large enough for BLAS
CELLS_KEPT = 1 << 24  # counts kept for the next loss on the same documents: 64 MB
EXACT_FLOAT32 = 2**24  # integers up to here are exact in float32


def weight_chunks(n_documents, n_resamples, seed):
    """Yield how often each document occurs in each resample, block by block; any block size gives the same weights.

    The indices are drawn as `scipy.stats.bootstrap` draws them, so one seed means the same resamples in both.

    Args:
        n_documents: D, at least 1. n_resamples: B, at least 1. seed: int or numpy Generator.
    Yields:
        float32 (b, D), blocks that concatenate to (B, D); each row sums to D.
    Raises:
        ValueError: a count below 1.
    Cost: B * D random integers.
    """
    if n_documents < 1 or n_resamples < 1:
        raise ValueError(f"A bootstrap needs documents and resamples, not {n_documents} and {n_resamples}.")
    generator = np.random.default_rng(seed)
    rows = max(1, CELLS_PER_CHUNK // n_documents)
    for start in range(0, n_resamples, rows):
        size = min(rows, n_resamples - start)
        drawn = generator.integers(0, n_documents, (size, n_documents))  # (b, D)
        drawn += (np.arange(size) * n_documents)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n_documents)
        yield counts.reshape(size, n_documents).astype(np.float32)


def sum_by_source(values, source=None):
    """Rows of documents (D, ...) added up by source, (U, ...); unchanged without sources."""
    if source is None:
        return values
    order = np.argsort(source, kind="stable")
    return np.add.reduceat(values[order], np.flatnonzero(np.diff(source[order], prepend=-1)))


_kept_weights = lru_cache(maxsize=2)(lambda *drawn: tuple(weight_chunks(*drawn)))


def sum_chunks(values, n_resamples, seed):
    """Yield sums of per-document values over resamples, block by block.

    Whole numbers go through float32 when no sum can pass 2^24, where float32 is still exact and twice as fast;
    everything else is summed in float64. Weights of an integer seed are kept, so that the losses of one corpus share
    their resamples at no cost.

    Args:
        values: (D, P), any real dtype.
    Yields:
        float64 (b, P), blocks that concatenate to (B, P).
    """
    values = np.asarray(values)
    whole = np.issubdtype(values.dtype, np.integer)
    largest = len(values) * int(np.abs(values).max(initial=0)) if whole else np.inf
    dtype = np.float32 if largest < EXACT_FLOAT32 else np.float64
    columns = np.ascontiguousarray(values, dtype=dtype)
    keep = isinstance(seed, int) and len(values) * n_resamples <= CELLS_KEPT
    for weights in (_kept_weights if keep else weight_chunks)(len(values), n_resamples, seed):
        yield (weights.astype(dtype, copy=False) @ columns).astype(np.float64)


def resampled_sums(values, n_resamples, seed):
    """`sum_chunks` as one array, float64 (B, P)."""
    return np.concatenate(list(sum_chunks(values, n_resamples, seed)))


def line(y, x):
    """The straight line of every law: least squares of y on x along the models, for any number of resamples at once.

    Args:
        y: float64 (..., M).
        x: float64 (M,), not all equal.
    Returns:
        slope, intercept, r2: float64 (...). R^2 of a perfectly flat y is NaN: nothing to explain.
    """
    y, centred = np.asarray(y), x - x.mean()
    spread = centred @ centred
    slope, mean = y @ (centred / spread), y @ np.full(len(x), 1 / len(x))
    scatter = np.einsum("...m,...m->...", y, y) - len(x) * mean**2
    flat = scatter <= 1e-14 * (1 + mean**2)
    r2 = np.where(flat | np.isnan(scatter), np.nan, np.minimum(slope**2 * spread / np.where(flat, 1, scatter), 1.0))
    return slope, mean - slope * x.mean(), r2


def percentile_interval(samples, level=0.95):
    """Percentile interval of each column, over the resamples that have a value.

    Args:
        samples: float64 (B, K) or (B,), not finite where a resample has no value.
    Returns:
        float64 (2, K) or (2,); NaN where more than `MAX_UNDEFINED` of the resamples have none.
    """
    columns = samples.reshape(len(samples), -1)
    ends = _quantiles(columns, np.tile([[(1 - level) / 2], [(1 + level) / 2]], columns.shape[1]))
    return ends.reshape(2, *samples.shape[1:])


def bca_interval(samples, point, jackknife, level=0.95):
    """Bias-corrected and accelerated interval (Efron 1987) of each column.

    Args:
        samples: float64 (B, K), resampled values.
        point: float64 (K,), value on the documents themselves.
        jackknife: float64 (D, K), value with one document left out.
    Returns:
        float64 (2, K); NaN where the correction has no value.
    """
    normal = NormalDist()
    below = (np.nanmean(samples < point, axis=0) + np.nanmean(samples <= point, axis=0)) / 2
    gap = jackknife.mean(axis=0) - jackknife
    spread = (gap**2).sum(axis=0)
    acceleration = np.divide((gap**3).sum(axis=0), 6 * spread**1.5, out=np.full(len(point), np.nan), where=spread > 0)
    ends = np.full((2, len(point)), np.nan)
    for column in np.flatnonzero((below > 0) & (below < 1) & np.isfinite(acceleration)):
        bias, push = normal.inv_cdf(below[column]), acceleration[column]
        for row, tail in enumerate(((1 - level) / 2, (1 + level) / 2)):
            shifted = bias + normal.inv_cdf(tail)
            ends[row, column] = normal.cdf(bias + shifted / (1 - push * shifted))
    return _quantiles(samples, ends)


def _quantiles(samples, shares):
    """Quantiles at shares[:, j] of column j, float64 (2, K); NaN where too many resamples have no value."""
    result, known = np.full(shares.shape, np.nan), np.isfinite(samples)
    for column in np.flatnonzero((known.mean(axis=0) >= 1 - MAX_UNDEFINED) & np.isfinite(shares).all(axis=0)):
        values = np.sort(samples[known[:, column], column])  # quantiles of what is sorted are found twice as fast
        result[:, column] = np.quantile(values, shares[:, column])
    return result


class Bootstrap(NamedTuple):
    """Lines log(-log RBP_k) = intercept + slope log S, resampled and on the documents themselves, one per k.

    slopes, r2: float64 (B, K), NaN where some model of a resample has RBP_k of exactly 0 or 1. A slope is negative when
    larger models do better.
    slope, point_r2: float64 (K,). Intervals: float64 (2, K).
    """

    slopes: np.ndarray
    r2: np.ndarray
    slope: np.ndarray
    point_r2: np.ndarray
    slope_interval: np.ndarray
    r2_interval: np.ndarray


def paired_bootstrap(hits, totals, S, n_resamples=10_000, seed=42, level=0.95, method="percentile"):
    """Slopes and R^2 of log(-log RBP_k) on log S over resampled documents, many k at once.

    Every model of a family is scored on the same documents of a resample, so what documents have in common
    (some are hard for all models) leaves the slope. Derivation: book/derivations, power law and its errors.
    The pages fit one `Loss` at a time through the same resamples (`Loss.resampled`).

    Args:
        hits: int (D, M, K), tokens of document d that model m ranks k or better.
        totals: int (D,), scored tokens.
        S: float (M,), non-embedding parameters.
        n_resamples: B. seed: int; one seed, one set of resamples.
        level: coverage aimed at. method: "percentile" or "bca".
    Returns:
        Bootstrap; exponents are its slopes with the sign turned.
    Raises:
        ValueError: shapes disagree, fewer than three sizes, a hit count outside [0, total], too few documents.
    Cost: about 2 B D M K floating-point operations; memory 3 B M K numbers.
    """
    from rbplib.losses import Loss

    hits, totals, S = np.asarray(hits), np.asarray(totals), np.asarray(S, dtype=np.float64)
    _check(hits, totals, S, method)
    loss = Loss(sums=hits.transpose(0, 2, 1), totals=totals, S=S)
    x = np.log(S)
    lines = [line(part.y, x) for part in loss.chunks(n_resamples, seed)]
    slopes, r2 = (np.concatenate([found[i] for found in lines]) for i in (0, 2))
    slope, _, point_r2 = line(loss.y, x)
    if method == "bca":
        left_slope, _, left_r2 = line(loss.jackknife().y, x)
        intervals = bca_interval(slopes, slope, left_slope, level), bca_interval(r2, point_r2, left_r2, level)
    else:
        intervals = percentile_interval(slopes, level), percentile_interval(r2, level)
    return Bootstrap(slopes, r2, slope, point_r2, *intervals)


def _check(hits, totals, S, method):
    if hits.ndim != 3 or totals.shape != hits.shape[:1] or S.shape != hits.shape[1:2]:
        raise ValueError(f"Hits (D, M, K) {hits.shape}, totals {totals.shape} and sizes {S.shape} do not fit together.")
    if len(totals) < MIN_DOCUMENTS:
        raise ValueError(f"{len(totals)} documents are too few for a bootstrap; it needs at least {MIN_DOCUMENTS}.")
    if len(np.unique(S)) < 3 or (S <= 0).any():
        raise ValueError("A fit needs at least three different positive model sizes.")
    if (hits < 0).any() or (hits > totals[:, None, None]).any():
        raise ValueError("A document has more hits than scored tokens, or fewer than none.")
    if method not in ("percentile", "bca"):
        raise ValueError(f"An interval is 'percentile' or 'bca', not {method!r}.")
