"""All families and corpora side by side: what they share, families as the replicates, and where they differ.

Ranks at nested k, corpora read by the same models and models on the same text are not independent. So a question is
first put to each family on each corpus as one number, a `Contrast`; corpora of a family are averaged; and the test is
Student's t over families, beside what the choice of sources and the training of each model alone would make of it.
"""

from dataclasses import dataclass, replace

import numpy as np

from paper.steps import slope_weights, step_weights
from rbplib.bootstrap import percentile_interval
from rbplib.losses import check_models, spread_of_trainings
from rbplib.noise import NONE, pooled_df


@dataclass(frozen=True)
class Contrast:
    """weights . y of one family on one corpus; y = log loss of each model, or the difference of two losses' y."""

    family: str
    corpus: str
    value: float
    drawn: np.ndarray | None  # float64 (B,), over resampled sources, the same ones for every family
    n_sources: int
    length: float  # |weights|: trainings of standard deviation sd move the value by sd * length
    again: tuple | None  # (y (R,), S (R,)) of models of which several have one size, from other seeds

    @property
    def interval(self):
        """95%, over sources; (NaN, NaN) where they are too few to resample."""
        return NONE if self.drawn is None else tuple(percentile_interval(self.drawn).tolist())


@dataclass(frozen=True)
class Effect:
    """A mean over families, and what noise alone, were the truth 0 in every family, would make of it.

    Families may have one seed, one order of the text and one borrowed scatter, so their trainings' noise counts as
    wholly common, the worst case: a mean over families takes nothing off it.
    """

    estimate: float
    interval: tuple[float, float]  # 95%, Student's t over families
    p: float
    groups: int
    sources_sd: float = np.nan
    trainings_sd: float = np.nan
    noise_p: float = np.nan  # of a mean as large from sources and, where they are known, trainings


def bend_weights(S):
    """Weights whose product with y is the exponent of the last step less the mean of those before it, float64 (M,)."""
    steps = step_weights(S)
    return steps[-1] - steps[:-1].mean(axis=0)


def contrasts(curves, weights, losses, n_bootstrap=10_000, seed=42):
    """A Contrast of each curve of three sizes or more whose models all have a value.

    Args:
        curves: list of Curve. weights: of the sizes, such as `bend_weights`.
        losses: gives of a curve [Loss], or two, of which the second's y is taken off the first's.
    """
    pairs = [losses(curve) for curve in curves if len(np.unique(curve.S)) > 2]
    told = [pair for pair in pairs if all(np.isfinite(loss.y).all() for loss in pair)]
    return [contrast(pair, weights, n_bootstrap, seed) for pair in told]


def contrast(pair, weights, n_bootstrap=10_000, seed=42):
    """The Contrast of one Loss, or of two of the same models on the same documents, in a list; see `contrasts`."""
    w, again = weights(pair[0].S), [loss.repeats for loss in pair]
    drawn = [loss.resampled(n_bootstrap, seed) for loss in pair]
    return Contrast(
        family=pair[0].family,
        corpus=pair[0].corpus,
        value=float(w @ less([loss.y for loss in pair])),
        drawn=None if drawn[0] is None else less([d.y for d in drawn]) @ w,
        n_sources=pair[0].n_sources,
        length=float(np.sqrt(w @ w)),
        again=None if again[0] is None else (less([loss.y for loss in again]), again[0].S),
    )


def exponent_difference(first, second, n_bootstrap=10_000, seed=42):
    """(exponent of the second loss less that of the first by least squares, its 95% interval over sources).

    Both exponents come from the same resampled sources, so what they share cancels. first, second: Loss of the same
    models on the same documents. NaN ends: few sources; all NaN: one has no exponent, or leaves a model out.
    """
    check_models(first, 1)
    if len(np.unique(first.S)) < 3 or first.equal or second.equal:
        return np.nan, NONE
    found = contrast([second, first], slope_weights, n_bootstrap, seed)
    return found.value, found.interval


def less(pair):
    """The first, or the first less the second."""
    return pair[0] - pair[1] if len(pair) > 1 else pair[0]


def pooled(contrasts):
    """Effect of contrasts: first a mean over the corpora of a family, which share its models, then over families."""
    from scipy.special import stdtr

    groups = [[c for c in contrasts if c.family == family] for family in dict.fromkeys(c.family for c in contrasts)]
    effect = mean_over([np.mean([c.value for c in group]) for group in groups])
    if not groups or any(c.drawn is None for c in contrasts):
        return effect
    drawn = np.mean([np.mean([c.drawn for c in group], axis=0) for group in groups], axis=0)
    sources, spare = float(np.nanstd(drawn, ddof=1)), min(c.n_sources for c in contrasts) - 1
    trained = [(np.nan, 0)] * len(groups)
    if all(c.again for c in contrasts):
        trained = [spread_of_trainings(np.mean([c.again[0] for c in g], axis=0), g[0].again[1]) for g in groups]
    sds = [sd * np.mean([c.length for c in group]) for (sd, _), group in zip(trained, groups, strict=True)]
    trainings, df = float(np.mean(sds)), min(df for _, df in trained)  # as if all moved together
    noise = float(np.hypot(sources, trainings)) if df else sources
    free = pooled_df(sources**2, spare, trainings**2, df) if df else spare
    p = float(2 * stdtr(free, -abs(effect.estimate) / noise)) if noise else np.nan
    return replace(effect, sources_sd=sources, trainings_sd=trainings, noise_p=p)


def mean_over(values):
    """Effect of one number a family, (F,): those without a value are left out; one family has no interval."""
    from scipy.special import stdtr, stdtrit

    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    n, mean = len(values), float(values.mean()) if len(values) else np.nan
    if n < 2:
        return Effect(mean, NONE, np.nan, n)
    error = values.std(ddof=1) / np.sqrt(n)
    half = stdtrit(n - 1, 0.975) * error
    p = float(2 * stdtr(n - 1, -abs(mean) / error)) if error else np.nan
    return Effect(mean, (float(mean - half), float(mean + half)), p, n)


@dataclass(frozen=True)
class Components:
    """Where exponents differ: standard deviations between families, between corpora, and the rest."""

    mean: float
    source_noise: float  # root mean square standard error of one exponent over sources
    family: float = np.nan
    corpus: float = np.nan
    rest: float = np.nan  # includes the noise of the sources in each exponent
    family_p: float = np.nan  # likelihood ratio, half a chi-square: the variance cannot be negative
    corpus_p: float = np.nan


def components(table, k=1):
    """Is alpha the same across corpora and across families? Crossed random effects at one k.

    Args:
        table: rows of `pages.law_tables.exponent_table`.
    Returns:
        Components; NaN where there are not two families or not two corpora.
    """
    from scipy.special import chdtrc

    rows = table[(table["k"] == k) & table["alpha"].notna()].reset_index(drop=True)
    found = Components(float(rows["alpha"].mean()), float(np.sqrt((source_errors(rows) ** 2).mean())))
    names = [n for n in ("family", "corpus") if 1 < rows[n].nunique() < len(rows)]  # some level must be there twice
    if not names or len(rows) < 4:
        return found
    full, sds = _crossed(rows, names)
    gains = {n: 2 * (full - _crossed(rows, [other for other in names if other != n])[0]) for n in names}
    ps = {f"{n}_p": float(0.5 * chdtrc(1, gain)) if gain > 0 else 1.0 for n, gain in gains.items()}
    return replace(found, **sds, **ps)


def source_errors(rows):
    """Standard errors of the exponents of a table over sources, from their 95% intervals."""
    return (rows["other text: high"] - rows["other text: low"]) / 3.92


def heterogeneity(table, k=1):
    """Do corpora of one family differ by more than the choice of their sources explains? Cochran's Q, family by family.

    Corpora hold different text, so their errors over sources are independent; the models are the same and stay fixed,
    so another training of them is no part of this noise.

    Args:
        table: rows of `pages.law_tables.exponent_table`.
    Returns:
        data frame: family, corpora, Q, p (chi-square), smallest and largest alpha.
    """
    import pandas as pd
    from scipy.special import chdtrc

    rows = table[(table["k"] == k) & table[["alpha", "other text: low", "other text: high"]].notna().all(axis=1)]
    found = []
    for family, part in rows.groupby("family", sort=False):
        if len(part) < 2:
            continue
        weight = source_errors(part) ** -2
        mean = (weight * part["alpha"]).sum() / weight.sum()
        q = float((weight * (part["alpha"] - mean) ** 2).sum())
        row = {"family": family, "corpora": len(part), "Q": q, "p": float(chdtrc(len(part) - 1, q))}
        found.append({**row, "smallest alpha": part["alpha"].min(), "largest alpha": part["alpha"].max()})
    return pd.DataFrame(found)


def _crossed(rows, names):
    """(log-likelihood, {name or "rest": sd}) of alpha ~ 1 with crossed random effects, by maximum likelihood."""
    import warnings

    import statsmodels.api as sm
    from statsmodels.regression.mixed_linear_model import MixedLM

    scale = 100.0  # the optimiser stops early on numbers as small as alpha's
    y = rows["alpha"] * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a component at zero is an answer here, not a failure
        if not names:
            return sm.OLS(y, np.ones(len(y))).fit().llf, {}
        effects = {name: f"0 + C({name})" for name in names}
        model = MixedLM.from_formula("y ~ 1", rows.assign(y=y), groups=np.ones(len(y)), vc_formula=effects)
        fit = model.fit(reml=False, method=["powell", "lbfgs"])
    variances = zip([*sorted(names), "rest"], [*np.atleast_1d(fit.vcomp), fit.scale], strict=True)  # statsmodels sorts
    return float(fit.llf), {name: float(np.sqrt(variance)) / scale for name, variance in variances}
