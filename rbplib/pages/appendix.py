"""Recipes for the page that puts the paper's appendix into numbers: tables and maps from `theory` and `hypothesis`."""

import numpy as np

from rbplib.distributions import hypothesis, theory
from rbplib.laws import noise, published, runs

GPT2 = (-65.192, 12.892)  # the authors' printed lognormal pair
POINTS = ((-5, 1), (-5, 2), (-5, 5), (-1, 1), (-1, 12.892), (0, 0.5), (0, 2), (1, 0.5), (1, 2), (2, 1), (2, 5))


def _frame(rows):
    import pandas as pd

    return pd.DataFrame(rows)


def approximation_frame(points=POINTS, gpt2=GPT2):
    """Exact sums beside the paper's formulas at points (mu/sigma, sigma), the printed GPT-2 pair first."""
    rows = []
    for mu, sigma in (gpt2, *((r * s, s) for r, s in points)):
        law = theory.natural(mu, sigma)
        c = theory.exact_c(mu, sigma)
        first, second = np.array(theory.paper_integrals(mu, sigma)) / (theory.log_moments(*law) * c) - 1
        rows.append(
            {
                "mu/sigma": mu / sigma,
                "sigma": sigma,
                "error of c, %": 100 * (theory.paper_c(mu, sigma) / c - 1),
                "of Σψ ln k, %": 100 * first,
                "of Σψ ln²k, %": 100 * second,
                "-log p_1, exact": theory.neg_log_p1(mu, sigma),
                "Eqs. 16, 20": theory.paper_neg_log_p1(mu, sigma),
                "H, exact": theory.rank_entropy(*law),
                "Eq. 21": theory.paper_entropy_21(mu, sigma),
            }
        )
    return _frame(rows)


def error_maps(ratio, sigma):
    """Relative errors of the paper's c, -log p_1 and entropy on a grid: {name: float64 (len(sigma), len(ratio))}."""
    R, S = np.meshgrid(ratio, sigma)
    mu = R * S
    with np.errstate(all="ignore"):
        return {
            "c (Eq. 20)": theory.paper_c(mu, S) / theory.exact_c(mu, S) - 1,
            "-log p_1 (Eqs. 16, 20)": theory.paper_neg_log_p1(mu, S) / theory.neg_log_p1(mu, S) - 1,
            "entropy (Eq. 21)": theory.paper_entropy_21(mu, S) / theory.rank_entropy(*theory.natural(mu, S)) - 1,
        }


def nonsense_edge(ratio):
    """sigma below which the paper's formulas give p_1 > 1, where sigma m(a) = 1/2; float64, shape of ratio."""
    return 0.5 / theory.mills(-np.asarray(ratio, float))


def cancellation_frame(ratios, sigma):
    """The three terms of paper Eq. 16 along mu -> -infinity at fixed sigma, and their sum log Z."""
    rows = []
    for ratio in ratios:
        log_z = theory.neg_log_p1(ratio * sigma, sigma)
        rows.append(
            {
                "mu/sigma": ratio,
                "log c": float(log_z - 0.5 * ratio**2 - np.log(theory.SQRT_2PI * sigma)),
                "log(√2π σ)": float(np.log(theory.SQRT_2PI * sigma)),
                "mu²/2σ²": 0.5 * ratio**2,
                "sum = -log p_1": float(log_z),
                "H": float(theory.rank_entropy(*theory.natural(ratio * sigma, sigma))),
            }
        )
    return _frame(rows)


def fraction_frame(sigmas=(10.0, 1e2, 1e3, 1e4, 1e5)):
    """The fraction of Eq. D(27) against |log c| along a = ln sigma, where both limits of the paper hold."""
    rows = []
    for sigma in sigmas:
        a = np.log(sigma)
        law = theory.natural(-a * sigma, sigma)
        log_z, H = theory.log_z(*law), theory.rank_entropy(*law)
        log_c = log_z - np.log(theory.SQRT_2PI * sigma) - a**2 / 2
        rows.append(
            {"sigma": sigma, "a": a, "log c": log_c, "fraction (27)": H - log_z, "ratio": (H - log_z) / abs(log_c)}
        )
    return _frame(rows)


def _rank_law(p, q):
    """Share of each rank, averaged over positions, for model p and truth q, float64 (positions, tokens) each."""
    return np.mean([b[np.argsort(-a, kind="stable")] for a, b in zip(p, q, strict=True)], axis=0)


def entropy_examples():
    """Five models of two positions and three tokens: cross-entropy, rank entropy, I(R; X) and KL in nats."""
    same = np.array([[0.6, 0.3, 0.1]] * 2)
    sure = np.array([[0.98, 0.01, 0.01], [0.34, 0.33, 0.33]])

    def softer(p, T):
        x = p ** (1 / T)
        return x / x.sum(1, keepdims=True)

    cases = {
        "calibrated, one profile everywhere": (same, same),
        "calibrated, sure here and unsure there": (sure, sure),
        "one profile, too sure of itself": (np.array([[0.9, 0.08, 0.02]] * 2), same),
        "the second with logits divided by 5": (softer(sure, 5), sure),
        "the second with logits divided by 5.695": (softer(sure, 5.695), sure),
    }
    rows = []
    for name, (p, q) in cases.items():
        r = _rank_law(p, q)
        H = -(r @ np.log(r))
        inner = -(q * np.log(q)).sum() / len(q)
        KL = (q * np.log(q / p)).sum() / len(q)
        rows.append({"model": name, "CE": inner + KL, "H(R)": H, "I(R;X)": max(0.0, round(H - inner, 12)), "KL": KL})
    return _frame(rows)


def hypothesis_frame(gpt2=GPT2):
    """The second hypothesis in its readings, anchored at the authors' pair and calibrated to their GPT-2 points."""
    S, loss, _ = published.gpt2_reference("neg_log_rbp")
    wide, rows = np.geomspace(S[0], 1000 * S[0], 7), []
    for scale in ("S", "log S"):
        for keep in ("sigma", "mu", "root"):
            rate = hypothesis.calibrated_rate(S, *gpt2, loss[-1] / loss[0], scale, keep)
            path = hypothesis.parameter_path(S, *gpt2, rate, scale, keep)
            one, two = (
                hypothesis.log_line(S, y)
                for y in (theory.neg_log_p1(*path), theory.rank_entropy(*theory.natural(*path)))
            )
            far = theory.neg_log_p1(*hypothesis.parameter_path(wide, *gpt2, rate, scale, keep))
            local = -np.diff(np.log(far)) / np.diff(np.log(wide))
            rows.append(
                {
                    "linear in": scale,
                    "kept": {"sigma": "sigma", "mu": "mu", "root": "sigma²/|mu/sigma|"}[keep],
                    "slope of -log p_1": one[0],
                    "R²": one[1],
                    "slope of H": two[0],
                    "ratio": two[0] / one[0],
                    "R² over 3 decades": hypothesis.log_line(wide, far)[1],
                    "local exponent: first": local[0],
                    "last": local[-1],
                }
            )
    return _frame(rows)


def exponents_frame(ks=(1, 10, 100, 1000, 10_000), gpt2=GPT2, vocab_size=50_257):
    """alpha_k / alpha_1 in the authors' GPT-2 figure and under four laws of ranks."""
    ks = np.array(ks)
    _, slopes, _ = published.gpt2_reference("slope")
    rows = {
        "authors' GPT-2 figure": slopes / slopes[0],
        "lognormal, mu moving": hypothesis.exponents_over_k(ks, hypothesis.fixed_sigma_misses(ks, *gpt2)),
        "the same on 1..V": hypothesis.exponents_over_k(ks, hypothesis.fixed_sigma_misses(ks, *gpt2, vocab_size)),
        "lognormal, ceiling (Eq. 9)": hypothesis.exponents_over_k(ks, hypothesis.ceiling_misses(ks, 0.69, 3.52)),
        "Fréchet of fixed shape": np.ones(len(ks)),
    }
    return _frame([{"law": name} | {f"k = {k}": v for k, v in zip(ks, row, strict=True)} for name, row in rows.items()])


def emergence_frame(ps, rhos=(0.02, 0.05, 0.1, 0.2), iccs=(0.002, 0.005, 0.01, 0.02, 0.05), N=100):
    """log10 of p_N over RBP^N: orders of magnitude by which dependence helps."""
    rows = []
    for p in ps:
        alone, row = runs.log_run_independent(p, N), {"p": p}
        row |= {f"ρ = {r}": (runs.log_run_markov(p, N, r) - alone) / np.log(10) for r in rhos}
        row |= {f"ICC = {i}": (runs.log_run_beta(p, N, i) - alone) / np.log(10) for i in iccs}
        rows.append(row)
    return _frame(rows)


def precision_frame(models=7, decades=3, n_tokens=5e5):
    """Effective misses a model needs for a given interval of alpha, and the RBP_k that leaves them."""
    from scipy import stats

    S, t = np.geomspace(1, 10**decades, models), stats.t.ppf(0.975, models - 2)
    rows = []
    for width, quantile, known in ((0.01, 1.96, True), (0.01, t, False), (0.005, 1.96, True), (0.005, t, False)):
        m = noise.misses_needed(S, width, quantile)
        row = {
            "95% interval of alpha": f"±{width}",
            "variance": "known" if known else "estimated",
            "effective misses": m,
        }
        rows.append(row | {f"RBP_k, design effect {d}": 1 - d * m / n_tokens for d in (1, 4, 10)})
    return _frame(rows)
