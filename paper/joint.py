"""The law in size and training tokens together: joint forms fitted to losses, and compared on what they did not see.

Points are models: S (non-embedding parameters), D (training tokens) and a loss, -log RBP_k, -log accuracy or
cross-entropy in nats. A form joins terms, each a coefficient times powers of S, of D, of both or of neither (a floor):
the paper's Eq. 5 is one term with S alone. Terms T are summed, (sum T^(1/g))^g with g = 1, or with g the exponent of D
(Kaplan et al. 2020, Eq. 1.5), where the larger term counts for more. All by least squares of the log of the loss.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd

from rbplib.inputs import InputError, check_choice

NEAR_ZERO = 1e-3  # an exponent below it, or a term below this share of every loss, counts as 0
STEEPEST = 3.0  # an exponent above it ran away: its term is a step at one end
APART = 0.05  # in logs: sizes or numbers of tokens closer than that are no different ones
ALIGNED = 0.999  # a correlation of log S and log D from which their parts cannot be told apart
STARTS = (0.1, 0.3, 0.8)  # exponents from which a search may start
SHARES = (0.1, 0.5, 0.9)  # of the last term there
SEARCHES = 4  # from the best of these


@dataclass(frozen=True)
class Form:
    """A sum of terms, each named by its coefficient, with the name of the exponent of each variable in it."""

    title: str  # in words
    terms: dict  # {coefficient: {"S" or "D": exponent}}
    norm: str = ""  # the parameter that is g; none: 1

    @property
    def parameters(self):
        return tuple(name for c, powers in self.terms.items() for name in (c, *powers.values()))

    @property
    def powers(self):
        return {v: name for powers in self.terms.values() for v, name in powers.items()}


_SIZE, _TOKENS, _FLOOR = {"A": {"S": "a"}}, {"B": {"D": "b"}}, {"E": {}}
FORMS = {
    "size": Form("size alone", _SIZE),  # A S^-a
    "size_floor": Form("size with a floor", _SIZE | _FLOOR),  # E + A S^-a
    "product": Form("the product", {"A": {"S": "a", "D": "b"}}),  # A S^-a D^-b
    "additive": Form("the sum", _SIZE | _TOKENS),  # A S^-a + B D^-b
    "kaplan": Form("Kaplan's form", _SIZE | _TOKENS, norm="b"),  # ((A S^-a)^(1/b) + (B D^-b)^(1/b))^b
    "additive_floor": Form("the sum with a floor", _SIZE | _TOKENS | _FLOOR),  # E + A S^-a + B D^-b
}


@dataclass(frozen=True)
class JointLaw:
    """A fitted form. S, D, loss: float64 (n,). centred: float64 (P,), exponents, and log coefficients at mean logs."""

    form: str
    S: np.ndarray
    D: np.ndarray
    loss: np.ndarray
    centred: np.ndarray

    @cached_property
    def parameters(self):
        """{name: value} as they stand in the form."""
        columns, member, exponent = _design(self.form, *np.ones((2, 1)), (self.S, self.D))
        levels = member @ ((columns * self.centred) @ member)[0]
        values = np.where(exponent, self.centred, np.exp(np.clip(levels, -700, 700)))
        return dict(zip(FORMS[self.form].parameters, map(float, values), strict=True))

    def log_terms(self, S, D):
        """log of each term at sizes and tokens: float64, their common shape and (T,)."""
        S, D = np.broadcast_arrays(np.asarray(S, float), np.asarray(D, float))
        columns, member, _ = _design(self.form, S.ravel(), D.ravel(), (self.S, self.D))
        return ((columns * self.centred) @ member).reshape(*S.shape, -1)

    def predict(self, S, D):
        """Loss at sizes and tokens, float64 of their common shape."""
        g = self.parameters.get(FORMS[self.form].norm, 1.0)
        return np.exp(g * np.logaddexp.reduce(self.log_terms(S, D) / g, axis=-1))

    @cached_property
    def residuals(self):
        """log of the loss less that of the fit, float64 (n,)."""
        return np.log(self.loss) - np.log(self.predict(self.S, self.D))

    @property
    def residual_sd(self):
        """Of the log of the loss, on n less P degrees of freedom."""
        return float(np.sqrt(self.residuals @ self.residuals / (len(self.loss) - len(self.centred))))

    @property
    def r2(self):
        """In log of the loss; NaN where all losses are equal."""
        return float(1 - np.mean(self.residuals**2) / (np.log(self.loss).var() if np.ptp(self.loss) > 0 else np.nan))

    @property
    def notes(self):
        """What of the fit lies at an end of what it can be, as "E is 0" (no floor): list of phrases."""
        largest = np.exp(self.log_terms(self.S, self.D) - np.log(self.loss)[:, None]).max(axis=0)
        notes = [f"{c} is 0" for c, x in zip(FORMS[self.form].terms, largest, strict=True) if x < NEAR_ZERO]
        bounds = {"is negative": (-np.inf, -NEAR_ZERO), "is 0": (-NEAR_ZERO, NEAR_ZERO), "ran away": (STEEPEST, np.inf)}
        for v, name in FORMS[self.form].powers.items():
            notes += [f"the exponent of {v} {e}" for e, (a, b) in bounds.items() if a < self.parameters[name] <= b]
        return notes

    def resampled(self, losses):
        """Parameters (R, P) of fits to other losses (R, n), started here; NaN for a row with a loss that is bad."""
        empty = np.full(len(self.centred), np.nan)
        return np.array([empty if law is None else list(law.parameters.values()) for law in self.refitted(losses)])

    def refitted(self, losses):
        """Fits to other losses (R, n), started here: list of JointLaw, None for a row with a loss that is bad."""
        good = (np.isfinite(losses) & (np.asarray(losses) > 0)).all(axis=1)
        return [fit(self.S, self.D, losses[i], self.form, start=self) if ok else None for i, ok in enumerate(good)]

    def widening(self, S, D, h=1e-5):
        """Sd of a new model at sizes and tokens (H,) about the law, in that of the fitted models about it."""

        def slopes(S, D):
            ends = ([np.log(replace(self, centred=self.centred + s).predict(S, D)) for s in (-e, e)] for e in steps)
            return np.column_stack([(high - low) / (2 * h) for low, high in ends])

        steps = h * np.eye(len(self.centred))
        own, ahead = slopes(self.S, self.D), slopes(S, D)
        return np.sqrt(1 + np.einsum("hp,pq,hq->h", ahead, np.linalg.pinv(own.T @ own, rcond=1e-8), ahead))


@np.errstate(over="ignore", invalid="ignore")  # far from the end of a search, and in SciPy's covariance, unused here
def fit(S, D, loss, form="additive", start=None):
    """Least squares of log loss on a form: `numpy.linalg.lstsq` for one term, else MINPACK from several starts.

    A form of several terms is searched in the logs of coefficients and exponents, so none of its terms rises.
    S, D, loss: float64 (n,), positive. form: one of FORMS. start: a JointLaw of this form, to start from it alone.
    InputError: the points cannot carry the form, see `reason`. Cost: about 20 ms; with `start` a millisecond.
    """
    S, D, loss = (np.asarray(values, dtype=np.float64) for values in (S, D, loss))
    if start is None and (why := reason(S, D, loss, form)):
        raise InputError(f"Of the forms of a joint law, {FORMS[form].title} cannot be fitted: {why}.")
    y, (columns, member, exponent) = np.log(loss), _design(form, S, D, (S, D))
    if len(FORMS[form].terms) == 1:
        return JointLaw(form, S, D, loss, np.linalg.lstsq(columns, y, rcond=None)[0])
    from scipy.optimize import leastsq

    norm = [name == FORMS[form].norm for name in FORMS[form].parameters]

    def parts(theta):
        values = np.where(exponent, np.exp(np.clip(theta, -40, 5)), theta)
        g = values[norm].sum() or 1.0
        logs = (columns * values) @ member / g
        return values, g, logs, np.logaddexp.reduce(logs, axis=1)  # (P,), (), (n, T), (n,)

    def miss(theta):
        _, g, _, total = parts(theta)
        return g * total - y

    def slopes(theta):
        values, _, logs, total = parts(theta)
        share = np.exp(logs - total[:, None])
        entropy = total - (share * logs).sum(axis=1)  # of the shares: what g does
        return (share @ member.T * columns + np.outer(entropy, norm)) * np.where(exponent, values, 1.0)

    starts = sorted(_starts(form, y), key=lambda theta: np.sum(miss(theta) ** 2))[:SEARCHES]
    if start is not None:  # lifted where it is at 0: a search in logarithms does not come back from there by itself
        log_powers, levels = np.log(np.maximum(start.centred, 0.01)), np.maximum(start.centred, y.min() + np.log(0.01))
        starts = [np.where(exponent, log_powers, levels)]
    found = [leastsq(miss, s, Dfun=slopes, full_output=True, ftol=1e-12, xtol=1e-10, maxfev=1000)[0] for s in starts]
    return JointLaw(form, S, D, loss, parts(min(found, key=lambda theta: np.sum(miss(theta) ** 2)))[0])


def _design(form, S, D, at):
    """(n, P) what multiplies each parameter in the log of its term, (P, T) whose term it is, (P,) is it an exponent."""
    logs = {v: np.log(centre).mean() - np.log(x) for v, x, centre in zip("SD", (S, D), at, strict=True)}
    terms = list(FORMS[form].terms.values())
    columns = np.column_stack([column for powers in terms for column in (np.ones(len(S)), *(logs[v] for v in powers))])
    exponent = np.array([i > 0 for powers in terms for i in range(1 + len(powers))])
    return columns, np.repeat(np.eye(len(terms)), [1 + len(powers) for powers in terms], axis=0), exponent


def _starts(form, y):
    """Logs of parameters: the last term at several shares of a middling loss, with every pair of several exponents."""
    terms = list(FORMS[form].terms.values())
    for *exponents, share in product(*[np.log(STARTS)] * sum(map(len, terms)), SHARES):
        levels = y.mean() + np.log([*[(1 - share) / (len(terms) - 1)] * (len(terms) - 1), share])
        yield np.array([v for level, p in zip(levels, terms, strict=True) for v in (level, *exponents[: len(p)])])


def reason(S, D, loss, form):
    """Why these points, float64 (n,) each, cannot carry a form, in words; "" where they can."""
    kind = FORMS[check_choice(form, FORMS, "the form")]
    for name, values in (("size", S), ("number of tokens", D), ("loss", loss)):
        if len(values) != len(S) or not (np.isfinite(values) & (values > 0)).all():
            return f"not every point has a {name} that is a positive number"
    if len(S) <= len(kind.parameters):
        return f"it has {len(kind.parameters)} parameters and needs more points than that, not {len(S)}"
    least = 2 if len(kind.terms) == 1 else 3
    for v, name, values in (("S", "sizes", S), ("D", "numbers of tokens", D)):
        if v in kind.powers and (have := 1 + int(np.sum(np.diff(np.sort(np.log(values))) > APART))) < least:
            return f"it needs at least {least} different {name}, not {have}"
    if "D" in kind.powers and abs(np.corrcoef(np.log(S), np.log(D))[0, 1]) > ALIGNED:
        return "size and tokens grow together here, so that their parts cannot be told apart"
    return ""


def at_tokens(S, D, loss, tokens, apart=2.5):
    """(S, loss) of each size after so many tokens, float64 each: between its own two nearest budgets, linear in logs.

    Left out is a size without both, or with a larger factor than `apart` between them.
    """
    S, x, y, at, found = np.asarray(S, float), np.log(D), np.log(loss), np.log(tokens), {}
    for size in np.unique(S):
        own = pd.Series(np.asarray(y)[S == size], index=np.asarray(x)[S == size]).sort_index()
        if own.index[own.index >= at].min() - own.index[own.index <= at].max() < np.log(apart):
            found[size] = np.exp(np.interp(at, own.index, own))
    return np.array(list(found), float), np.array(list(found.values()))


def groupings(size, budget):
    """{kind: list of bool (n,)} that can be left out; size, budget: values or labels (n,) by which to group."""
    size, budget = np.asarray(size), np.asarray(budget)
    large, long = size == size.max(), budget == budget.max()
    ends = {"the largest size": [large], "the largest budget": [long], "the largest of either": [large | long]}
    return {f"each {n}": [v == x for x in np.unique(v)] for n, v in (("size", size), ("budget", budget))} | ends


def held_out(S, D, loss, left, forms=tuple(FORMS)):
    """Root mean square errors in log loss of points not fitted: data frame, a row per group, a column per form.

    left: list of bool (n,), True where left out, see `groupings`. NaN where the rest cannot carry a form.
    """
    S, D, loss = (np.asarray(values, dtype=np.float64) for values in (S, D, loss))

    def error(form, out):
        kept = S[~out], D[~out], loss[~out]
        if reason(*kept, form):
            return np.nan
        return float(np.sqrt(np.mean(np.log(loss[out] / fit(*kept, form).predict(S[out], D[out])) ** 2)))

    return pd.DataFrame({form: [error(form, out) for out in left] for form in forms})


def compared(errors):
    """Forms by `held_out` errors, best first, over the groups that all could predict, but for forms that none could.

    Data frame: form, groups, rmse (root of the mean square over groups), spread (sd of the groups' own), behind (mean
    over groups of its error less the best form's), low, high (95% interval of that, Student's t over paired groups, a
    guide as they share most of the fit; NaN below three), verdict (best; behind: low above 0; tie; cannot be told).
    """
    from scipy.special import stdtrit

    n = len(each := errors.dropna(axis=1, how="all").dropna(axis=0))
    total = np.sqrt((each**2).mean()).sort_values(kind="stable")
    apart = each.sub(each[total.index[0]], axis=0)[total.index] if len(total) else each
    half = apart.std() * (stdtrit(n - 1, 0.975) / np.sqrt(n) if n > 2 else np.nan)
    found = {"groups": n, "rmse": total, "spread": each.std(), "behind": (mean := apart.mean())}
    frame = pd.DataFrame(found | {"low": mean - half, "high": mean + half}, index=total.index).rename_axis("form")
    cases = [np.arange(len(total)) == 0, frame["low"] > 0, frame["low"] <= 0]
    return frame.assign(verdict=np.select(cases, ["best", "behind", "tie"], "cannot be told")).reset_index()
