"""How sure a fitted law is: over trainings, over models, and which noise explains a misfit.

Two noises are kept apart: another choice of the sources of text, and another training of each
model. A function takes the part of a `Loss` that the fit used, the derivatives of the fitted law by
its parameters (M, P), and the residuals (M,).
"""

import numpy as np

from rbplib.bootstrap import ENDS, LEVEL

SINGULAR = 1e-10  # smallest over largest variance below which the sources tell nothing


def student_interval(jacobian, weights, residuals):
    """(residual sd, half-widths (P,)) by Student's t on the scatter of the models.

    NaN with no model to spare, or where the parameters cannot be told apart.
    """
    known = np.isfinite(residuals)
    spare = known.sum() - jacobian.shape[1]
    nothing = np.nan, np.full(jacobian.shape[1], np.nan)
    if spare < 1:  # as without a law, of which no residual is known
        return nothing
    # What the models tell of the parameters.
    weights = weights[known]
    spread = unit_variances(jacobian[known], weights)
    if np.isnan(spread).any():
        return nothing
    # Their variance, in that of the scatter.
    squares = residuals[known] ** 2
    variance = spread * (weights * squares).sum() / spare
    half = training_quantile(spare) * np.sqrt(variance)
    return float(np.sqrt(squares.sum() / spare)), half


def unit_variances(jacobian, weights):
    """Variances (P,) of the parameters of a weighted fit, in that of one residual; NaN where they
    cannot be told apart."""
    gram = jacobian.T @ (weights[:, None] * jacobian)
    if np.linalg.matrix_rank(gram) < len(gram):
        return np.full(len(gram), np.nan)
    return np.diag(np.linalg.inv(gram))


def training_interval(part, jacobian, drawn):
    """Half-widths (P,) over sources and trainings, two independent noises.

    drawn: parameters of resamples (B, P), or None. NaN where no size was trained twice.
    """
    variance, shared, df = part.training_variance
    nothing = np.full(jacobian.shape[1], np.nan)
    if drawn is None or not df:
        return nothing
    # The scatter of trainings, measured on this text, holds a part of its noise.
    spread = unit_variances(jacobian, np.ones(len(jacobian)))
    text = np.nanvar(drawn, axis=0, ddof=1)
    text = np.maximum(text - shared * spread, 0)
    trainings = variance * spread
    if not (text + trainings > 0).all():
        return nothing
    text_df = part.n_sources - 1
    seeds = own_seeds(part, df)
    pairs = zip(text, trainings, strict=True)
    return np.array([half_width(a, text_df, b, df, seeds) for a, b in pairs])


def half_width(text, text_df, trainings, df, seeds):
    """Half an interval of a contrast with these variances: what `exceeding` does not reject."""
    from scipy.optimize import brentq

    def excess(f):
        p = exceeding(f, 1, text, text_df, trainings, df, seeds)
        return p - (1 - LEVEL)

    f = brentq(excess, 1e-3, 1e4)
    return float(np.sqrt(f * (text + trainings)))


def own_seeds(part, df):
    """Trainings of one size, of which the models are themselves one; 1 where they are not."""
    repeats = part.repeats
    if not (repeats.sums == part.sums[:, :1]).all(axis=0).any():
        return 1
    return 1 + df / len(np.unique(repeats.S))


def exceeding(f, count, text, text_df, trainings, df, seeds=1):
    """P(mean square of `count` normal contrasts > f times its variance, text + trainings).

    `text` is an estimate with text_df degrees of freedom, `trainings` the scatter of `seeds`
    trainings a size with df. Contrasts of one of those trainings share 1 - 1/seeds of that scatter
    and are not independent of it: the positive root of the quadratic form is held against its
    negative ones (Satterthwaite). Not among them (seeds 1): the F distribution with Welch's degrees
    of freedom.
    """
    from scipy.special import fdtrc

    if not text + trainings > 0:
        return np.nan
    # The quadratic form: contrasts less f times the estimate, in the part that both share.
    mine = trainings * (1 - 1 / seeds)
    rest = text + trainings - mine
    taken = f * count * trainings / df
    middle = (rest + mine - taken) / 2
    root = np.sqrt(middle**2 + rest * taken)
    # Its negative roots as one, with as much mass and as many squares.
    minus = root - middle
    of_text = f * count * text
    mass = count * minus + (df - count) * taken + of_text
    square = count * minus**2 + (df - count) * taken**2 + of_text**2 / text_df
    plus = count * (middle + root)
    return fdtrc(count, mass**2 / square, mass / plus)


def training_quantile(df):
    """Half-width of an interval, in standard deviations estimated with df degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, ENDS[1]))


def lack_of_fit(part, jacobian, residuals, drawn):
    """How far the choice of sources, and trainings with it, explain the residuals.

    drawn: log losses over resampled sources (B, M), or None.

    Returns:
        mean square that sources alone would make of the residuals; p of the residuals against
        sources (Hotelling); p against sources and trainings. NaN where it was not tested. Where
        the repeats hold the models themselves, the last is of all trainings together: the classical
        test of lack of fit against pure error, with the noise of the text beside it.
    """
    from scipy.special import fdtrc

    known = np.isfinite(residuals)
    spare = int(known.sum()) - jacobian.shape[1]
    nothing = np.nan, np.nan, np.nan
    if drawn is None or spare < 1:
        return nothing
    whole = drawn[np.isfinite(drawn).all(axis=1)][:, known]
    if len(whole) < 0.5 * len(drawn):
        return nothing
    # The covariance that the choice of sources gives the models, and what of it is off the law.
    jacobian = jacobian[known]
    residuals = residuals[known]
    covariance = np.cov(whole, rowvar=False)
    identity = np.eye(len(residuals))
    aside = identity - jacobian @ np.linalg.pinv(jacobian)
    noise = max(float(np.trace(aside @ covariance)) / spare, 0.0)
    # Hotelling's test against it.
    n = part.n_sources
    p = np.nan
    if n > spare:
        squares = generalised_squares(jacobian, residuals, covariance)
        f = squares * (n - spare) / (spare * (n - 1))
        p = float(fdtrc(spare, n - spare, f))
    variance, shared, df = part.training_variance
    if not df:
        return noise, p, np.nan
    # With trainings, whose scatter was measured on this text and holds a part of its noise.
    text = max(noise - shared, 0.0)
    share = text / noise if noise else 0.0
    if own_seeds(part, df) > 1:
        # Means of all trainings of a size, which say nothing of the scatter between those.
        means, count = trained_together(part)
        residuals = residuals + (means - part.y)[known]
        each = variance / count[known]
    else:
        each = variance * np.ones(len(residuals))
    both = covariance * share + each * identity
    f = generalised_squares(jacobian, residuals, both) / spare
    trained = exceeding(f, spare, text, n - 1, each.mean(), df)
    return noise, p, float(trained)


def trained_together(part):
    """(mean log loss of the trainings of each model's size, how many they are), (M,) each."""
    again = part.repeats
    same = (part.S[:, None] == again.S) & np.isfinite(again.y)
    count = same.sum(axis=1)
    means = same @ np.nan_to_num(again.y) / np.maximum(count, 1)
    return np.where(count > 0, means, part.y), np.maximum(count, 1)


def generalised_squares(jacobian, residuals, covariance):
    """Squared residuals against a covariance, less what moving the law takes up, or NaN."""
    eigenvalues = np.linalg.eigvalsh(covariance)
    if eigenvalues[0] <= SINGULAR * eigenvalues[-1]:
        return np.nan
    inverse = np.linalg.inv(covariance)
    gram = jacobian.T @ inverse @ jacobian
    shift = np.linalg.lstsq(gram, jacobian.T @ inverse @ residuals, rcond=None)[0]
    rest = residuals - jacobian @ shift
    return float(rest @ inverse @ rest)
