"""From a loss to a law: exponent, two intervals, R^2, lack of fit, and a status that says how far to trust them.

The law is log(-log RBP_k) = log_c - alpha log S (paper Eq. 5). Its exponent is uncertain in ways that are kept apart:
which text was scored (`ci_tokens`, paired bootstrap of the sources), which training each model is one draw of
(`ci_trainings`, that and the scatter between seeds), and how the few models scatter around any straight line
(`ci_models`, Student t on the residuals).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbplib import noise as uncertainty
from rbplib.bootstrap import MIN_DOCUMENTS, percentile_interval
from rbplib.estimators import ESTIMATORS
from rbplib.families import check_choice
from rbplib.losses import Loss, check_models


@dataclass(frozen=True)
class Law:
    """One fitted law. NaN marks what could not be computed; `status` says why, `notes` every reason."""

    loss: Loss
    estimator: str
    level: float
    used: tuple[int, ...]  # models of the loss that the fit used
    parameters: dict  # name -> value, all of the estimator's
    token_intervals: dict  # name -> (low, high): sources resampled, the same for every model
    training_intervals: dict  # name -> (low, high): sources, and the scatter between trainings of one size
    model_intervals: dict  # name -> (low, high): Student t on the scatter of the models around the law
    y: np.ndarray  # float64 (M,), log(-log RBP_k) or log cross-entropy of the models used
    fitted: np.ndarray  # float64 (M,)
    token_band: np.ndarray | None  # float64 (2, M), interval of y for each model
    scatter: uncertainty.Scatter
    n_bootstrap: int
    notes: tuple[str, ...]
    seed: int = 42

    @property
    def alpha(self):
        """Exponent, positive when larger models do better."""
        return self.parameters["alpha"]

    @property
    def log_c(self):
        """Logarithm of the loss extrapolated to S = 1."""
        return self.parameters["log_c"]

    @property
    def ci_tokens(self):
        return self.token_intervals["alpha"]

    @property
    def ci_models(self):
        return self.model_intervals["alpha"]

    @property
    def ci_trainings(self):
        return self.training_intervals["alpha"]

    @cached_property
    def over_documents(self):
        """The same law with documents resampled in place of sources; itself where each document is its own source."""
        if self.n_sources == self.n_documents:
            return self
        return fit(self.loss.over_documents(), self.estimator, self.n_bootstrap, self.seed, self.level)

    @property
    def explained_by(self):
        """What is enough to explain how the models leave the law, tested at 1 - level: one of EXPLAINED."""
        tests = (self.over_documents.lack_of_fit_p, self.lack_of_fit_p, self.trained_lack_of_fit_p)
        return uncertainty.explanation(tests, self.level)

    def intervals(self, parameter="alpha"):
        """{what varies: (low, high)} of one parameter; what trainings add only where it is known."""
        found = {"other text": self.token_intervals}
        found |= {"other text and trainings": self.training_intervals} if self.training_df else {}
        return {n: e[parameter] for n, e in (found | {"other sizes": self.model_intervals}).items()}

    @property
    def training_band(self):
        """The token band with the scatter between trainings added, float64 (2, M); None where one is not known."""
        if self.token_band is None or not self.training_df:
            return None
        wider = uncertainty.training_quantile(self.training_df, self.level) * self.training_sd
        return self.y + np.array([[-1.0], [1.0]]) * np.hypot(self.token_band - self.y, wider)

    @property
    def noise_p(self):
        """p of the lack of fit against the widest noise that is known: sources, and trainings where they are."""
        return self.lack_of_fit_p if np.isnan(self.trained_lack_of_fit_p) else self.trained_lack_of_fit_p

    @property
    def worst_residual(self):
        """Largest distance of a model from the law, as a share of its loss: 0.02 is 2%."""
        away = np.abs(np.expm1(self.y - self.fitted))
        return float(np.nanmax(away)) if np.isfinite(away).any() else np.nan

    @property
    def status(self):
        """ok, or the gravest note."""
        return self.notes[0] if self.notes else "ok"

    @property
    def ok(self):
        return not self.notes

    @property
    def S(self):
        return self.loss.S[list(self.used)]

    @property
    def models(self):
        return tuple(self.loss.models[i] for i in self.used)

    @property
    def left_out(self):
        """Models measured but without a value to fit, or not measured at all."""
        without = (m for i, m in enumerate(self.loss.models) if i not in self.used)
        return (*without, *self.loss.missing)

    @property
    def n_models(self):
        return len(self.used)

    @property
    def scored_tokens(self):
        return int(self.loss.total)

    @property
    def misses(self):
        """Tokens ranked above k by the largest model, None for nats."""
        return None if self.loss.misses is None else int(self.loss.misses[-1])

    @property
    def r2(self):
        """Of y, fitted against flat; NaN without a fit, or where the points are all equal."""
        scatter = np.nansum((self.y - np.nanmean(self.y)) ** 2) if np.isfinite(self.fitted + self.y).any() else 0.0
        return float(1 - np.nansum((self.y - self.fitted) ** 2) / scatter) if scatter > 1e-20 else np.nan

    def __getattr__(self, name):
        """What belongs to the loss (family, corpus, protocol, definition, k) or to the scatter, asked of the law."""
        if name in ("family", "corpus", "protocol", "definition", "k", "n_documents", "n_sources"):
            return getattr(self.loss, name)
        if name in uncertainty.Scatter.__dataclass_fields__:
            return getattr(self.scatter, name)
        raise AttributeError(f"a law has no {name!r}")

    def y_at(self, S):
        """Fitted logarithm of the loss at sizes S: float64, shape of S."""
        x, centre = np.log(np.asarray(S, dtype=np.float64)), np.log(self.S).mean()
        params = np.array(list(self.parameters.values()))
        return ESTIMATORS[self.estimator].curve(params, np.atleast_1d(x), centre).reshape(x.shape)


def fit(loss, estimator="least_squares", n_bootstrap=10_000, seed=42, level=0.95):
    """Fit one law to one loss.

    Args:
        loss: Loss of one family on one corpus.
        estimator: "least_squares" (the paper's), "binomial" (maximum likelihood, complementary log-log link),
            "irreducible" (a floor under the loss) or "quadratic" (in log S).
        n_bootstrap: resamples of the sources; 0 for none. seed: int; one seed, one set of resamples.
        level: of the intervals.
    Returns:
        Law; `status` and `notes` say how far to trust it.
    Raises:
        InputError: a model twice, an unknown estimator. Fewer than three sizes are a status, "too few models".
    Cost: one matrix product (B, D) by (D, M); the resamples of a corpus are drawn once.
    """
    check_choice(estimator, tuple(ESTIMATORS), "estimator")
    check_models(loss, 1)
    kind = ESTIMATORS[estimator]
    defined = np.isfinite(loss.y)
    # Maximum likelihood can use a model without a single miss (or hit); a straight line through logs cannot.
    used = np.arange(len(loss.S)) if kind.name == "binomial" else np.flatnonzero(defined)
    part, names = loss.keep(used), kind.parameters
    x, y = np.log(part.S), part.y
    enough = len(np.unique(x)) >= max(3, len(names)) and not loss.equal
    params = kind.solve(part.values, x, part.total) if enough else np.full(len(names), np.nan)
    fitted = kind.curve(params, x, x.mean() if len(x) else 0.0)
    drawn = part.resampled(n_bootstrap, seed) if enough else None
    found = None if drawn is None else kind.solve(drawn.loss, x, drawn.totals)
    tokens = uncertainty.named(kind, None if found is None else percentile_interval(found, level))
    undefined = 0 if found is None else int(np.isnan(found[:, 0]).sum())
    residual_sd, models = uncertainty.model_intervals(kind, part, params, y - fitted, level)
    return Law(
        loss=loss,
        estimator=estimator,
        level=level,
        used=tuple(int(i) for i in used),
        parameters={n: float(v) for n, v in zip(names, params, strict=True)},
        token_intervals=tokens,
        training_intervals=uncertainty.training_intervals(kind, part, params, found, level),
        model_intervals=models,
        y=y,
        fitted=fitted,
        token_band=None if drawn is None else percentile_interval(drawn.y, level),
        scatter=uncertainty.scatter_beyond_noise(kind, part, params, y - fitted, residual_sd, drawn),
        n_bootstrap=n_bootstrap if loss.n_documents >= MIN_DOCUMENTS else 0,
        notes=uncertainty.doubts(kind, loss, params, enough, undefined, tokens),
        seed=seed,
    )


def fit_law(curve, k=1, estimator="least_squares", n_bootstrap=10_000, seed=42, **options):
    """`fit` of -log RBP_k at one k of a curve; options as there."""
    return fit(curve.loss(k), estimator, n_bootstrap, seed, **options)


def fit_laws(curve, ks=None, estimators=("least_squares",), n_bootstrap=10_000, seed=42, **options):
    """`fit_law` for several k and estimators of one curve: list of Law, k by k."""
    ks = [int(k) for k in (curve.ks if ks is None else ks)]
    return [fit_law(curve, k, name, n_bootstrap, seed, **options) for k in ks for name in estimators]
