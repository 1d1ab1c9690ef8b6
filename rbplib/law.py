"""From a loss to a law: exponent, intervals, R^2, lack of fit, and how far to trust them.

The law is log(-log RBP_k) = log_c - alpha log S (paper Eq. 5). Its exponent is uncertain in ways
that are kept apart: which text was scored ("text", paired bootstrap of the sources), which training
each model is one draw of ("trainings", that and the scatter between seeds), and how the few models
scatter about any line ("models", Student's t on the residuals). Of losses that come with standard
errors and no documents, "text" is those errors.
"""

from dataclasses import dataclass

import numpy as np

from rbplib import noise
from rbplib.bootstrap import LEVEL, MIN_DOCUMENTS, percentile_interval
from rbplib.doors import number_rows, table_losses
from rbplib.estimators import ESTIMATORS, EXPONENTS
from rbplib.families import InputError, check_choice
from rbplib.losses import Loss, check_models, check_resamples

SIDES = np.array([[-1.0], [1.0]])  # of an interval
FEW = 100  # misses or hits below which a true law shows R^2 under 0.9 half of the time (page 04)


@dataclass(frozen=True, repr=False)
class Law:
    """A fitted law. NaN marks what could not be computed; `notes` says why, gravest first.

    Attributes:
        used: models of the loss that the fit used, by index. S: float64 (M,), their sizes.
        models: their names.
        parameters: {name: value}, the first two alpha and log_c.
        intervals: {"text" | "trainings" | "models": {name: (low, high)}}, of 95%.
        y, fitted: float64 (M,), log losses of the models used, and of the law.
        band: float64 (2, M), interval of y over other text; None without resamples.
        residual_sd: of y - fitted, by degrees of freedom.
        noise_variance: what the choice of sources alone would make of its square.
        p: {"sources" | "trainings": p of the residuals against that noise, with trainings added}.
    """

    loss: Loss
    estimator: str
    used: tuple[int, ...]
    S: np.ndarray
    models: tuple[str, ...]
    parameters: dict
    intervals: dict
    y: np.ndarray
    fitted: np.ndarray
    band: np.ndarray | None
    residual_sd: float
    noise_variance: float
    p: dict
    notes: tuple[str, ...]

    def __repr__(self):
        """Three lines: exponent and intervals; how good the fit is; what it is of."""
        # the intervals that are known
        intervals, sizes = [], self.loss.S
        for of, ends in self.intervals.items():
            low, high = ends["alpha"]
            if np.isfinite(high - low):
                intervals.append(f"{of} {low:.4g} to {high:.4g}")
        known = ", ".join(intervals) or "no interval"
        of = f"{self.loss.name} of {self.loss.family} on {self.loss.corpus}"
        return (
            f"alpha {self.alpha:.4g} ({LEVEL:.0%}: {known})\n"
            f"R2 {self.r2:.4g}, {self.status}\n"
            f"{of}: {len(self.used)} models, S {sizes.min():.4g} to {sizes.max():.4g}"
        )

    def plot(self, ax=None):
        """Draw losses, bands of other text and the line on logarithmic axes; return the axis."""
        import matplotlib.pyplot as plt

        # losses with their bands, and the line
        ax = ax or plt.gca()
        ax.loglog(self.S, np.exp(self.y), "o")
        if self.band is not None:
            ax.vlines(self.S, *np.exp(self.band))
        sizes = np.geomspace(self.loss.S.min(), self.loss.S.max())
        ax.plot(sizes, np.exp(self.y_at(sizes)))
        ax.set(xlabel="S, non-embedding parameters", ylabel=f"{self.loss.name} (nats)")
        return ax

    @property
    def alpha(self):
        """The exponent, positive when larger models do better."""
        return self.parameters["alpha"]

    @property
    def log_c(self):
        """Logarithm of the loss drawn out to S = 1."""
        return self.parameters["log_c"]

    @property
    def status(self):
        """ok, or the gravest note."""
        return self.notes[0] if self.notes else "ok"

    @property
    def spare(self):
        """Models more than parameters."""
        return len(self.used) - len(self.parameters)

    @property
    def r2(self):
        """Of y, fitted against flat; NaN without a fit, or where the points are all equal."""
        known = np.isfinite(self.fitted + self.y)
        y, fitted = self.y[known], self.fitted[known]
        scatter = y.var() if len(y) else 0.0
        return float(1 - np.mean((y - fitted) ** 2) / scatter) if scatter > 1e-20 else np.nan

    def y_at(self, S):
        """Log of the loss at sizes S by the law: float64, shape of S."""
        x = np.log(np.asarray(S, float))
        params = np.array(list(self.parameters.values()))
        centre = np.log(self.S).mean()
        return ESTIMATORS[self.estimator].curve(params, x.ravel(), centre).reshape(x.shape)


def fit(
    loss=None,
    estimator="least_squares",
    n_bootstrap=10_000,
    seed=42,
    *,
    S=None,
    hits=None,
    totals=None,
):
    """Fit one law to one loss, or to plain numbers, or to a pandas frame (`doors.table_losses`).

    >>> law = fit(S=[85e6, 302e6, 708e6, 1476e6], hits=[132065, 142215, 147050, 150180],
    ...           totals=317414)
    >>> round(law.alpha, 4), law.status
    (0.056, 'too few documents')
    >>> [round(end, 3) for end in law.intervals["models"]["alpha"]]
    [0.033, 0.079]

    Args:
        loss: Loss of one family on one corpus; a table of numbers that gives one; or nats, one
            number a model, with S.
        estimator: "least_squares" (the paper's), "binomial" (maximum likelihood, complementary
            log-log link), "irreducible" (a floor under the loss) or "quadratic" (in log S).
        n_bootstrap: resamples of the sources, 100 or more; 0 for none.
        seed: int; one seed, one set of them.
        S: sizes of plain numbers, float (M,), three or more. hits: (M,) out of totals, a number.
            Without documents there is no interval of other text: those go into a Loss.
    Returns:
        Law; `status` and `notes` say how far to trust it. Fewer than three sizes of a Loss are a
        status.
    Raises:
        InputError: an unknown estimator, a model twice, too few resamples, numbers
            that do not fit together.
    Cost: one matrix product (B, U) by (U, M); the resamples of a corpus are drawn once.
    """
    kind = ESTIMATORS[check_choice(estimator, tuple(ESTIMATORS), "estimator")]
    if not S is hits is totals is None:
        loss = number_rows(S, loss, hits, totals)
    if not isinstance(loss, Loss):
        loss, *others = table_losses(loss)
        if others:
            raise InputError("this table has several laws: fit each of table_losses(table).")
    check_models(loss, 1)
    check_resamples(n_bootstrap)
    # Maximum likelihood uses a model without a single miss, or hit; logarithms cannot.
    used = np.flatnonzero(np.isfinite(loss.y) | (estimator == "binomial"))
    part = loss.keep(used)
    x, y, names = np.log(part.S), part.y, kind.parameters
    enough = len(np.unique(x)) >= max(3, len(names)) and not loss.equal
    # The law, and that of each resample.
    params = np.full(len(names), np.nan)
    centre = x.mean() if len(x) else 0.0
    if enough:
        params = kind.solve(part.values, x)
    fitted = kind.curve(params, x, centre)
    text = np.full((2, len(names)), np.nan)
    drawn_params = drawn_y = band = None
    settled = np.isfinite(params).all()
    drawn = part.resampled(n_bootstrap, seed) if settled else None
    if drawn is not None:
        drawn_params = kind.solve(drawn.loss, x)
        drawn_y = drawn.y
        text = percentile_interval(drawn_params)
        band = percentile_interval(drawn_y)
    # What the other noises make of it.
    residuals = y - fitted
    jacobian = kind.jacobian(params, x, centre)
    weights = kind.weights(params, x)
    residual_sd, models = noise.student_interval(jacobian, weights, residuals)
    trainings = noise.training_interval(part, jacobian, drawn_params)
    variance, by_sources, by_trainings = noise.lack_of_fit(part, jacobian, residuals, drawn_y)
    trainings = params + SIDES * trainings
    models = params + SIDES * models
    intervals = {}
    for of, pairs in {"text": text, "trainings": trainings, "models": models}.items():
        intervals[of] = dict(zip(names, map(tuple, pairs.T.tolist()), strict=True))
    notes = doubts(loss, estimator, params, enough)
    if drawn is not None and np.isnan(text[:, 0]).any():
        notes += ("no interval of other text",)
    return Law(
        loss=loss,
        estimator=estimator,
        used=tuple(used.tolist()),
        S=part.S,
        models=part.models,
        parameters=dict(zip(names, params.tolist(), strict=True)),
        intervals=intervals,
        y=y,
        fitted=fitted,
        band=band,
        residual_sd=residual_sd,
        noise_variance=variance,
        p={"sources": by_sources, "trainings": by_trainings},
        notes=notes,
    )


def doubts(loss, estimator, params, enough):
    """Reasons for doubt, gravest first."""
    # what the reasons are told by
    settled = np.isfinite(params).all()
    misses = hits = FEW
    if loss.hits:
        misses = loss.misses.min()
        hits = loss.sums.sum(axis=0).min()
    inside = True  # a floor above zero, and an exponent between the ends of the search
    if estimator == "irreducible":
        inside = params[2] > 0 and EXPONENTS[0] < params[0] < EXPONENTS[-1]
    # gravest first
    reasons = {
        "equal losses": loss.equal,
        "too few models": not enough and not loss.equal,
        "not converged": enough and not settled,
        "saturated": misses == 0,
        "no hits": hits == 0,
        "few misses": 0 < misses < FEW,
        "few hits": 0 < hits < FEW,
        "wrong sign": settled and params[0] < 0,
        "at a bound": settled and not inside,
        "too few documents": loss.n_documents < MIN_DOCUMENTS,
        "too few sources": loss.n_sources < MIN_DOCUMENTS <= loss.n_documents,
    }
    return tuple(name for name, holds in reasons.items() if holds)
