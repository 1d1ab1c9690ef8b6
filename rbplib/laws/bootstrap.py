"""Paired document bootstrap: every model of a family is scored on the same resampled documents.

A resample is a row of counts, how often each document was drawn. Hits and totals of a resample are then one matrix
product of those counts with the per-document counts, for all models and all k together, so nothing is copied and no
ratio is formed before its sums are complete.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

MIN_DOCUMENTS = 20  # below this a percentile interval is visibly too short (page 14_coverage)
MAX_UNDEFINED = 0.05  # share of resamples without a slope above which no interval is given
CELLS_PER_CHUNK = 500_000  # counts held at once: small enough to stay near the cache, large enough for BLAS
EXACT_FLOAT32 = 2**24  # integers up to here are exact in float32


@dataclass(frozen=True)
class Bootstrap:
    """Resampled lines log(-log RBP_k) = intercept + slope log S, one column per k; NaN where a resample has none."""

    slopes: np.ndarray  # float64 (B, K), d log(-log RBP_k) / d log S: negative when larger models do better
    r2: np.ndarray  # float64 (B, K)
    slope: np.ndarray  # float64 (K,), from the documents themselves
    point_r2: np.ndarray  # float64 (K,)
    slope_interval: np.ndarray  # float64 (2, K)
    r2_interval: np.ndarray  # float64 (2, K)
    undefined: np.ndarray  # int64 (K,), resamples in which some model has RBP_k of exactly 0 or 1
    status: tuple[str, ...]  # (K,): ok, few misses, few hits, saturated (RBP = 1), no hits (RBP = 0)
    n_documents: int
    n_resamples: int
    seed: int
    level: float
    method: str
    y: np.ndarray | None = None  # float64 (B, M, K), log(-log RBP_k), only when asked for
    rbp: np.ndarray | None = None  # float32 (B, M, K), only when asked for


def document_weights(n_documents, n_resamples, seed):
    """How often each document occurs in each resample.

    The indices are drawn as `scipy.stats.bootstrap` draws them, so one seed means the same resamples in both.

    Args:
        n_documents: D, at least 1.
        n_resamples: B, at least 1.
        seed: int or numpy Generator.
    Returns:
        float32 (B, D); each row sums to D.
    Raises:
        ValueError: a count below 1.
    Cost: B * D random integers.
    """
    return np.concatenate(list(weight_chunks(n_documents, n_resamples, seed)))


def weight_chunks(n_documents, n_resamples, seed, rows=None):
    """Yield `document_weights` in blocks of rows; any block size gives the same weights."""
    if n_documents < 1 or n_resamples < 1:
        raise ValueError(f"A bootstrap needs documents and resamples, not {n_documents} and {n_resamples}.")
    generator = np.random.default_rng(seed)
    rows = rows or max(1, CELLS_PER_CHUNK // n_documents)
    for start in range(0, n_resamples, rows):
        size = min(rows, n_resamples - start)
        drawn = generator.integers(0, n_documents, (size, n_documents))  # (b, D)
        drawn += (np.arange(size) * n_documents)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n_documents)
        yield counts.reshape(size, n_documents).astype(np.float32)


def sum_chunks(values, n_resamples, seed):
    """Yield sums of per-document values over resamples, block by block.

    Whole numbers go through float32 when no sum can pass 2^24, where float32 is still exact and twice as fast;
    everything else is summed in float64.

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
    for weights in weight_chunks(len(values), n_resamples, seed):
        yield (weights.astype(dtype, copy=False) @ columns).astype(np.float64)


def resampled_sums(values, n_resamples, seed):
    """`sum_chunks` as one array, float64 (B, P)."""
    return np.concatenate(list(sum_chunks(values, n_resamples, seed)))


def log_loss(hits, totals):
    """y = log(-log(hits / totals)), NaN where the ratio is exactly 0 or 1 and the logarithm has no value.

    Args:
        hits: (..., M, K) counts.
        totals: (...,) counts.
    Returns:
        float64, shape of hits.
    """
    ratio = np.asarray(hits) / np.asarray(totals, dtype=np.float64)[..., None, None]
    if ratio.size == 0 or (ratio.min() > 0 and ratio.max() < 1):
        np.log(ratio, out=ratio)  # in place: this is the bootstrap's inner loop
        np.negative(ratio, out=ratio)
        return np.log(ratio, out=ratio)
    inside = (ratio > 0) & (ratio < 1)
    return np.where(inside, np.log(-np.log(np.where(inside, ratio, 0.5))), np.nan)


def line(y, x):
    """Least-squares line through (x, y) along the model axis, for every resample and k at once.

    Args:
        y: float64 (..., M, K).
        x: float64 (M,), not all equal.
    Returns:
        slope, intercept, r2: float64 (..., K). R^2 of a perfectly flat y is NaN: nothing to explain.
    """
    centred = x - x.mean()
    weights = centred / (centred @ centred)
    slope = np.einsum("...mk,m->...k", y, weights)
    mean = y.mean(axis=-2)
    scatter = np.einsum("...mk,...mk->...k", y, y) - len(x) * mean**2
    explained = slope**2 * (centred @ centred)
    r2 = np.divide(explained, scatter, out=np.full(slope.shape, np.nan), where=scatter > 1e-14 * (1 + mean**2))
    return slope, mean - slope * x.mean(), np.minimum(r2, 1.0, where=~np.isnan(r2), out=r2)


def percentile_interval(samples, level=0.95):
    """Percentile interval of each column, over the resamples that have a value.

    Args:
        samples: float64 (B, K), NaN where a resample has no value.
    Returns:
        float64 (2, K); NaN where more than `MAX_UNDEFINED` of the resamples have none.
    """
    return _quantiles(samples, np.full(samples.shape[1], (1 - level) / 2), np.full(samples.shape[1], (1 + level) / 2))


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
    return _quantiles(samples, *ends)


def _quantiles(samples, lower, upper):
    """Quantiles lower[j] and upper[j] of column j, NaN where too many resamples are undefined."""
    result = np.full((2, samples.shape[1]), np.nan)
    missing = np.isnan(samples).mean(axis=0)
    plain = (missing == 0) & (lower == lower[0]) & (upper == upper[0])
    if plain.any():
        result[:, plain] = np.quantile(samples[:, plain], [lower[0], upper[0]], axis=0)
    for column in np.flatnonzero(~plain & (missing <= MAX_UNDEFINED) & np.isfinite(lower) & np.isfinite(upper)):
        defined = samples[:, column][~np.isnan(samples[:, column])]
        result[:, column] = np.quantile(defined, [lower[column], upper[column]])
    return result


def paired_bootstrap(hits, totals, S, n_resamples=10_000, seed=42, level=0.95, method="percentile", keep=()):
    """Slopes and R^2 of log(-log RBP_k) on log S over resampled documents, all k at once.

    Every model of a family is scored on the same documents of a resample, so what documents have in common
    (some are hard for all models) leaves the slope. Derivation: book/derivations, power law and its errors.

    Args:
        hits: int (D, M, K), tokens of document d that model m ranks k or better.
        totals: int (D,), scored tokens.
        S: float (M,), non-embedding parameters.
        n_resamples: B.
        seed: int; one seed, one set of resamples.
        level: coverage aimed at.
        method: "percentile" or "bca".
        keep: names out of "y", "rbp": whole resampled arrays (B, M, K) to hand back.
    Returns:
        Bootstrap; exponents are its slopes with the sign turned.
    Raises:
        ValueError: shapes disagree, fewer than three sizes, a hit count outside [0, total], too few documents.
    Cost: about 2 B D M K floating-point operations; memory (2 + len(keep) M) B K numbers.
    """
    hits, totals, S = np.asarray(hits), np.asarray(totals), np.asarray(S, dtype=np.float64)
    _check(hits, totals, S, method)
    n_documents, n_models, n_ks = hits.shape
    x = np.log(S)
    slopes, r2 = np.empty((n_resamples, n_ks)), np.empty((n_resamples, n_ks))
    kept_y = np.empty((n_resamples, n_models, n_ks)) if "y" in keep else None
    kept_rbp = np.empty((n_resamples, n_models, n_ks), dtype=np.float32) if "rbp" in keep else None
    start = 0
    for sums in sum_chunks(np.column_stack([totals, hits.reshape(n_documents, -1)]), n_resamples, seed):
        rows = slice(start, start + len(sums))
        resampled = sums[:, 1:].reshape(-1, n_models, n_ks)  # (b, M, K)
        y = log_loss(resampled, sums[:, 0])
        slopes[rows], _, r2[rows] = line(y, x)
        if kept_y is not None:
            kept_y[rows] = y
        if kept_rbp is not None:
            kept_rbp[rows] = resampled / sums[:, 0, None, None]
        start += len(sums)
    observed = hits.sum(axis=0)  # (M, K)
    slope, _, point_r2 = line(log_loss(observed, totals.sum()), x)
    if method == "bca":
        left_out = line(log_loss(observed - hits, totals.sum() - totals), x)
        slope_interval = bca_interval(slopes, slope, left_out[0], level)
        r2_interval = bca_interval(r2, point_r2, left_out[2], level)
    else:
        slope_interval, r2_interval = percentile_interval(slopes, level), percentile_interval(r2, level)
    undefined = np.isnan(slopes).sum(axis=0)
    return Bootstrap(slopes, r2, slope, point_r2, slope_interval, r2_interval, undefined,
                     _status(observed, totals.sum(), undefined), n_documents, n_resamples, seed, level, method,
                     kept_y, kept_rbp)  # fmt: skip


def _status(observed, total, undefined):
    """One word per k on whether log(-log RBP_k) exists for every model, on the documents and on the resamples."""
    fewest_misses, fewest_hits = total - observed.max(axis=0), observed.min(axis=0)
    words = np.where(fewest_misses <= fewest_hits, "few misses", "few hits")
    words = np.where(undefined > 0, words, "ok")
    words = np.where(fewest_misses == 0, "saturated", words)
    return tuple(str(word) for word in np.where(fewest_hits == 0, "no hits", words))


def _check(hits, totals, S, method):
    if hits.ndim != 3 or totals.shape != hits.shape[:1] or S.shape != hits.shape[1:2]:
        raise ValueError(
            f"Hits (D, M, K) {hits.shape}, totals {totals.shape} and sizes {S.shape} do not belong together."
        )
    if len(totals) < MIN_DOCUMENTS:
        raise ValueError(f"{len(totals)} documents are too few for a bootstrap; it needs at least {MIN_DOCUMENTS}.")
    if len(np.unique(S)) < 3 or (S <= 0).any():
        raise ValueError("A fit needs at least three different positive model sizes.")
    if (hits < 0).any() or (hits > totals[:, None, None]).any():
        raise ValueError("A document has more hits than scored tokens, or fewer than none.")
    if method not in ("percentile", "bca"):
        raise ValueError(f"An interval is 'percentile' or 'bca', not {method!r}.")
