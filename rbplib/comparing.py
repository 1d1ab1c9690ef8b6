"""How many times the parameters one family needs to be as good as another.

Two laws are lines of y = log loss in x = log S. At a size S of the first, the second is as good at
the size where its line passes the same y; the ratio of the two sizes is the number asked for. It is
uncertain in two ways, kept apart as those of a law are: which text was scored (bootstrap of the
sources, the same ones for both families where both read the same text), and how the few models
scatter about their lines.
"""

from dataclasses import dataclass

import numpy as np

from rbplib.bootstrap import LEVEL, line, percentile_interval
from rbplib.estimators import ESTIMATORS
from rbplib.families import InputError, complain
from rbplib.forecasting import sizes_given
from rbplib.law import fit
from rbplib.losses import check_loss, check_models, check_resamples
from rbplib.noise import scatter, training_quantile


@dataclass(frozen=True)
class Comparison:
    """One family against another at a size of that; NaN marks what could not be computed.

    Attributes:
        S: non-embedding parameters of the other. as_good: those of the one by its line.
        ratio: as_good over S.
        intervals: {"text" | "models": (low, high)} of the ratio.
        paired: whether both families were scored on the same sources, and drawn together.
        beyond: decades of as_good outside the sizes measured; 0 inside them. outside: the same,
            below 0 where it lies below the smallest of them.
    """

    S: float
    as_good: float
    ratio: float
    intervals: dict
    paired: bool
    beyond: float
    outside: float

    def __repr__(self):
        """The ratio with its intervals, and what it is at."""
        ends = [
            f"other {name.replace('models', 'sizes')} {low:.4g} to {high:.4g}"
            for name, (low, high) in self.intervals.items()
            if np.isfinite(high - low)
        ]
        around = f"{LEVEL:.0%}: {', '.join(ends) or 'no interval'}"
        factor = f", outside its models by a factor of {10**self.beyond:.3g}"
        far = factor if self.beyond > 0 else ""
        return (
            f"{self.ratio:.4g} times the parameters ({around})\n"
            f"as good at S {self.as_good:.4g} as the other at S {self.S:.4g}{far}"
        )


def compare(a, b, S=None, n_bootstrap=10_000, seed=42):
    """Compare two losses of one kind: how many times the parameters b needs to be as good as a.

    >>> from rbplib import table_losses
    >>> import pandas as pd
    >>> sizes = [1e6, 1e7, 1e8]
    >>> a, b = (table_losses(pd.DataFrame({"model": ["s", "m", "l"], "S": sizes, "loss_se": .01,
    ...     "loss": [(x / times) ** -0.1 for x in sizes]}))[0] for times in (1, 3))
    >>> round(compare(a, b).ratio, 6)
    3.0
    >>> print(compare(a, b, n_bootstrap=0))
    3 times the parameters (95%: other sizes 3 to 3)
    as good at S 3e+08 as the other at S 1e+08, outside its models by a factor of 3

    Args:
        a, b: Loss, of three sizes or more each; models without a value are left out.
        S: size of a, non-embedding parameters, or text such as "13B"; its largest by default.
        n_bootstrap: resamples of the sources, 100 or more; 0 for none.
    Returns:
        Comparison: `ratio` (parameters of b over S), `intervals` (of it, of 95%: "text",
        "models"), `S`, `as_good` (size of b), `outside` (decades from the sizes measured to there);
        without a ratio where b gets no better with size, and without an interval of models where
        they do not tell that it does, as three often do not; a reason goes to standard error. Of
        those given at three sizes 97% hold the planted ratio, at four 96%.
    Raises:
        InputError: fewer than three sizes; hits at another k, or hits against nats; a size not
            above 0.
    Cost: two matrix products, as of two fits.
    """
    for loss in (a, b):
        check_loss(loss, "a comparison")
    if (a.hits, a.k) != (b.hits, b.k):
        raise InputError(f"{a.name} is not compared with {b.name}: choose one k, or one loss.")
    check_resamples(n_bootstrap, seed)
    if a.precision and b.precision and a.precision != b.precision:
        complain(
            f"{a.family} was measured in {a.precision}, {b.family} in {b.precision}: "
            "fewer bits make ties and move ranks, measure both in one precision."
        )
    a, b = a.defined(), b.defined()
    for loss in (a, b):
        check_models(loss)
    (S,) = sizes_given(a.S.max() if S is None else S)

    # the log of the ratio, and those of resamples: one seed draws the same sources for both
    log_times, text = log_ratio(a.y, b.y, a, b, S), np.full(2, np.nan)
    paired = same_sources(a, b)
    drawn = a.resampled(n_bootstrap, seed), b.resampled(n_bootstrap, seed + (not paired))
    if all(drawn):
        text = percentile_interval(log_ratio(drawn[0].y, drawn[1].y, a, b, S))

    # on the scale of sizes; what has no number says why
    with np.errstate(over="ignore"):
        ratio = float(np.exp(log_times))
        as_good = float(S * ratio)
        half = half_width_of_models(a, b, S, as_good)
        ends = np.exp([text, log_times + np.array([-half, half])])
        above, below = np.log10(as_good / b.S.max()), np.log10(b.S.min() / as_good)
    if np.isnan(ratio):
        complain(f"{b.family} gets no better as it grows: no size of it is as good.")
    elif np.isnan(half):
        complain(
            f"{b.n_sizes} sizes do not tell whether {b.family} gets better as it grows: "
            "no interval of other sizes, measure more."
        )
    text, models = map(tuple, ends.tolist())
    intervals = {"text": text, "models": models}
    beyond = float(np.max([above, below, 0.0]))
    return Comparison(
        S, as_good, ratio, intervals, paired, beyond, -beyond if below > 0 else beyond
    )


def exponent_difference(first, second, n_bootstrap=10_000, seed=42):
    """(exponent of the second loss less that of the first by least squares, its 95% interval over
    sources).

    Both exponents come from the same resampled sources, so what they share cancels.

    >>> from rbplib import fit
    >>> S = [1e6, 1e7, 1e8]
    >>> steep, flat = (fit(loss, S=S).loss for loss in ([9, 4, 2], [9, 6, 4]))
    >>> round(exponent_difference(steep, flat)[0], 3)
    -0.151
    >>> exponent_difference(steep, fit([9, 6, 4], S=[2e6, 2e7, 2e8]).loss)  # other sizes
    (nan, (nan, nan))
    >>> from rbplib import Loss
    >>> one, other = (Loss([[30, 40, 50]] * 30, [99] * 30, S, corpus=text) for text in "ab")
    >>> [exponent_difference(one, loss, 100)[1] for loss in (one, other)]   # one text, and two
    [(0.0, 0.0), (nan, nan)]

    Args:
        first, second: Loss of the same models on the same documents. seed: as of `fit`.
        n_bootstrap: resamples of the sources; 0 for none.
    Returns:
        float, (low, high). NaN ends: too few sources, or another text; all NaN: other sizes, fewer
        than three, equal losses, or a model without a value.
    Cost: two matrix products, as of two fits.
    """
    ends = np.nan, np.nan
    if [*first.S] != [*second.S] or first.n_sizes < 3 or first.equal or second.equal:
        return np.nan, ends
    # weights whose sum with y is the exponent
    x = np.log(first.S) - np.log(first.S).mean()
    weights = -x / (x @ x)
    drawn = [loss.resampled(n_bootstrap, seed) for loss in (first, second)]
    if same_sources(first, second) and all(drawn):
        ends = tuple(percentile_interval((drawn[1].y - drawn[0].y) @ weights).tolist())
    return float(weights @ (second.y - first.y)), ends


def same_sources(a, b):
    """Whether both losses are of the same sources, in one order: of one text by its digest, or, of
    numbers that tell none, out of as much of each. What has one name and is not is said."""
    if a.se is not None or b.se is not None or a.n_documents < 2:
        return False
    digests = a.digest is not None and b.digest is not None
    names, texts = [], []
    for loss in (a, b):
        texts.append(loss.digest if digests else loss.totals.tolist())
        sources = loss.units.tolist(), loss.used.tolist()
        names.append(sources if digests else loss.labels or (loss.corpus, sources))
    alike = names[0] == names[1]
    # of one text by its digest, whatever it is called
    if texts[0] == texts[1]:
        if digests and not alike:
            complain(
                f"{a.family} and {b.family} read one text in other documents or sources, which "
                "are drawn apart. Measure both again with one corpus file."
            )
        return alike
    if a.corpus == b.corpus if digests else alike:
        complain(
            f"{a.family} and {b.family} are not of one text, though {a.corpus or 'it'} has one "
            "name: their sources are drawn apart. Measure both on one text."
        )
    return False


def log_ratio(y_a, y_b, a, b, S):
    """Log of the ratio at size S of a, float64 (...,), from log losses (..., M) of both.

    NaN where the line of b does not fall.
    """
    slope_a, intercept_a, _ = line(y_a, np.log(a.S))
    slope_b, intercept_b, _ = line(y_b, np.log(b.S))
    x, falling = np.log(S), np.where(slope_b < 0, slope_b, np.nan)
    return (slope_a * x + intercept_a - intercept_b) / falling - x


def half_width_of_models(a, b, S, as_good):
    """Half an interval of the log ratio, by how the models scatter about both lines.

    The height of each line where they are as good is uncertain (`noise.scatter`), and the slope of
    b turns heights into sizes. Student's t has the degrees of freedom of both (Satterthwaite). NaN
    where that slope is not told from 0: then no size, or every size, may do.
    """
    laws = [fit(loss, n_bootstrap=0) for loss in (a, b)]
    if not laws[1].ci_models[0] > 0:
        return np.nan
    variances, free, design = [], [], ESTIMATORS["least_squares"].design
    for loss, law, size in zip((a, b), laws, (S, as_good), strict=True):
        x, residuals = np.log(loss.S), law.y - law.fitted
        covariance, df = scatter(design(x, None), np.ones(len(x)), residuals, loss.sizes)
        (ahead,) = design(np.log([size]), None)
        variances.append(ahead @ covariance @ ahead)
        free.append(df)
    variances, variance = np.array(variances), sum(variances)
    if not variance > 0:
        return variance
    df = variance**2 / np.sum(variances**2 / free)
    return training_quantile(df) * np.sqrt(variance) / laws[1].alpha
