"""The law in size and training tokens together: grids of models, joint forms, and forecasts.

Points are models: S (non-embedding parameters), D (training tokens) and a loss in nats. A form
joins terms, each a coefficient times powers of S, of D, of both or of neither (a floor): the
paper's Eq. 5 is one term with S alone. Terms T are summed, (sum T^(1/g))^g with g = 1, or with g
the exponent of D (Kaplan et al. 2020, Eq. 1.5). All by least squares of the log of the loss.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
from scipy.optimize import leastsq

from paper.forecasts import beside
from rbplib.families import InputError, load_family
from rbplib.forecasting import ALIGNED, APART, STARTS, joint_forecast
from rbplib.losses import cross_entropy, rbp_loss
from rbplib.table import family_tables

SHARES = (0.1, 0.5, 0.9)  # of the last term, from which a search may start
SEARCHES = 4  # from the best of these
BOTH = "beyond in both at once"  # size and tokens


# --- joint forms


@dataclass(frozen=True)
class Form:
    """A sum of terms, each a string of its parameters: a coefficient, then the exponents a (of S)
    and b (of D).
    """

    title: str  # in words
    terms: tuple[str, ...]
    joined: str = ""  # the parameter that is g; none: 1

    @cached_property
    def parameters(self):
        return tuple("".join(self.terms))

    @cached_property
    def exponents(self):
        """Which parameters are exponents, bool (P,)."""
        return np.isin(self.parameters, ["a", "b"])

    def design(self, S, D, centre):
        """What multiplies each parameter in the log of its term, (..., P); logs count from a
        centre.
        """
        s, d = np.broadcast_arrays(centre[0] - np.log(S), centre[1] - np.log(D))
        slopes = {"a": s, "b": d}
        level = np.ones(s.shape)
        columns = [slopes.get(name, level) for name in self.parameters]
        return np.stack(columns, axis=-1)

    @cached_property
    def member(self):
        """Whether a parameter is of a term, float64 (P, T)."""
        lengths = list(map(len, self.terms))
        return np.repeat(np.eye(len(lengths)), lengths, axis=0)

    def log_terms(self, values, design):
        """log of each term, (..., T), from parameters (P,), coefficients as logs."""
        return (design * values) @ self.member

    def log_loss(self, values, design):
        g = values[self.parameters.index(self.joined)] if self.joined else 1.0
        terms = self.log_terms(values, design) / g
        return g * np.logaddexp.reduce(terms, axis=-1)


FORMS = {
    "size": Form("size alone", ("Aa",)),  # A S^-a
    "size_floor": Form("size with a floor", ("Aa", "E")),  # E + A S^-a
    "product": Form("the product", ("Aab",)),  # A S^-a D^-b
    "additive": Form("the sum", ("Aa", "Bb")),  # A S^-a + B D^-b
    "kaplan": Form("Kaplan's form", ("Aa", "Bb"), "b"),  # ((A S^-a)^(1/b) + (B D^-b)^(1/b))^b
    "additive_floor": Form("the sum with a floor", ("Aa", "Bb", "E")),  # E + A S^-a + B D^-b
}
TITLES = {name: form.title for name, form in FORMS.items()}


@dataclass(frozen=True)
class JointLaw:
    """A fitted form. values: float64 (P,), exponents, and logs of coefficients at the centre."""

    form: Form
    centre: tuple[float, float]  # mean logs of S and D
    values: np.ndarray

    @property
    def parameters(self):
        """{name: value} as they stand in the form: a term at S = D = 1 is its coefficient."""
        form = self.form
        values = dict(zip(form.parameters, self.values.tolist(), strict=True))
        origin = form.design(1.0, 1.0, self.centre)
        levels = np.clip(form.log_terms(self.values, origin), -700, 700)
        for term, level in zip(form.terms, levels, strict=True):
            values[term[0]] = float(np.exp(level))
        return values

    def predict(self, S, D):
        """Loss at sizes and tokens, float64 of their common shape."""
        design = self.form.design(S, D, self.centre)
        return np.exp(self.form.log_loss(self.values, design))


def fit(S, D, loss, form="additive"):
    """Least squares of log loss on a form: `numpy.linalg.lstsq` for one term, else MINPACK from
    several starts.

    S, D, loss: float64 (n,), positive. form: one of FORMS. Returns JointLaw.
    InputError: the points cannot carry the form, see `reason`. Cost: about 20 ms.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    if why := reason(S, D, loss, form):
        title = FORMS[form].title
        raise InputError(f"Of the forms of a joint law, {title} cannot be fitted: {why}.")
    form = FORMS[form]
    y = np.log(loss)
    centre = np.log(S).mean(), np.log(D).mean()
    design = form.design(S, D, centre)
    if len(form.terms) == 1:
        best, *_ = np.linalg.lstsq(design, y, rcond=None)
        return JointLaw(form, centre, best)

    # exponents are searched by their logs, so none of the terms rises
    def values(theta):
        powers = np.exp(np.minimum(np.maximum(theta, -40), 5))
        return np.where(form.exponents, powers, theta)

    def miss(theta):
        return form.log_loss(values(theta), design) - y

    def squares(theta):
        return np.sum(miss(theta) ** 2)

    # the best of searches from the best starts
    options = {"full_output": True, "ftol": 1e-12, "xtol": 1e-10, "maxfev": 8000}
    starts = sorted(_starts(form, y), key=squares)[:SEARCHES]
    ends = [leastsq(miss, theta, **options)[0] for theta in starts]
    return JointLaw(form, centre, values(min(ends, key=squares)))


def fits(S, D, loss, forms=FORMS):
    """{name: JointLaw} of those forms that the points, float64 (n,) each, can carry."""
    return {name: fit(S, D, loss, name) for name in forms if not reason(S, D, loss, name)}


def _starts(form, y):
    """Where a search may start: every set of exponents, and the last term at several shares of a
    middling loss.
    """
    exponents, others = form.exponents, len(form.terms) - 1
    powers = [np.log(STARTS)] * exponents.sum()
    for *start, share in product(*powers, SHARES):
        shares = [(1 - share) / others] * others + [share]
        theta = np.empty(len(exponents))
        theta[exponents] = start
        theta[~exponents] = y.mean() + np.log(shares)
        yield theta


def reason(S, D, loss, form):
    """Why these points, float64 (n,) each, cannot carry a form, in words; "" where they can."""
    form = FORMS[form]
    P = len(form.parameters)
    if not (np.isfinite(loss) & (loss > 0)).all():
        return "not every point has a loss that is a positive number"
    if len(S) <= P:
        return f"it has {P} parameters and needs more points than that, not {len(S)}"
    # do sizes and tokens vary, and apart from each other?
    least = 2 if len(form.terms) == 1 else 3
    for exponent, name, values in (("a", "sizes", S), ("b", "numbers of tokens", D)):
        steps = np.diff(np.sort(np.log(values)))
        different = 1 + int(np.sum(steps > APART))
        if exponent in form.parameters and different < least:
            return f"it needs at least {least} different {name}, not {different}"
    if "b" in form.parameters and abs(np.corrcoef(np.log(S), np.log(D))[0, 1]) > ALIGNED:
        return "size and tokens grow together here, so that their parts cannot be told apart"
    return ""


def at_tokens(S, D, loss, tokens, apart=2.5):
    """(S, loss) of each size after so many tokens, float64 each: between its own two nearest
    budgets, linear in logs.

    Left out is a size without both, or with a larger factor than `apart` between them.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    sizes, losses = [], []
    for size in np.unique(S):
        # budgets of this size, the least first
        models = np.flatnonzero(S == size)
        models = models[np.argsort(D[models])]
        budgets, values = D[models], loss[models]
        # its loss, between the two nearest
        below = budgets[budgets <= tokens]
        above = budgets[budgets >= tokens]
        if len(below) and len(above) and above[0] < apart * below[-1]:
            y = np.interp(np.log(tokens), np.log(budgets), np.log(values))
            sizes.append(size)
            losses.append(np.exp(y))
    return np.array(sizes), np.array(losses)


# --- forms compared on what they did not see


def groupings(size, budget):
    """{kind: list of bool (n,)} that can be left out; size, budget: values or labels (n,) by which
    to group.
    """
    size, budget = np.asarray(size), np.asarray(budget)
    large, long = size == size.max(), budget == budget.max()
    return {
        "each size": [size == value for value in np.unique(size)],
        "each budget": [budget == value for value in np.unique(budget)],
        "the largest size": [large],
        "the largest budget": [long],
        "the largest of either": [large | long],
    }


def held_out(S, D, loss, left, forms=FORMS):
    """Root mean square errors in log loss of points not fitted: data frame, a row per group, a
    column per form.

    left: list of bool (n,), True where left out, see `groupings`. NaN where the rest cannot carry a
    form.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    errors = pd.DataFrame(np.nan, index=range(len(left)), columns=list(forms))
    for row, out in enumerate(left):
        for form, law in fits(S[~out], D[~out], loss[~out], forms).items():
            missed = np.log(loss[out] / law.predict(S[out], D[out]))
            errors.loc[row, form] = np.sqrt(np.mean(missed**2))
    return errors


# --- grids of measured families


def grid(families, corpus, ks):
    """{k: Loss of all models with their D}, k = None the cross-entropy; sizes rise, and in one size
    D.

    Args: families: names or YAML paths of ladders whose files say how many `tokens` each model
        saw; one of them may name `repeats`, which tell of all how trainings differ. corpus: name
        or path. ks: ranks to count.
    Raises: InputError: a family does not say its tokens, has no table, or was measured on other
        tokens of text.
    """
    models, repeats = [], ()
    for family in map(load_family, families):
        # what each model saw, and its table
        tokens = {model.name: model.tokens for model in family.models}
        for name, number in tokens.items():
            if number is None:
                message = f"{family.name} does not say how much text {name} saw"
                raise InputError(f"{message}: add 'tokens:' to its file.")
        for table in family_tables(family, corpus)[0]:
            name, S = table.record["model"], table.record["nonembedding_params"]
            models.append((S, name, tokens[name], f"{family.name} {name}", table))
        if family.repeats:
            repeats, _ = family_tables(family.repeats, corpus)

    # one loss of all models
    _, _, D, names, tables = zip(*sorted(models, key=lambda model: model[:3]), strict=True)
    about = {"D": np.array(D, float), "models": names}
    losses = {k: rbp_loss(tables, k, repeats=repeats) for k in ks}
    losses[None] = cross_entropy(tables, repeats)
    return {k: replace(loss, **about) for k, loss in losses.items()}


def whole(loss):
    """The models of a Loss of those sizes that every amount of text has."""
    sizes, times = np.unique(loss.S, return_counts=True)
    sizes = sizes[times >= len(np.unique(loss.D))]
    return loss.keep(np.flatnonzero(np.isin(loss.S, sizes)))


# --- forecasts


def held_out_forecasts(loss, **about):
    """The ends of a grid left out, and forecast from the rest by
    `rbplib.forecasting.joint_forecast`.

    Left out are the largest size, the largest two, the models on the most text; and all these at
    once, of which those are forecast that lie beyond in both.

    Args: loss: Loss with D. about: further columns.
    Returns: data frame, a row per point: left, S, D, forecast, low, high, measured, error, inside;
        empty where the rest carries no forecast.
    """
    S, D, parts = loss.S, loss.D, [pd.DataFrame()]
    # what is left out of the fit, and what is forecast then
    two_largest = np.unique(S)[-2:]
    largest, large = S == S.max(), S >= two_largest[0]
    long = D == D.max()
    ends = {
        "the largest size": (largest, largest),
        "the largest two sizes": (large, large),
        "the most text": (long, long),
        BOTH: (large | long, large & long),
    }
    for left, (out, wanted) in ends.items():
        if out.all() or not wanted.any() or not np.isfinite(loss.y).all():
            continue
        try:
            rest = loss.keep(np.flatnonzero(~out))
            ahead = joint_forecast(rest, S[wanted], D[wanted])
        except InputError:
            continue
        columns = {"left": left, "S": S[wanted], "D": D[wanted]}
        columns |= beside(ahead, loss.values[wanted])
        parts.append(pd.DataFrame(about | columns))
    return pd.concat(parts[1:] or parts, ignore_index=True)
