"""How sure a fitted law is: over sources of text, over trainings, over models, and beyond what these explain.

Each function takes an estimator (`estimators`), the part of a `Loss` that its fit used, and the fitted parameters.
"""

from dataclasses import dataclass, replace

import numpy as np

from rbplib.bootstrap import MIN_DOCUMENTS
from rbplib.estimators import EXPONENTS
from rbplib.losses import minus_log

FEW_MISSES = 100  # below this a true law with alpha near 0.1 shows R^2 under 0.9 half of the time (page 04_large_k)
SINGULAR = 1e-10  # smallest over largest variance below which the documents say nothing in some direction
NONE = (np.nan, np.nan)
EXPLAINED = ("documents", "sources", "trainings", "none of these", "not sources; trainings unknown")
NOT_TESTED = "not tested"


def explanation(tests, level=0.95):
    """The first noise that is enough at 1 - level; tests: p against documents, sources, sources and trainings."""
    for said, p in zip(EXPLAINED, tests, strict=False):
        if p >= 1 - level:
            return said
    return NOT_TESTED if np.isnan(tests).all() else EXPLAINED[3 if np.isfinite(tests[2]) else 4]


def untested(case):
    """Why a Law, a NoiseFloor or LocalExponents is NOT_TESTED, in words."""
    if hasattr(case, "r2_band"):  # a noise floor, of text with sources enough
        return "no line takes in every model"
    sources, models = (case.bend_df[0] + 1, 0) if hasattr(case, "bend_df") else (case.n_sources, case.n_models)
    if sources < max(MIN_DOCUMENTS, models + 1):
        return "too few sources"
    if np.isnan(case.alpha).any():
        return "no line could be fitted"
    if np.isnan(getattr(case, "noise_sd", 0.0)):
        return "some model has no value in most resamples"
    return "resampled sources move some models alike, or one not at all"


@dataclass(frozen=True)
class Scatter:
    """How the models scatter around the law, and what the documents alone would make of that; standard deviations.

    lack_of_fit: residuals against their bootstrap covariance; p small: more than the choice of sources explains.
    trained_lack_of_fit_p: the same with the scatter between trainings of one size added; NaN where that is not known.
    """

    residual_sd: float  # of y - fitted, by degrees of freedom
    noise_sd: float = np.nan  # what the sources alone would make of residual_sd
    excess_sd: float = np.nan  # scatter of the models beyond that noise
    lack_of_fit: float = np.nan
    lack_of_fit_p: float = np.nan
    training_sd: float = np.nan  # of y between trainings of one size
    training_df: int = 0
    trained_lack_of_fit_p: float = np.nan


def named(kind, ends=None):
    """{parameter: (low, high)} of ends float64 (2, P); NaN without."""
    pairs = [NONE] * len(kind.parameters) if ends is None else ends.T.tolist()
    return {name: tuple(pair) for name, pair in zip(kind.parameters, pairs, strict=True)}


def model_intervals(kind, part, params, residuals, level):
    """(residual sd, {parameter: (low, high)}): scatter of the models around the law, and Student's t on it."""
    from scipy.special import stdtrit

    points, x = np.isfinite(residuals), np.log(part.S)
    spare, nothing = points.sum() - len(params), (np.nan, named(kind))
    if spare < 1 or not np.isfinite(params).all():
        return nothing
    weights = kind.weights(params, x, part.total)[points]
    jacobian = kind.jacobian(params, x[points], x.mean())
    gram = jacobian.T @ (weights[:, None] * jacobian)
    if np.linalg.matrix_rank(gram) < len(params):
        return nothing
    squares = residuals[points] ** 2
    sd = np.sqrt(np.diag(np.linalg.inv(gram)) * (weights * squares).sum() / spare)
    half = stdtrit(spare, (1 + level) / 2) * sd
    return float(np.sqrt(squares.sum() / spare)), named(kind, np.stack([params - half, params + half]))


def training_intervals(kind, part, params, found, level):
    """{parameter: (low, high)}: sources and trainings as two independent noises, a test of `exceeding` turned round."""
    (variance, shared, df), x = part.training_variance, np.log(part.S)
    if found is None or not df or not np.isfinite(params).all():
        return named(kind)
    jacobian = kind.jacobian(params, x, x.mean())
    if np.linalg.matrix_rank(jacobian) < len(params):
        return named(kind)
    spread, seeds = np.diag(np.linalg.inv(jacobian.T @ jacobian)), own_seeds(part, df)
    text, again = np.maximum(np.nanvar(found, axis=0, ddof=1) - shared * spread, 0), variance * spread
    if not (text + again > 0).all():
        return named(kind)
    both, spare = zip(text, again, strict=True), part.n_sources - 1
    half = [half_width(source, spare, training, df, seeds, level) for source, training in both]
    return named(kind, np.stack([params - half, params + half]))


def half_width(text, text_df, trainings, df, seeds, level=0.95):
    """Half an interval of a contrast with these two variances: what the test of `exceeding` does not reject."""
    from scipy.optimize import brentq

    f = brentq(lambda f: exceeding(f, 1, text, text_df, trainings, df, seeds) - (1 - level), 1e-3, 1e4)
    return float(np.sqrt(f * (text + trainings)))


def own_seeds(part, df):
    """Trainings of one size among which the models of the loss are themselves; infinite where they are not."""
    own = (part.repeats.sums == part.sums[..., :1]).all(axis=0).any()
    return 1 + df / len(np.unique(part.repeats.S)) if own else np.inf


def exceeding(f, count, text, text_df, trainings, df, seeds=np.inf):
    """P(mean square of `count` normal contrasts > f times its estimated variance, text + trainings).

    `text` is an estimate with text_df degrees of freedom, `trainings` the scatter of `seeds` trainings a size with df.
    Contrasts of one of those trainings share 1 - 1/seeds of that scatter and are not independent of it: the positive
    root of the quadratic form is held against its negative ones (Satterthwaite). Not among them (infinite seeds): the
    F distribution with Welch's degrees of freedom.
    """
    from scipy.special import fdtrc

    if not text + trainings > 0:
        return np.nan
    mine = 0.0 if np.isinf(seeds) else trainings * (1 - 1 / seeds)
    rest, taken = text + trainings - mine, f * count * trainings / df
    middle = (rest + mine - taken) / 2
    root = np.sqrt(middle**2 + rest * taken)
    minus = root - middle
    others = df - count if np.isinf(seeds) else max(df - count, 0)
    size = count * minus + others * taken + f * count * text
    square = count * minus**2 + others * taken**2 + (f * count * text) ** 2 / text_df
    return fdtrc(count, size**2 / square, size / (count * (middle + root)))


def training_quantile(df, level):
    """Half-width of an interval for one training, in standard deviations estimated with df degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + level) / 2))


def pooled_df(first, first_df, second, second_df):
    """Degrees of freedom of the sum of two estimated variances (Welch and Satterthwaite)."""
    weights = first**2 / first_df + second**2 / second_df
    return np.divide((first + second) ** 2, weights, out=np.full(np.shape(weights), np.nan), where=weights > 0)


def scatter_beyond_noise(kind, part, params, residuals, residual_sd, drawn):
    """The residuals against the covariance that resampled sources give them, and with that of trainings added."""
    from scipy.special import fdtrc

    points, y = np.isfinite(residuals), None if drawn is None else drawn.y
    whole = None if y is None else y[np.isfinite(y).all(axis=1)][:, points]
    spare = int(points.sum()) - len(params)
    variance, shared, df = part.training_variance
    found = Scatter(residual_sd, training_sd=float(np.sqrt(max(variance - shared, 0))), training_df=df)
    if whole is None or spare < 1 or len(whole) < 0.5 * len(y) or not np.isfinite(params).all():
        return found
    x, residuals, covariance = np.log(part.S), residuals[points], np.cov(whole, rowvar=False)
    jacobian = kind.jacobian(params, x[points], x.mean())
    projector = np.eye(len(residuals)) - jacobian @ np.linalg.pinv(jacobian)
    noise = max(float(np.trace(projector @ covariance)) / spare, 0.0)
    excess = float(np.sqrt(max(residual_sd**2 - noise, 0.0)))
    q, d = generalised_squares(jacobian, residuals, covariance), part.n_sources
    p = fdtrc(spare, d - spare, q * (d - spare) / (spare * (d - 1))) if d > spare else np.nan  # Hotelling's T^2
    found = replace(found, noise_sd=float(np.sqrt(noise)), excess_sd=excess, lack_of_fit=q, lack_of_fit_p=float(p))
    if not df:
        return found
    text = max(noise - shared, 0.0)  # the rest of the text's noise is in the trainings' scatter, measured on this text
    both = covariance * (text / noise if noise else 0.0) + variance * np.eye(len(residuals))
    q = generalised_squares(jacobian, residuals, both)
    p = exceeding(q / spare, spare, text, d - 1, variance, df, own_seeds(part, df))
    return replace(found, trained_lack_of_fit_p=float(p))


def generalised_squares(jacobian, residuals, covariance):
    """Squared residuals against a covariance, less what moving the law takes up; NaN where it is singular."""
    eigenvalues = np.linalg.eigvalsh(covariance)
    if eigenvalues[0] <= SINGULAR * eigenvalues[-1]:
        return np.nan
    inverse = np.linalg.inv(covariance)
    shift = np.linalg.lstsq(jacobian.T @ inverse @ jacobian, jacobian.T @ inverse @ residuals, rcond=None)[0]
    rest = residuals - jacobian @ shift
    return float(rest @ inverse @ rest)


def doubts(kind, loss, params, enough, undefined, tokens):
    """Reasons for doubt, gravest first."""
    counted, settled = loss.of is minus_log, np.isfinite(params).all()
    misses = loss.misses if counted else np.array([FEW_MISSES])
    hits = loss.total - misses if counted else misses
    at_bound = (
        kind.name == "irreducible" and settled and (params[2] <= 0 or not EXPONENTS[0] < params[0] < EXPONENTS[-1])
    )  # a floor at zero, or an exponent at an end of the search
    found = {
        "equal losses": loss.equal,
        "too few models": not enough and not loss.equal,
        "not converged": enough and not settled,
        "saturated": misses.min() == 0,
        "no hits": hits.min() == 0,
        "few misses": 0 < misses.min() < FEW_MISSES,
        "few hits": 0 < hits.min() < FEW_MISSES,
        "wrong sign": settled and params[0] < 0,
        "at a bound": at_bound,
        "too few documents": loss.n_documents < MIN_DOCUMENTS,
        "too few sources": loss.n_sources < MIN_DOCUMENTS <= loss.n_documents,
        "no interval of other text": undefined > 0 and not np.isfinite(tokens["alpha"]).all(),
    }
    return tuple(name for name, holds in found.items() if holds)
