"""The noise of log(-log RBP_k), measured and by formula: what R^2 would a true power law show with so few misses left?

The sources are resampled; what they make of y = log(-log RBP_k) is laid on an exact power law, which is fitted again.
The share of those fits that look as bad as the measured one tells noise from a real break (theory: SE about 1/sqrt(m)).
"""

from dataclasses import dataclass, replace

import numpy as np

from paper.laws import explanation, fit, pooled_df
from rbplib.bootstrap import line, percentile_interval


@dataclass(frozen=True)
class NoiseFloor:
    """One k of one curve; NaN where some model has no miss at all, for then its logarithm does not exist."""

    k: int
    alpha: float  # of the exact law that was assumed
    misses: np.ndarray | None  # int64 (M,); None for nats
    r2: float  # measured
    sd: np.ndarray  # float64 (M,), of y over resampled sources
    deff: (
        np.ndarray
    )  # float64 (M,), variance of the misses over that of independent tokens; NaN for nats
    r2_band: tuple[float, float, float] = (np.nan,) * 3  # 5%, 50%, 95% under the exact law
    worse: float = np.nan  # share of fits under the exact law with an R^2 below the measured one
    trained_band: tuple[float, float, float] = (
        np.nan,
    ) * 3  # with the scatter between trainings added; NaN: unknown
    trained_worse: float = np.nan

    @property
    def explained_by(self):
        """What is enough for an R^2 as low as the measured one, at 5%: one of law.EXPLAINED, or NOT_TESTED."""
        return explanation((np.nan, self.worse, self.trained_worse))


def noise_floor(loss, alpha=None, n_bootstrap=10_000, seed=42):
    """Noise floor of -log RBP_k at one k.

    Args:
        loss: Loss of at least three models.
        alpha: exponent of the exact law; the maximum-likelihood one when not given.
    Returns:
        NoiseFloor.
    """
    law = fit(loss, n_bootstrap=n_bootstrap, seed=seed)
    if alpha is None:
        alpha = fit(loss, "binomial", n_bootstrap=0).alpha
    nothing, drawn = np.full(len(loss.models), np.nan), loss.resampled(n_bootstrap, seed)
    floor = NoiseFloor(loss.k, alpha, loss.misses, law.r2, nothing, nothing)
    if drawn is None or law.n_models < len(loss.models) or np.isnan(law.alpha):
        return floor
    # The noise of the text, laid on an exact law that is fitted again.
    y = drawn.y[np.isfinite(drawn.y).all(axis=1)]  # (B, M)
    x = np.log(loss.S)
    exact = law.y.mean() - alpha * (x - x.mean())
    r2 = line(exact + y - law.y, x)[2]
    floor = replace(
        floor,
        sd=y.std(axis=0),
        r2_band=band(r2),
        worse=float((r2 < law.r2).mean()),
    )
    if loss.misses is not None:
        alone = y_se(loss.misses / loss.total, loss.total)
        floor = replace(floor, deff=(floor.sd / alone) ** 2)
    variance, shared, df = loss.training_variance
    if not df or not law.noise_sd > 0:
        return floor
    # With trainings: the text's part of their variance counts once, and it is a t.
    rng = np.random.default_rng(seed)
    text = np.sqrt(max(1 - shared / law.noise_sd**2, 0.0))
    scale = np.sqrt(variance * df / rng.chisquare(df, len(y)))
    trained = exact + text * (y - law.y) + scale[:, None] * rng.normal(size=y.shape)
    r2 = line(trained, x)[2]
    return replace(floor, trained_band=band(r2), trained_worse=float((r2 < law.r2).mean()))


def band(r2):
    """5%, 50% and 95% of R^2 over resamples."""
    return tuple(np.quantile(r2, [0.05, 0.5, 0.95]).tolist())


@dataclass(frozen=True)
class LocalExponents:
    """Exponents between neighbouring sizes (E steps), and the last one against the mean of those before it.

    NaN marks what is not known: intervals without resamples, what trainings add without repeats, `bend` of one step.
    """

    S: np.ndarray  # float64 (E,), geometric middle of the two sizes of a step
    alpha: np.ndarray  # float64 (E,)
    sources: np.ndarray  # float64 (2, E), interval over resampled sources
    trainings: np.ndarray  # float64 (2, E), over sources and trainings
    bend: float  # last exponent less the mean of the others; below 0: the gain from size slows down
    p: tuple[
        float, float, float
    ]  # of the bend against documents, sources, sources and trainings; two-sided
    level: float = 0.95

    @property
    def last(self):
        """Exponent of the last step."""
        return self.alpha[-1]

    @property
    def before(self):
        """Mean exponent of the steps before the last."""
        return self.alpha[:-1].mean()

    @property
    def explained_by(self):
        """What is enough to explain the bend: one of law.EXPLAINED, or NOT_TESTED."""
        return explanation(self.p, self.level)


def slope_weights(S):
    """Weights whose sum with y is the exponent, float64 (M,): least squares on log S, the sign turned."""
    x = np.log(S) - np.log(S).mean()
    return -x / (x @ x)


def step_weights(S):
    """Weights whose products with y are the exponents between neighbouring sizes, float64 (sizes - 1, M)."""
    x, which = np.unique(np.log(S), return_inverse=True)
    means = (which == np.arange(len(x))[:, None]) / np.bincount(which)[
        :, None
    ]  # models of one size count as one
    return -np.diff(means, axis=0) / np.diff(x)[:, None]


def local_exponents(loss, n_bootstrap=10_000, seed=42, level=0.95):
    """-d log L / d log S between neighbouring sizes, with the noise of the text and of the training of each model.

    A step is linear in y, w . y, so trainings of standard deviation sd add sd^2 |w|^2: 2 sd^2 / dx^2 for two models.
    Models of one size count by their mean; models without a value are left out.

    Args:
        loss: Loss; fewer than two sizes that have a value give no step.
    Returns:
        LocalExponents.
    """
    from scipy.special import stdtr, stdtrit

    part = loss.keep(np.flatnonzero(np.isfinite(loss.y)))
    x, steps = np.unique(np.log(part.S)), step_weights(part.S)  # (E, M)
    bend = np.full(len(part.S), np.nan)
    if len(steps) > 1:
        bend = steps[-1] - steps[:-1].mean(axis=0)
    rows = np.vstack([steps, bend])  # (E + 1, M)
    values = rows @ (part.y - part.y[:1])  # models all alike: 0 to the last digit
    nothing = np.full(len(rows), np.nan)
    # What other documents, and other sources, make of them.
    noise, sources = [], np.full((2, len(steps)), np.nan)
    for case in (part.over_documents(), part):
        drawn = case.resampled(n_bootstrap if len(steps) else 0, seed)
        if drawn is None:
            noise.append(nothing)
            continue
        whole = drawn.y[np.isfinite(drawn.y).all(axis=1)]
        noise.append((whole @ rows.T).std(axis=0))
    if drawn is not None:
        sources = percentile_interval(drawn.y @ steps.T, level)
    # What trainings add.
    sd, df = part.training_noise()
    trainings, spare = sd * np.sqrt((rows**2).sum(axis=1)), part.n_sources - 1
    both = np.hypot(noise[1], trainings)
    free = nothing
    if df:
        free = pooled_df(noise[1] ** 2, spare, trainings**2, df)
    half = stdtrit(free, (1 + level) / 2) * both
    # How far the bend is from none, by each noise.
    sizes = np.array([part.n_documents - 1, spare, free[-1]])
    away = np.abs(values[-1]) / np.array([noise[0][-1], noise[1][-1], both[-1]])
    return LocalExponents(
        S=np.exp((x[1:] + x[:-1]) / 2),
        alpha=values[:-1],
        sources=sources,
        trainings=np.stack([values - half, values + half])[:, :-1],
        bend=float(values[-1]) if len(steps) > 1 else np.nan,
        p=tuple((2 * stdtr(sizes, -away)).tolist()),
        level=level,
    )


def fewer_sources(curve, share, seed=42):
    """The same curve on a random share of its sources: noise grows as 1 over the root of the share, a break stays."""
    source = np.arange(len(curve.totals)) if curve.source is None else curve.source
    known = np.unique(source)
    count = max(1, round(share * len(known)))
    chosen = np.isin(source, np.random.default_rng(seed).permutation(known)[:count])
    return replace(
        curve,
        hits=curve.hits[chosen],
        totals=curve.totals[chosen],
        nll=curve.nll[chosen],
        source=source[chosen],
        repeats=None,
    )


def y_se(q, n, deff=1.0):
    """Standard error of y = log(-log RBP_k) at miss rate q = 1 - RBP_k from n tokens (label eq-se).

    deff is the design effect of clustering by document: the variance of the miss count over its binomial variance.
    """
    q = np.asarray(q, float)
    return np.sqrt(deff * q / (n * (1 - q))) / -np.log1p(-q)


def size_spread(S):
    """S_xx, the sum of squared deviations of ln S: the leverage a ladder of model sizes gives to a slope."""
    x = np.log(np.asarray(S, float))
    return float(((x - x.mean()) ** 2).sum())


def misses_needed(S, half_width, quantile=1.959963984540054):
    """Effective misses per model for an interval of alpha of the given half-width (label eq-floor)."""
    return (quantile / half_width) ** 2 / size_spread(S)


def expected_r2(alpha, S, m_eff):
    """R^2 to expect from a perfectly valid law when sampling noise is the only scatter (label eq-r2)."""
    signal = alpha**2 * size_spread(S)
    return signal / (signal + (len(S) - 2) / np.asarray(m_eff, float))
