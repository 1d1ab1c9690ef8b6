"""What a law is for: the loss at a size that was not measured, with an interval that holds.

A straight line through few sizes looks surer than it is, for ladders bend at their top. So a forecast rests on several
forms at once, each with Student's t about it: the line, a floor under the loss, a quadratic. No form is preferred, as
a ladder cannot say which one goes on: the forecast is the even mixture, and where they part the interval grows.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rbplib.laws.curve import family_curve
from rbplib.laws.estimators import ESTIMATORS
from rbplib.laws.extrapolation import extrapolate, spread
from rbplib.laws.law import fit
from rbplib.laws.runs import run_losses
from rbplib.ranks.table import asked, family_tables
from rbplib.settings import InputError

FORMS = {"line": "least_squares", "floor": "irreducible", "quadratic": "quadratic"}
FAR = 1.0  # decades beyond the largest size; few ladders reach further with models left out
HORIZONS = (0.0, 0.3, 0.6, 1.0, np.inf)  # decades, by which held-out models are grouped


@dataclass(frozen=True)
class Forecast:
    """Of y, the log of a loss, for one new model of a family at each of H sizes; see `forecast`."""

    laws: dict  # {name of FORMS: Law}, those that have a model to spare
    S: np.ndarray  # float64 (H,)
    y: np.ndarray  # float64 (H,), median
    interval: np.ndarray  # float64 (2, H)

    @property
    def horizon(self):
        """Decades beyond the largest size fitted; 0 or less up to it: float64 (H,)."""
        return np.log10(self.S / self.laws["line"].S.max())

    def told(self, i, times=0):
        """(value, [low, high]) at the size of that index: of the loss in nats, or of exp(times loss), as a share is."""
        with np.errstate(over="ignore"):
            value, *ends = np.exp([self.y[i], *self.interval[:, i]])
            value, *ends = np.exp(times * np.array([value, *ends])) if times else (value, *ends)
        return float(value), sorted(map(float, ends))

    def place(self, i):
        """Where the size of that index lies among those fitted, in words, with a warning where it is far."""
        far, below = self.horizon[i], np.log10(self.laws["line"].S.min() / self.S[i])
        if max(far, below) <= 0:
            return "inside the sizes measured, an interpolation"
        said = f"{far:.2f} decades beyond the largest model" if far > 0 else f"{below:.2f} decades below the smallest"
        warning = f"; WARNING: more than {FAR:g} decade out, do not lean on it" if max(far, below) > FAR else ""
        return said + warning


def forecast(loss, S, n_bootstrap=0, seed=42, level=0.95):
    """Forecast a loss at sizes that were not measured.

    A new model scatters about each form as those fitted do, and at least as trainings of one size do where that is
    known. With resamples of the sources the interval is for other text of the same kind, else for this text.

    Args:
        loss: Loss; models without a value are left out. S: sizes, non-embedding parameters, above 0.
    Returns:
        Forecast.
    Raises:
        InputError: fewer than three sizes have a value, or all have the same.
    Cost: three fits, and a line through each resample.
    """
    S, part = np.atleast_1d(np.asarray(S, dtype=np.float64)), loss.keep(np.flatnonzero(np.isfinite(loss.y)))
    variance, _, df = part.training_variance()
    least, noise = np.sqrt(variance) if df else 0.0, 0.0
    laws = {name: fit(part, kind, n_bootstrap=0) for name, kind in FORMS.items() if len(part.S)}
    laws = {name: law for name, law in laws.items() if np.isfinite(spread(law, S)[0]).all()}
    if "line" not in laws:
        few = "it takes three sizes whose losses exist and differ"
        raise InputError(f"{loss.family} on {loss.corpus} gives no forecast of {loss.name}: {few}.")
    if (drawn := part.resampled(n_bootstrap, seed)) is not None:
        line = ESTIMATORS[FORMS["line"]]
        noise = np.nanstd(line.curve(line.solve(drawn.loss, np.log(part.S)), np.log(S)), axis=0)
    centre = np.stack([law.y_at(S) for law in laws.values()])  # (F, H)
    sd, spare = zip(*(spread(law, S, least) for law in laws.values()), strict=True)
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    low, middle, high = mixture_quantiles(centre, np.hypot(sd, noise), np.array(spare)[:, None], shares)
    return Forecast(laws, S, middle, np.stack([low, high]))


def forecast_losses(family, corpus, k, N, protocol="paper", results=None, partial=False):
    """{rbp, cross_entropy, run: Loss} of measured tables; a sentence in place of runs of N hits that cannot be counted.

    Arguments as `curve.family_curve`. Raises InputError: as there, or N below 1.
    """
    if N < 1:
        raise InputError(f"a run has at least 1 hit, not {N}.")
    family, _, (corpus,) = asked(family, None, [corpus], protocol)
    curve = family_curve(family, corpus, [k], protocol, results=results, partial=partial)
    losses = {"rbp": curve.loss(k), "cross_entropy": curve.cross_entropy_loss()}
    try:
        return losses | {"run": run_losses(family_tables(family, corpus, protocol, results, partial)[0], k, [N])[N]}
    except InputError as error:
        return losses | {"run": str(error)}


def mixture_quantiles(centre, sd, df, shares):
    """Quantiles of an even mixture of Student's t: centre, sd (F, H), df (F, 1), shares (Q,): float64 (Q, H)."""
    from scipy.special import stdtr, stdtrit

    shares, sd = np.asarray(shares, float)[:, None, None], np.maximum(sd, 1e-12)
    each = centre + sd * stdtrit(df, shares)  # (Q, F, H)
    low, high = each.min(axis=1), each.max(axis=1)
    for _ in range(60):  # bisection: the mixture's quantile lies between those of its parts
        middle = (low + high) / 2
        below = stdtr(df, (middle[:, None] - centre) / sd).mean(axis=1) < shares[:, 0]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def held_out_forecasts(losses, held_out=(1, 2)):
    """Forecasts of the largest models of ladders from the rest, beside what was measured on the same text.

    Args:
        losses: list of Loss; models without a value do not count, ladders that leave fewer than three sizes are passed
            over.
        held_out: how many of the largest are left out, one after the other.
    Returns:
        data frame, a row per model left out: family, corpus, loss, held_out, models (fitted), model, horizon (decades
        beyond the largest fitted), error (forecast over measured loss, less 1), inside, too_low (measured above the
        interval), width (of the interval in y), and line_error, line_inside, line_width of the straight line alone.
    Cost: about 20 ms a row.
    """
    rows = []
    for loss in losses:
        part = loss.keep(np.flatnonzero(np.isfinite(loss.y)))
        order = np.argsort(part.S, kind="stable")
        for held in held_out:
            if len(np.unique(part.S[order[:-held]])) < 3 or part.keep(order[:-held]).equal:
                continue
            line, new = extrapolate(part, held), part.keep(order[-held:])
            found = forecast(part.keep(order[:-held]), new.S)
            shared = {"family": loss.family, "corpus": loss.corpus, "loss": loss.name, "held_out": held}
            for i, model in enumerate(new.models):
                row = {**shared, "models": line.law.n_models, "model": model, "horizon": found.horizon[i]}
                row |= {"error": np.expm1(found.y[i] - new.y[i]), "line_error": line.error[i]}
                low, high = found.interval[:, i]
                row |= {"inside": low <= new.y[i] <= high, "too_low": new.y[i] > high, "width": high - low}
                rows.append(row | {"line_inside": line.inside[i], "line_width": float(np.diff(line.interval[:, i])[0])})
    return pd.DataFrame(rows)
