"""What R^2 would a true power law show, given how few misses are left at large k?

The documents are resampled; what they make of log(-log RBP_k) is laid on an exact power law, which is fitted again.
The share of those fits that look as bad as the measured one tells noise from a real break (theory: SE about 1/sqrt(m)).
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.laws.bootstrap import MIN_DOCUMENTS, line
from rbplib.laws.law import fit_law, fit_laws, resampled_losses


@dataclass(frozen=True)
class NoiseFloor:
    """One k of one curve; NaN where some model has no miss at all, for then its logarithm does not exist."""

    k: int
    alpha: float  # of the exact law that was assumed
    misses: np.ndarray  # int64 (M,)
    sd: np.ndarray  # float64 (M,), of log(-log RBP_k) over resampled documents
    deff: np.ndarray  # float64 (M,), variance of the misses over that of independent tokens
    r2: float  # measured
    r2_band: tuple[float, float, float]  # 5%, 50%, 95% under the exact law
    worse: float  # share of fits under the exact law with an R^2 below the measured one
    wrong_sign: float  # share of those fits in which larger models seem worse
    excess_sd: float  # measured scatter of the models beyond the documents' noise


def noise_floor(curve, k, alpha=None, n_bootstrap=10_000, seed=42, resamples=None):
    """Noise floor of one k.

    Args:
        curve: Curve with at least three models.
        k: one of its ks.
        alpha: exponent of the exact law; the maximum-likelihood one at this k when not given.
        resamples: from `laws.resampled_losses`, to share them between k.
    Returns:
        NoiseFloor.
    """
    resamples = resamples or resampled_losses(curve, n_bootstrap, seed)
    law = fit_law(curve, k, n_bootstrap=n_bootstrap, seed=seed, resamples=resamples)
    alpha = fit_law(curve, k, "binomial", n_bootstrap=0).alpha if alpha is None else alpha
    misses, total = curve.misses[:, curve.index(k)], curve.scored_tokens
    nothing = np.full(len(misses), np.nan)
    if resamples is None or law.n_models < len(curve.models):
        return NoiseFloor(k, alpha, misses, nothing, nothing, law.r2, (np.nan,) * 3, np.nan, np.nan, law.excess_sd)
    with np.errstate(divide="ignore"):
        y = np.log(resamples.loss[:, :, curve.index(k)])  # (B, M)
    y = y[np.isfinite(y).all(axis=1)]
    x, q = np.log(curve.S), misses / total
    exact = law.y.mean() - alpha * (x - x.mean())
    slope, _, r2 = line((exact + y - law.y)[:, :, None], x)
    sd = y.std(axis=0)
    independent = np.sqrt(q / ((1 - q) * total)) / -np.log1p(-q)
    band = tuple(float(b) for b in np.quantile(r2, [0.05, 0.5, 0.95]))
    return NoiseFloor(k, alpha, misses, sd, (sd / independent) ** 2, law.r2, band, float((r2 < law.r2).mean()),
                      float((slope > 0).mean()), law.excess_sd)  # fmt: skip


def fewer_documents(curve, share, seed=42):
    """The same curve on a random share of its documents: noise grows as 1 over the root of the share, a break stays."""
    count = max(1, round(share * len(curve.totals)))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(curve.totals))[:count])
    return replace(curve, hits=curve.hits[chosen], totals=curve.totals[chosen], nll=curve.nll[chosen])


def noise_frame(floors, vocab_size):
    """One row per k: for a table on a page."""
    import pandas as pd

    return pd.DataFrame(
        {
            "k": f.k,
            "k / |V|": f.k / vocab_size,
            "misses, smallest model": int(f.misses[0]),
            "misses, largest model": int(f.misses[-1]),
            "sd of y, largest": f.sd[-1],
            "1/√misses": 1 / np.sqrt(f.misses[-1]) if f.misses[-1] else np.nan,
            "design effect": f.deff[-1],
            "R²": f.r2,
            "R² under the law: 5%": f.r2_band[0],
            "median": f.r2_band[1],
            "as bad by noise alone": f.worse,
            "wrong sign by noise alone": f.wrong_sign,
            "scatter beyond noise": f.excess_sd,
        }
        for f in floors
    )


def share_frame(curves, ks, shares=(0.25, 0.5, 1.0), n_bootstrap=2000, seed=42):
    """Scatter of the models around the line on shares of the documents, for the corpora that can be split so far."""
    import pandas as pd

    whole = [c for c in curves if round(min(shares) * len(c.totals)) >= MIN_DOCUMENTS]
    rows = [
        {"share of documents": share, "corpus": w.corpus, "k": w.k, "scatter": w.residual_sd, "noise": w.noise_sd,
         "beyond noise": w.excess_sd, "R²": w.r2}
        for share in shares
        for c in whole
        for w in fit_laws(fewer_documents(c, share, seed), ks, n_bootstrap=n_bootstrap, seed=seed)
    ]  # fmt: skip
    columns = ["share of documents", "corpus", "k", "scatter", "noise", "beyond noise", "R²"]
    return pd.DataFrame(rows, columns=columns)  # the columns are there even where no corpus is large enough


def log_loss_se(q, n, deff=1.0):
    """Standard error of log(-log RBP_k) at miss rate q = 1 - RBP_k from n tokens (label eq-se).

    deff is the design effect of clustering by document: the variance of the miss count over its binomial variance.
    """
    q = np.asarray(q, float)
    return np.sqrt(deff * q / (n * (1 - q))) / -np.log1p(-q)


def log_loss_bias(q, n, deff=1.0):
    """Second-order bias of log(-log RBP_k), about -1/(2 m) at m = n q misses (label eq-bias)."""
    L = -np.log1p(-np.asarray(q, float))
    return 0.5 * deff * q / (n * (1 - q)) * (L - 1) / L**2


def size_spread(S):
    """S_xx, the sum of squared deviations of ln S: the leverage a ladder of model sizes gives to a slope."""
    x = np.log(np.asarray(S, float))
    return float(((x - x.mean()) ** 2).sum())


def slope_se(S, m_eff):
    """Standard error of alpha from sizes S with m_eff effective misses a model (tokens as the only noise, unpaired)."""
    return 1 / np.sqrt(size_spread(S) * np.asarray(m_eff, float))


def misses_needed(S, half_width, quantile=1.959963984540054):
    """Effective misses per model for an interval of alpha of the given half-width (label eq-floor)."""
    return (quantile / half_width) ** 2 / size_spread(S)


def expected_r2(alpha, S, m_eff):
    """R^2 to expect from a perfectly valid law when sampling noise is the only scatter (label eq-r2)."""
    signal = alpha**2 * size_spread(S)
    return signal / (signal + (len(S) - 2) / np.asarray(m_eff, float))


def largest_rbp(alpha, S, n, deff=1.0, r2=0.9):
    """Largest RBP_k at which a valid law with exponent alpha still shows the given R^2 on n tokens (label eq-floor)."""
    needed = (len(S) - 2) * r2 / (1 - r2) / (alpha**2 * size_spread(S))
    return 1 - needed * deff / n
