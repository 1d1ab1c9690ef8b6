"""Forecasts held against models that were left out: fit the smaller models, predict the largest, compare, and count."""

from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pandas as pd

from paper.laws import Law, fit
from rbplib.families import InputError
from rbplib.forecasting import FAR, attempt, one_a_size, widening
from rbplib.noise import training_quantile

HORIZONS = (0.0, 0.3, 0.6, 1.0, 2.0)  # decades, by which models left out are grouped
SHOWN = {
    "left_out": "left out",
    "share": "inside 95% interval",
    "line_share": "inside that of the line",
}
SHOWN |= {"error": "error: median", "worst_error": "worst", "too_low": "forecast too low"}


@dataclass(frozen=True)
class Extrapolation:
    """Predictions for the held-out largest models; y is log(-log RBP_k), or log cross-entropy."""

    law: Law  # fitted to the smaller models only
    models: tuple[str, ...]  # held out, by size
    S: np.ndarray  # float64 (H,)
    predicted: np.ndarray  # float64 (H,), y
    interval: np.ndarray  # float64 (2, H), of one new model: scatter of the fitted ones, Student t
    observed: np.ndarray  # float64 (H,), y; NaN where RBP_k is exactly 0 or 1

    @property
    def error(self):
        """Predicted over observed loss, minus 1: float64 (H,)."""
        return np.expm1(self.predicted - self.observed)

    @property
    def inside(self):
        """Whether the interval holds the observed value: bool (H,); False where there is no interval."""
        return (self.interval[0] <= self.observed) & (self.observed <= self.interval[1])


def extrapolate(loss, held_out=1, estimator="least_squares", level=0.95):
    """Fit all but the largest `held_out` models and predict those.

    The interval is that of a new observation around the fitted curve, t with the residual degrees of freedom; with
    none to spare (three points and a law of three parameters) it is NaN and the error stands alone.

    Args:
        loss: Loss. held_out: 1 or more. estimator: as in fit.
    Returns:
        Extrapolation.
    Raises:
        InputError: fewer than three models would be left to fit.
    """
    if held_out < 1 or len(loss.models) - held_out < 3:
        raise InputError(
            f"{loss.family} has {len(loss.models)} models on {loss.corpus}: "
            f"holding out {held_out} leaves too few, a fit needs three."
        )
    order = np.argsort(loss.S, kind="stable")
    held = loss.keep(order[-held_out:])
    law = fit(loss.keep(order[:-held_out]), estimator, n_bootstrap=0, level=level)
    predicted, half = law.y_at(held.S), np.full(held_out, np.nan)
    if np.isfinite(law.residual_sd):  # a model to spare
        quantile = training_quantile(law.n_models - len(law.parameters), level)
        half = quantile * law.residual_sd * widening(law, held.S)
    return Extrapolation(
        law=law,
        models=held.models,
        S=held.S,
        predicted=predicted,
        interval=predicted + half * np.array([[-1.0], [1.0]]),
        observed=held.y,
    )


def beside(forecast, true):
    """Columns of a table: a Forecast of the loss, float64 (H,), and what was measured, in nats."""
    value, (low, high) = forecast.loss, forecast.interval
    found = {
        "forecast": value,
        "low": low,
        "high": high,
        "measured": true,
        "error": value / true - 1,
    }
    return found | {"inside": (low <= true) & (true <= high)}


def held_out_forecasts(losses, held_out=(1, 2)):
    """Forecasts of the largest models of ladders from the rest, beside what was measured on the same text.

    Args:
        losses: list of Loss; ladders that leave fewer than three sizes with a value are passed over.
        held_out: how many of the largest are left out, one after the other.
    Returns:
        data frame, a row per model left out: family, corpus, k, loss (its name), models (fitted), model, of (how many
        left out), S, horizon (decades beyond the largest fitted), forecast, low, high, measured (losses), error
        (forecast over measured, less 1), inside, and line_error, line_inside of the line with Student's t alone.
    Cost: about 10 ms a row.
    """
    rows = []
    for loss, held in product(losses, held_out):
        part = one_a_size(loss)
        order = np.argsort(part.S, kind="stable")
        rest, new = part.keep(order[:-held]), part.keep(order[-held:])
        if isinstance(found := attempt(rest, new.S), str):
            continue
        line, about = (
            extrapolate(part, held),
            {"family": loss.family, "corpus": loss.corpus, "k": loss.k},
        )
        about |= {
            "loss": loss.name,
            "models": len(rest.S),
            "model": new.models,
            "of": held,
            "S": new.S,
        }
        row = about | {"horizon": found.horizon} | beside(found, new.values)
        rows += pd.DataFrame(row | {"line_error": line.error, "line_inside": line.inside}).to_dict(
            "records"
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Tried:
    """What models left out come to: shares and errors are shares of 1.

    `line_...` is of the straight line alone, `line_far` and `line_low` of it more than FAR decades
    beyond: how many lie inside, and how many it forecast too low. None where no line was tried.
    """

    left_out: int
    worth: float  # independent ones, as cases share models and text
    share: float  # inside the interval
    held: str  # the same in words
    error: float  # median
    worst_error: float
    too_low: float
    line_worth: float | None = None
    line_share: float | None = None
    line_held: str | None = None
    line_far: str | None = None
    line_low: str | None = None
    reach: float | None = None  # decades, the furthest forecast


def tried(frame):
    """[Tried] of a frame of models left out, see `held_out_forecasts`; [] where none was left out."""
    if not len(frame):
        return []
    case = Tried(
        left_out=len(frame),
        worth=independent(frame["error"], frame),
        share=frame["inside"].mean(),
        held=count(frame["inside"]),
        error=frame["error"].abs().median(),
        worst_error=frame["error"].abs().max(),
        too_low=(frame["error"] < 0).mean(),
    )
    if "line_inside" not in frame:
        return [case]
    far = frame[frame["horizon"] > FAR]
    line = replace(
        case,
        line_worth=independent(frame["line_error"], frame),
        line_share=frame["line_inside"].mean(),
        line_held=count(frame["line_inside"]),
        line_far=count(far["line_inside"]),
        line_low=count(far["line_error"] < 0),
        reach=frame["horizon"].max(),
    )
    return [line]


def independent(errors, frame):
    """How many independent cases the rows of a frame are worth, by the signs of their errors.

    Rows of one family share models, rows of one corpus share text. Two normal errors whose signs
    covary by c are correlated by sin(pi c / 2), and so, by less, is whether they lie in their
    intervals: the design effect is one plus the sum of that over pairs, by row. What all rows share
    is no such correlation, and is taken off where some share nothing.
    """
    signs = np.sign(errors.to_numpy())
    products, shared = np.outer(signs, signs), 0
    for weight, name in ((1, "family"), (2, "corpus")):
        names = frame[name].to_numpy() if name in frame else 0 * signs  # all share it
        shared = shared + weight * np.equal.outer(names, names)
    # what pairs have in common beside what all have
    pairs = ~np.eye(len(signs), dtype=bool)
    alone = pairs & (shared == 0)
    common = products[alone].mean() if alone.any() else 0.0
    together = 0.0
    for kind in (1, 2, 3):
        of_kind = pairs & (shared == kind)
        if of_kind.any() and common < 1:
            covary = (products[of_kind].mean() - common) / (1 - common)
            together += of_kind.sum() * both_inside(np.sin(np.pi / 2 * covary))
    return len(signs) / (1 + together / len(signs))


def both_inside(rho, share=0.95):
    """Correlation of two normal errors being inside their intervals, themselves correlated by rho."""
    from scipy.special import ndtr, ndtri

    # of those of the first inside, how many of the second are
    rho = np.clip(rho, -0.9999, 0.9999)
    first = ndtri((1 - share) / 2 + share * (np.arange(2000) + 0.5) / 2000)
    end = ndtri((1 + share) / 2)
    high, low = ((side * end - rho * first) / np.sqrt(1 - rho**2) for side in (1, -1))
    second = (ndtr(high) - ndtr(low)).mean()
    return (second - share) / (1 - share)


def count(yes):
    """How many of a column are true, in words."""
    return f"{yes.sum()} of {len(yes)}" if len(yes) else "no model"


def by_horizon(frame):
    """Shares and errors of models left out by how far beyond the largest fitted they lie, and of all: data frame."""
    names = [f"{low:g} to {high:g}" for low, high in pairwise(HORIZONS)]
    parts = dict(
        iter(frame.groupby(pd.cut(frame["horizon"], HORIZONS, labels=names), observed=True))
    )
    rows = {where: vars(tried(part)[0]) for where, part in (parts | {"all": frame}).items()}
    return (
        pd.DataFrame(rows)
        .T[list(SHOWN)]
        .rename(columns=SHOWN)
        .rename_axis("decades beyond")
        .reset_index()
    )
