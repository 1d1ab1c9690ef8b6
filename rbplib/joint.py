"""The law in size and training tokens together: A S^-a + B D^-b, with or without a floor E.

Points are models: S (non-embedding parameters), D (training tokens) and a loss in nats. A form
joins terms, each a coefficient times powers of S, of D, of both or of neither (the floor). Which of
the two sums goes on beyond the points, they rarely tell, so a forecast mixes both by how well they
explain the points. It is widened where the law, fitted without an upper end, misses that.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import numpy as np

from rbplib.bootstrap import ENDS, LEVEL
from rbplib.families import InputError, telling
from rbplib.forecasting import Forecast, sizes_given
from rbplib.losses import Loss, check_loss

STARTS = (0.1, 0.3, 0.8)  # exponents from which a search may start
SHARES = (0.1, 0.5, 0.9)  # of the last term, from which a search may start
SEARCHES = 4  # from the best of these
APART = 0.05  # in logs: sizes or numbers of tokens closer than that are no different ones
ALIGNED = 0.999  # a correlation of their logs from which their parts cannot be told apart
HUBER = 1e-3  # in logs: where squares end in the objective of Hoffmann et al. 2022
PRECISE = {"ftol": 1e-12, "xtol": 1e-10}  # of a search
OUTLIER = 4.0  # standard deviations: further off the law a point counts as that far
EXPONENTS = 0.02, 2.5  # the least and the largest
CELLS, DRAWS, ROUNDS = 22, 16, 30  # a side of the first grid, draws in a cell, rounds of cells
NO_FLOOR = -800.0  # the log of a floor of none: it is 0 as a number
FINEST = 1e-4  # the least sd of log loss: none is known better
CHANCE = 2.1  # mean of the largest of three squared normal quantiles
UPPER_END = 0.25  # share of the points at an upper end, left out to see what is missed


# --- forms


@dataclass(frozen=True)
class Form:
    """A sum of terms, each a string of its parameters: a coefficient, then the exponents a (of S)
    and b (of D).

    Terms T are summed, (sum T^(1/g))^g; g is 1, or the parameter that `joined` names.
    """

    title: str  # in words
    terms: tuple[str, ...]
    joined: str = ""

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
        columns = {"a": s, "b": d}
        return np.stack([columns.get(name, np.ones(s.shape)) for name in self.parameters], axis=-1)

    @cached_property
    def member(self):
        """Whether a parameter is of a term, float64 (P, T)."""
        return np.eye(len(self.terms)).repeat([len(term) for term in self.terms], axis=0)

    def log_terms(self, values, design):
        """log of each term, (..., T), from parameters (P,), coefficients as logs."""
        return (design * values) @ self.member

    def log_loss(self, values, design):
        g = values[..., self.parameters.index(self.joined), None] if self.joined else np.ones(1)
        terms = self.log_terms(values, design) / g
        return g[..., 0] * reduce(np.logaddexp, (terms[..., i] for i in range(len(self.terms))))


SUM = Form("the sum", ("Aa", "Bb"))  # A S^-a + B D^-b
FLOOR = Form("the sum with a floor", ("Aa", "Bb", "E"))  # E + A S^-a + B D^-b


@dataclass(frozen=True)
class JointLaw:
    """A fitted form, or many: values float64 (..., P), exponents, and logs of coefficients at the
    centre.
    """

    form: Form
    centre: tuple[float, float]  # mean logs of S and D
    values: np.ndarray

    @property
    def parameters(self):
        """{name: (...)} as they stand in the form: a term at S = D = 1 is its coefficient."""
        form = self.form
        values = dict(zip(form.parameters, self.values.T, strict=True))
        origin = form.design(1.0, 1.0, self.centre)
        levels = np.clip(form.log_terms(self.values, origin), NO_FLOOR, 700)
        return values | dict(zip((term[0] for term in form.terms), np.exp(levels).T, strict=True))

    def predict(self, S, D):
        """Loss at sizes and tokens, float64 of their common shape; of many laws, at one of each."""
        return np.exp(self.form.log_loss(self.values, self.form.design(S, D, self.centre)))

    def balance(self, both):
        """log of the tokens a parameter with the least loss, where log of S D is `both`: there
        a A S^-a = b B D^-b (Hoffmann et al. 2022, Eq. 4)."""
        A, a, B, b, *_ = self.parameters.values()
        return both - 2 * (np.log(a * A / (b * B)) + b * both) / (a + b)


def reason(S, D, loss, form):
    """Why these points, float64 (n,) each, cannot carry a form, in words; "" where they can."""
    P = len(form.parameters)
    if not (np.isfinite(loss) & (loss > 0)).all():
        return "not every point has a loss that is a positive number"
    if len(S) <= P:
        return f"it has {P} parameters and needs more points than that, not {len(S)}"
    # do sizes and tokens vary, and apart from each other?
    least = 2 if len(form.terms) == 1 else 3
    for exponent, name, values in (("a", "sizes", S), ("b", "numbers of tokens", D)):
        different = 1 + int(np.sum(np.diff(np.sort(np.log(values))) > APART))
        if exponent in form.parameters and different < least:
            return f"it needs at least {least} different {name}, not {different}"
    if "b" in form.parameters and abs(np.corrcoef(np.log(S), np.log(D))[0, 1]) > ALIGNED:
        return "size and tokens grow together here, so that their parts cannot be told apart"
    return ""


def fit_form(S, D, loss, form, huber=None):
    """Fit a form to log loss: by least squares, or by Huber's objective with squares up to `huber`.

    One term is a line; else SciPy searches from several starts.

    S, D, loss: float64 (n,), positive. Returns JointLaw.
    InputError: the points cannot carry the form, see `reason`. Cost: about 20 ms, or 0.2 s.
    """
    S, D, loss = (np.asarray(values, float) for values in (S, D, loss))
    if why := reason(S, D, loss, form):
        raise InputError(f"Of the forms of a joint law, {form.title} cannot be fitted: {why}.")
    y = np.log(loss)
    centre = np.log(S).mean(), np.log(D).mean()
    design = form.design(S, D, centre)
    if len(form.terms) == 1:
        best, *_ = np.linalg.lstsq(design, y, rcond=None)
        return JointLaw(form, centre, best)

    from scipy.optimize import least_squares, leastsq

    # exponents are searched by their logs, so none of the terms rises
    def values(theta):
        powers = np.exp(np.minimum(np.maximum(theta, -40), 5))  # half the time of np.clip
        return np.where(form.exponents, powers, theta)

    def miss(theta):
        """How far each point is off, (n,)."""
        return form.log_loss(values(theta), design) - y

    # every set of exponents, and the last term at several shares of a middling loss
    starts, others = [], len(form.terms) - 1
    for *powers, share in product(*[np.log(STARTS)] * form.exponents.sum(), SHARES):
        start = np.empty(len(form.parameters))
        start[form.exponents] = powers
        start[~form.exponents] = y.mean() + np.log([(1 - share) / others] * others + [share])
        starts.append(start)

    def squares(theta):
        return np.sum(miss(theta) ** 2)

    # the best of searches from the best of these; for squares MINPACK itself, which is sooner
    starts = sorted(starts, key=squares)[:SEARCHES]
    if huber:
        how = PRECISE | {"gtol": 1e-12, "x_scale": "jac", "loss": "huber", "f_scale": huber}
        ends = [least_squares(miss, start, **how) for start in starts]
        return JointLaw(form, centre, values(min(ends, key=lambda end: end.cost).x))

    ends = [leastsq(miss, start, maxfev=8000, full_output=True, **PRECISE)[0] for start in starts]
    return JointLaw(form, centre, values(min(ends, key=squares)))


# --- both sums together


@dataclass(frozen=True)
class Draws:
    """N laws that the points allow. law: JointLaw of FLOOR, values (N, 5). sd: float64 (N,), of the
    log of the loss about each. weight: float64 (N,), shares.
    """

    law: JointLaw
    sd: np.ndarray
    weight: np.ndarray

    @property
    def floor(self):
        """How likely there is a floor, where both sums are as likely beforehand."""
        return float(self.weight[self.law.values[:, -1] > NO_FLOOR].sum())

    def quantiles(self, values, shares):
        """Quantiles (Q,) of something that each law gives (N,)."""
        order = np.argsort(values)
        weight = self.weight[order]
        return np.interp(shares, np.cumsum(weight) - weight / 2, values[order])

    def away(self, S, D, y):
        """How far points (m,) lie from what was forecast: mean square of normal quantiles."""
        from scipy.special import ndtr, ndtri

        centres = [np.log(self.law.predict(*at)) for at in zip(S, D, strict=True)]
        shares = ndtr((y[:, None] - centres) / self.sd) @ self.weight
        return np.mean(ndtri(np.clip(shares, 1e-12, 1 - 1e-12)) ** 2)


def draw_laws(S, D, loss, least=0.0):
    """`Draws` of the sum, with a floor and without, from points (n,); sd at least so much.

    Bayes' rule for normal noise of the log of the loss. Given both exponents a sum is linear, and
    its coefficients follow a multivariate t (least squares of loss over loss, as differences of
    logs are where they are small), of which draws above 0 count. Exponents are drawn from a t
    about where the evidence was in the round before, and weighted (importance sampling).
    Beforehand all exponents are as likely, coefficients of any size, and a floor up to the least
    loss.
    """
    from scipy.special import gammaln

    logs = np.log([S, D])
    centre = logs.mean(axis=1)
    x, d = logs - centre[:, None]
    n, parts = len(loss), []
    ends = np.log(EXPONENTS)
    grid = np.linspace(*ends, CELLS + 2)[1:-1]
    for floor in (0, 1):
        rng = np.random.default_rng(0)
        p, spare = 2 + floor, n - 2 - floor
        normal = rng.standard_normal((p, DRAWS))
        chi2 = rng.chisquare(spare, DRAWS)
        # logs of both exponents (N, 2), and of how often they are proposed
        powers = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
        proposed, heat = np.zeros(len(powers)), 2.0
        for _ in range(ROUNDS):
            # the linear problem of each: terms over the loss, which sum to 1
            a, b = np.exp(powers.T)[..., None]
            columns = np.ones((len(a), n, p))
            columns[..., 0] = np.exp(-a * x)
            columns[..., 1] = np.exp(-b * d)
            Q, R = np.linalg.qr(columns / loss[:, None])
            aim = Q.sum(axis=1)[..., None]
            squares = np.maximum(n - np.sum(aim**2, axis=1), n * FINEST**2)
            # draws (N, p, DRAWS), and the evidence over the proposal
            sd = np.sqrt(squares / chi2)
            terms = np.linalg.solve(R, aim + sd[:, None] * normal)
            above = (terms > 0).all(axis=1)
            evidence = gammaln(spare / 2) - spare / 2 * np.log(np.pi * squares[:, 0])
            evidence += powers.sum(axis=1) - proposed
            evidence -= np.linalg.slogdet(R)[1] + floor * np.log(loss.min())
            shares = np.log(np.maximum(above.mean(axis=1), 1e-300)) + evidence
            # enough, where these and those before were drawn about where the evidence is
            before = heat
            heat = max(1.0, np.ptp(np.sort(shares)[-len(shares) // 8 :]) / 4)
            if before == heat == 1:
                break
            # the next about these; where few have all the evidence, about more of them
            weight = np.exp((shares - shares.max()) / heat)
            middle = np.average(powers, axis=0, weights=weight)
            root = np.linalg.cholesky(2 * np.cov(powers.T, aweights=weight) + 1e-13 * np.eye(2))
            powers = rng.standard_normal(powers.shape) / np.sqrt(rng.chisquare(4, (len(a), 1)) / 4)
            proposed = -3 * np.log1p(np.sum(powers**2, axis=1) / 4) - np.linalg.slogdet(root)[1]
            powers = middle + powers @ root.T
            proposed[(np.abs(powers - ends.mean()) > np.ptp(ends) / 2).any(axis=1)] = np.inf
            powers = np.clip(powers, *ends)
        # those above 0: A, a, B, b, E
        i, k = above.nonzero()
        A, B, *E = np.log(terms[i, :, k]).T
        E = E or [np.full(len(i), NO_FLOOR)]
        values = [A, np.exp(powers[i, 0]), B, np.exp(powers[i, 1]), *E]
        parts.append((np.transpose(values), np.maximum(sd[i, k], least), evidence[i]))
    values, sd, evidence = map(np.concatenate, zip(*parts, strict=True))
    weight = np.exp(evidence - evidence.max())
    return Draws(JointLaw(FLOOR, tuple(centre), values), sd, weight / weight.sum())


@dataclass(frozen=True)
class JointFit:
    """Both sums fitted to the points of a Loss; see `joint_fit`.

    Attributes:
        loss: the points, a Loss with D. fullest: JointLaw of the sum with a floor, or without it
            where it has too few points. draws: Draws of both. missed: float from 1 up, what the
            interval of a forecast is widened by.
    """

    loss: Loss
    fullest: JointLaw
    draws: Draws
    missed: float

    def __repr__(self):
        """The law, its parameters with intervals, and what it is of, a line each."""
        lines = [
            f"{name} {self.parameters[name]:.4g} ({LEVEL:.0%}: {low:.4g} to {high:.4g})"
            for name, (low, high) in self.intervals.items()
        ]
        wider = f"{self.loss}; its forecasts' intervals widened by a factor of {self.missed:.3g}"
        return "\n".join([self.law.form.title, *lines, wider])

    @cached_property
    def law(self):
        """JointLaw of the likelier sum."""
        if self.draws.floor > 0.5 or self.fullest.form is SUM:
            return self.fullest
        return fit_form(self.loss.S, self.loss.D, self.loss.values, SUM, HUBER)

    @property
    def parameters(self):
        """{"A", "a", "B", "b", "E": value}; E is 0 in the sum without a floor."""
        return {"E": 0.0} | self.law.parameters

    @property
    def intervals(self):
        """{name: float64 (2,)} of the parameters, 95%, were one of both sums true."""
        drawn = self.draws.law.parameters
        return {name: self.draws.quantiles(values, ENDS) for name, values in drawn.items()}

    def ratio(self, compute=None):
        """(tokens a parameter with the least loss, its interval (2,)) at 6 S D operations; by
        default at the most of any point.
        """
        both = np.log(compute / 6) if compute else np.log(self.loss.S * self.loss.D).max()
        value, *ends = np.exp(self.draws.quantiles(self.draws.law.balance(both), [0.5, *ENDS]))
        return value, np.array(ends)

    def forecast(self, S, D):
        """Forecast at sizes and tokens (H,), of a model trained once."""
        draws, shares = self.draws, [0.5, *ENDS]
        noise = draws.sd * np.random.default_rng(1).standard_normal(len(draws.sd))
        points = zip(S, D, strict=True)
        values = [draws.quantiles(np.log(draws.law.predict(*at)) + noise, shares) for at in points]
        y, *ends = np.transpose(values)
        return Forecast({"joint": self.loss}, S, y, y + self.missed * np.subtract(ends, y), D)


def joint_fit(loss):
    """Fit A S^-a + B D^-b, and E + A S^-a + B D^-b, to losses of sizes and training tokens.

    Parameters are by Huber's objective on logs. What points allow besides is drawn from both sums,
    after outliers are moved to 4 sd from the law. Where a law is wrong,
    points miss it together, and their scatter does not say how far: so it is fitted again without
    the quarter of most compute, of largest size, of most text. Each lies from what is forecast by a
    mean square of normal quantiles; what the worst has beyond chance is added to the variance, so
    that intervals widen.

    Args:
        loss: Loss with D; trainings of one size on one text count as one.
    Returns:
        JointFit.
    Raises:
        InputError: no D, fewer than five points or three sizes or amounts, or both grow together.
    Cost: half a second for 250 points; 14 kB a point.
    """
    check_loss(loss, "a forecast")
    about, part = f"{loss.family} on {loss.corpus}", loss.defined()
    if part.D is None:
        raise InputError(
            f"{about} does not tell the tokens of training of every model: give a table of "
            "numbers with a column 'D' of them."
        )
    part, scatter = one_a_point(part)
    S, D, y = part.S, part.D, part.y
    if why := reason(S, D, part.values, SUM):
        raise InputError(
            f"{about} has no forecast in tokens: {why}; give five models of three sizes on three "
            "amounts of text that do not grow together."
        )
    # the law with a floor where there are points for it, without what is far off
    form = SUM if reason(S, D, part.values, FLOOR) else FLOOR
    fullest = fit_form(S, D, part.values, form, HUBER)
    fitted = np.log(fullest.predict(S, D))
    spare = len(y) - len(form.parameters)
    sd = 1.4826 * np.median(np.sort(np.abs(y - fitted))[-spare:])
    y = fitted + np.clip(y - fitted, -OUTLIER * sd, OUTLIER * sd)
    # both sums, and both again without an upper end
    variance, _, df = loss.training_variance
    least = max(scatter, np.sqrt(variance) if df else 0.0)
    draws = draw_laws(S, D, np.exp(y), least)
    worst = 0.0
    for by in (S * D, S, D):
        order = np.lexsort((S * D, by))
        rest, end = np.split(order, [len(order) - round(UPPER_END * len(order))])
        if not reason(S[rest], D[rest], np.exp(y[rest]), SUM):
            before = draw_laws(S[rest], D[rest], np.exp(y[rest]), least)
            worst = max(worst, before.away(S[end], D[end], y[end]))
    return JointFit(part, fullest, draws, np.sqrt(max(1.0, 1 + worst - CHANCE)))


def one_a_point(loss):
    """(points of a Loss: trainings of one size on one text as one, of their mean log; sd of those,
    0 where there are none)."""
    (S, D), which = np.unique([loss.S, loss.D], axis=1, return_inverse=True)
    times = np.bincount(which)
    y = np.bincount(which, loss.y) / times
    scatter = np.sqrt(np.sum((loss.y - y[which]) ** 2) / max(1, len(which) - len(times)))
    sums, about = np.exp(y)[None], (loss.name, loss.family, loss.corpus)
    return Loss(sums, np.ones(1), S, False, None, *about, D=D), scatter


def joint_forecast(loss, S, D):
    """Forecast a loss at sizes and training tokens that were not measured, by `joint_fit`.

    Args:
        loss: Loss with D. S: sizes, a number or (H,). D: training tokens, as many or a number.
    Returns:
        Forecast.
    Raises:
        InputError: as `joint_fit`; a size or a number of tokens not above 0.
    """
    with telling("S and D are a number each, or as many of one as of the other"):
        S, D = np.broadcast_arrays(sizes_given(S), sizes_given(D))
    return joint_fit(loss).forecast(S, D)
