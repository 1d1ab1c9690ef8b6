"""Do the intervals cover? Families with a planted exponent are drawn, fitted and counted, thousands of times.

Documents differ in difficulty (a factor shared by all models), and on one document the misses of a larger model lie
among those of a smaller one, so that the models see the same hard tokens. Both are what makes pairing matter.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rbplib.laws.bootstrap import bca_interval, line, percentile_interval
from rbplib.laws.losses import Loss, logarithm
from rbplib.laws.noise import y_se

METHODS = ("paired documents", "paired documents, BCa", "unpaired documents", "independent tokens")
BLOCK = 100  # families that share one set of resamples: small, so that the sets' own luck averages out


@dataclass(frozen=True)
class Design:
    """What a family of the simulation looks like. Defaults: a corpus like the embedded ones."""

    documents: int = 200
    tokens: int = 256  # mean per document; lengths vary by half
    clustering: float = 0.5  # sd of the documents' difficulty factor, whose mean is 1
    alpha: float = 0.1
    loss: float = 0.6  # -log RBP_k of the smallest model
    models: int = 7
    decades: float = 3.0

    @property
    def S(self):
        return np.geomspace(1e4, 1e4 * 10**self.decades, self.models)

    @property
    def miss(self):
        """1 - RBP_k of each model: float64 (M,), exact by construction."""
        return -np.expm1(-self.loss * (self.S / self.S[0]) ** -self.alpha)

    @property
    def expected_misses(self):
        """Of the largest model, over the whole corpus."""
        return float(self.miss[-1] * self.documents * self.tokens)


def drawn_misses(design, families, rng):
    """Misses and lengths of simulated families: int64 (F, D, M) and (F, D).

    The difficulty factor is a scaled beta variable: mean exactly 1, and no miss probability can pass 1.
    """
    shape = (families, design.documents)
    totals = rng.integers(design.tokens // 2, design.tokens * 3 // 2 + 1, shape)
    top = 1 / design.miss[0]
    if design.clustering:
        strength = (top - 1) / design.clustering**2 - 1
        if strength <= 0:
            raise ValueError("Documents cannot differ that much: the hardest would miss more than every token.")
        factor = top * rng.beta(strength / top, strength * (1 - 1 / top), shape)
    else:
        factor = np.ones(shape)
    misses = np.empty((*shape, design.models), dtype=np.int64)
    left = totals
    for model, miss in enumerate(design.miss):
        share = miss / design.miss[model - 1] if model else np.clip(miss * factor, 0, 1)
        left = misses[:, :, model] = rng.binomial(left, share)
    return misses, totals


def coverage(design, methods=METHODS, families=1000, n_resamples=1000, seed=0, level=0.95):
    """How often each kind of interval holds the planted exponent and the planted RBP_k of the largest model.

    Args:
        design: Design.
        methods: out of METHODS.
        families: simulated families; the simulation error of a rate near 95% is sqrt(.05 * .95 / families).
        n_resamples: B per family.
    Returns:
        data frame, a row per method and target: the share of intervals that hold the planted value, its simulation
        error, their mean width, and the share of families without an interval (counted as not covering).
    Cost: 1,000 families of 200 documents take about a second per method.
    """
    rng = np.random.default_rng(seed)
    truth = {"alpha": design.alpha, "RBP": float(1 - design.miss[-1])}
    ends = {(method, target): [] for method in methods for target in truth}
    for start in range(0, families, BLOCK):
        misses, totals = drawn_misses(design, min(BLOCK, families - start), rng)
        for method in methods:
            for target, interval in _intervals(method, misses, totals, design, n_resamples, rng, level).items():
                ends[method, target].append(interval)
    rows = []
    for (method, target), parts in ends.items():
        low, high = np.concatenate(parts, axis=1)
        rate = float(((low <= truth[target]) & (truth[target] <= high)).mean())
        row = {"method": method, "target": target, "covered": rate}
        row["simulation error"] = np.sqrt(max(rate * (1 - rate), 0.25 / families) / families)
        row |= {"mean width": np.nanmean(high - low), "without interval": (np.isnan(low) | np.isnan(high)).mean()}
        rows.append(row)
    return pd.DataFrame(rows)


def _intervals(method, misses, totals, design, n_resamples, rng, level):
    """{"alpha": (2, F), "RBP": (2, F)} for a block of families, through the losses that pages fit."""
    x = np.log(design.S)
    loss = Loss(sums=(totals[..., None] - misses).transpose(1, 0, 2), totals=totals.T, S=design.S)  # (D, F, M)
    if method == "independent tokens":
        return _token_intervals(loss, x, level)
    if method == "unpaired documents":
        alone = [Loss(sums=loss.sums[..., [m]], totals=loss.totals, S=design.S[[m]]) for m in range(len(x))]
        drawn = np.concatenate([one.resampled(n_resamples, rng, least=1).loss for one in alone], axis=-1)
    else:
        drawn = loss.resampled(n_resamples, rng, least=1).loss  # (B, F, M)
    alphas, rbp = -line(logarithm(drawn), x)[0], np.exp(-drawn[..., -1])
    if not method.endswith("BCa"):
        return {"alpha": percentile_interval(alphas, level), "RBP": percentile_interval(rbp, level)}
    left = loss.jackknife()
    return {
        "alpha": bca_interval(alphas, -line(loss.y, x)[0], -line(left.y, x)[0], level),
        "RBP": bca_interval(rbp, np.exp(-loss.values[:, -1]), np.exp(-left.loss[..., -1]), level),
    }


def _token_intervals(loss, x, level):
    """What tokens taken as independent, and models as measured on different ones, would give (normal theory)."""
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + level) / 2)
    length, rbp = loss.total, np.exp(-loss.values)  # (F,), (F, M)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(np.isfinite(loss.y), y_se(1 - rbp, length[:, None]) ** 2, np.nan)
    alpha, centred = -line(loss.y, x)[0], x - x.mean()
    half = z * np.sqrt(variance @ (centred / (centred @ centred)) ** 2)
    spread = z * np.sqrt(rbp[:, -1] * (1 - rbp[:, -1]) / length)
    return {"alpha": np.stack([alpha - half, alpha + half]), "RBP": rbp[:, -1] + np.stack([-spread, spread])}
