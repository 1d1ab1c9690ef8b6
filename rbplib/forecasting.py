"""What a law is for: the loss at a size that was not measured, with an interval that holds.

A straight line through few sizes looks surer than it is, for ladders bend at their top. So a forecast rests on three
forms at once: the line, a floor under the loss, a quadratic. Few sizes cannot say which one goes on, so the forecast is
their even mixture, Student's t about each, and where they part the interval grows. A term in training tokens adds no
form to one ladder: with one amount of text it is the floor, and in proportion to size it cannot be told from the rest.
Several ladders on different amounts of text carry one: see `joint_forecast`.
"""

from dataclasses import dataclass
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pandas as pd

from paper.ladders import published_laws
from paper.published import gpt2_reference, nats, open_lm_losses
from paper.runs import run_losses
from rbplib.curve import own_repeats, rbp_curve
from rbplib.estimators import ESTIMATORS
from rbplib.extrapolation import extrapolate, widening
from rbplib.families import InputError
from rbplib.law import fit
from rbplib.noise import training_quantile
from rbplib.table import asked, family_tables

FORMS = {"line": "least_squares", "floor": "irreducible", "quadratic": "quadratic"}
FAR = 1.0  # decades beyond the largest size; few ladders reach further with models left out
HORIZONS = (0.0, 0.3, 0.6, 1.0, 2.0)  # decades, by which models left out are grouped
SHOWN = {"left_out": "left out", "share": "inside 95% interval", "line_share": "inside that of the line"}
SHOWN |= {"error": "error: median", "worst_error": "worst", "too_low": "forecast too low"}


@dataclass(frozen=True)
class Forecast:
    """Of y, the log of a loss, for one new model of a family at each of H sizes; see `forecast`."""

    laws: dict  # {name of FORMS: Law}, those that have a model to spare
    S: np.ndarray  # float64 (H,)
    y: np.ndarray  # float64 (H,), median
    interval: np.ndarray  # float64 (2, H)

    @property
    def fitted(self):
        """Sizes fitted, float64 (M,)."""
        return next(iter(self.laws.values())).S

    @property
    def by_form(self):
        """{name of a form: losses, float64 (H,)}."""
        with np.errstate(over="ignore"):
            return {name: np.exp(np.minimum(law.y_at(self.S), 700)) for name, law in self.laws.items()}

    @property
    def horizon(self):
        """Decades beyond the largest size fitted; 0 or less up to it: float64 (H,)."""
        return np.log10(self.S / self.fitted.max())

    def told(self, i, times=0):
        """(value, [low, high]) at the size of that index: of the loss in nats, or of exp(times loss), as a share is."""
        with np.errstate(over="ignore"):
            value, *ends = np.exp([self.y[i], *self.interval[:, i]])
            value, *ends = np.exp(times * np.array([value, *ends])) if times else (value, *ends)
        return float(value), sorted(map(float, ends))

    def beside(self, true):
        """Columns of a table: forecasts of the loss, float64 (H,), and what was measured, in nats."""
        with np.errstate(over="ignore"):
            value, low, high = np.exp([self.y, *self.interval])
        found = {"forecast": value, "low": low, "high": high, "measured": true, "error": value / true - 1}
        return found | {"inside": (low <= true) & (true <= high)}

    def place(self, i):
        """Where the size of that index lies among those fitted, in words, with a warning where it is far."""
        return place(self.S[i], self.fitted, "sizes", "the largest model")


def place(value, fitted, sides, end):
    """Where a size, or a number of tokens, lies among those fitted, float64 (M,), in words."""
    far, below = np.log10(value / fitted.max()), np.log10(fitted.min() / value)
    if max(far, below) <= 0:
        return f"inside the {sides} measured, an interpolation"
    said = f"{far:.2f} decades beyond {end}" if far > 0 else f"{below:.2f} decades below the smallest"
    warning = f"; WARNING: more than {FAR:g} decade out, do not lean on it" if max(far, below) > FAR else ""
    return said + warning


def forecast(loss, S, n_bootstrap=0, seed=42, level=0.95):
    """Forecast a loss at sizes that were not measured.

    A new model scatters about a form as those fitted do about it, or about the line where that gives the narrower
    interval (few models leave a form few to spare); and at least as trainings of one size do where that is known. With
    resamples the interval is for other text of the same kind.

    Args:
        loss: Loss; models without a value are left out, those of one size count as one.
        S: sizes, non-embedding parameters, above 0.
    Returns:
        Forecast.
    Raises:
        InputError: fewer than three sizes have a value, or all have the same.
    Cost: three fits, and a line through each resample.
    """
    S, part = np.atleast_1d(np.asarray(S, dtype=np.float64)), told_sizes(loss)
    laws = {name: fit(part, kind, n_bootstrap=0) for name, kind in FORMS.items() if len(part.S)}
    laws = {name: law for name, law in laws.items() if np.isfinite(law.residual_sd)}
    if "line" not in laws:
        few = f"it takes three sizes whose losses exist and differ, and {len(part.S)} of {len(loss.S)} models have one"
        raise InputError(f"{loss.family} on {loss.corpus} gives no forecast of {loss.name}: {few}.")
    (variance, _, known), sources = part.training_variance, 0.0
    least = np.sqrt(variance) if known else 0.0
    if (drawn := part.resampled(n_bootstrap, seed)) is not None:
        line = ESTIMATORS[FORMS["line"]]
        sources = np.nanstd(line.curve(line.solve(drawn.loss, np.log(part.S)), np.log(S)), axis=0)
    about = {name: (max(law.residual_sd, least), law.n_models - len(law.parameters)) for name, law in laws.items()}
    noise = [min(own, about["line"], key=lambda n: n[0] * training_quantile(n[1], level)) for own in about.values()]
    sd = [np.hypot(scatter * widening(law, S), sources) for law, (scatter, _) in zip(laws.values(), noise, strict=True)]
    df, shares = np.array([[spare] for _, spare in noise]), [(1 - level) / 2, 0.5, (1 + level) / 2]
    low, middle, high = mixture_quantiles(np.stack([law.y_at(S) for law in laws.values()]), np.stack(sd), df, shares)
    return Forecast(laws, S, middle, np.stack([low, high]))


def told_sizes(loss):
    """The models of a Loss that have a value, those of one size as one: several trainings are no several sizes."""
    return loss.keep(np.flatnonzero(np.isfinite(loss.y))).one_a_size


def attempt(loss, S, **drawn):
    """`forecast`, or in a sentence why there is none; a sentence in place of a Loss is handed on."""
    try:
        return loss if isinstance(loss, str) else forecast(loss, S, **drawn)
    except InputError as error:
        return str(error)


def forecast_losses(family, corpus, k, N, protocol="paper", results=None, partial=False):
    """{rbp, cross_entropy, run: Loss} of measured tables; a sentence in place of runs of N hits that cannot be counted.

    Arguments as `curve.family_curve`. Raises InputError: as there, or N below 1.
    """
    if N < 1:
        raise InputError(f"a run has at least 1 hit, not {N}.")
    family, _, (corpus,) = asked(family, None, [corpus], protocol)
    tables, missing = family_tables(family, corpus, protocol, results, partial)
    curve = own_repeats(rbp_curve(tables, [k], missing=missing), family, corpus, protocol, results)
    losses = {"rbp": curve.loss(k), "cross_entropy": curve.cross_entropy_loss()}
    try:
        return losses | {"run": run_losses(tables, k, [N])[N]}
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
        part = told_sizes(loss)
        order = np.argsort(part.S, kind="stable")
        rest, new = part.keep(order[:-held]), part.keep(order[-held:])
        if isinstance(found := attempt(rest, new.S), str):
            continue
        line, about = extrapolate(part, held), {"family": loss.family, "corpus": loss.corpus, "k": loss.k}
        about |= {"loss": loss.name, "models": len(rest.S), "model": new.models, "of": held, "S": new.S}
        row = about | {"horizon": found.horizon} | found.beside(new.values)
        rows += pd.DataFrame(row | {"line_error": line.error, "line_inside": line.inside}).to_dict("records")
    return pd.DataFrame(rows)


def published_losses():
    """Published ladders by size: LAMBADA, HumanEval, cross-entropy of open_lm, the authors' GPT-2: list of Loss."""
    S, loss, _ = gpt2_reference("neg_log_rbp")
    gpt2 = nats(S, loss, [f"{size:,.0f}" for size in S], "GPT-2", "Wikipedia")
    return [*(p.law.loss for p in published_laws()), *(own for own, _ in open_lm_losses("loss_openlm")), gpt2]


def tried(frame):
    """What models left out come to, as the one case of a claim; none where none was left out.

    Shares of the models inside the interval and inside that of the line alone, errors, and how often it was too low;
    of the line alone more than FAR decades beyond, how many lie inside, and how many it forecast too low.
    """
    cases = tally(frame)
    for case in cases:
        case.line_share, case.reach = frame["line_inside"].mean(), frame["horizon"].max()
        case.line_held = f"{frame['line_inside'].sum()} of {len(frame)}"
        far = frame[frame["horizon"] > FAR]
        case.line_far, case.line_low = (
            f"{told.sum()} of {len(far)}" if len(far) else "no model"
            for told in (far["line_inside"], far["line_error"] < 0)
        )
    return cases


def tally(frame):
    """The part of `tried` that needs no line: inside and error are the columns of the frame that count."""
    if not (n := len(frame)):
        return []
    found = {"frame": frame, "left_out": n, "share": frame["inside"].mean(), "held": f"{frame['inside'].sum()} of {n}"}
    found |= {"error": frame["error"].abs().median(), "worst_error": frame["error"].abs().max()}
    return [SimpleNamespace(**found, too_low=(frame["error"] < 0).mean())]


def by_horizon(frame):
    """Shares and errors of models left out by how far beyond the largest fitted they lie, and of all: data frame."""
    names = [f"{low:g} to {high:g}" for low, high in pairwise(HORIZONS)]
    parts = dict(iter(frame.groupby(pd.cut(frame["horizon"], HORIZONS, labels=names), observed=True)))
    rows = {where: vars(tried(part)[0]) for where, part in (parts | {"all": frame}).items()}
    return pd.DataFrame(rows).T[list(SHOWN)].rename(columns=SHOWN).rename_axis("decades beyond").reset_index()
