"""The law in size and tokens used ahead: the loss of a model of a size after some tokens, with an interval that holds.

As of one ladder (`forecast`), an even mixture of forms, Student's t about each: here the joint forms, fitted to ladders
that saw different amounts of text. Models of one size, or of one amount, miss a form together, so its scatter counts as
known from no more points than there are sizes or amounts, whichever are fewer, less the exponents.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from paper import joint
from paper.grid import grid
from rbplib import forecasting as forecast
from rbplib.families import InputError

FORMS = ("product", "additive", "kaplan", "additive_floor")
WARNING = "; WARNING: beyond both at once, where these intervals hold less often than they say (page 19 counts)"
DRAWS = 100  # resamples at most: each is a fit of every form
BOTH = "beyond in both at once"  # size and tokens


@dataclass(frozen=True)
class JointForecast(forecast.Forecast):
    """Of y, the log of a loss, at H pairs of size and tokens; laws: {name of FORMS: JointLaw}."""

    D: np.ndarray  # float64 (H,), training tokens

    @property
    def by_form(self):
        return {name: law.predict(self.S, self.D) for name, law in self.laws.items()}

    def place(self, i):
        text = next(iter(self.laws.values())).D
        said = f"{super().place(i)}; {forecast.place(self.D[i], text, 'amounts of text', 'the most text')}"
        return said + WARNING * bool(self.horizon[i] > 0 and self.D[i] > text.max())


def joint_forecast(points, S, D, draws=None, least=0.0, level=0.95):
    """Forecast a loss at sizes and tokens that were not measured.

    Args:
        points: (S, D, loss), float64 (n,) each, positive; trainings of one size on one text count as one. S, D: where
            to, float64 (H,), or a number for all.
        draws: losses (R, n) on resampled text, for an interval that holds on other text of the same kind.
        least: sd of log loss over trainings of one size, where that is known.
    Returns:
        JointForecast.
    Raises:
        InputError: no form can be fitted to the points.
    Cost: about 0.1 s; a second for 100 draws.
    """
    S, D = (np.array(side, float) for side in np.broadcast_arrays(np.atleast_1d(S), D))
    which, places = pd.MultiIndex.from_arrays(points[:2]).factorize()
    if len(places) < len(which):
        once = (np.eye(len(places)) / np.bincount(which))[which]  # means of logs
        points = (*np.array(list(places)).T, np.exp(np.log(points[2]) @ once))
        draws = None if draws is None else np.exp(np.log(draws) @ once)
    reasons = {name: joint.reason(*points, name) for name in FORMS}
    laws = {name: joint.fit(*points, name) for name, why in reasons.items() if not why}
    if not laws:
        raise InputError(f"there is no forecast in size and tokens: {reasons['product']}.")
    groups, sources = min(1 + np.sum(np.diff(np.sort(np.log(x))) > joint.APART) for x in points[:2]), 0.0
    y, sd, df = [], [], []
    for law in laws.values():
        if draws is not None:
            drawn = [np.log(own.predict(S, D)) for own in law.refitted(draws[:DRAWS]) if own]
            sources = np.std(drawn, axis=0) if drawn else 0.0
        y.append(np.log(law.predict(S, D)))
        sd.append(np.hypot(max(law.residual_sd, least) * law.widening(S, D), sources))
        df.append([max(1, groups - len(joint.FORMS[law.form].powers))])
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    low, middle, high = forecast.mixture_quantiles(np.array(y), np.array(sd), np.array(df, float), shares)
    return JointForecast(laws, S, middle, np.stack([low, high]), D)


def joint_losses(family, beside, corpus, k, tokens, protocol="paper", results=None, partial=False):
    """What `command.forecasts` takes: ({name: Loss or why there is none}, how to forecast one at sizes).

    Arguments as of `rbp predict` and `grid.grid`. Raises InputError: as there, or tokens or other families are missing.
    """
    if not (tokens and beside):
        raise InputError("--tokens and --beside go together: a law in tokens needs families that saw other amounts.")
    found = grid([family, *beside], corpus, [k], protocol, results, partial)
    found = replace(found, curve=replace(found.curve, family=" with ".join([found.curve.family, ", ".join(beside)])))

    def ahead(loss, sizes, n_bootstrap=0, seed=42):
        if isinstance(loss, str):
            return loss
        points = (loss.S, found.D, loss.values)
        drawn, (sd, df) = loss.resampled(min(n_bootstrap, DRAWS), seed), loss.training_noise()
        try:
            return joint_forecast(points, sizes, tokens, None if drawn is None else drawn.loss, sd if df else 0.0)
        except InputError as error:
            return str(error)

    runs = "runs were not counted for a law in tokens: leave --tokens out"
    return {"rbp": found.loss(k), "cross_entropy": found.loss(), "run": runs}, ahead


def held_out_joint(points, left, about=None):
    """Forecasts of points left out from the rest, as `forecast.held_out_forecasts` has them, without a line.

    points: (S, D, loss), float64 (n,) each. left: {what was left out: bool (n,)}. about: {column: value} of every row.
        Also {what: (left out, those of them to forecast)}.
    Data frame, a row per point: left, S, D, forecast, low, high, measured, error, inside.
    """
    rows = []
    pairs = {kind: out if isinstance(out, tuple) else (out, out) for kind, out in left.items()}
    for kind, (out, wanted) in pairs.items():
        if not wanted.any():
            continue
        try:
            found = joint_forecast([side[~out] for side in points], points[0][wanted], points[1][wanted])
        except InputError:
            continue
        row = {"left": kind, "S": found.S, "D": found.D} | found.beside(points[2][wanted])
        rows.append(pd.DataFrame((about or {}) | row))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def grid_ends(S, D):
    """What to leave out at the ends of a grid, as `held_out_joint` takes it.

    The largest size, the largest two, those on the most text; and of all these left out at once, those beyond in both.
    """
    large, long = S >= np.unique(S)[-2:][0], np.unique(D)[-1] == D
    found = {"the largest size": np.max(S) == S, "the largest two sizes": large, "the most text": long}
    return found | {BOTH: (large | long, large & long)}
