"""What a law is for: the loss at a size that nobody trained, with an interval that holds.

A straight line through few sizes looks surer than it is, for ladders bend at their top. So a
forecast rests on three forms at once: the line, a floor under the loss, a quadratic. Few sizes
cannot say which one goes on, so the forecast is their even mixture, Student's t about each, and
where they part the interval grows.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError
from rbplib.law import fit
from rbplib.losses import check_resamples
from rbplib.noise import training_quantile

FORMS = {"line": "least_squares", "floor": "irreducible", "quadratic": "quadratic"}
STARTS = (0.1, 0.3, 0.8)  # exponents from which a search may start
APART = 0.05  # in logs: sizes or numbers of tokens closer than that are no different ones
ALIGNED = 0.999  # a correlation of their logs from which their parts cannot be told apart
FAR = 1.0  # decades beyond the largest model; few ladders reach further with models left out


@dataclass(frozen=True)
class Forecast:
    """A loss forecast for one new model of a family at each of H sizes; see `forecast`.

    Attributes:
        laws: {name of FORMS: Law}, those that have a model to spare; or {"sum": Loss fitted}.
        S: float64 (H,). y: float64 (H,), median of the log of the loss.
        y_interval: float64 (2, H).
        D: float64 (H,), tokens of training text; None: as of the models fitted.
    """

    laws: dict
    S: np.ndarray
    y: np.ndarray
    y_interval: np.ndarray
    D: np.ndarray | None = None

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
        part = next(iter(self.laws.values()))
        sizes = np.log10(self.S / part.S.max())
        return sizes if self.D is None else np.maximum(sizes, np.log10(self.D / part.D.max()))

    def told(self, i, times=0):
        """(value, [low, high]) at size i: of the loss in nats, or of exp(times loss), a share."""
        values = np.array([self.loss[i], *self.interval[:, i]])
        if times:
            values = exponential(times * values)
        return float(values[0]), sorted(values[1:].tolist())


def exponential(y):
    """exp, infinite where it is too large."""
    with np.errstate(over="ignore"):
        return np.exp(y)


def forecast(loss, S, n_bootstrap=0, seed=42, level=0.95):
    """Forecast a loss at sizes that were not measured.

    A new model scatters about a form as those fitted do about it, or about the line where that
    gives the narrower interval (few models leave a form few to spare); and at least as trainings
    of one size do, where that is known. With resamples the interval is for other text of the kind.

    Args:
        loss: Loss; models without a value are left out, those of one size count as one.
        S: sizes above 0, non-embedding parameters: a number or (H,).
    Returns:
        Forecast.
    Raises:
        InputError: fewer than three sizes have a value, or all have the same; a size not above 0;
            1 to 99 resamples.
    Cost: three fits, and a line through each resample.
    """
    check_resamples(n_bootstrap)
    S, part = np.atleast_1d(np.asarray(S, float)), one_a_size(loss)
    if not (S > 0).all():
        raise InputError("a size is above 0: give non-embedding parameters, such as 13e9.")
    forms = FORMS if len(part.S) else {}
    laws = {name: fit(part, estimator, n_bootstrap=0) for name, estimator in forms.items()}
    laws = {name: law for name, law in laws.items() if np.isfinite(law.residual_sd)}
    if "line" not in laws:
        few = f"{len(part.S)} of {len(loss.S)} models have one"
        raise InputError(
            f"{loss.family} on {loss.corpus} gives no forecast of {loss.name}: it takes three "
            f"sizes whose losses exist and differ, and {few}."
        )
    # What other trainings, and other text, would make of it.
    variance, _, df = part.training_variance
    least = np.sqrt(variance) if df else 0.0
    sources, drawn = 0.0, part.resampled(n_bootstrap, seed)
    if drawn is not None:
        line = ESTIMATORS["least_squares"]
        params = line.solve(drawn.loss, np.log(part.S))
        sources = np.nanstd(line.curve(params, np.log(S)), axis=0)
    # Scatter about each form, or about the line where that is narrower.
    centre, scatter, spare = [], [], []
    for law in laws.values():
        noises = [(max(x.residual_sd, least), x.spare) for x in (law, laws["line"])]
        sd, df = min(noises, key=lambda noise: noise[0] * training_quantile(noise[1], level))
        centre.append(law.y_at(S))
        scatter.append(np.hypot(sd * widening(law, S), sources))
        spare.append([df])
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    forms = np.array(centre), np.array(scatter), np.array(spare)
    low, y, high = mixture_quantiles(*forms, shares)
    return Forecast(laws, S, y, np.stack([low, high]))


def joint_forecast(loss, S, D, level=0.95):
    """Forecast a loss at sizes and training tokens that were not measured: A S^-a + B D^-b.

    By least squares of the log of the loss, neither term rising. Models of one size, or on one
    amount of text, miss the sum together: Student's t has as many degrees of freedom as there are
    sizes or amounts, whichever are fewer, less two.

    Args:
        loss: Loss with D; trainings of one size on one text count as one.
        S: sizes, a number or (H,). D: training tokens, as many or a number.
    Returns:
        Forecast.
    Raises:
        InputError: no D, fewer than three sizes or amounts, or both grow together.
    Cost: 27 searches, 0.1 s.
    """
    of, part = f"{loss.family} on {loss.corpus}", loss.keep(np.flatnonzero(np.isfinite(loss.y)))
    if part.D is None:
        mend = "give a table of numbers with a column 'D' of them"
        raise InputError(f"{of} tells no tokens of training: {mend}.")
    S, D = np.broadcast_arrays(np.atleast_1d(np.asarray(S, float)), D)
    points, which = np.unique(np.log([part.S, part.D]), axis=1, return_inverse=True)
    y, centre = np.bincount(which, part.y) / np.bincount(which), points.mean(1, keepdims=True)
    groups = min(1 + np.sum(np.diff(np.sort(side)) > APART) for side in points)
    if groups < 3 or len(y) < 5 or abs(np.corrcoef(points)[0, 1]) > ALIGNED:
        need = "five models of three sizes on three amounts of text that do not grow together"
        raise InputError(f"{of} has no forecast in tokens: give {need}.")

    from scipy.optimize import leastsq
    from scipy.special import softmax

    def terms(theta, x):
        """Logs of both terms (2, H) at x (2, H), the logs of sizes and tokens."""
        levels, exponents = theta.reshape(2, 2, 1)
        return levels - np.exp(np.clip(exponents, -40, 5)) * (x - centre)

    def miss(theta):
        return np.logaddexp(*terms(theta, points)) - y

    def slopes(x):
        """Derivatives of the log of the loss by levels and exponents (4, H)."""
        shares = softmax(terms(best, x), axis=0)
        return np.concatenate([shares, shares * (centre - x)])

    # the best of searches from several exponents, with several shares of the first term
    ends = []
    for share, *exponents in product((0.9, 0.5, 0.1), STARTS, STARTS):
        start = [*(y.mean() + np.log([share, 1 - share])), *np.log(exponents)]
        ends.append(leastsq(miss, start, ftol=1e-12, xtol=1e-10, maxfev=8000)[0])
    best = min(ends, key=lambda theta: np.sum(miss(theta) ** 2))

    # scatter of a new model about the sum
    x = np.log([S, D])
    total = np.logaddexp(*terms(best, x))
    ahead = np.linalg.pinv(slopes(points), rcond=1e-4) @ slopes(x)
    half = np.sqrt(np.sum(miss(best) ** 2) / (len(y) - 4) * (1 + np.sum(ahead**2, axis=0)))
    half *= training_quantile(max(1, groups - 2), level)
    return Forecast({"sum": part}, S, total, np.stack([total - half, total + half]), D)


def attempt(loss, S, **drawn):
    """`forecast`, or in a sentence why there is none; a sentence for a Loss is handed on."""
    try:
        return loss if isinstance(loss, str) else forecast(loss, S, **drawn)
    except InputError as error:
        return str(error)


def one_a_size(loss):
    """The models of a Loss that have a value, those of one size as one, of their mean sums.

    Several trainings of a size are no several sizes; they become the repeats.
    """
    loss = loss.keep(np.flatnonzero(np.isfinite(loss.y)))
    sizes, first, which, times = np.unique(loss.S, True, True, True)  # places, inverse, counts
    if len(sizes) == len(loss.S):
        return loss
    sums = loss.sums @ (np.eye(len(sizes)) / times)[which]
    models = tuple(loss.models[i] for i in first)
    return replace(loss, sums=sums, S=sizes, models=models, repeats=loss.repeats or loss)


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
