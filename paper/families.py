"""All families and corpora side by side: what they share, families as the replicates, and where
they differ.

Ranks at nested k, corpora read by the same models and models on the same text are not independent.
So a question is first put to each family on each corpus as one number, a `Contrast`; corpora of a
family are averaged; and the test is Student's t over families, beside what the choice of sources
and the training of each model alone would make of it.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from paper.steps import slope_weights as slope_weights
from paper.steps import spread_of_trainings
from paper.steps import step_weights as step_weights
from rbplib.bootstrap import percentile_interval

NONE = (np.nan, np.nan)
TINY = 1e-300


@dataclass(frozen=True)
class Contrast:
    """weights . y of one family on one corpus; y = log loss of each model, or the difference of two
    losses' y.
    """

    family: str
    corpus: str
    value: float
    drawn: np.ndarray | None  # float64 (B,), over resampled sources, the same ones for every family
    n_sources: int
    length: float  # |weights|: trainings of standard deviation sd move the value by sd * length
    repeats_y: np.ndarray | None  # float64 (R,), of models from other seeds, several of one size
    repeats_S: np.ndarray | None

    @property
    def interval(self):
        """95%, over sources; (NaN, NaN) where they are too few to resample."""
        return NONE if self.drawn is None else tuple(percentile_interval(self.drawn).tolist())


@dataclass(frozen=True)
class Effect:
    """A mean over families, and what noise alone, were the truth 0 in every family,
    would make of it.

    Families may have one seed, one order of the text and one borrowed scatter, so their trainings'
    noise counts as wholly common, the worst case: a mean over families takes nothing off it.
    """

    estimate: float
    interval: tuple[float, float]  # 95%, Student's t over families
    p: float
    groups: int
    sources_sd: float = np.nan
    trainings_sd: float = np.nan
    noise_p: float = np.nan  # of a mean as large from sources and, where they are known, trainings


def bend_weights(S):
    """Weights whose product with y is the exponent of the last step less the mean of those before
    it, float64 (M,).
    """
    steps = step_weights(S)
    return steps[-1] - steps[:-1].mean(axis=0)


def local_exponents(pairs, n_bootstrap=10_000, seed=42):
    """(middle of each step in size, mean exponent there, 1.96 sd of its noise) of `contrasts`'
    pairs: float64 (sizes - 1,) each."""
    S, rows = np.unique([S for pair in pairs for S in pair[0].S]), []
    for i in range(len(S) - 1):
        parts = contrasts(pairs, lambda S, i=i: step_weights(S)[i], n_bootstrap, seed)
        step = pooled(parts)
        noise = np.nan_to_num([step.sources_sd, step.trainings_sd])
        rows.append((step.estimate, 1.96 * np.hypot(*noise)))
    return np.sqrt(S[1:] * S[:-1]), *np.reshape(rows, (-1, 2)).T


def contrasts(pairs, weights, n_bootstrap=10_000, seed=42):
    """A Contrast of each pair of three sizes or more whose models all have a value.

    Args:
        pairs: lists of one Loss, or of two of the same models on the same documents, of which the
            second's y is taken off the first's.
        weights: of the sizes, such as `bend_weights`.
    """
    parts = []
    for pair in pairs:
        first = pair[0]
        whole = all(np.isfinite(loss.y).all() for loss in pair)
        if not whole or len(np.unique(first.S)) < 3:
            continue
        w, drawn, repeats = weights(first.S), None, (None, None)
        resamples = [loss.resampled(n_bootstrap, seed) for loss in pair]
        if resamples[0] is not None:
            drawn = less(resamples) @ w
        if first.repeats is not None:
            repeats = less([loss.repeats for loss in pair]), first.repeats.S
        key, about = (first.family, first.corpus), (first.n_sources, float(np.sqrt(w @ w)))
        parts.append(Contrast(*key, float(w @ less(pair)), drawn, *about, *repeats))
    return parts


def less(pair):
    """y of the first, or of the first less the second."""
    return pair[0].y - pair[1].y if len(pair) > 1 else pair[0].y


def pooled(contrasts):
    """Effect of contrasts: first a mean over the corpora of a family, which share its models, then
    over families.
    """
    families = {}
    for part in contrasts:
        families.setdefault(part.family, []).append(part)
    effect = mean_over(means("value", families))
    if not families or any(c.drawn is None for c in contrasts):
        return effect

    # noise of the sources
    sources = noise = float(np.nanstd(np.mean(means("drawn", families), axis=0), ddof=1))
    free, trainings = min(c.n_sources for c in contrasts) - 1, np.nan

    # and of the trainings, as if those of all families moved together
    if all(c.repeats_y is not None for c in contrasts):
        sizes = [group[0].repeats_S for group in families.values()]
        scatter = map(spread_of_trainings, means("repeats_y", families), sizes)
        sds, dfs = zip(*scatter, strict=True)
        trainings = float(np.mean(np.multiply(sds, means("length", families))))
        if min(dfs):
            noise = float(np.hypot(sources, trainings))
            # of a sum of two variances (Welch and Satterthwaite)
            both = sources**2, trainings**2
            parts = both[0] ** 2 / free + both[1] ** 2 / min(dfs)
            free = sum(both) ** 2 / max(parts, TINY)
    p = two_sided(effect.estimate, noise, free)
    return replace(effect, sources_sd=sources, trainings_sd=trainings, noise_p=p)


def means(name, families):
    """Means of a field over the corpora of each family, which share its models."""
    rows = []
    for group in families.values():
        rows.append(np.mean([getattr(c, name) for c in group], axis=0))
    return rows


def mean_over(values):
    """Effect of one number a family, (F,): those without a value are left out; one family has no
    interval.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    n, mean = len(values), float(values.mean()) if len(values) else np.nan
    if n < 2:
        return Effect(mean, NONE, np.nan, n)
    error = values.std(ddof=1) / np.sqrt(n)
    half = float(stdtrit(n - 1, 0.975) * error)
    return Effect(mean, (mean - half, mean + half), two_sided(mean, error, n - 1), n)


def two_sided(mean, sd, df):
    """p of a mean with this standard deviation by Student's t; NaN without any."""
    return float(2 * stdtr(df, -abs(mean) / sd)) if sd else np.nan
