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
from rbplib.losses import Loss, check_models, check_resamples

SIDES = np.array([[-1.0], [1.0]])  # of an interval
NOISES = ("documents", "sources", "trainings")
NONE_OF_THESE, UNKNOWN = "none of these", "not sources; trainings unknown"
EXPLAINED = (*NOISES, NONE_OF_THESE, UNKNOWN)
NOT_TESTED = "not tested"
RARE = 0.001  # p of the widest noise that is known, below which the line does not fit
BLUR = 0.5  # R^2 below which no line is seen
FEW = 100  # misses or hits below which a true law shows R^2 under 0.9 half of the time (page 04)


@dataclass(frozen=True, repr=False)
class Law:
    """A fitted law, log L = log_c - alpha log S (paper Eq. 5) or one of `fit`'s other forms.

    NaN marks what could not be computed; `notes` says why, gravest first.

    >>> from rbplib import fit
    >>> fit([3.0, 2.0, 2.5], S=[1e6, 1e7, 1e8])            # as Python shows it
    alpha 0.03959 (95%: models -0.9618 to 1.041)
    R2 0.2015, too few documents; not told from 0; no line
    loss of a family on the table: 3 models, S 1e+06 to 1e+08

    Attributes:
        loss: what it was fitted to. estimator: how, see `fit`.
        used: models of the loss that the fit used, by index. S: float64 (M,), their sizes.
        models: their names.
        parameters: {name: value}, the first two alpha and log_c.
        intervals: {"text" | "trainings" | "models": {name: (low, high)}}, of 95%.
        y, fitted: float64 (M,), log losses of the models used, and of the law.
        band: float64 (2, M), interval of y over other text; None without resamples.
        residual_sd: of y - fitted, by degrees of freedom.
        noise_variance: what the choice of sources alone would make of its square.
        p: {"sources" | "trainings": p of the residuals against that noise, with trainings added}.
        n_bootstrap, seed: of the resamples.
    """

    loss: Loss
    estimator: str
    used: tuple[int, ...]
    S: np.ndarray
    models: tuple[str, ...]
    parameters: dict
    intervals: dict
    y: np.ndarray
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
        # the intervals that are known
        intervals, sizes = [], self.loss.S
        for of, ends in self.intervals.items():
            low, high = ends["alpha"]
            if np.isfinite(high - low):
                intervals.append(f"{of} {low:.4g} to {high:.4g}")
        known = ", ".join(intervals) or "no interval"
        of = f"{self.loss.name} of {self.loss.family} on {self.loss.corpus}"
        return (
            f"alpha {self.alpha:.4g} ({LEVEL:.0%}: {known})\n"
            f"R2 {self.r2:.4g}, {'; '.join([self.status, *self.caveats])}\n"
            f"{of}: {len(self.used)} models, S {sizes.min():.4g} to {sizes.max():.4g}"
        )

    def plot(self, ax=None, label=None, times=1.0, **look):
        """Draw losses, intervals of other text and, paler, of trainings, and the line, on log axes.

        Args:
            ax: matplotlib axes; the current ones where None. label: of the points, for a legend.
            times: factor on the line alone. look: colour, marker and linestyle, as matplotlib has
                them, of points and line.
        Returns:
            The axes. Without an exponent no line is drawn, without a value no point.
        """
        import matplotlib.pyplot as plt

        ax = ax or plt.gca()
        loss, S = np.exp(self.y), self.loss.S
        dash = look.pop("linestyle", "-")
        look = {"marker": "o"} | look
        (points,) = ax.plot(self.S, loss, linestyle="none", label=label, **look)
        color = points.get_color()
        if self.training_band is not None:
            ax.vlines(self.S, *np.exp(self.training_band), color=color, linewidth=5, alpha=0.28)
        if self.band is not None:
            ax.errorbar(self.S, loss, np.abs(np.exp(self.band) - loss), fmt="none", color=color)
        if np.isfinite(self.alpha):
            sizes = np.geomspace(S.min() / 1.25, S.max() * 1.25, 100)
            ax.plot(sizes, times * np.exp(self.y_at(sizes)), color=color, linestyle=dash)
        ax.set(xscale="log", yscale="log", xlabel="model size $S$ (non-embedding parameters)")
        ax.set_ylabel(f"{self.loss.name} (nats)")
        return ax

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
        return self.loss.keep(np.array(self.used, int)).n_sizes - len(self.parameters)

    @property
    def r2(self):
        """Of y, fitted against flat; NaN without a fit, or where the points are all equal."""
        known = np.isfinite(self.fitted + self.y)
        y, fitted = self.y[known], self.fitted[known]
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
        """Largest distance of a model from the law, as a share of its loss: 0.02 is 2%."""
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
        part = self.loss.keep(np.array(self.used, int))
        pooled = self.training_df and noise.own_seeds(part, self.training_df) > 1
        if not pooled or np.isnan(self.residual_sd):
            return np.nan
        x, (means, _) = np.log(part.S), noise.trained_together(part)
        away = means - np.polyval(np.polyfit(x, means, 1), x)
        return float(np.sqrt(away @ away / (len(x) - 2)))

    @property
    def training_band(self):
        """The band with the scatter between trainings added, float64 (2, M);
        None where one is not known."""
        if self.band is None or not self.training_df:
            return None
        wider = noise.training_quantile(self.training_df) * self.training_sd
        return self.y + np.array([[-1.0], [1.0]]) * np.hypot(self.band - self.y, wider)

    @property
    def noise_p(self):
        """p of the lack of fit against the widest noise that is known: sources,
        and trainings where they are."""
        known = self.p["trainings"]
        return self.p["sources"] if np.isnan(known) else known

    @cached_property
    def explained_by(self):
        """The first noise that is enough for how the models leave the law, one of EXPLAINED, or
        NOT_TESTED.

        What the widest of them rejects no other explains: with all trainings of a size together it
        sees more.
        """
        documents = self.p["sources"]
        # documents resampled in place of sources, where these are fewer
        if self.spare > 0 and self.loss.n_sources < self.loss.n_documents:
            part = self.loss.keep(np.array(self.used, int)).over_documents()
            drawn = part.resampled(self.n_bootstrap, self.seed)
            kind, x = ESTIMATORS[self.estimator], np.log(self.S)
            jacobian = kind.jacobian(list(self.parameters.values()), x, x.mean())
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
        x = np.log(np.asarray(S, float))
        params = np.array(list(self.parameters.values()))
        centre = np.log(self.S).mean()
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
        loss: Loss of one family on one corpus; a table of numbers that gives one; or nats, one
            number a model, with S.
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
    x, y, names = np.log(part.S), part.y, kind.parameters
    enough = part.n_sizes >= max(3, len(names)) and not loss.equal
    # The law, and that of each resample.
    params = np.full(len(names), np.nan)
    centre = x.mean() if len(x) else 0.0
    if enough:
        params = kind.solve(part.values, x)
    fitted = kind.curve(params, x, centre)
    text = np.full((2, len(names)), np.nan)
    drawn_params = drawn_y = band = None
    settled = np.isfinite(params).all()
    drawn = part.resampled(n_bootstrap, seed) if settled else None
    if drawn is not None:
        drawn_params = kind.solve(drawn.loss, x)
        drawn_y = drawn.y
        text = percentile_interval(drawn_params)
        band = percentile_interval(drawn_y)
    # What the other noises make of it.
    residuals = y - fitted
    jacobian = kind.jacobian(params, x, centre)
    weights = kind.weights(params, x)
    residual_sd, models = noise.student_interval(jacobian, weights, residuals, part.sizes)
    trainings = noise.training_interval(part, jacobian, drawn_params)
    variance, by_sources, by_trainings = noise.lack_of_fit(part, jacobian, residuals, drawn_y)
    trainings = params + SIDES * trainings
    models = params + SIDES * models
    intervals = {}
    for of, pairs in {"text": text, "trainings": trainings, "models": models}.items():
        intervals[of] = dict(zip(names, map(tuple, pairs.T.tolist()), strict=True))
    notes = doubts(loss, estimator, params, enough)
    if drawn is not None and np.isnan(text[:, 0]).any():
        notes += ("no interval of other text",)
    return Law(
        loss=loss,
        estimator=estimator,
        used=tuple(used.tolist()),
        S=part.S,
        models=part.models,
        parameters=dict(zip(names, params.tolist(), strict=True)),
        intervals=intervals,
        y=y,
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
    # what the reasons are told by
    settled = np.isfinite(params).all()
    misses = hits = FEW
    if loss.hits:
        misses = loss.misses.min()
        hits = loss.sums.sum(axis=0).min()
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
        laws: Laws. labels: a name each; the corpus where None. parameter: of `Law.parameters`.
        ax: matplotlib axes; the current ones where None.
    Returns:
        The axes. What is NaN is not drawn.
    """
    import matplotlib.pyplot as plt

    ax, laws = ax or plt.gca(), list(laws)
    rows = np.arange(len(laws))[::-1]
    names = list(dict.fromkeys(name for law in laws for name in law.sides(parameter)))
    for i, name in enumerate(names):
        ends = [law.sides(parameter).get(name, (np.nan, np.nan)) for law in laws]
        height = rows - 0.16 * (i - (len(names) - 1) / 2)
        ax.hlines(height, *np.transpose(ends), label=name, color=f"C{i}", linewidth=3.4 - 1.1 * i)
    ax.plot([law.parameters[parameter] for law in laws], rows, "o", color="black", markersize=4)
    ax.set_yticks(rows, labels or [law.corpus for law in laws])
    return ax


def law_table(laws):
    """A data frame with a row a law: exponent, intervals, fit, and what explains the rest.

    >>> law = fit([3.0, 2.2, 1.6], S=[1e6, 1e7, 1e8])
    >>> law_table([law])[["alpha", "R²", "models", "caveats"]].round(2).to_dict("records")
    [{'alpha': 0.14, 'R²': 1.0, 'models': 3, 'caveats': ''}]

    Args:
        laws: Laws.
    Returns:
        pandas DataFrame: family, corpus, k, alpha, low and high of each interval (what trainings
        add where that is known), R², largest residual (%), explained by (`Law.explained_by`), p
        against sources and trainings and against sources, models, sources, misses at the largest,
        status, caveats (joined by ", ").
    Cost: where documents are more than sources, one bootstrap over documents a law.
    """
    import pandas as pd

    rows = []
    for law in laws:
        row = {"family": law.family, "corpus": law.corpus, "k": law.k, "alpha": law.alpha}
        for varied, (low, high) in law.sides().items():
            row |= {f"{varied}: low": low, f"{varied}: high": high}
        row |= {"R²": law.r2, "largest residual (%)": 100 * law.worst_residual}
        row |= {"explained by": law.explained_by}
        row |= {"p, sources and trainings": law.p["trainings"], "p, sources": law.p["sources"]}
        row |= {"models": law.n_models, "sources": law.n_sources}
        row |= {"misses at the largest": law.misses, "status": law.status}
        rows.append(row | {"caveats": ", ".join(law.caveats)})
    return pd.DataFrame(rows)


def exponent_ratio(first, second):
    """(exponent of the second law over that of the first, its 95% interval), by Fieller's theorem.

    The interval holds each ratio r at which the residuals of y_2 - r y_1, whose two parts move
    together, allow a slope of 0 (Student t on M - 2); NaN ends: other models, or the first exponent
    may be 0. Laws of the same models; cost: none.

    >>> S = [1e6, 1e7, 1e8, 1e9]
    >>> first, second = (fit(loss, S=S) for loss in ([9, 6, 4.1, 2.7], [5, 4, 3.3, 2.7]))
    >>> ratio, (low, high) = exponent_ratio(first, second)
    >>> round(ratio, 2), round(float(low), 2), round(float(high), 2)
    (0.51, 0.46, 0.56)
    """
    ratio = second.alpha / first.alpha
    if first.models != second.models or first.spare < 2:
        return ratio, (np.nan, np.nan)
    # sizes are the replicates, as those of an interval of other sizes
    mean = noise.means_of_sizes(noise.size_numbers(first.S))
    residuals = np.array([law.y - law.fitted for law in (first, second)]) @ mean.T
    t, x = noise.training_quantile(first.spare), mean @ np.log(first.S)
    spare = first.spare
    size_spread = ((x - x.mean()) ** 2).sum()
    half = t**2 * residuals @ residuals.T / spare / size_spread

    # the ends are the roots of a r^2 - 2 b r + c
    a, b, _, c = (np.outer(*2 * [[first.alpha, second.alpha]]) - half).ravel()
    if not a > 0:  # NaN where a law has no residuals
        return ratio, (np.nan, np.nan)
    return ratio, tuple(np.sort(np.roots([a, -2 * b, c]).real))
