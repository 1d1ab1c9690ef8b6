"""Fits of distributions of ranks beside the powerlaw package: planted lognormal ranks, estimates and times in one run.

    python -m benchmarks distributions [--tokens 500000] [--vocab 50257] [--mu 2.0] [--sigma 3.0]

Ranks are drawn from a rounded lognormal cut at the vocabulary, so the truth is known. powerlaw fits that very law; it
is run as it comes (support without end) and with xmax at the vocabulary. Each contender runs in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings

import numpy as np

from benchmarks.ranks import write_result


def planted(args):
    """Ranks int64 (n,) from the rounded lognormal on 1..V."""
    from paper.distributions import CANDIDATES

    natural = (1 - args.mu / args.sigma**2, 0.5 / args.sigma**2)
    mass = np.exp(CANDIDATES["lognormal_rounded"].log_mass(np.arange(1.0, args.vocab + 1), natural))
    return np.random.default_rng(0).choice(args.vocab, args.tokens, p=mass / mass.sum()) + 1


def ours(ranks, args, candidate="lognormal_rounded"):
    """Time with the counting of ranks in it, and again from the histogram alone."""
    from paper.distributions import fit_rank_law, rank_histogram

    fit_rank_law(rank_histogram(ranks[:1000], args.vocab), candidate)  # pivots of this vocabulary are made once
    start = time.perf_counter()
    histogram = rank_histogram(ranks, args.vocab)
    counted = time.perf_counter()
    fit = fit_rank_law(histogram, candidate)
    end = time.perf_counter()
    se = np.sqrt(np.diag(np.linalg.inv(fit.conventional_information)) / fit.n_tokens)
    found = {**fit.parameters, **fit.conventional, "se": dict(zip(fit.conventional, se, strict=True))}
    return {"seconds": end - start, "fit": end - counted, **found, "nll": fit.nll}


def powerlaw(ranks, args, **limits):
    warnings.filterwarnings("ignore")
    import powerlaw as package

    start = time.perf_counter()
    fit = package.Fit(ranks, discrete=True, xmin=1, verbose=False, **limits).lognormal
    mu, sigma = float(fit.mu), float(fit.sigma)
    return {"seconds": time.perf_counter() - start, "mu": mu, "sigma": sigma}


CONTENDERS = {
    "rbplib": ours,
    "powerlaw": powerlaw,
    "powerlaw, xmax = V": lambda ranks, args: powerlaw(ranks, args, xmax=args.vocab),
}


def measured(name, args):
    command = [sys.executable, "-m", "benchmarks.distributions", "--only", name]
    for option in ("tokens", "vocab", "mu", "sigma"):
        command += [f"--{option}", str(getattr(args, option))]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        return {"error": found.stderr.strip().splitlines()[-1]}
    return json.loads(found.stdout.strip().splitlines()[-1])


def every_candidate(ranks, args):
    """Median time of three fits from the histogram, and the nats per token lost to the planted distribution."""
    from paper.distributions import CANDIDATES, fit_rank_law, rank_histogram

    histogram, rows = rank_histogram(ranks, args.vocab), []
    for candidate in CANDIDATES:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            fit = fit_rank_law(histogram, candidate)
            times.append(time.perf_counter() - start)
        rows.append((candidate, sorted(times)[1], fit.nll, fit.status))
    return rows


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks distributions", description=__doc__.split("\n")[0])
    for option, default in {"tokens": 500_000, "vocab": 50_257, "mu": 2.0, "sigma": 3.0}.items():
        parser.add_argument(f"--{option}", type=type(default), default=default)
    parser.add_argument("--only", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    ranks = planted(args)
    if args.only:
        print(json.dumps(CONTENDERS[args.only](ranks, args)))
        return 0
    results = {name: measured(name, args) for name in CONTENDERS}
    se = results["rbplib"]["se"]
    lines = [
        f"{args.tokens:,} ranks of a rounded lognormal, mu {args.mu:g}, sigma {args.sigma:g}, cut at {args.vocab:,}; "
        "in brackets how many standard errors an estimate is off.",
        "",
        "| | seconds | mu | sigma |",
        "|---|---|---|---|",
    ]
    for name, r in results.items():
        if "error" in r:
            lines.append(f"| {name} | not run: {r['error']} | | |")
            continue
        cells = [f"{r[p]:.4f} ({(r[p] - getattr(args, p)) / se[p]:+.1f})" for p in ("mu", "sigma")]
        lines.append(f"| {name} | {r['seconds']:.3f} | {cells[0]} | {cells[1]} |")
    fit = f"{results['rbplib']['fit']:.4f}"
    lines += ["", f"rbplib from the histogram alone: {fit} s. Every candidate, from the histogram:", ""]
    lines += [
        "| candidate | milliseconds | nats per token lost to the planted distribution | status |",
        "|---|---|---|---|",
    ]
    slowest = 0.0
    for candidate, seconds, nll, status in every_candidate(ranks, args):
        slowest = max(slowest, seconds)
        lost = f"{nll - results['rbplib']['nll']:+.5f}"
        lines.append(f"| {candidate} | {1000 * seconds:.1f} | {lost} | {status} |")
    print("\n".join(lines))
    write_result("distributions", "\n".join(lines))
    return 0 if slowest <= 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())
