"""Tables and maps of the page that puts the paper's appendix into numbers: its formulas beside the exact sums."""

import numpy as np
import pandas as pd
from scipy import stats

from paper import gpt2, lognormal, published, runs
from paper import lognormal_paper as paper
from paper import steps as noise
from paper.show.prose import number
from rbplib.bootstrap import line

POINTS = ((-5, 1), (-5, 2), (-5, 5), (-1, 1), (-1, 12.892), (0, 0.5), (0, 2), (1, 0.5), (1, 2), (2, 1), (2, 5))


def approximation_frame(printed=gpt2.PRINTED):
    """Exact sums beside the paper's formulas at POINTS (mu/sigma, sigma), the printed GPT-2 pair first."""
    mu, sigma = np.array([printed, *((r * s, s) for r, s in POINTS)]).T
    natural, c = lognormal.natural(mu, sigma), lognormal.exact_c(mu, sigma)
    first, second = np.array(paper.integrals(mu, sigma)) / (lognormal.log_moments(*natural) * c) - 1
    return pd.DataFrame(
        {
            "μ/σ": mu / sigma,
            "σ": sigma,
            "error of c, %": 100 * (paper.c(mu, sigma) / c - 1),
            "of Σψ ln k, %": 100 * first,
            "of Σψ ln²k, %": 100 * second,
            "-log p_1, exact": lognormal.neg_log_p1(mu, sigma),
            "Eqs. 16, 20": paper.neg_log_p1(mu, sigma),
            "H, exact": lognormal.rank_entropy(*natural),
            "Eq. 21": paper.entropy(mu, sigma),
        }
    )


def error_maps(ratio, sigma):
    """Relative errors of the paper's c, -log p_1 and entropy on a grid: {name: float64 (len(sigma), len(ratio))}."""
    R, S = np.meshgrid(ratio, sigma)
    mu = R * S
    with np.errstate(all="ignore"):
        return {
            "c (Eq. 20)": paper.c(mu, S) / lognormal.exact_c(mu, S) - 1,
            "-log p_1 (Eqs. 16, 20)": paper.neg_log_p1(mu, S) / lognormal.neg_log_p1(mu, S) - 1,
            "entropy (Eq. 21)": paper.entropy(mu, S) / lognormal.rank_entropy(*lognormal.natural(mu, S)) - 1,
        }


def cancellation_frame(ratios, sigma):
    """The three terms of paper Eq. 16 along mu -> -infinity at fixed sigma, and their sum log Z."""
    ratio = np.asarray(ratios, float)
    natural, width = lognormal.natural(ratio * sigma, sigma), np.log(lognormal.SQRT_2PI * sigma)
    log_z = lognormal.log_z(*natural)
    return pd.DataFrame(
        {
            "μ/σ": ratios,
            "log c": log_z - 0.5 * ratio**2 - width,
            "log(√2π σ)": width,
            "μ²/2σ²": 0.5 * ratio**2,
            "sum = -log p_1": log_z,
            "H": lognormal.rank_entropy(*natural),
        }
    )


def fraction_frame():
    """The fraction of Eq. D(27) against |log c| along a = ln sigma, where both limits of the paper hold."""
    sigma = np.array([10.0, 1e2, 1e3, 1e4, 1e5])
    a = np.log(sigma)
    natural = lognormal.natural(-a * sigma, sigma)
    log_z = lognormal.log_z(*natural)
    fraction = lognormal.rank_entropy(*natural) - log_z
    log_c = log_z - np.log(lognormal.SQRT_2PI * sigma) - a**2 / 2
    return pd.DataFrame(
        {"σ": sigma, "a": a, "log c": log_c, "fraction (27)": fraction, "ratio": fraction / np.abs(log_c)}
    )


def entropy_examples():
    """Five models of two positions and three tokens: cross-entropy, rank entropy, I(R; X) and KL in nats."""
    same = np.array([[0.6, 0.3, 0.1]] * 2)
    sure = np.array([[0.98, 0.01, 0.01], [0.34, 0.33, 0.33]])

    def softer(T):
        x = sure ** (1 / T)
        return x / x.sum(1, keepdims=True)

    cases = {  # the model's probabilities and the true ones, (positions, tokens)
        "the true law, one profile everywhere": (same, same),
        "the true law, sure here and unsure there": (sure, sure),
        "one profile, too sure of itself": (np.array([[0.9, 0.08, 0.02]] * 2), same),
        "the second with logits divided by 5": (softer(5), sure),
        "the second with logits divided by 5.695": (softer(5.695), sure),
    }
    rows = []
    for name, (p, q) in cases.items():
        ranked = np.take_along_axis(q, np.argsort(-p, axis=1, kind="stable"), axis=1).mean(0)  # share of each rank
        H, inner, KL = -(ranked @ np.log(ranked)), -(q * np.log(q)).sum() / len(q), (q * np.log(q / p)).sum() / len(q)
        rows.append({"model": name, "CE": inner + KL, "H(R)": H, "I(R;X)": max(0.0, round(H - inner, 12)), "KL": KL})
    return pd.DataFrame(rows)


def hypothesis_frame(printed=gpt2.PRINTED):
    """The second hypothesis in its readings, anchored at the authors' pair and calibrated to their GPT-2 points."""
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    wide, rows = np.geomspace(S[0], 1000 * S[0], 7), []
    for scale in ("S", "log S"):
        for keep, kept in {"sigma": "σ", "mu": "μ", "root": "σ²/|μ/σ|"}.items():
            rate = paper.calibrated_rate(S, *printed, loss[-1] / loss[0], scale, keep)
            path = paper.parameter_path(S, *printed, rate, scale, keep)
            both = lognormal.neg_log_p1(*path), lognormal.rank_entropy(*lognormal.natural(*path))
            (one, two), _, (straight, _) = line(np.log(both), np.log(S))
            far = lognormal.neg_log_p1(*paper.parameter_path(wide, *printed, rate, scale, keep))
            local = -np.diff(np.log(far)) / np.diff(np.log(wide))
            rows.append(
                {
                    "linear in": scale,
                    "kept": kept,
                    "slope of -log p_1": one,
                    "R²": straight,
                    "slope of H": two,
                    "ratio": one / two,
                    "R² over 3 decades": line(np.log(far), np.log(wide))[2],
                    "local exponent: first": local[0],
                    "last": local[-1],
                }
            )
    return pd.DataFrame(rows)


def exponents_frame(ks=(1, 10, 100, 1000, 10_000), printed=gpt2.PRINTED):
    """alpha_k / alpha_1 in the authors' GPT-2 figure and under four distributions of ranks."""
    ks = np.array(ks)
    _, slopes, _ = published.gpt2_reference("slope")
    moving = {
        "lognormal, μ moving": paper.fixed_sigma_misses(ks, *printed),
        "the same on 1..V": paper.fixed_sigma_misses(ks, *printed, gpt2.VOCABULARY),
        "lognormal, ceiling (Eq. 9)": paper.ceiling_misses(ks, 0.69, 3.52),
    }
    rows = {name: paper.exponents_over_k(ks, misses) for name, misses in moving.items()}
    rows = {"authors' GPT-2 figure": slopes / slopes[0], **rows, "Fréchet of fixed shape": np.ones(len(ks))}
    return pd.DataFrame(rows, index=[f"k = {k:,}" for k in ks]).T.rename_axis("law").reset_index()


def close_words(lam, ratio, here):
    """Where a ratio of local exponents along a grid of lam is 1, where within a quarter of it, and at the pair."""
    equal = lam[np.flatnonzero(np.diff(np.sign(ratio - 1)))]
    said = f"equal at $\\lambda$ = {', '.join(number(x, 2) for x in equal)} only" if len(equal) else "nowhere equal"
    near = (0.8 <= ratio) & (ratio <= 1.25)
    parts = np.split(np.arange(len(lam)), np.flatnonzero(np.diff(near)) + 1)
    spans = [
        f"from {number(lam[p[0]], 2)}{' (where the grid begins)' if p[0] == 0 else ''} to {number(lam[p[-1]], 2)}"
        + (" (where the grid ends)" if p[-1] == len(lam) - 1 else "")
        for p in parts
        if near[p[0]]
    ]
    return (
        f"Along $\\lambda$ from {number(lam[0])} to {number(lam[-1])} the two local exponents are {said}, and within "
        f"a quarter {' and '.join(spans) or 'nowhere'}. At the pair, $\\lambda$ = {number(float(here), 2)}, "
        f"their ratio, that of $-\\log p_1$ over that of $H$, is {number(float(np.interp(here, lam, ratio)))}."
    )


def turn_words(frame):
    """Which rows of an `exponents_frame` rise with k and which fall somewhere."""
    steps = {row[0]: np.diff(np.array(row[1:], float)) for row in frame.itertuples(index=False)}
    falls = [name for name, d in steps.items() if (d < 0).any()]
    rises = [name for name, d in steps.items() if (d > 0).all()]
    return f"Rising with every $k$: {', '.join(rises) or 'none'}. Falling somewhere: {', '.join(falls) or 'none'}."


def emergence_frame(ps, N=100):
    """log10 of p_N over RBP^N: orders of magnitude by which dependence helps."""
    rows = []
    for p in ps:
        runs_of = {f"ρ = {r}": runs.log_run_markov(p, N, r) for r in (0.02, 0.05, 0.1, 0.2)}
        runs_of |= {f"ICC = {i}": runs.log_run_beta(p, N, i) for i in (0.002, 0.005, 0.01, 0.02, 0.05)}
        alone = runs.log_run_independent(p, N)
        rows.append({"p": p} | {name: (run - alone) / np.log(10) for name, run in runs_of.items()})
    return pd.DataFrame(rows)


def precision_frame(models=7, n_tokens=5e5):
    """Effective misses that a given interval of alpha over three decades needs, and the RBP_k that leaves them."""
    S, rows = np.geomspace(1, 1000, models), []
    for width in (0.01, 0.005):
        for variance, quantile in {"known": 1.96, "estimated": stats.t.ppf(0.975, models - 2)}.items():
            m = noise.misses_needed(S, width, quantile)
            row = {"95% interval of α": f"±{width}", "variance": variance, "effective misses": m}
            rows.append(row | {f"RBP_k, design effect {d}": 1 - d * m / n_tokens for d in (1, 4, 10)})
    return pd.DataFrame(rows)
