"""What published numbers say about the law: LAMBADA along size and along training, and the authors' GPT-2 figures.

Recipes for the page on published results. Nothing here was measured by this project; see published/README.md.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from rbplib.laws import published


@dataclass(frozen=True)
class PublishedLaw:
    """Least squares of log(-log acc) on log S for one family at one step."""

    family: str
    step: int | None
    alpha: float
    log_c: float
    r2: float
    interval: tuple[float, float]  # Student t on the scatter of the models
    sampling_se: float  # of alpha, from the reported errors, passages taken as drawn anew for each model
    lack_of_fit: float  # residuals against the reported errors, chi-squared on M - 2 degrees of freedom
    lack_of_fit_p: float
    S: np.ndarray
    loss: np.ndarray
    loss_se: np.ndarray  # of log(loss)


def published_law(found, level=0.95):
    """Fit the law to `published.Accuracies`; models without a right or a wrong passage are left out.

    Raises:
        ValueError: fewer than three models are left.
    """
    use = (found.acc > 0) & (found.acc < 1)
    if use.sum() < 3:
        raise ValueError(f"{found.family} at step {found.step} leaves fewer than three models with a finite loss.")
    S, loss, se = found.S[use], found.loss[use], found.log_loss_se[use]
    x, y = np.log(S) - np.log(S).mean(), np.log(loss)
    spread = x @ x
    slope = (x @ y) / spread
    residual = y - y.mean() - slope * x
    scatter = np.sqrt(residual @ residual / (len(x) - 2) / spread)
    half = stats.t.ppf((1 + level) / 2, len(x) - 2) * scatter
    Q = float((residual**2 / np.mean(se**2)).sum())
    return PublishedLaw(
        found.family, found.step, -slope, y.mean() - slope * np.log(S).mean(),
        float(slope**2 * spread / ((y - y.mean()) ** 2).sum()), (-slope - half, -slope + half),
        float(np.sqrt((x**2 * se**2).sum()) / spread), Q, float(stats.chi2.sf(Q, len(x) - 2)), S, loss, se,
    )  # fmt: skip


def training_laws(family):
    """The law at every published step of a family at which at least three models have a finite loss."""
    laws = []
    for step in published.lambada_steps(family):
        found = published.lambada(family, step)
        if ((found.acc > 0) & (found.acc < 1)).sum() == len(found.models):
            laws.append(published_law(found))
    return laws


def size_paths(family):
    """{model: (tokens, loss, standard error of log loss)} along training, steps without a right passage left out."""
    steps = [published.lambada(family, s) for s in published.lambada_steps(family) if s]
    paths = {}
    for i, model in enumerate(steps[-1].models):
        rows = [(a.tokens[i], a.loss[i], a.log_loss_se[i]) for a in steps if 0 < a.acc[i] < 1]
        paths[model] = tuple(np.array(rows).T)
    return paths


def lambada_frame(laws):
    """One row per published law, for tables on pages."""
    import pandas as pd

    return pd.DataFrame(
        {
            "family": w.family,
            "models": len(w.S),
            "alpha": w.alpha,
            "models: low": w.interval[0],
            "models: high": w.interval[1],
            "R²": w.r2,
            "sampling se": w.sampling_se,
            "lack of fit": w.lack_of_fit,
            "p": w.lack_of_fit_p,
        }
        for w in laws
    )
