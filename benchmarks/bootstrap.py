"""Intervals of exponents over other text: rbplib beside SciPy and a loop, on the same draws.

    python -m benchmarks bootstrap [--rounds 5]

All exponents of log(-log RBP_k) on log S over resampled documents, many k at once. Every contender
draws the same documents, in a process of its own, in turn; the intervals must agree before a time
is told.
"""

import sys
import time

import numpy as np

from benchmarks import common
from rbplib.bootstrap import line, percentile_interval, resampled_sums

SIZE = (10_000, 1_000, 7, 100)  # resamples, documents, models, values of k
SEED, BATCH, AGREE = 1, 50, 1e-9


def planted(documents, models, ks):
    """Hits (D, M, K), totals (D,) and sizes (M,) of a family with clustered documents."""
    rng = np.random.default_rng(0)
    S = np.geomspace(1e4, 1e7, models)
    totals = rng.integers(200, 512, documents)
    hardness = rng.gamma(10, 0.1, (documents, 1, 1))
    loss = np.geomspace(0.9, 0.05, ks) * (S[:, None] / S[0]) ** -0.1  # (M, K)
    return rng.binomial(totals[:, None, None], np.exp(-loss * hardness)), totals, S


def log_loss(hits, totals):
    """log(-log RBP_k), linear in log S under the law."""
    return np.log(-np.log(hits / totals))


def rbplib(hits, totals, S, resamples):
    columns = np.column_stack([totals, hits.reshape(len(hits), -1)])
    drawn = resampled_sums(columns, resamples, SEED)
    y = log_loss(drawn[:, 1:], drawn[:, :1]).reshape(-1, *hits.shape[1:])  # (B, M, K)
    slope, _, _ = line(y.swapaxes(1, 2), np.log(S))
    return percentile_interval(slope)


def scipy_bootstrap(hits, totals, S, resamples):
    """scipy.stats.bootstrap with a statistic of all exponents and many resamples at once."""
    from scipy.stats import bootstrap

    x = np.log(S) - np.log(S).mean()

    def slopes(documents, axis=-1):
        # SciPy gives one resample (D,), or a batch of them (b, D).
        rows = documents.reshape(-1, documents.shape[-1])
        y = [log_loss(hits[row].sum(axis=0), totals[row].sum()) for row in rows]
        slope = np.tensordot(x, np.stack(y, axis=-1), 1) / (x @ x)  # (K, b)
        return slope[:, 0] if documents.ndim == 1 else slope

    interval = bootstrap(
        (np.arange(len(totals)),),
        slopes,
        n_resamples=resamples,
        batch=BATCH,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return np.array(interval)


def loop(hits, totals, S, resamples):
    """One resample after another, its lines by numpy.polyfit."""
    rng = np.random.default_rng(SEED)
    slopes = []
    for _ in range(resamples):
        drawn = rng.integers(0, len(totals), len(totals))
        y = log_loss(hits[drawn].sum(axis=0), totals[drawn].sum())
        slopes.append(np.polyfit(np.log(S), y, 1)[0])
    return np.quantile(slopes, [0.025, 0.975], axis=0)


CONTENDERS = {
    common.OURS: rbplib,
    "scipy.stats.bootstrap": scipy_bootstrap,
    "a loop and numpy.polyfit": loop,
}


def child(name, resamples, *size):
    """[core-seconds, ends of the intervals] of one contender."""
    resamples, size = int(resamples), list(map(int, size))
    CONTENDERS[name](*planted(25, *size[1:]), 100)  # libraries loaded, threads started
    data = planted(*size)
    start = time.process_time()
    interval = CONTENDERS[name](*data, resamples)
    return [time.process_time() - start, np.asarray(interval).tolist()]


def run(options):
    size, count = ((200, 30, 4, 3), 1) if options.quick else (SIZE, options.rounds)
    times, intervals = {name: [] for name in CONTENDERS}, {}
    for _ in range(count):
        for name in CONTENDERS:
            taken, intervals[name] = common.child("bootstrap", name, *size, OMP_NUM_THREADS="1")
            times[name].append(taken)
    # nothing is told of contenders that do not agree
    spread = np.ptp(list(intervals.values()), axis=0).max()
    if not spread < AGREE:
        return print(f"the intervals differ by {spread:.1e}: {intervals}", file=sys.stderr)
    # one line a contender
    lines = [[name, common.cell(times, name, 1, ".3f")] for name in CONTENDERS]
    text = "{:,} resamples of {:,} documents, {} models, {} values of k.\n\n".format(*size)
    text += common.table(["", "core-seconds; times as long as rbplib"], lines)
    return text, {"core_seconds": times, "largest difference": spread}


main = common.program("bootstrap", __doc__, run, child)
