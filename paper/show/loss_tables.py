"""Tables of the page on the three losses: their values, their exponents, and how these differ."""

from operator import itemgetter
from types import SimpleNamespace

import numpy as np
import pandas as pd

from paper.families import exponent_difference
from paper.ladders import exponent_ratio
from paper.show.tables import ends
from paper.steps import size_spread
from rbplib.law import fit
from rbplib.losses import spread_of_trainings
from rbplib.noise import half_width, own_seeds


def loss_frame(losses, interval):
    """One row per model of `losses.family_losses`; interval: of the gap between the first two, (2, M)."""
    entropy, ranks, top, floor = losses.values()
    measured = {loss.name: loss.values for loss in (entropy, ranks, top)}
    gap = {"CE less H(R)": entropy.values - ranks.values, **ends(interval)}
    return pd.DataFrame({"model": top.models, "S": top.S.astype(int), **measured, **gap, "E ln R": floor.values})


def loss_exponents(losses, n_bootstrap=10_000, seed=42):
    """One row per loss of `losses.family_losses`: exponent with its intervals, R², and -log RBP_1 against it.

    The difference is its exponent less that of -log RBP_1, on the same resamples and the same trainings; the ratio is
    that of -log RBP_1 over its own by Fieller's theorem, NaN where the two rest on other models. Intervals with
    trainings are NaN where their scatter is not known.
    """
    *others, top, _ = losses.values()
    laws = [fit(loss, n_bootstrap=n_bootstrap, seed=seed) for loss in (*others, top)]
    rows = []
    for law in laws:
        gap, interval = np.nan, (nothing := (np.nan, np.nan))
        if law.loss is not top:
            gap, interval = exponent_difference(top, law.loss, n_bootstrap=n_bootstrap, seed=seed)
        row = {"loss": law.loss.name, "alpha": law.alpha, **ends(law.ci_tokens, "other text: ")}
        row |= {**ends(law.ci_trainings, "and trainings: "), "R²": law.r2}
        row |= {"less that of -log RBP_1": gap, **ends(interval, "difference: ")}
        row |= ends(with_trainings(top, law.loss, gap, interval), "difference, and trainings: ")
        alike = law.used == laws[-1].used
        ratio, around = (
            exponent_ratio(law, laws[-1]) if alike and law is not laws[-1] else (float(alike) or np.nan, nothing)
        )
        rows.append(row | {"ratio": ratio, **ends(around, "ratio over other sizes: ")})
    return pd.DataFrame(rows)


def with_trainings(first, second, gap, interval):
    """The 95% interval of `exponent_difference` with the scatter between trainings, in which both losses move."""
    known = np.isfinite(gap) and first.repeats is not None and second.repeats is not None
    sd, df = spread_of_trainings(first.repeats.y - second.repeats.y, first.repeats.S) if known else (np.nan, 0)
    if not df:
        return np.nan, np.nan
    sources, trainings = ((interval[1] - interval[0]) / 2 / 1.96) ** 2, sd**2 / size_spread(first.S)
    if not sources + trainings > 0:
        return np.nan, np.nan
    half = half_width(sources, first.n_sources - 1, trainings, df, own_seeds(first, df))
    return gap - half, gap + half


def entropy_cases(curves, ks):
    """Does cross-entropy tell RBP_k? A quadratic in its log is fitted to log(-log RBP_k) of all models on one corpus.

    A case for each corpus, k and size of vocabulary (losses per token of unlike ones are not compared): models, r2, sd
    of the residuals, times that between trainings of one size, p_of_one_curve (F test of these; NaN: none known).
    """
    from scipy.special import fdtrc

    groups, cases = {}, []
    for c, k in ((c, k) for c in curves for k in ks if k in c.ks):
        groups.setdefault((c.corpus, c.vocab_size, k), []).append((c.cross_entropy_loss(), c.loss(k)))
    for (corpus, _, k), pairs in groups.items():
        points = np.array([np.concatenate([loss.y for loss in of]) for of in zip(*pairs, strict=True)])
        x, y = points[:, np.isfinite(points).all(axis=0)]
        if (spare := len(np.unique(x)) - 3) < 1 or np.ptp(y) == 0:
            continue
        squares = np.sum((y - np.polyval(np.polyfit(x, y, 2), x)) ** 2)
        variance, _, df = max((loss.training_variance for _, loss in pairs), key=itemgetter(2))
        case = SimpleNamespace(corpus=corpus, k=k, models=len(x), r2=1 - squares / np.var(y) / len(y))
        case.sd, case.times = np.sqrt(squares / spare), np.sqrt(squares / spare / variance)
        case.p_of_one_curve = float(fdtrc(spare, df, case.times**2)) if df else np.nan
        cases.append(case)
    return cases
