"""What a law is for: the loss at a size that nobody trained, with an interval that holds.

A straight line through few sizes looks surer than it is, for ladders bend at their top. So a
forecast rests on three forms at once: the line, a floor under the loss, a quadratic. Few sizes
cannot say which one goes on, so the forecast is their even mixture, Student's t about each, and
where they part the interval grows.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from rbplib.bootstrap import ENDS, LEVEL
from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError, as_number
from rbplib.law import fit
from rbplib.losses import check_loss, check_resamples
from rbplib.noise import means_of_sizes, training_quantile

FORMS = {"line": "least_squares", "floor": "irreducible", "quadratic": "quadratic"}
FAR = 1.0  # decades beyond the largest model; few ladders reach further with models left out


@dataclass(frozen=True)
class Forecast:
    """A loss forecast for one new model of a family at each of H sizes; see `forecast`.

    Attributes:
        laws: {"line" | "floor" | "quadratic": Law}, those that have a model to spare; or {"joint":
            JointFit}.
        S: float64 (H,). y: float64 (H,), median of the log of the loss.
        y_interval: float64 (2, H).
        D: float64 (H,), tokens of training text; None: as of the models fitted.
    """

    laws: dict
    S: np.ndarray
    y: np.ndarray
    y_interval: np.ndarray
    D: np.ndarray | None = None

    def __repr__(self):
        """A line for each size: median and interval, and how far from the models fitted."""
        lines = []
        for S, loss, (low, high), far in zip(
            self.S, self.loss, self.interval.T, np.maximum(self.horizon, self.below), strict=True
        ):
            away = f", outside the models by a factor of {10**far:.3g}" if far > 0 else ""
            lines.append(f"S {S:.4g}: loss {loss:.4g} ({LEVEL:.0%}: {low:.4g} to {high:.4g}){away}")
        return "\n".join(lines)

    @property
    def loss(self):
        """Median of the loss in nats, float64 (H,)."""
        return exponential(self.y)

    @property
    def interval(self):
        """Of the loss in nats, float64 (2, H)."""
        return exponential(self.y_interval)

    @property
    def horizon(self):
        """Decades beyond the largest size, or amount of tokens, that was fitted; 0 or less up to
        it: float64 (H,)."""
        return self.decades(np.max, 1)

    @property
    def below(self):
        """Decades below the smallest size, or amount of tokens, that was fitted; 0 from it up:
        float64 (H,)."""
        return np.maximum(self.decades(np.min, -1), 0.0)

    def decades(self, end, sign):
        """How far an end of what was fitted is left behind, float64 (H,)."""
        fitted = next(iter(self.laws.values()))
        steps = [np.log10(self.S / end(fitted.S))]
        if self.D is not None:
            steps.append(np.log10(self.D / end(fitted.D)))
        return np.max(np.multiply(sign, steps), axis=0)


def sizes_given(S):
    """Sizes as numbers or text, one or several, as float64 (H,). InputError: one is none."""
    S = np.array([as_number(size) for size in np.atleast_1d(S)])
    if not ((S > 0) & (S < np.inf)).all():
        raise InputError(
            "a size is above 0: give non-embedding parameters, or tokens, such as 13e9."
        )
    return S


def exponential(y):
    """exp, infinite where it is too large."""
    with np.errstate(over="ignore"):
        return np.exp(y)


def forecast(loss, S, n_bootstrap=0, seed=42):
    """Forecast a loss at sizes that were not measured.

    A new model scatters about a form as those fitted do about it, or about the line where that
    gives the narrower interval (few models leave a form few to spare); and at least as trainings
    of one size do, where that is known. With resamples the interval is for other text of the kind.

    >>> from rbplib import fit
    >>> forecast(fit([3.0, 2.1, 1.5, 1.1], S=[1e6, 1e7, 1e8, 1e9]).loss, [1e8, "10B"])
    S 1e+08: loss 1.5 (95%: 1.446 to 1.591)
    S 1e+10: loss 0.8252 (95%: 0.7287 to 0.8522), outside the models by a factor of 10

    Args:
        loss: Loss; models without a value are left out, those of one size count as one.
        S: sizes above 0, non-embedding parameters: a number, or text such as "13B", or (H,).
    Returns:
        Forecast: `loss` (median, nats, float64 (H,)), `interval` (of 95%, nats, float64 (2, H)),
        `S`, `horizon` (decades beyond the largest size fitted), `laws` (each form's Law).
    Raises:
        InputError: fewer than three sizes have a value, or all have the same; a size not above 0;
            1 to 99 resamples.
    Cost: three fits, and a line through each resample.
    """
    check_loss(loss, "a forecast")
    check_resamples(n_bootstrap, seed)
    S, part = sizes_given(S), one_a_size(loss)
    laws = {}
    for name, estimator in FORMS.items() if len(part.S) else ():
        law = fit(part, estimator, n_bootstrap=0)
        if np.isfinite(law.residual_sd):
            laws[name] = law
    if "line" not in laws:
        raise InputError(
            f"{loss.family} on {loss.corpus} gives no forecast of {loss.name}: it takes three "
            "sizes whose losses exist and differ, "
            f"and {len(part.S)} of {len(loss.S)} models have one."
        )
    # What other trainings, and other text, would make of it.
    variance, _, df = part.training_variance
    least = np.sqrt(variance) if df else 0.0
    sources = 0.0
    drawn = part.resampled(n_bootstrap, seed)
    if drawn is not None:
        line = ESTIMATORS["least_squares"]
        forecasts = line.curve(line.solve(drawn.loss, np.log(part.S)), np.log(S))
        sources = np.nanstd(forecasts, axis=0)

    # Scatter about each form, or about the line where that is narrower.
    def half(law):
        return max(law.residual_sd, least) * training_quantile(law.spare)

    parts = []
    for law in laws.values():
        about = min(law, laws["line"], key=half)
        sd = max(about.residual_sd, least) * widening(law, S)
        parts.append((law.y_at(S), np.hypot(sd, sources), [about.spare]))
    parts = map(np.array, zip(*parts, strict=True))
    y, *ends = mixture_quantiles(*parts, [0.5, *ENDS])
    return Forecast(laws, S, y, np.array(ends))


def one_a_size(loss):
    """The models of a Loss that have a value, those of one size (within 5%) as one, of their mean
    sums.

    Several trainings of a size are no several sizes; they become the repeats.
    """
    loss = loss.defined()
    if loss.n_sizes == len(loss.S):
        return loss
    mean = means_of_sizes(loss.sizes)
    _, first = np.unique(loss.sizes, return_index=True)
    away = mean @ np.log(loss.S / loss.S[first][loss.sizes])  # 0 where sizes are the same
    S = loss.S[first] * np.exp(away)
    return replace(loss.keep(first), sums=loss.sums @ mean.T, S=S, repeats=loss.repeats or loss)


def widening(law, S):
    """Sd of a new model at sizes S about a law, in those of the fitted ones: float64 (H,)."""
    kind = ESTIMATORS[law.estimator]
    params = np.array(list(law.parameters.values()))
    x = np.log(law.S)
    jacobian = kind.jacobian(params, x, x.mean())
    ahead = kind.jacobian(params, np.log(np.atleast_1d(S)), x.mean())
    inverse = np.linalg.pinv(jacobian.T @ jacobian)
    return np.sqrt(1 + np.einsum("hp,pq,hq->h", ahead, inverse, ahead))


def mixture_quantiles(centre, sd, df, shares):
    """Quantiles of an even mixture of Student's t: float64 (Q, H).

    centre, sd: float64 (F, H) of the parts. df: (F, 1). shares: (Q,).
    """
    from scipy.special import stdtr, stdtrit

    shares = np.asarray(shares, float)[:, None, None]
    sd = np.maximum(sd, 1e-12)
    each = centre + sd * stdtrit(df, shares)  # (Q, F, H)
    low, high = each.min(axis=1), each.max(axis=1)
    # bisection: the mixture's quantile lies between those of its parts
    for _ in range(60):
        middle = (low + high) / 2
        parts = stdtr(df, (middle[:, None] - centre) / sd)
        below = parts.mean(axis=1) < shares[:, 0]
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return (low + high) / 2


# --- held against models that were left out


def extrapolate(loss, S, estimator="least_squares"):
    """Forecast of one form alone: Student's t with the residual degrees of freedom.

    Models of one size count by their mean; one new model scatters about that as they do.

    Args:
        loss: Loss. S: float (H,), sizes, non-embedding parameters. estimator: as of `fit`.
    Returns:
        Forecast. Without a model to spare (three, and a law of three parameters) the interval is
        NaN.
    Raises:
        InputError: as of `fit`, or a size that is not above 0.

    >>> from rbplib import fit
    >>> loss = fit([3.0, 2.0, 1.5, 1.1], S=[1e6, 1e7, 1e8, 1e9]).loss
    >>> extrapolate(loss, [1e10]).loss.round(3).tolist()
    [0.778]
    """
    part = one_a_size(loss) if loss.n_sizes < len(loss.S) else loss
    law, S = fit(part, estimator, n_bootstrap=0), sizes_given(S)
    y, half = law.y_at(S), np.full(len(S), np.nan)
    if np.isfinite(law.residual_sd):
        sd, df = law.residual_sd * widening(law, S), law.spare
        # what a mean of models lacks of the scatter of one
        variance, _, free = part.training_variance
        variance = variance * (1 - len(part.S) / np.isfinite(loss.y).sum()) if free else 0.0
        if variance > 0:
            df = (sd**2 + variance) ** 2 / (sd**4 / df + variance**2 / free)
            sd = np.sqrt(sd**2 + variance)
        half = training_quantile(df) * sd
    return Forecast({estimator: law}, S, y, np.stack([y - half, y + half]))


def beside(forecast, true):
    """Columns of a table: a Forecast of the loss, float64 (H,), and what was measured, in nats."""
    low, high = forecast.interval
    return {
        "forecast": forecast.loss,
        "low": low,
        "high": high,
        "measured": true,
        "error": forecast.loss / true - 1,
        "inside": (low <= true) & (true <= high),
    }


def backtest(losses):
    """Forecasts of the largest model of ladders, and of the largest two, from the rest, beside what
    was measured on the same text.

    >>> from rbplib import fit
    >>> loss = fit([3.0, 2.0, 1.5, 1.1], S=[1e6, 1e7, 1e8, 1e9]).loss
    >>> backtest([loss])[["S", "measured", "forecast", "inside"]].round(2).to_dict("records")
    [{'S': 1000000000.0, 'measured': 1.1, 'forecast': 1.04, 'inside': True}]

    Args:
        losses: Losses; those that leave fewer than three sizes with a value are passed over.
    Returns:
        pandas DataFrame, a row per model left out: family, corpus, k, loss (its name), models
        (fitted), model, of (how many left out), S, horizon (decades beyond the largest fitted),
        forecast, low, high, measured (losses), error (forecast over measured, less 1), inside, and
        line_error, line_inside of the line with Student's t alone.
    Cost: about 10 ms a row.
    """
    import pandas as pd

    rows = [pd.DataFrame()]
    for loss, count in product(losses, (1, 2)):
        rest, new = one_a_size(loss).split(count)
        try:
            ahead = forecast(rest, new.S)
        except InputError:
            continue
        # the line alone too
        line = beside(extrapolate(rest, new.S), new.values)
        row = {
            "family": loss.family,
            "corpus": loss.corpus,
            "k": loss.k,
            "loss": loss.name,
            "models": len(rest.S),
            "model": new.models or "",
            "of": count,
            "S": new.S,
            "horizon": ahead.horizon,
            **beside(ahead, new.values),
            "line_error": line["error"],
            "line_inside": line["inside"],
        }
        rows.append(pd.DataFrame(row))
    return pd.concat(rows[1:] or rows, ignore_index=True)
