"""Do the intervals cover, and do the tests reject as often as they say? Counted on families with a planted law.

Whatever is counted comes from `fit` and `extrapolate`, as on the pages.
"""

from statistics import NormalDist

import numpy as np
import pandas as pd

from paper.steps import slope_weights, y_se
from rbplib.bootstrap import bca_interval, line, percentile_interval
from rbplib.extrapolation import extrapolate
from rbplib.law import fit
from rbplib.losses import logarithm, minus_log

THESE, ANY = "alpha of these models", "alpha of any training"
RBP, NEXT = "RBP of the largest", "next model"
RESAMPLED = ("sources", "sources, BCa", "sources, unpaired")
BLOCK = 20  # families that share one set of resamples: small, so that the sets' own luck averages out


def coverage(designs, families=400, n_resamples=500, seed=0, level=0.95, progress=iter):
    """How often each interval holds what it is about, and how often each test rejects a law that is true.

    Args:
        designs: {name: Design}. families: drawn of each; a rate p has the simulation error sqrt(p (1 - p) / families).
        n_resamples: B of each family. level: of the intervals; tests reject at 1 - level.
    Returns:
        two data frames: a row per design, interval and what it is about, with the share that covered, its simulation
        error, the mean width and the share without an interval (they do not cover); a row per design and noise that the
        law was tested against, with the share that rejected, its simulation error and the share without a p.
    Cost: about 12 ms a family of six models.
    """
    ends, tests = [], []
    for name, design in progress(designs.items()):
        rng = np.random.default_rng(seed)
        for i in range(0, families, BLOCK):
            for loss, y in design.losses(min(BLOCK, families - i), rng):
                found, ps = judged(loss, y, design.alpha, n_resamples, seed + i, level)
                ends += [(name, *what, *interval) for what, interval in found.items()]
                tests += [(name, *test) for test in ps.items()]
    ends = pd.DataFrame(ends, columns=["design", "of", "interval", "low", "high", "truth"])
    ends = ends.assign(covered=ends["truth"].between(ends["low"], ends["high"]), width=ends["high"] - ends["low"])
    tests = pd.DataFrame(tests, columns=["design", "against", "p"])
    tests = tests.assign(rejected=tests["p"] < 1 - level)
    covered = _rates(ends.groupby(["design", "of", "interval"], sort=False), "covered", "width", "interval")
    rejected = _rates(tests.groupby(["design", "against"], sort=False), "rejected", "p", "p")
    return covered, rejected.drop(columns="mean p")


def _rates(groups, held, value, what):
    """Of each group the share that held, its simulation error, the mean of a value and the share without what."""
    rate, n = groups[held].mean(), groups.size()
    error, without = np.sqrt(np.maximum(rate * (1 - rate), 0.25 / n) / n), 1 - groups[value].count() / n
    found = {held: rate, "simulation error": error, f"mean {value}": groups[value].mean(), f"without {what}": without}
    return pd.DataFrame(found).reset_index()


def judged(loss, y, alpha, n_resamples, seed, level=0.95):
    """({(target, interval): (low, high, truth)}, {noise: p of the lack of fit}) of one family, as pages compute them.

    Targets: the exponent of these very models on endless text, that of the planted law (any training), RBP_k of the
    largest model, and the largest model as predicted from the others. The intervals over sources are also computed for
    fewer sources than MIN_DOCUMENTS, where pages give none.
    """
    law = fit(loss, n_bootstrap=n_resamples, seed=seed, level=level)
    documents, part, used = law.over_documents, loss.keep(list(law.used)), y[list(law.used)]
    ends = dict.fromkeys((*RESAMPLED, "tokens"), (np.nan, np.nan)) | {"documents": documents.ci_tokens}
    these = np.nan
    if np.isfinite(law.alpha):
        ends |= _resampled(part, law, n_resamples, seed) | {"tokens": token_interval(part, law.alpha, level)}
        these = -line(used, np.log(law.S))[0]
    found = {(THESE, name): (*pair, these) for name, pair in ends.items()}
    planted = {"sources": ends["sources"], "sources and trainings": law.ci_trainings, "models": law.ci_models}
    found |= {(ANY, name): (*pair, alpha) for name, pair in planted.items()}
    for name, band in (("sources", law.token_band), ("documents", documents.token_band)):
        found[RBP, name] = (*(np.full(2, np.nan) if band is None else band[:, -1]), used[-1] if len(used) else np.nan)
    if len(loss.models) > 3:
        held = extrapolate(loss, level=level)
        found[NEXT, "models"] = (*held.interval[:, 0], held.observed[0])
    noises = (documents.lack_of_fit_p, law.lack_of_fit_p, law.trained_lack_of_fit_p)
    return found, dict(zip(("documents", "sources", "sources and trainings"), noises, strict=True))


def _resampled(part, law, n_resamples, seed):
    """{name: interval of alpha} for RESAMPLED, from one set of resampled sources."""
    drawn = part.resampled(n_resamples, seed, least=1).y
    paired, left, alone = (-line(y, np.log(part.S))[0] for y in (drawn, part.jackknife().y, apart(drawn)))
    corrected = bca_interval(paired[:, None], np.array([law.alpha]), left[:, None], law.level)[:, 0]
    ends = percentile_interval(paired, law.level), corrected, percentile_interval(alone, law.level)
    return dict(zip(RESAMPLED, ends, strict=True))


def token_interval(loss, alpha, level):
    """Ends for alpha were tokens independent and each model scored on tokens of its own (normal theory)."""
    se = y_se(-np.expm1(-loss.values), loss.total)
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(se**2 @ slope_weights(loss.S) ** 2)
    return alpha - half, alpha + half


def apart(drawn):
    """Resampled values (B, M) with each model's from other resamples: rows are drawn independently."""
    return np.stack([np.roll(column, i) for i, column in enumerate(drawn.T)], axis=1)


def drawn_exponents(loss, tables=(), n_resamples=4000, seed=42):
    """{what was drawn: alpha of a Loss of hits by least squares, float64 (B,)}: tokens, documents, sources; unpaired.

    All models have the same draws; "..., unpaired": each its own. What there are fewer than MIN_DOCUMENTS of is not
    drawn, sources also where each document is its own. Empty without three sizes.
    tables: rank tables of the models, in the order of the loss; without them tokens are not drawn.
    """
    used = np.flatnonzero(np.isfinite(loss.y))
    part, rng, found = loss.keep(used), np.random.default_rng(seed), {}
    if len(np.unique(part.S)) < 3 or loss.equal:
        return {}
    if tables:
        hits = [[p.rank(loss.definition) <= loss.k for p in tables[i].parts("greater", "ties")] for i in used]
        alike, tokens = np.unique([np.concatenate(of_model) for of_model in hits], axis=1, return_counts=True)
        drawn = rng.multinomial(part.total, tokens / part.total, n_resamples) @ alike.T
        found["tokens"] = logarithm(minus_log(drawn / part.total))
    ways = {"documents": part.over_documents()} | ({"sources": part} if part.n_sources < part.n_documents else {})
    found |= {name: values.y for name, way in ways.items() if (values := way.resampled(n_resamples, seed))}
    found |= {f"{name}, unpaired": apart(y) for name, y in found.items()}
    return {name: -line(y, np.log(part.S))[0] for name, y in found.items()}
