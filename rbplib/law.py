"""From a loss to a law: exponent, intervals, R^2, lack of fit, and how far to trust them.

The law is log(-log RBP_k) = log_c - alpha log S (paper Eq. 5). Its exponent is uncertain in ways
that are kept apart: which text was scored ("text", paired bootstrap of the sources), which training
each model is one draw of ("trainings", that and the scatter between seeds), and how the few sizes
scatter about any line ("models", Student's t on the residuals; models within 5% are of one size,
and count by their mean). Of losses that come with standard errors and no documents, "text" is those
errors; of seeds on a text in one piece, "trainings" is their scatter alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbplib import noise
from rbplib.bootstrap import LEVEL, MIN_DOCUMENTS, percentile_interval
from rbplib.doors import number_rows, table_losses
from rbplib.estimators import ESTIMATORS, EXPONENTS
from rbplib.families import InputError, check_choice
from rbplib.losses import Loss, check_loss, check_models, check_resamples
from rbplib.table import RankTable

SIDES = np.array([[-1.0], [1.0]])  # of an interval
NOISES = ("documents", "sources", "trainings")
NONE_OF_THESE, UNKNOWN = "none of these", "not sources; trainings unknown"
EXPLAINED = (*NOISES, NONE_OF_THESE, UNKNOWN)
NOT_TESTED = "not tested"
RARE = 0.001  # p of the widest noise that is known, below which the line does not fit
BLUR = 0.5  # R^2 below which no line is seen
LOOKS = {}  # {text: how `Law.plot` draws it, by matplotlib's names}; a book fills it
FEW = 100  # misses or hits below which a true law shows R^2 under 0.9 half of the time (page 04)


@dataclass(frozen=True)
class Law:
    """A fitted law, log L = log_c - alpha log S (paper Eq. 5) or one of `fit`'s other forms.

    NaN marks what could not be computed; `notes` says why, gravest first.

    >>> from rbplib import fit
    >>> fit([3.0, 2.0, 2.5], S=[1e6, 1e7, 1e8])            # as Python shows it
    alpha 0.03959 (95%: other sizes -0.9618 to 1.041)
    R2 0.2015, too few documents; not told from 0; no line
    loss of a family on the table: 3 models, S 1e+06 to 1e+08

    Attributes:
        loss: what it was fitted to. estimator: how, see `fit`.
        used: models of the loss that the fit used, by index.
        parameters: {name: value}: alpha, log_c, and floor or curvature of a form that has one.
        intervals: {"text" | "trainings" | "models": {name: (low, high)}}, of 95%.
        fitted: float64 (M,), log losses of the law.
        band: float64 (2, M), interval of y over other text; None without resamples.
        residual_sd: of y - fitted, by degrees of freedom.
        noise_variance: what the choice of sources alone would make of its square.
        p: {"sources" | "trainings": p of the residuals against that noise, with trainings added}.
        n_bootstrap, seed: of the resamples.
    """

    loss: Loss
    estimator: str
    used: tuple[int, ...]
    parameters: dict
    intervals: dict
    fitted: np.ndarray
    band: np.ndarray | None
    residual_sd: float
    noise_variance: float
    p: dict
    notes: tuple[str, ...]
    n_bootstrap: int
    seed: int

    def __repr__(self):
        """Three lines: exponent and intervals; how good the fit is; what it is of."""
        intervals = [
            f"{name} {low:.4g} to {high:.4g}"
            for name, (low, high) in self.sides().items()
            if np.isfinite(high - low)
        ]
        return (
            f"alpha {self.alpha:.4g} ({LEVEL:.0%}: {', '.join(intervals) or 'no interval'})\n"
            f"R2 {self.r2:.4g}, {'; '.join([self.status, *self.caveats])}\n{self.part}"
        )

    def plot(self, ax=None, *, times=1.0, **look):
        """Draw losses, intervals of other text and, paler, of trainings, and the line, on log axes.

        Args:
            ax: matplotlib axes; the current ones where None. times: factor on the line alone.
            look: label, color, marker and linestyle, as matplotlib has them, of points and line; by
                default a book's for that text, or its name alone.
        Returns:
            The axes. Without an exponent no line is drawn, without a value no point.
        """
        import matplotlib.pyplot as plt

        ax = ax or plt.gca()
        loss, S = np.exp(self.y), self.loss.S
        look = {"marker": "o"} | (look or LOOKS.get(self.corpus, {"label": self.corpus}))
        dash = look.pop("linestyle", "-")
        (points,) = ax.plot(self.S, loss, linestyle="none", **look)
        color = points.get_color()
        if self.training_band is not None:
            ax.vlines(self.S, *np.exp(self.training_band), color=color, linewidth=5, alpha=0.28)
        if self.band is not None:
            ax.errorbar(self.S, loss, np.abs(np.exp(self.band) - loss), fmt="none", color=color)
        if np.isfinite(self.alpha):
            sizes = np.geomspace(S.min() / 1.25, S.max() * 1.25, 100)
            ax.plot(sizes, times * np.exp(self.y_at(sizes)), color=color, linestyle=dash)
        ax.set(xscale="log", yscale="log", xlabel="model size $S$ (non-embedding parameters)")
        # of laws of several losses on the same axes none gives its name
        name = f"{self.loss.name} (nats)"
        ax.set_ylabel(name if ax.get_ylabel() in ("", name) else "loss (nats)")
        return ax

    @cached_property
    def part(self):
        """The Loss of the models used."""
        return self.loss.keep(np.array(self.used, int))

    @property
    def S(self):
        """Sizes of the models used, float64 (M,)."""
        return self.part.S

    @property
    def models(self):
        """Names of the models used."""
        return self.part.models

    @property
    def y(self):
        """Log losses of the models used, float64 (M,)."""
        return self.part.y

    @property
    def alpha(self):
        """The exponent, positive when larger models do better."""
        return self.parameters["alpha"]

    @property
    def log_c(self):
        """Logarithm of the loss drawn out to S = 1."""
        return self.parameters["log_c"]

    @property
    def status(self):
        """ok, or the gravest note."""
        return self.notes[0] if self.notes else "ok"

    @property
    def caveats(self):
        """What to doubt beside the notes, gravest first: tuple of words.

        "not told from 0": an interval of the exponent holds 0. "equal sources": every resample
        gives the same exponent. "lack of fit": all noise that is known rejects the law (p < 0.001).
        "no line": the interval of other sizes holds 0, or R² is under 0.5. Verdicts of claims ask
        for `status` alone.
        """
        ends = np.array([pairs["alpha"] for pairs in self.intervals.values()])
        text, _, models = holds = (ends[:, 0] <= 0) & (0 <= ends[:, 1])
        noises = [p for p in self.p.values() if p >= 0]  # not NaN
        reasons = {
            "not told from 0": holds.any(),
            "equal sources": np.ptp(ends[0]) < 1e-12,
            "lack of fit": noises and max(noises) < RARE,
            "no line": models or self.r2 < BLUR,
        }
        return tuple(name for name, true in reasons.items() if true)

    @property
    def spare(self):
        """Sizes more than parameters; models within 5% are of one size."""
        return self.part.n_sizes - len(self.parameters)

    @property
    def r2(self):
        """Of y, fitted against flat; NaN without a fit, or where the points are all equal."""
        finite = np.isfinite(self.fitted + self.y)
        y, fitted = self.y[finite], self.fitted[finite]
        scatter = y.var() if len(y) else 0.0
        return float(1 - np.mean((y - fitted) ** 2) / scatter) if scatter > 1e-20 else np.nan

    @property
    def family(self):
        """Name of the family, as of its Loss."""
        return self.loss.family

    @property
    def corpus(self):
        """Name of the text, as of its Loss."""
        return self.loss.corpus

    @property
    def k(self):
        """The rank that counted as a hit; None where nothing was counted."""
        return self.loss.k

    @property
    def n_sources(self):
        """Sources with something scored: what a resample draws."""
        return self.loss.n_sources

    @property
    def scored_tokens(self):
        """What the sums are out of in all: tokens, or windows."""
        return int(self.loss.total)

    @property
    def misses(self):
        """Tokens ranked above k by the largest model, None for nats."""
        return None if self.loss.misses is None else int(self.loss.misses[-1])

    @property
    def ok(self):
        """Whether there is no note."""
        return not self.notes

    @property
    def n_models(self):
        """How many models the fit used."""
        return len(self.used)

    @property
    def without(self):
        """Models measured but without a value to fit: no hit, or no miss."""
        return tuple(np.delete(self.loss.models, list(self.used)))

    @property
    def ci_tokens(self):
        """Of the exponent over other text, (low, high), 95%."""
        return self.intervals["text"]["alpha"]

    @property
    def ci_trainings(self):
        """Of the exponent over other text and trainings, (low, high), 95%."""
        return self.intervals["trainings"]["alpha"]

    @property
    def ci_models(self):
        """Of the exponent over other sizes, (low, high), 95%."""
        return self.intervals["models"]["alpha"]

    def sides(self, parameter="alpha"):
        """{what varies, in words: (low, high)} of one parameter;
        what trainings add only where it is known."""
        sides = {"other text": self.intervals["text"][parameter]}
        if self.training_df:
            sides["other text and trainings"] = self.intervals["trainings"][parameter]
        return sides | {"other sizes": self.intervals["models"][parameter]}

    @property
    def worst_residual(self):
        """Largest distance of a model from the law, as a share of what it says: 0.02 is 2%."""
        away = np.abs(np.expm1(self.y - self.fitted))
        return float(np.nanmax(away)) if np.isfinite(away).any() else np.nan

    @property
    def noise_sd(self):
        """What the sources alone would make of residual_sd."""
        return float(np.sqrt(self.noise_variance))

    @property
    def training_sd(self):
        """Sd of y between trainings of one size, the text's part taken off; NaN if unknown."""
        return self.loss.training_noise()[0]

    @property
    def training_df(self):
        """Degrees of freedom of `training_sd`, 0 where it is not known."""
        return self.loss.training_noise()[1]

    @property
    def pooled_sd(self):
        """As residual_sd of a line, on the mean of all trainings of a size in place of the model.

        Against trainings the lack of fit is tested on these means; NaN where on the models alone.
        """
        df = self.training_df
        if not df or noise.own_seeds(self.part, df) == 1 or np.isnan(self.residual_sd):
            return np.nan
        x, (means, _) = np.log(self.S), noise.trained_together(self.part)
        away = means - np.polyval(np.polyfit(x, means, 1), x)
        return float(np.sqrt(away @ away / (len(x) - 2)))

    @property
    def training_band(self):
        """The band with the scatter between trainings added, float64 (2, M);
        None where one is not known."""
        if self.band is None or not self.training_df:
            return None
        wider = noise.training_quantile(self.training_df) * self.training_sd
        return self.y + SIDES * np.hypot(self.band - self.y, wider)

    @property
    def noise_p(self):
        """p of the lack of fit against the widest noise that is known: sources,
        and trainings where they are."""
        p = self.p["trainings"]
        return self.p["sources"] if np.isnan(p) else p

    @cached_property
    def explained_by(self):
        """The first noise that is enough for how the models leave the law, one of EXPLAINED, or
        NOT_TESTED.

        What the widest of them rejects no other explains: with all trainings of a size together it
        sees more.
        """
        documents = self.p["sources"]
        # documents resampled in place of sources, where these are fewer
        if self.spare > 0 and self.n_sources < self.loss.n_documents:
            part, x = self.part.over_documents(), np.log(self.S)
            drawn = part.resampled(self.n_bootstrap, self.seed)
            params = list(self.parameters.values())
            jacobian = ESTIMATORS[self.estimator].jacobian(params, x, x.mean())
            residuals = self.y - self.fitted
            documents = noise.lack_of_fit(part, jacobian, residuals, drawn and drawn.y)[1]
        # the first that is enough
        tests = np.array([documents, *self.p.values()])
        enough = tests >= 1 - LEVEL
        if enough.any() and not tests[2] < 1 - LEVEL:
            return NOISES[enough.argmax()]
        if np.isnan(tests).all():
            return NOT_TESTED
        return UNKNOWN if np.isnan(tests[2]) else NONE_OF_THESE

    def y_at(self, S):
        """Log of the loss at sizes S by the law: float64, shape of S."""
        x, centre = np.log(np.asarray(S, float)), np.log(self.S).mean()
        params = np.array(list(self.parameters.values()))
        return ESTIMATORS[self.estimator].curve(params, x.ravel(), centre).reshape(x.shape)


def fit(
    loss=None,
    estimator="least_squares",
    n_bootstrap=10_000,
    seed=42,
    *,
    S=None,
    hits=None,
    totals=None,
):
    """Fit one law to one loss, or to plain numbers, or to a pandas frame (`doors.table_losses`).

    >>> law = fit(S=[85e6, 302e6, 708e6, 1476e6], hits=[132065, 142215, 147050, 150180],
    ...           totals=317414)
    >>> round(law.alpha, 4), law.status
    (0.056, 'too few documents')
    >>> [round(end, 3) for end in law.intervals["models"]["alpha"]]
    [0.033, 0.079]

    Args:
        loss: Loss of one family on one corpus; a table of numbers that gives one, in our names
            (`table_losses` takes others by `columns`); or nats, one number a model, with S.
        estimator: "least_squares" (the paper's), "binomial" (maximum likelihood, complementary
            log-log link), "irreducible" (a floor under the loss) or "quadratic" (in log S).
        n_bootstrap: resamples of the sources, 100 or more; 0 for none.
        seed: int; one seed, one set of them.
        S: sizes of plain numbers, float (M,), three or more. hits: (M,) out of totals, a number.
            Without documents there is no interval of other text: those go into a Loss.
    Returns:
        Law; `status` and `notes` say how far to trust it. Fewer than three sizes of a Loss are a
        status.
    Raises:
        InputError: an unknown estimator, a model twice, too few resamples, numbers
            that do not fit together.
    Cost: one matrix product (B, U) by (U, M); the resamples of a corpus are drawn once.
    """
    kind = ESTIMATORS[check_choice(estimator, tuple(ESTIMATORS), "estimator")]
    check_resamples(n_bootstrap, seed)
    if not S is hits is totals is None:
        loss = number_rows(S, loss, hits, totals)
    elif loss is None:
        raise InputError("nothing to fit: give a Loss, a table of numbers, or S= and loss=.")
    if isinstance(loss, dict | list):  # of numbers, or of what a fit takes one of
        parts = loss.values() if isinstance(loss, dict) else loss
        if any(isinstance(part, Loss | RankTable) for part in parts):
            check_loss(loss, "a fit")
    if not isinstance(loss, Loss):
        loss, *others = table_losses(loss)
        if others:
            raise InputError("this table has several laws: fit each of table_losses(table).")
    check_models(loss, 1)
    if estimator == "binomial" and not loss.hits:
        raise InputError(
            f"{loss.name or 'this loss'} of {loss.family or 'a family'} counts nothing, which "
            "'binomial' needs: choose least_squares."
        )
    # Maximum likelihood uses a model without a single miss, or hit; logarithms cannot.
    used = np.flatnonzero(np.isfinite(loss.y) | (estimator == "binomial"))
    part = loss.keep(used)
    x, names = np.log(part.S), kind.parameters
    centre = x.mean() if len(x) else 0.0
    # The law, and that of each resample.
    params = np.full(len(names), np.nan)
    enough = part.n_sizes >= max(3, len(names)) and not loss.equal
    if enough:
        params = kind.solve(part.values, x)
    text = np.stack([params, params]) * np.nan
    drawn = drawn_params = drawn_y = band = None
    if np.isfinite(params).all():
        drawn = part.resampled(n_bootstrap, seed)
    if drawn is not None:
        drawn_params, drawn_y = kind.solve(drawn.loss, x), drawn.y
        ends = percentile_interval(np.hstack([drawn_params, drawn_y]))  # one sorting for both
        text, band = np.split(ends, [len(names)], axis=1)
    # What the other noises make of it.
    fitted = kind.curve(params, x, centre)
    residuals = part.y - fitted
    jacobian, weights = kind.jacobian(params, x, centre), kind.weights(params, x)
    residual_sd, models = noise.student_interval(jacobian, weights, residuals, part.sizes)
    trainings = noise.training_interval(part, jacobian, drawn_params)
    variance, by_sources, by_trainings = noise.lack_of_fit(part, jacobian, residuals, drawn_y)
    ends = {
        "text": text,
        "trainings": params + SIDES * trainings,
        "models": params + SIDES * models,
    }
    intervals = {
        varied: dict(zip(names, map(tuple, pairs.T.tolist()), strict=True))
        for varied, pairs in ends.items()
    }
    notes = doubts(loss, estimator, params, enough)
    if drawn is not None and np.isnan(text[:, 0]).any():
        notes += ("no interval of other text",)
    return Law(
        loss=loss,
        estimator=estimator,
        used=tuple(used.tolist()),
        parameters=dict(zip(names, params.tolist(), strict=True)),
        intervals=intervals,
        fitted=fitted,
        band=band,
        residual_sd=residual_sd,
        noise_variance=variance,
        p={"sources": by_sources, "trainings": by_trainings},
        notes=notes,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )


def doubts(loss, estimator, params, enough):
    """Reasons for doubt, gravest first."""
    settled, misses, hits = np.isfinite(params).all(), FEW, FEW
    if loss.hits:
        misses, hits = loss.misses.min(), loss.sums.sum(axis=0).min()
    inside = True  # a floor above zero, and an exponent between the ends of the search
    if estimator == "irreducible":
        inside = params[2] > 0 and EXPONENTS[0] < params[0] < EXPONENTS[-1]
    # gravest first
    reasons = {
        "equal losses": loss.equal,
        "too few models": not enough and not loss.equal,
        "not converged": enough and not settled,
        "saturated": misses == 0,
        "no hits": hits == 0,
        "few misses": 0 < misses < FEW,
        "few hits": 0 < hits < FEW,
        "wrong sign": settled and params[0] < 0,
        "at a bound": settled and not inside,
        "too few documents": loss.n_documents < MIN_DOCUMENTS,
        "too few sources": loss.n_sources < MIN_DOCUMENTS <= loss.n_documents,
    }
    return tuple(name for name, holds in reasons.items() if holds)


def plot_intervals(laws, labels=None, parameter="alpha", ax=None):
    """Draw a parameter of laws with its intervals of 95%, a row each, first law on top.

    Args:
        laws: Laws, one, or a dict of them. labels: a name each; the corpus of each without.
        parameter: of `Law.parameters`.
        ax: matplotlib axes; the current ones where None.
    Returns:
        The axes. What is NaN is not drawn.
    Raises:
        InputError: a law has no such parameter; more or fewer labels than laws.
    """
    import matplotlib.pyplot as plt

    laws = as_list(laws)
    labels = [law.corpus for law in laws] if labels is None else list(labels)
    if len(labels) != len(laws):
        raise InputError(f"{len(laws)} laws take as many labels, not {len(labels)}: one for each.")
    for law in laws:
        check_choice(parameter, law.parameters, "parameter of a law")
    ax = ax or plt.gca()
    rows = np.arange(len(laws))[::-1]
    names = list(dict.fromkeys(name for law in laws for name in law.sides(parameter)))
    for i, name in enumerate(names):
        ends = [law.sides(parameter).get(name, (np.nan, np.nan)) for law in laws]
        height = rows - 0.16 * (i - (len(names) - 1) / 2)
        ax.hlines(height, *np.transpose(ends), label=name, color=f"C{i}", linewidth=3.4 - 1.1 * i)
    ax.plot([law.parameters[parameter] for law in laws], rows, "o", color="black", markersize=4)
    ax.set_yticks(rows, labels)
    return ax


def as_list(laws):
    """Laws, one of them, or a dict's, as a list."""
    if isinstance(laws, Law):
        return [laws]
    return list(laws.values() if isinstance(laws, dict) else laws)


def law_table(laws):
    """A data frame with a row a law: exponent, intervals, fit, and what explains the rest.

    >>> law = fit([3.0, 2.2, 1.6], S=[1e6, 1e7, 1e8])
    >>> law_table([law])[["alpha", "R²", "models", "caveats"]].round(2).to_dict("records")
    [{'alpha': 0.14, 'R²': 1.0, 'models': 3, 'caveats': ''}]

    Args:
        laws: Laws, one, or a dict of them.
    Returns:
        pandas DataFrame: family, corpus, k, alpha, low and high of each interval (what trainings
        add where that is known), R², largest residual (%), explained by (`Law.explained_by`), p
        against sources and trainings and against sources, models, sources, misses at the largest,
        status, caveats (joined by ", ").
    Cost: where documents are more than sources, one bootstrap over documents a law.
    """
    import pandas as pd

    rows = []
    for law in as_list(laws):
        row = {"family": law.family, "corpus": law.corpus, "k": law.k, "alpha": law.alpha}
        for varied, (low, high) in law.sides().items():
            row |= {f"{varied}: low": low, f"{varied}: high": high}
        row |= {
            "R²": law.r2,
            "largest residual (%)": 100 * law.worst_residual,
            "explained by": law.explained_by,
            "p, sources and trainings": law.p["trainings"],
            "p, sources": law.p["sources"],
            "models": law.n_models,
            "sources": law.n_sources,
            "misses at the largest": law.misses,
            "status": law.status,
            "caveats": ", ".join(law.caveats),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def exponent_ratio(first, second):
    """(exponent of the second law over that of the first, its 95% interval), by Fieller's theorem.

    The interval holds each ratio r at which the residuals of y_2 - r y_1, whose two parts move
    together, allow a slope of 0 (Student t on M - 2); NaN ends: other models or sizes, or the first
    exponent may be 0. Nothing is raised. Cost: none.

    >>> S = [1e6, 1e7, 1e8, 1e9]
    >>> first, second = (fit(loss, S=S) for loss in ([9, 6, 4.1, 2.7], [5, 4, 3.3, 2.7]))
    >>> ratio, (low, high) = exponent_ratio(first, second)
    >>> round(ratio, 2), round(float(low), 2), round(float(high), 2)
    (0.51, 0.46, 0.56)
    >>> exponent_ratio(first, fit([5, 4, 3.3, 2.7], S=[2e6, 2e7, 2e8, 2e9]))[1]  # other sizes
    (nan, nan)
    """
    ratio = second.alpha / first.alpha
    if (first.models, *first.S) != (second.models, *second.S) or first.spare < 2:
        return ratio, (np.nan, np.nan)
    # sizes are the replicates, as those of an interval of other sizes
    mean, spare = noise.means_of_sizes(first.part.sizes), first.spare
    residuals = np.array([law.y - law.fitted for law in (first, second)]) @ mean.T
    t, x = noise.training_quantile(spare), mean @ np.log(first.S)
    half = t**2 * residuals @ residuals.T / spare / ((x - x.mean()) ** 2).sum()

    # the ends are the roots of a r^2 - 2 b r + c
    a, b, _, c = (np.outer(*2 * [[first.alpha, second.alpha]]) - half).ravel()
    if not a > 0:  # NaN where a law has no residuals
        return ratio, (np.nan, np.nan)
    return ratio, tuple(np.sort(np.roots([a, -2 * b, c]).real))
