"""Held-out extrapolation: fit the smaller models, predict the largest, compare with what was measured."""

from dataclasses import dataclass

import numpy as np

from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError
from rbplib.law import Law, fit
from rbplib.noise import training_quantile


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


def widening(law, S):
    """Sd of a new model at sizes S about a law, in those of the fitted models about it: float64 (H,)."""
    kind, params, x = ESTIMATORS[law.estimator], np.array(list(law.parameters.values())), np.log(law.S)
    jacobian, ahead = (kind.jacobian(params, at, x.mean()) for at in (x, np.log(S)))
    return np.sqrt(1 + np.einsum("hp,pq,hq->h", ahead, np.linalg.pinv(jacobian.T @ jacobian), ahead))
