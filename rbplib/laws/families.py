"""All families and corpora side by side: mixed models of their exponents, and the scatter between training seeds."""

from dataclasses import dataclass

import numpy as np

from rbplib.laws.noise import size_spread
from rbplib.settings import InputError


@dataclass(frozen=True)
class Effect:
    """One fixed effect of a mixed model."""

    estimate: float
    interval: tuple[float, float]  # 95%, normal
    p: float
    groups: int
    converged: bool


def rise_with_k(table, column="alpha"):
    """Does alpha rise with k? Mixed model alpha ~ log10 k, intercept and slope random by family and corpus.

    Args:
        table: rows of `pages.law_tables.exponent_table`; those with a finite alpha and k are used.
    Returns:
        Effect: change of alpha per decade of k, averaged over the population of family-corpus pairs.
    """
    rows = table[table["k"].notna() & table[column].notna()].copy()
    rows["decades"] = np.log10(rows["k"])
    groups = rows["family"] + " on " + rows["corpus"]
    return _mixed(f"Q('{column}') ~ decades", rows, groups, "decades", "~decades")


def mean_effect(table, column):
    """Mean of a column over families and corpora, families random: Effect."""
    rows = table[table[column].notna()]
    return _mixed(f"Q('{column}') ~ 1", rows, rows["family"], "Intercept", None)


@dataclass(frozen=True)
class Components:
    """Where exponents differ: standard deviations between families, between corpora, and the rest."""

    mean: float
    family: float
    corpus: float
    rest: float  # includes the token noise of each exponent
    token_noise: float  # root mean square standard error of one exponent over documents
    family_p: float  # likelihood ratio, half a chi-square: the variance cannot be negative
    corpus_p: float


def components(table, k=1):
    """Is alpha the same across corpora and across families? Crossed random effects at one k.

    Args:
        table: rows of `pages.law_tables.exponent_table`.
    Returns:
        Components; NaN where there are not two families or not two corpora.
    """
    rows = table[(table["k"] == k) & table["alpha"].notna()].reset_index(drop=True)
    noise = float(np.sqrt((((rows["tokens: high"] - rows["tokens: low"]) / 3.92) ** 2).mean())) if len(rows) else np.nan
    names = [n for n in ("family", "corpus") if 1 < rows[n].nunique() < len(rows)]  # some level must be there twice
    if not names or len(rows) < 4:
        return Components(rows["alpha"].mean(), np.nan, np.nan, np.nan, noise, np.nan, np.nan)
    scale = 100.0  # the optimiser stops early on numbers this small
    full, sds, rest = _crossed(rows, names, scale)
    p = {}
    for name in names:
        less = _crossed(rows, [n for n in names if n != name], scale)[0]
        p[name] = _half_chi_square(2 * (full - less))
    return Components(
        mean=float(rows["alpha"].mean()),
        family=sds.get("family", np.nan),
        corpus=sds.get("corpus", np.nan),
        rest=rest,
        token_noise=noise,
        family_p=p.get("family", np.nan),
        corpus_p=p.get("corpus", np.nan),
    )


def heterogeneity(table, k=1):
    """Do corpora of one family differ by more than their documents' noise? Cochran's Q, family by family.

    Corpora hold different documents, so their token errors are independent; the models are the same and stay fixed.

    Args:
        table: rows of `pages.law_tables.exponent_table`.
    Returns:
        data frame: family, corpora, Q, p (chi-square), smallest and largest alpha.
    """
    import pandas as pd
    from scipy.special import chdtrc

    rows = table[(table["k"] == k) & table[["alpha", "tokens: low", "tokens: high"]].notna().all(axis=1)]
    found = []
    for family, part in rows.groupby("family", sort=False):
        if len(part) < 2:
            continue
        weight = (3.92 / (part["tokens: high"] - part["tokens: low"])) ** 2
        mean = (weight * part["alpha"]).sum() / weight.sum()
        q = float((weight * (part["alpha"] - mean) ** 2).sum())
        row = {"family": family, "corpora": len(part), "Q": q, "p": float(chdtrc(len(part) - 1, q))}
        found.append({**row, "smallest alpha": part["alpha"].min(), "largest alpha": part["alpha"].max()})
    return pd.DataFrame(found)


def seed_scatter(law, repeats):
    """Scatter between seeds beside the scatter around the law, both of y = log(-log RBP_k).

    Args:
        law: Law of the family, least squares.
        repeats: Curve of some of its sizes, each trained with several seeds, with the same k counted.
    Returns:
        dict: sizes, models, "sd between seeds" (pooled over sizes), "sd around the law", "F" (ratio of the variances),
        "p" (of an F as large when seeds explain all scatter), "error of alpha from seeds" (the slope's standard error
        if seeds were all that moved the points).
    Raises:
        InputError: no size has two models.
    """
    from scipy.special import fdtrc

    y = repeats.loss(law.k).y  # (M,)
    groups = [y[repeats.S == size] for size in np.unique(repeats.S)]
    groups = [g for g in groups if len(g) > 1]
    if not groups:
        raise InputError(f"{repeats.family} has no size with two seeds: train one with `--seed`.")
    spare = sum(len(g) - 1 for g in groups)
    seeds = np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups) / spare)
    ratio = (law.residual_sd / seeds) ** 2
    return {
        "sizes": len(groups),
        "models": sum(len(g) for g in groups),
        "sd between seeds": seeds,
        "sd around the law": law.residual_sd,
        "F": ratio,
        "p": float(fdtrc(law.n_models - 2, spare, ratio)),
        "error of alpha from seeds": seeds / np.sqrt(size_spread(law.S)),
    }


def _crossed(rows, names, scale):
    """(log-likelihood, {name: sd}, residual sd) of alpha ~ 1 with crossed random effects, maximum likelihood."""
    import warnings

    import statsmodels.api as sm
    from statsmodels.regression.mixed_linear_model import MixedLM

    y = rows["alpha"] * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a component at zero is an answer here, not a failure
        if not names:
            fit = sm.OLS(y, np.ones(len(y))).fit()
            return fit.llf, {}, float(np.sqrt((fit.resid**2).mean())) / scale
        effects = {name: f"0 + C({name})" for name in names}
        model = MixedLM.from_formula("y ~ 1", rows.assign(y=y), groups=np.ones(len(y)), vc_formula=effects)
        fit = model.fit(reml=False, method=["powell", "lbfgs"])
    order = sorted(names)  # statsmodels sorts its components by name
    sds = {n: float(np.sqrt(v)) / scale for n, v in zip(order, np.atleast_1d(fit.vcomp), strict=True)}
    return float(fit.llf), sds, float(np.sqrt(fit.scale)) / scale


def _half_chi_square(statistic):
    from scipy.special import chdtrc

    return float(0.5 * chdtrc(1, max(statistic, 0.0))) if statistic > 0 else 1.0


def _mixed(formula, rows, groups, term, random):
    """One fixed effect of a random-effects fit; falls back to a simpler random part where the data carry no more."""
    import warnings

    from statsmodels.regression.mixed_linear_model import MixedLM

    count = int(groups.nunique())
    if count < 2 or len(rows) <= count:  # no group is seen twice: nothing tells groups from noise
        return Effect(np.nan, (np.nan, np.nan), np.nan, count, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance at zero is an answer here, not a failure
        for structure in dict.fromkeys([random, None]):
            model = MixedLM.from_formula(formula, rows, groups=groups, re_formula=structure)
            try:
                fit = model.fit(method=["powell", "lbfgs"])
            except np.linalg.LinAlgError:
                continue
            if np.isfinite(fit.bse[term]):
                low, high = fit.conf_int().loc[term].astype(float)
                ends = (float(low), float(high))
                return Effect(float(fit.params[term]), ends, float(fit.pvalues[term]), count, bool(fit.converged))
    return Effect(np.nan, (np.nan, np.nan), np.nan, count, False)
