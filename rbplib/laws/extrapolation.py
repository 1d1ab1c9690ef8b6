"""Held-out extrapolation: fit the smaller models, predict the largest, compare with what was measured."""

from dataclasses import dataclass

import numpy as np

from rbplib.laws.estimators import ESTIMATORS
from rbplib.laws.law import Law, fit_law
from rbplib.settings import InputError


@dataclass(frozen=True)
class Extrapolation:
    """Predictions for the held-out largest models; y is log(-log RBP_k), or log cross-entropy."""

    law: Law  # fitted to the smaller models only
    models: tuple[str, ...]  # held out, by size
    S: np.ndarray  # float64 (H,)
    predicted: np.ndarray  # float64 (H,), y
    interval: np.ndarray  # float64 (2, H), of one new model: scatter of the fitted ones, Student t
    observed: np.ndarray  # float64 (H,), y; NaN where RBP_k is exactly 0 or 1
    level: float

    @property
    def error(self):
        """Predicted over observed loss, minus 1: float64 (H,)."""
        return np.expm1(self.predicted - self.observed)

    @property
    def inside(self):
        """Whether the interval holds the observed value: bool (H,); False where there is no interval."""
        return (self.interval[0] <= self.observed) & (self.observed <= self.interval[1])


def extrapolate(curve, k=1, held_out=1, estimator="least_squares", level=0.95):
    """Fit all but the largest `held_out` models and predict those.

    The interval is that of a new observation around the fitted curve, t with the residual degrees of freedom; with
    none to spare (three points and a law of three parameters) it is NaN and the error stands alone.

    Args:
        curve: Curve. k: one of its ks. held_out: 1 or more.
        estimator: as in fit_law.
    Returns:
        Extrapolation.
    Raises:
        InputError: fewer than three models would be left to fit.
    """
    if held_out < 1 or len(curve.models) - held_out < 3:
        raise InputError(
            f"{curve.family} has {len(curve.models)} models on {curve.corpus}: "
            f"holding out {held_out} leaves too few, a fit needs three."
        )
    order = np.argsort(curve.S, kind="stable")
    kept, held = order[:-held_out], order[-held_out:]
    law = fit_law(curve.keep(list(kept)), k, estimator, n_bootstrap=0, level=level)
    kind = ESTIMATORS[estimator]
    params = np.array([law.parameters[name] for name in kind.parameters])
    x, new, centre = np.log(law.S), np.log(curve.S[held]), np.log(law.S).mean()
    loss = curve.cross_entropy if law.k is None else -np.log(np.clip(curve.rbp[:, curve.index(k)], 1e-300, 1))
    with np.errstate(divide="ignore"):
        observed = np.log(loss[held])
    observed = np.where(np.isfinite(observed) & (loss[held] < 600), observed, np.nan)
    predicted = law.log_loss(curve.S[held])
    return Extrapolation(law, tuple(curve.models[i] for i in held), curve.S[held], predicted,
                         predicted + _half_width(law, kind, params, x, new, centre) * np.array([[-1.0], [1.0]]),
                         observed, level)  # fmt: skip


def _half_width(law, kind, params, x, new, centre):
    """Half the prediction interval at each new log size."""
    from scipy.special import stdtrit

    spare = law.n_models - len(params)
    if spare < 1 or not np.isfinite(law.residual_sd):
        return np.full(len(new), np.nan)
    jacobian, ahead = kind.jacobian(params, x, centre), kind.jacobian(params, new, centre)
    leverage = np.einsum("hp,pq,hq->h", ahead, np.linalg.pinv(jacobian.T @ jacobian), ahead)
    return stdtrit(spare, (1 + law.level) / 2) * law.residual_sd * np.sqrt(1 + leverage)


def compare_estimators(curves, ks, estimators=("least_squares", "binomial", "irreducible", "quadratic")):
    """One row per estimator and number of held-out models: errors over all curves and ks, and how often intervals held.

    The error of a prediction is |predicted / observed loss - 1|; of its models the worst is taken.
    """
    import pandas as pd

    rows = []
    for estimator in estimators:
        for held_out in (1, 2):
            found = [extrapolate(c, k, held_out, estimator) for c in curves for k in ks
                     if len(c.models) - held_out >= max(3, len(ESTIMATORS[estimator].parameters))]  # fmt: skip
            errors = np.array([np.nanmax(np.abs(f.error)) for f in found if np.isfinite(f.error).any()])
            given = [bool(i) for f in found for i, low in zip(f.inside, f.interval[0], strict=True) if np.isfinite(low)]
            if len(errors):
                rows.append({"law": estimator.replace("_", " "), "held out": held_out, "cases": len(errors),
                             "median error": float(np.median(errors)), "largest error": float(errors.max()),
                             "intervals that held": f"{sum(given)} of {len(given)}"})  # fmt: skip
    return pd.DataFrame(rows)
