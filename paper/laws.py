"""Laws as pages ask for them: those of the library, with what tables,
figures and claims say of one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbplib import law as library
from rbplib.bootstrap import LEVEL
from rbplib.estimators import ESTIMATORS
from rbplib.noise import lack_of_fit, own_seeds, trained_together, training_quantile

NONE = (np.nan, np.nan)
NOISES = ("documents", "sources", "trainings")
NONE_OF_THESE, UNKNOWN = "none of these", "not sources; trainings unknown"
EXPLAINED = (*NOISES, NONE_OF_THESE, UNKNOWN)
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Law(library.Law):
    """A law of the library with what tables, figures and claims say of it."""

    n_bootstrap: int = 0
    seed: int = 42

    @property
    def family(self):
        return self.loss.family

    @property
    def corpus(self):
        return self.loss.corpus

    @property
    def k(self):
        return self.loss.k

    @property
    def n_sources(self):
        return self.loss.n_sources

    @property
    def scored_tokens(self):
        return int(self.loss.total)

    @property
    def misses(self):
        """Tokens ranked above k by the largest model, None for nats."""
        return None if self.loss.misses is None else int(self.loss.misses[-1])

    @property
    def ok(self):
        return not self.notes

    @property
    def n_models(self):
        return len(self.used)

    @property
    def without(self):
        """Models measured but without a value to fit: no hit, or no miss."""
        return tuple(np.delete(self.loss.models, list(self.used)))

    @property
    def ci_tokens(self):
        return self.intervals["text"]["alpha"]

    @property
    def ci_trainings(self):
        return self.intervals["trainings"]["alpha"]

    @property
    def ci_models(self):
        return self.intervals["models"]["alpha"]

    def sides(self, parameter="alpha"):
        """{what varies, in words: (low, high)} of one parameter;
        what trainings add only where it is known."""
        sides = {"other text": self.intervals["text"][parameter]}
        if self.training_df:
            sides["other text and trainings"] = self.intervals["trainings"][parameter]
        return sides | {"other sizes": self.intervals["models"][parameter]}

    @property
    def worst_residual(self):
        """Largest distance of a model from the law, as a share of its loss: 0.02 is 2%."""
        away = np.abs(np.expm1(self.y - self.fitted))
        return float(np.nanmax(away)) if np.isfinite(away).any() else np.nan

    @property
    def noise_sd(self):
        """What the sources alone would make of residual_sd."""
        return float(np.sqrt(self.noise_variance))

    @property
    def training_sd(self):
        """Of y between trainings of one size, the text's part taken off."""
        return self.loss.training_noise()[0]

    @property
    def training_df(self):
        return self.loss.training_noise()[1]

    @property
    def pooled_sd(self):
        """As residual_sd of a line, on the mean of all trainings of a size in place of the model.

        Against trainings the lack of fit is tested on these means; NaN where on the models alone.
        """
        part = self.loss.keep(np.array(self.used, int))
        pooled = self.training_df and own_seeds(part, self.training_df) > 1
        if not pooled or np.isnan(self.residual_sd):
            return np.nan
        x, (means, _) = np.log(part.S), trained_together(part)
        away = means - np.polyval(np.polyfit(x, means, 1), x)
        return float(np.sqrt(away @ away / (len(x) - 2)))

    @property
    def training_band(self):
        """The band with the scatter between trainings added, float64 (2, M);
        None where one is not known."""
        if self.band is None or not self.training_df:
            return None
        wider = training_quantile(self.training_df) * self.training_sd
        return self.y + np.array([[-1.0], [1.0]]) * np.hypot(self.band - self.y, wider)

    @property
    def noise_p(self):
        """p of the lack of fit against the widest noise that is known: sources,
        and trainings where they are."""
        known = self.p["trainings"]
        return self.p["sources"] if np.isnan(known) else known

    @cached_property
    def explained_by(self):
        """The first noise that is enough for how the models leave the law, one of EXPLAINED, or
        NOT_TESTED.

        What the widest of them rejects no other explains: with all trainings of a size together it
        sees more.
        """
        documents = self.p["sources"]
        # documents resampled in place of sources, where these are fewer
        if self.spare > 0 and self.loss.n_sources < self.loss.n_documents:
            part = self.loss.keep(np.array(self.used, int)).over_documents()
            drawn = part.resampled(self.n_bootstrap, self.seed)
            kind, x = ESTIMATORS[self.estimator], np.log(self.S)
            jacobian = kind.jacobian(list(self.parameters.values()), x, x.mean())
            documents = lack_of_fit(part, jacobian, self.y - self.fitted, drawn and drawn.y)[1]
        # the first that is enough
        tests = np.array([documents, *self.p.values()])
        enough = tests >= 1 - LEVEL
        if enough.any() and not tests[2] < 1 - LEVEL:
            return NOISES[enough.argmax()]
        if np.isnan(tests).all():
            return NOT_TESTED
        return UNKNOWN if np.isnan(tests[2]) else NONE_OF_THESE


def fit(loss, estimator="least_squares", n_bootstrap=10_000, seed=42):
    """The library's `fit` of a Loss, as a Law that pages show."""
    law = library.fit(loss, estimator, n_bootstrap, seed)
    return Law(**vars(law), n_bootstrap=n_bootstrap, seed=seed)


def fit_law(curve, k=1, *how, **options):
    """`fit` of -log RBP_k at one k of a curve; estimator and options as there."""
    return fit(curve.loss(k), *how, **options)


def spread_of_trainings(y, sizes):
    """(sd, degrees of freedom) of y (R,) between models of one size, pooled over sizes.

    (NaN, 0) where no size is there twice.
    """
    import pandas as pd

    groups = pd.Series(y, sizes).dropna().groupby(level=0)
    spare = groups.size() - 1
    if not spare.sum():
        return np.nan, 0
    return float(np.sqrt((groups.var() * spare).sum() / spare.sum())), int(spare.sum())


def pooled_df(first, first_df, second, second_df):
    """Degrees of freedom of the sum of two estimated variances (Welch and Satterthwaite)."""
    weights = first**2 / first_df + second**2 / second_df
    return (first + second) ** 2 / weights if weights else np.nan
