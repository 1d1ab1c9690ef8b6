"""Paired document bootstrap beside scipy.stats.bootstrap: the same statistic, resamples and seed, one run.

    python -m benchmarks bootstrap [--resamples 10000] [--documents 1000] [--models 7] [--ks 100] [--rounds 5]

The statistic is all slopes and R^2 of log(-log RBP_k) on log S. Each contender runs in a process of its own, so that
the peak of memory is its own; the intervals must agree before a time is printed.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from benchmarks.ranks import write_result


def counts(documents, models, ks):
    """Hits (D, M, K), totals (D,) and sizes (M,) of a planted family with clustered documents."""
    rng = np.random.default_rng(0)
    S = np.geomspace(1e4, 1e7, models)
    totals = rng.integers(200, 512, documents)
    loss = np.geomspace(0.9, 0.05, ks)[None] * ((S / S[0]) ** -0.1)[:, None]  # (M, K)
    hard = rng.gamma(10, 0.1, (documents, 1, 1))
    return rng.binomial(totals[:, None, None], np.exp(-loss * hard)), totals, S


def ours(hits, totals, S, resamples, method="percentile"):
    from rbplib.bootstrap import paired_bootstrap

    start = time.perf_counter()
    result = paired_bootstrap(hits, totals, S, resamples, seed=1, method=method)
    return time.perf_counter() - start, result.slope_interval, result.r2_interval


def scipy_vector(hits, totals, S, resamples):
    """scipy.stats.bootstrap with a statistic that returns every slope and R^2 at once."""
    from scipy.stats import bootstrap

    x = np.log(S) - np.log(S).mean()

    def statistic(documents, axis=-1):
        rows = documents.reshape(-1, documents.shape[-1])
        y = np.stack([np.log(-np.log(hits[r].sum(axis=0) / totals[r].sum())) for r in rows], axis=-1)  # (M, K, b)
        slope = np.tensordot(x, y, 1) / (x @ x)
        r2 = slope**2 * (x @ x) / ((y - y.mean(axis=0)) ** 2).sum(axis=0)
        found = np.concatenate([slope, r2])  # (2 K, b)
        return found[:, 0] if documents.ndim == 1 else found

    start = time.perf_counter()
    found = bootstrap((np.arange(len(totals)),), statistic, n_resamples=resamples, batch=50, vectorized=True,
                      method="percentile", rng=np.random.default_rng(1)).confidence_interval  # fmt: skip
    seconds = time.perf_counter() - start
    slopes, r2 = np.split(np.array([found.low, found.high]), 2, axis=1)
    return seconds, slopes, r2


SCIPY = "scipy.stats.bootstrap, percentile, vector statistic"
CONTENDERS = {
    "rbplib, percentile": ours,
    "rbplib, BCa": lambda *a: ours(*a, method="bca"),
    SCIPY: scipy_vector,
}


def measured(name, args):
    """Seconds, the intervals and the peak memory of one contender, in its own process."""
    command = [sys.executable, "-m", "benchmarks.bootstrap", "--only", name]
    for option in ("resamples", "documents", "models", "ks"):
        command += [f"--{option}", str(getattr(args, option))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_one(args):
    hits, totals, S = counts(args.documents, args.models, args.ks)
    warm = [a[:20] if a is not S else a for a in (hits, totals, S)]
    CONTENDERS[args.only](*warm, 100)  # libraries loaded, threads started
    seconds, slopes, r2 = CONTENDERS[args.only](hits, totals, S, args.resamples)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "slopes": slopes.tolist(), "r2": r2.tolist()}


def table(rounds):
    """Median seconds, peak memory, and how many times faster than SciPy, round by round."""
    lines = ["| | seconds | peak memory | times faster than SciPy |", "|---|---|---|---|"]
    for name in CONTENDERS:
        seconds = [r[name]["seconds"] for r in rounds]
        ratios = sorted(r[SCIPY]["seconds"] / r[name]["seconds"] for r in rounds)
        shown = "1" if name == SCIPY else f"{statistics.median(ratios):.1f}x ({ratios[0]:.1f}-{ratios[-1]:.1f})"
        peak = max(r[name]["peak_mb"] for r in rounds)
        lines.append(f"| {name} | {statistics.median(seconds):.2f} | {peak:,.0f} MB | {shown} |")
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks bootstrap", description=__doc__.split("\n")[0])
    for option, default in (("resamples", 10_000), ("documents", 1000), ("models", 7), ("ks", 100), ("rounds", 5)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--only", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.only:
        print(json.dumps(run_one(args)))
        return 0
    size = f"{args.resamples:,} resamples x {args.documents:,} documents x {args.models} models x {args.ks} values of k"
    rounds = [{name: measured(name, args) for name in CONTENDERS} for _ in range(args.rounds)]
    last = rounds[-1]
    gap = float(np.abs(np.array(last["rbplib, percentile"]["slopes"]) - last[SCIPY]["slopes"]).max())
    text = f"{size}; {args.rounds} rounds.\n\n{table(rounds)}\n\n"
    text += f"Largest difference between the two percentile intervals of a slope: {gap:.1e}."
    print(text)
    if gap > 1e-9:
        return 1
    write_result("bootstrap", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
