"""The law in size and training tokens together: grids of models, joint forms, what they did not
see, and forecasts.

Points are models: S (non-embedding parameters), D (training tokens) and a loss, -log RBP_k, -log
accuracy or cross-entropy in nats. A form joins terms, each a coefficient times powers of S, of D,
of both or of neither (a floor): the paper's Eq. 5 is one term with S alone. Terms T are summed,
(sum T^(1/g))^g with g = 1, or with g the exponent of D (Kaplan et al. 2020, Eq. 1.5). All by least
squares of the log of the loss.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
from scipy.optimize import leastsq
from scipy.special import stdtrit

from paper.counts import family_tables
from paper.curves import Curve, own_repeats, rbp_curve
from paper.forecasts import beside
from paper.laws import fit as fit_line
from rbplib import forecasting
from rbplib.families import InputError, load_family
from rbplib.losses import same_tokens

NEAR_ZERO = 1e-3  # an exponent below it, or a term below this share of every loss, counts as 0
STEEPEST = 3.0  # an exponent above it ran away: its term is a step at one end
APART = 0.05  # in logs: sizes or numbers of tokens closer than that are no different ones
ALIGNED = 0.999  # a correlation of log S and log D from which their parts cannot be told apart
STARTS = (0.1, 0.3, 0.8)  # exponents from which a search may start
SHARES = (0.1, 0.5, 0.9)  # of the last term there
SEARCHES = 4  # from the best of these
BOTH = "beyond in both at once"  # size and tokens


# --- joint forms


@dataclass(frozen=True)
class Form:
    """A sum of terms. A term is a string of its parameters: a coefficient, then the exponents a (of
    S), b (of D).
    """

    title: str  # in words
    terms: tuple[str, ...]
    joined: str = ""  # the parameter that is g; none: 1

    @property
    def parameters(self):
        return tuple("".join(self.terms))

    @property
    def exponents(self):
        """Which parameters are exponents, bool (P,)."""
        return np.isin(self.parameters, ["a", "b"])

    def design(self, S, D, centre):
        """What multiplies each parameter in the log of its term, (..., P); log S and log D count
        from a centre.
        """
        s, d = np.broadcast_arrays(centre[0] - np.log(S), centre[1] - np.log(D))
        columns = {"a": s, "b": d}
        return np.stack([columns.get(name, np.ones(s.shape)) for name in self.parameters], axis=-1)

    def log_terms(self, values, design):
        """log of each term, (..., T), from parameters (P,): logs of coefficients, exponents as they
        are.
        """
        member = np.repeat(np.eye(len(self.terms)), [len(term) for term in self.terms], axis=0)
        return (design * values) @ member

    def log_loss(self, values, design):
        g = values[self.parameters.index(self.joined)] if self.joined else 1.0
        return g * np.logaddexp.reduce(self.log_terms(values, design) / g, axis=-1)


FORMS = {
    "size": Form("size alone", ("Aa",)),  # A S^-a
    "size_floor": Form("size with a floor", ("Aa", "E")),  # E + A S^-a
    "product": Form("the product", ("Aab",)),  # A S^-a D^-b
    "additive": Form("the sum", ("Aa", "Bb")),  # A S^-a + B D^-b
    "kaplan": Form("Kaplan's form", ("Aa", "Bb"), "b"),  # ((A S^-a)^(1/b) + (B D^-b)^(1/b))^b
    "additive_floor": Form("the sum with a floor", ("Aa", "Bb", "E")),  # E + A S^-a + B D^-b
}
AHEAD = ("product", "additive", "kaplan", "additive_floor")  # an even mixture of these forecasts


@dataclass(frozen=True)
class JointLaw:
    """A fitted form. S, D, loss: float64 (n,). values: float64 (P,), exponents, and log
    coefficients at mean logs.
    """

    form: Form
    S: np.ndarray
    D: np.ndarray
    loss: np.ndarray
    values: np.ndarray

    @property
    def centre(self):
        return np.log(self.S).mean(), np.log(self.D).mean()

    @cached_property
    def parameters(self):
        """{name: value} as they stand in the form."""
        values = dict(zip(self.form.parameters, map(float, self.values), strict=True))
        origin = np.clip(self.log_terms(1.0, 1.0), -700, 700)
        for term, level in zip(self.form.terms, origin, strict=True):
            values[term[0]] = float(np.exp(level))  # a term at S = D = 1 is its coefficient
        return values

    def log_terms(self, S, D):
        """log of each term at sizes and tokens: float64, their common shape and (T,)."""
        return self.form.log_terms(self.values, self.form.design(S, D, self.centre))

    def predict(self, S, D):
        """Loss at sizes and tokens, float64 of their common shape."""
        return np.exp(self.form.log_loss(self.values, self.form.design(S, D, self.centre)))

    @cached_property
    def residuals(self):
        """log of the loss less that of the fit, float64 (n,)."""
        return np.log(self.loss) - np.log(self.predict(self.S, self.D))

    @property
    def residual_sd(self):
        """Of the log of the loss, on n less P degrees of freedom."""
        return float(np.sqrt(self.residuals @ self.residuals / (len(self.loss) - len(self.values))))

    @property
    def r2(self):
        """In log of the loss."""
        return float(1 - np.mean(self.residuals**2) / np.log(self.loss).var())

    @property
    def notes(self):
        """What of the fit lies at an end of what it can be, as "E is 0" (no floor): list of
        phrases.
        """
        shares = np.exp(self.log_terms(self.S, self.D) - np.log(self.loss)[:, None])
        notes = []
        for term, largest in zip(self.form.terms, shares.max(axis=0), strict=True):
            if largest < NEAR_ZERO:
                notes.append(f"{term[0]} is 0")
        for side, name in (("S", "a"), ("D", "b")):
            exponent = self.parameters.get(name, 1.0)
            if exponent <= -NEAR_ZERO:
                notes.append(f"the exponent of {side} is negative")
            elif exponent <= NEAR_ZERO:
                notes.append(f"the exponent of {side} is 0")
            elif exponent > STEEPEST:
                notes.append(f"the exponent of {side} ran away")
        return notes

    def resampled(self, losses):
        """Parameters (R, P) of fits to other losses (R, n), started here; NaN for a row with a loss
        that is bad.
        """
        rows = np.full((len(losses), len(self.values)), np.nan)
        good = (np.isfinite(losses) & (losses > 0)).all(axis=1)
        for i in np.flatnonzero(good):
            law = _search(self.form, self.S, self.D, losses[i], self)
            rows[i] = list(law.parameters.values())
        return rows

    def slopes(self, S, D, h=1e-5):
        """How the log of the predicted loss changes with each value: float64 (P, H)."""
        rows = []
        for step in h * np.eye(len(self.values)):
            up, down = (replace(self, values=self.values + change) for change in (step, -step))
            rows.append(np.log(up.predict(S, D) / down.predict(S, D)) / (2 * h))
        return np.array(rows)

    def widening(self, S, D):
        """Sd of a new model at sizes and tokens (H,) about the law, in that of the fitted models
        about it.
        """
        here, ahead = self.slopes(self.S, self.D), self.slopes(S, D)
        covariance = np.linalg.pinv(here @ here.T, rcond=1e-8)
        return np.sqrt(1 + np.einsum("ph,pq,qh->h", ahead, covariance, ahead))


def fit(S, D, loss, form="additive"):
    """Least squares of log loss on a form: `numpy.linalg.lstsq` for one term, else MINPACK from
    several starts.

    S, D, loss: float64 (n,), positive. form: one of FORMS.
    InputError: the points cannot carry the form, see `reason`. Cost: about 20 ms.
    """
    S, D, loss = (np.asarray(values, dtype=np.float64) for values in (S, D, loss))
    if why := reason(S, D, loss, form):
        title = FORMS[form].title
        raise InputError(f"Of the forms of a joint law, {title} cannot be fitted: {why}.")
    return _search(FORMS[form], S, D, loss)


def fits(S, D, loss, forms=FORMS):
    """{name: JointLaw} of those forms that the points, float64 (n,) each, can carry."""
    return {name: fit(S, D, loss, name) for name in forms if not reason(S, D, loss, name)}


def _search(form, S, D, loss, start=None):
    """The JointLaw of least squares; from a law of the same form alone where there is one, in a
    millisecond.
    """
    y, exponents = np.log(loss), form.exponents
    design = form.design(S, D, (np.log(S).mean(), np.log(D).mean()))
    if len(form.terms) == 1:
        return JointLaw(form, S, D, loss, np.linalg.lstsq(design, y, rcond=None)[0])

    # exponents are searched by their logs, so none of the terms rises
    def values(theta):
        return np.where(exponents, np.exp(np.clip(theta, -40, 5)), theta)

    def miss(theta):
        return form.log_loss(values(theta), design) - y

    def squares(theta):
        return np.sum(miss(theta) ** 2)

    # a start is lifted where it is at 0: a search in logs does not come back from there by itself
    if start is None:
        starts = sorted(_starts(form, y), key=squares)[:SEARCHES]
    else:
        levels = np.maximum(start.values, y.min() + np.log(0.01))
        starts = [np.where(exponents, np.log(np.maximum(start.values, 0.01)), levels)]
    options = {"full_output": True, "ftol": 1e-12, "xtol": 1e-10, "maxfev": 8000}
    ends = [leastsq(miss, theta, **options)[0] for theta in starts]
    return JointLaw(form, S, D, loss, values(min(ends, key=squares)))


def _starts(form, y):
    """Where a search may start: every set of exponents, and the last term at several shares of a
    middling loss.
    """
    exponents, others = form.exponents, len(form.terms) - 1
    for *powers, share in product(*[np.log(STARTS)] * exponents.sum(), SHARES):
        theta = np.empty(len(exponents))
        theta[exponents] = powers
        theta[~exponents] = y.mean() + np.log([(1 - share) / others] * others + [share])
        yield theta


def reason(S, D, loss, form):
    """Why these points, float64 (n,) each, cannot carry a form, in words; "" where they can."""
    kind = FORMS[form]
    P = len(kind.parameters)
    if not (np.isfinite(loss) & (loss > 0)).all():
        return "not every point has a loss that is a positive number"
    if len(S) <= P:
        return f"it has {P} parameters and needs more points than that, not {len(S)}"
    least = 2 if len(kind.terms) == 1 else 3
    for exponent, name, values in (("a", "sizes", S), ("b", "numbers of tokens", D)):
        if exponent in kind.parameters and different(values) < least:
            return f"it needs at least {least} different {name}, not {different(values)}"
    if "b" in kind.parameters and abs(np.corrcoef(np.log(S), np.log(D))[0, 1]) > ALIGNED:
        return "size and tokens grow together here, so that their parts cannot be told apart"
    return ""


def different(values):
    """How many sizes or numbers of tokens lie apart."""
    return 1 + int(np.sum(np.diff(np.sort(np.log(values))) > APART))


def shown(law):
    """{a, b, E} of a law as tables show them, 0 for a floor that is none; None: not in its form."""
    values = {name: law.parameters.get(name) for name in "abE"}
    return values | ({"E": 0.0} if "E is 0" in law.notes else {})


def at_tokens(S, D, loss, tokens, apart=2.5):
    """(S, loss) of each size after so many tokens, float64 each: between its own two nearest
    budgets, linear in logs.

    Left out is a size without both, or with a larger factor than `apart` between them.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    sizes, losses = [], []
    for size in np.unique(S):
        order = np.argsort(D[S == size])
        budgets, values = D[S == size][order], loss[S == size][order]
        below, above = budgets[budgets <= tokens], budgets[budgets >= tokens]
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


def held_out(S, D, loss, left, forms=tuple(FORMS)):
    """Root mean square errors in log loss of points not fitted: data frame, a row per group, a
    column per form.

    left: list of bool (n,), True where left out, see `groupings`. NaN where the rest cannot carry a
    form.
    """
    S, D, loss = (np.asarray(values, dtype=np.float64) for values in (S, D, loss))
    errors = pd.DataFrame(np.nan, index=range(len(left)), columns=list(forms))
    for row, out in enumerate(left):
        rest = S[~out], D[~out], loss[~out]
        for form in forms:
            if not reason(*rest, form):
                missed = np.log(loss[out] / fit(*rest, form).predict(S[out], D[out]))
                errors.loc[row, form] = np.sqrt(np.mean(missed**2))
    return errors


def compared(errors):
    """Forms by `held_out` errors, best first, over the groups that all could predict, but for forms
    that none could.

    Errors that are equal to six decimals are a tie, of which the form named first (the simpler one)
    is the best.
    Data frame: form, groups, rmse (root of the mean square over groups), spread (sd of the groups'
    own), behind (mean over groups of its error less the best form's), low, high (95% interval of
    that, Student's t over paired groups, a guide as they share most of the fit; NaN below three),
    verdict (best; behind: low above 0; tie; cannot be told).
    """
    each = errors.dropna(axis=1, how="all").dropna(axis=0)
    rmse = np.sqrt((each**2).mean())
    n, rmse = len(each), rmse.iloc[np.argsort(rmse.round(6), kind="stable")]
    behind = each[rmse.index].sub(each[rmse.index[0]], axis=0) if len(rmse) else each
    half = behind.std() * (stdtrit(n - 1, 0.975) / np.sqrt(n) if n > 2 else np.nan)
    columns = {"groups": n, "rmse": rmse, "spread": each.std(), "behind": behind.mean()}
    frame = pd.DataFrame(columns, rmse.index)
    frame["low"], frame["high"] = frame["behind"] - half, frame["behind"] + half
    verdicts = np.select([frame["low"] > 0, frame["low"] <= 0], ["behind", "tie"], "cannot be told")
    verdicts[:1] = "best"
    return frame.assign(verdict=verdicts).rename_axis("form").reset_index()


# --- grids of measured families


@dataclass(frozen=True)
class Grid:
    """Losses of models of several sizes and budgets on the same scored tokens.

    curve: Curve of all (M,) models, budget by budget, smallest first; it may hold a size many
    times.
    D: float64 (M,), tokens of text that each model saw in training.
    """

    curve: Curve
    D: np.ndarray

    @property
    def budgets(self):
        """Different numbers of tokens, float64, ascending."""
        return np.unique(self.D)

    @property
    def whole(self):
        """The part of the sizes that every budget holds, so that budgets are compared on the same
        ones: Grid.
        """
        sizes, times = np.unique(self.curve.S, return_counts=True)
        where = np.flatnonzero(np.isin(self.curve.S, sizes[times >= len(self.budgets)]))
        return Grid(self.curve.keep(where), self.D[where])

    def loss(self, k=None):
        """-log RBP_k of all models as a Loss; of k = None the cross-entropy."""
        return self.curve.cross_entropy_loss() if k is None else self.curve.loss(k)

    def along_size(self, k=None, **options):
        """{tokens: Law in S} of every budget with three models or more. options: n_bootstrap, seed,
        as of `fit`.
        """
        return _laws(self.loss(k), self.D, options)

    def along_tokens(self, k=None, **options):
        """{size: Law in D} of every size with three budgets or more; the law's S is the number of
        tokens.
        """
        return _laws(replace(self.loss(k), S=self.D, repeats=None), self.curve.S, options)


def _laws(loss, groups, options):
    """{value: Law} of the models of each value of `groups` (M,) that three or more have."""
    laws = {}
    for value in np.unique(groups):
        where = np.flatnonzero(groups == value)
        if len(where) > 2:
            laws[value] = fit_line(loss.keep(where), **options)
    return laws


def grid(families, corpus, ks):
    """The Grid of families whose files say how many `tokens` each model saw.

    Args: families: names or YAML paths; one of them may name `repeats`, which tell of all how
        trainings differ. corpus: name or path. ks: ranks to count.
    Raises: InputError: a family does not say its tokens, has no table, or was measured on other
        tokens of text.
    """
    curves, names, tokens, every = [], [], [], []
    for family in map(load_family, families):
        # what each model saw, and the tables, all on the same text
        seen = {model.name: model.tokens for model in family.models}
        for name, number in seen.items():
            if number is None:
                message = f"{family.name} does not say how much text {name} saw"
                raise InputError(f"{message}: add 'tokens:' to its file.")
        tables, missing = family_tables(family, corpus)
        every += tables
        same_tokens(every)
        curve = rbp_curve(tables, ks, missing=missing)
        curves.append(own_repeats(curve, family, corpus))
        names += [f"{curve.family} {model}" for model in curve.models]
        tokens += [float(seen[model]) for model in curve.models]

    # one curve of all models, budget by budget
    order = np.argsort(tokens, kind="stable")
    repeats = [curve.repeats for curve in curves if curve.repeats is not None]
    whole = replace(
        curves[0],
        models=tuple(names[i] for i in order),
        S=np.concatenate([curve.S for curve in curves])[order],
        nll=np.concatenate([curve.nll for curve in curves], axis=1)[:, order],
        hits=np.concatenate([curve.hits for curve in curves], axis=1)[:, order],
        repeats=repeats[0] if repeats else None,
    )
    return Grid(whole, np.array(tokens)[order])


# --- forecasts


def joint_forecast(points, S, D):
    """Forecast a loss with its 95% interval at sizes and tokens that were not measured.

    As of one ladder, an even mixture of forms, Student's t about each. Models of one size, or of
    one amount of text, miss a form together, so its scatter counts as known from no more points
    than there are sizes or amounts, whichever are fewer, less the exponents.

    Args:
        points: (S, D, loss), float64 (n,) each, positive; trainings of one size on one text count
            as one.
        S, D: where to, float64 (H,), or a number for all.
    Returns:
        Forecast, whose laws are {name of AHEAD: JointLaw}.
    Raises:
        InputError: no form can be fitted to the points.
    Cost: about 0.1 s.
    """
    S, D = (np.array(side, float) for side in np.broadcast_arrays(np.atleast_1d(S), D))

    # trainings of one size on one text are one point: means of logs
    which, places = pd.MultiIndex.from_arrays(points[:2]).factorize()
    if len(places) < len(which):
        means = (np.eye(len(places)) / np.bincount(which))[which]
        points = (*np.array(list(places)).T, np.exp(np.log(points[2]) @ means))

    laws = fits(*points, AHEAD)
    if not laws:
        raise InputError(f"there is no forecast in size and tokens: {reason(*points, 'product')}.")

    # each form's median and scatter at a new point
    groups = min(different(points[0]), different(points[1]))
    y, sd, df = [], [], []
    for law in laws.values():
        y.append(np.log(law.predict(S, D)))
        sd.append(law.residual_sd * law.widening(S, D))
        df.append([max(1.0, groups - law.form.exponents.sum())])
    shares = [0.025, 0.5, 0.975]
    forms = np.array(y), np.array(sd), np.array(df)
    low, middle, high = forecasting.mixture_quantiles(*forms, shares)
    return forecasting.Forecast(laws, S, middle, np.stack([low, high]))


def held_out_joint(points, left, about=None):
    """Forecasts of points left out from the rest, as `forecasts.held_out_forecasts` has them,
    without a line.

    points: (S, D, loss), float64 (n,) each. about: {column: value} of every row.
    left: {what was left out: (left out, those of them to forecast), bool (n,) each}, see
    `grid_ends`.
    Data frame, a row per point: left, S, D, forecast, low, high, measured, error, inside.
    """
    parts = [pd.DataFrame()]
    for kind, (out, wanted) in left.items():
        if not wanted.any():
            continue
        rest = [side[~out] for side in points]
        try:
            ahead = joint_forecast(rest, points[0][wanted], points[1][wanted])
        except InputError:
            continue
        columns = {"left": kind, "S": ahead.S, "D": points[1][wanted]}
        columns |= beside(ahead, points[2][wanted])
        parts.append(pd.DataFrame((about or {}) | columns))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def grid_ends(S, D):
    """What to leave out at the ends of a grid, as `held_out_joint` takes it.

    The largest size, the largest two, those on the most text; and of all these left out at once,
    those beyond in both.
    """
    largest, large, long = S == S.max(), S >= np.unique(S)[-2:][0], D == np.max(D)
    return {
        "the largest size": (largest, largest),
        "the largest two sizes": (large, large),
        "the most text": (long, long),
        BOTH: (large | long, large & long),
    }
