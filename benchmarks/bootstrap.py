"""Interval of an exponent over other text: rbplib beside SciPy and a plain loop, on the same resamples.

    python -m benchmarks bootstrap [--rounds 5]

Every contender draws the same documents, in a process of its own, in turn; intervals must agree before
a time is told. rbplib fits the whole law, with its other intervals and its lack of fit.
"""

import json
import statistics
import sys

import numpy as np
from scipy.stats import bootstrap

import rbplib as rbp
from benchmarks import common

SIZE = (10_000, 1_000, 7)  # resamples, documents, models
SEED, BATCH, AGREE = 1, 50, 1e-9


def planted(documents, models):
    """Hits (D, M), totals (D,) and sizes (M,) of a family with clustered documents."""
    rng = np.random.default_rng(0)
    S = np.geomspace(1e4, 1e7, models)
    totals = rng.integers(200, 512, documents)
    hardness = rng.gamma(10, 0.1, (documents, 1))
    rates = np.exp(-0.9 * (S / S[0]) ** -0.1 * hardness)
    return rng.binomial(totals[:, None], rates), totals, S


def rbplib(hits, totals, S, resamples):
    law = rbp.fit(rbp.Loss(hits, totals, S), n_bootstrap=resamples, seed=SEED)
    return law.intervals["text"]["alpha"]


def scipy_bootstrap(hits, totals, S, resamples):
    """scipy.stats.bootstrap with a statistic of many resamples at once."""
    x = np.log(S) - np.log(S).mean()

    def alpha(documents, axis=-1):
        share = hits[documents].sum(axis=-2) / totals[documents].sum(axis=-1)[..., None]
        return -(np.log(-np.log(share)) @ x) / (x @ x)

    documents = (np.arange(len(totals)),)
    rng = np.random.default_rng(SEED)
    found = bootstrap(
        documents, alpha, n_resamples=resamples, batch=BATCH, method="percentile", rng=rng
    )
    return found.confidence_interval


def loop(hits, totals, S, resamples):
    """One resample after another, its line by numpy.polyfit."""
    rng = np.random.default_rng(SEED)
    alphas = []
    for _ in range(resamples):
        drawn = rng.integers(0, len(totals), len(totals))
        share = hits[drawn].sum(axis=0) / totals[drawn].sum()
        alphas.append(-np.polyfit(np.log(S), np.log(-np.log(share)), 1)[0])
    return np.quantile(alphas, [0.025, 0.975])


CONTENDERS = {
    common.OURS: rbplib,
    "scipy.stats.bootstrap": scipy_bootstrap,
    "a loop and numpy.polyfit": loop,
}


def main(argv=None):
    options = common.parser("bootstrap", __doc__).parse_args(argv)
    if options.child:
        name, resamples, documents, models = options.child
        data = planted(int(documents), int(models))
        run = CONTENDERS[name]
        run(*planted(25, int(models)), 100)  # libraries loaded, threads started
        taken = common.seconds(run, *data, int(resamples))
        interval = np.array(run(*data, int(resamples))).tolist()
        print(json.dumps([taken, interval]))
        return 0
    size, count = SIZE, options.rounds
    if options.quick:
        size, count = (200, 30, 4), 1
    times, intervals = {name: [] for name in CONTENDERS}, {}
    for _ in range(count):
        for name in CONTENDERS:
            taken, intervals[name] = common.child("bootstrap", name, *size)
            times[name].append(taken)
    # Nothing is told of contenders that do not agree.
    apart = np.ptp(list(intervals.values()), axis=0).max()
    if not apart < AGREE:
        print(f"the intervals differ by {apart:.1e}: {intervals}", file=sys.stderr)
        return 1
    lines = []
    for name, taken in times.items():
        lines.append([name, f"{statistics.median(taken):.3f}", common.ratio(times, name)])
    text = "{:,} resamples of {:,} documents, {} models.\n\n".format(*size)
    text += common.table(["", "seconds", "times as long as rbplib"], lines)
    print(text)
    if not options.quick:
        common.record("bootstrap", text, seconds=times, apart=apart)
    return 0


if __name__ == "__main__":
    sys.exit(main())
