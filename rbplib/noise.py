"""How sure a fitted law is: over trainings, over models, and which noise explains a misfit.

Two noises are kept apart: another choice of the sources of text, and another training of each
model. A function takes the part of a `Loss` that the fit used, the derivatives of the fitted law by
its parameters (M, P), and the residuals (M,).
"""

import numpy as np

from rbplib.bootstrap import ENDS, LEVEL, kept, pinv

NEAR = 1.05  # sizes within this factor are one: of no other size does their scatter tell
MANY = 5_000  # models from which a matrix of them by sizes is kept without its zeros
SINGULAR = 1e-10  # smallest over largest variance below which the sources tell nothing


def size_numbers(S):
    """Number of each model's size, smallest 0, int (M,): sizes within 5% of the smallest of them
    are one.

    >>> size_numbers(np.array([1.06e6, 1e6, 1.04e6, 1e6])).tolist()
    [1, 0, 0, 0]
    """
    numbers, number, smallest = np.zeros(len(S), int), -1, 0.0
    for i in np.argsort(S, kind="stable"):
        if S[i] > NEAR * smallest:
            number, smallest = number + 1, S[i]
        numbers[i] = number
    return numbers


def means_of_sizes(numbers):
    """What takes values of models (M,) to their means over sizes (G,), float64 (G, M)."""
    if len(numbers) > MANY:
        from scipy.sparse import csr_array

        return csr_array((1 / np.bincount(numbers)[numbers], (numbers, np.arange(len(numbers)))))
    member = numbers == np.arange(numbers.max(initial=-1) + 1)[:, None]
    return member / np.maximum(member.sum(axis=1, keepdims=True), 1)


def student_interval(jacobian, weights, residuals, numbers):
    """(residual sd, half-widths (P,)) by Student's t on the scatter of the sizes, see `scatter`.

    NaN with no size to spare, or where the parameters cannot be told apart.
    """
    covariance, free = scatter(jacobian, weights, residuals, numbers)
    if not free:
        return np.nan, np.full(jacobian.shape[1], np.nan)
    half = training_quantile(free) * np.sqrt(np.diag(covariance))
    squares = residuals[np.isfinite(residuals)] ** 2
    return float(np.sqrt(squares.sum() / (len(squares) - jacobian.shape[1]))), half


def scatter(jacobian, weights, residuals, numbers):
    """(covariance (P, P) of the parameters over other sizes, its degrees of freedom); df 0 without
    any.

    Sizes are the replicates: models of one size (`numbers`, see `size_numbers`) miss the law
    together, so their mean is one observation. The means have one variance, whatever they are means
    of, and where some sizes have more models than others it has fewer degrees of freedom
    (Satterthwaite).
    """
    finite = np.isfinite(residuals)
    jacobian, weights, residuals = jacobian[finite], weights[finite], residuals[finite]
    sizes = np.unique(numbers[finite], return_inverse=True)[1]
    spare = sizes.max(initial=-1) + 1 - jacobian.shape[1]
    inverse = inverse_or_nan(jacobian.T @ (weights[:, None] * jacobian))
    if spare < 1 or np.isnan(inverse).any():  # as without a law, which has no residual
        return np.full_like(inverse, np.nan), 0
    if len(residuals) == sizes.max() + 1:
        return inverse * (weights * residuals**2).sum() / spare, spare
    # how the parameters move with the mean of each size, and what is left of it
    mean = means_of_sizes(sizes)
    moved = inverse @ ((mean > 0) @ (weights[:, None] * jacobian)).T
    left = np.eye(mean.shape[0]) - (mean @ jacobian) @ moved
    # means of one variance, up to the weights
    root = np.sqrt(mean @ weights)
    left = root[:, None] * left / root
    form = left @ left.T
    variance = np.sum((root * (mean @ residuals)) ** 2) / np.trace(form)
    moved = moved / root
    return variance * moved @ moved.T, np.trace(form) ** 2 / np.sum(form**2)


@kept
def inverse_or_nan(gram):
    """Inverse (P, P) of a fit's J'WJ: the covariance of its parameters, in the variance of one
    residual; NaN where they cannot be told apart."""
    if np.linalg.matrix_rank(gram) < len(gram):
        return np.full(gram.shape, np.nan)
    return np.linalg.inv(gram)


def training_interval(part, jacobian, drawn):
    """Half-widths (P,) over sources and trainings, two independent noises; of a text in one piece,
    over trainings alone.

    drawn: parameters of resamples (B, P), or None. NaN where no size was trained twice.
    """
    variance, shared, df = part.training_variance
    nothing = np.full(jacobian.shape[1], np.nan)
    if not df or (drawn is None and not part.one_piece):
        return nothing
    # The scatter of trainings, measured on this text, holds a part of its noise.
    spread = np.diag(inverse_or_nan(jacobian.T @ jacobian))
    trainings = variance * spread
    if drawn is None:
        return training_quantile(df) * np.sqrt(trainings)
    text = np.maximum(np.nanvar(drawn, axis=0, ddof=1) - shared * spread, 0)
    if not (text + trainings > 0).all():
        return nothing
    text_df, seeds = part.n_sources - 1, own_seeds(part, df)
    pairs = zip(text, trainings, strict=True)
    return np.array([half_width(a, text_df, b, df, seeds) for a, b in pairs])


def half_width(text, text_df, trainings, df, seeds):
    """Half an interval of a contrast with these variances: what `exceeding` does not reject."""
    from scipy.optimize import brentq

    def excess(f):
        return exceeding(f, 1, text, text_df, trainings, df, seeds) - (1 - LEVEL)

    f = brentq(excess, 1e-3, 1e4)
    return float(np.sqrt(f * (text + trainings)))


def own_seeds(part, df):
    """Trainings of one size, of which the models are themselves one; 1 where they are not, or where
    all of them are fitted: a mean says nothing of the scatter about it."""
    if several(part) or not among_repeats(part):
        return 1
    return 1 + df / len(np.unique(part.repeats.S))


def several(part):
    """Whether a size is there more than once."""
    return len(np.unique(part.S)) < len(part.S)


def among_repeats(part):
    """Whether the models are themselves trainings of the repeats."""
    return bool((part.repeats.sums == part.sums[:, :1]).all(axis=0).any())


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
    minus, of_text = root - middle, f * count * text
    mass = count * minus + (df - count) * taken + of_text
    square = count * minus**2 + (df - count) * taken**2 + of_text**2 / text_df
    return fdtrc(count, mass**2 / square, mass / (count * (middle + root)))


def training_quantile(df):
    """Half-width of an interval, in standard deviations estimated with df degrees of freedom."""
    from scipy.special import stdtrit

    return stdtrit(df, ENDS[1])


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

    finite = np.isfinite(residuals)
    spare = int(finite.sum()) - jacobian.shape[1]
    variance, shared, df = part.training_variance
    nothing = np.nan, np.nan, np.nan
    if spare < 1 or (drawn is None and not (part.one_piece and df)):
        return nothing
    jacobian, residuals = jacobian[finite], residuals[finite]
    covariance, noise, p = np.zeros((len(residuals),) * 2), np.nan, np.nan
    n = max(part.n_sources, 2)
    if drawn is not None:
        whole = drawn[np.isfinite(drawn).all(axis=1)][:, finite]
        if len(whole) < 0.5 * len(drawn):
            return nothing
        # The covariance that the choice of sources gives the models, and what of it is off the law.
        covariance = np.cov(whole, rowvar=False)
        aside = np.eye(len(residuals)) - jacobian @ pinv(jacobian)
        noise = max(float(np.trace(aside @ covariance)) / spare, 0.0)
        # Hotelling's test against it.
        if n > spare:
            squares = generalised_squares(jacobian, residuals, covariance)
            p = float(fdtrc(spare, n - spare, squares * (n - spare) / (spare * (n - 1))))
    if not df:
        return noise, p, np.nan
    # With trainings, whose scatter was measured on this text and holds a part of its noise.
    text = max(np.nan_to_num(noise) - shared, 0.0)
    share = text / noise if noise > 0 else 0.0
    each = variance * np.ones(len(residuals))
    if among_repeats(part):
        # Means of all trainings of a size, which say nothing of the scatter between those.
        means, count = trained_together(part)
        residuals = residuals + (means - part.y)[finite]
        each = variance / count[finite]
    if several(part):
        # One mean a size, however many models it is of.
        one = means_of_sizes(np.unique(part.S[finite], return_inverse=True)[1])
        residuals, jacobian, each = one @ residuals, one @ jacobian, one @ each
        covariance = one @ covariance @ one.T
        spare = len(residuals) - jacobian.shape[1]
        if spare < 1:
            return noise, p, np.nan
    f = generalised_squares(jacobian, residuals, covariance * share + np.diag(each)) / spare
    return noise, p, float(exceeding(f, spare, text, n - 1, each.mean(), df))


def trained_together(part):
    """(mean log loss of the trainings of each model's size, how many they are), (M,) each."""
    repeats = part.repeats
    same = (part.S[:, None] == repeats.S) & np.isfinite(repeats.y)
    count = same.sum(axis=1)
    means = same @ np.nan_to_num(repeats.y) / np.maximum(count, 1)
    return np.where(count > 0, means, part.y), np.maximum(count, 1)


def generalised_squares(jacobian, residuals, covariance):
    """Squared residuals against a covariance, less what moving the law takes up, or NaN."""
    smallest, *_, largest = np.linalg.eigvalsh(covariance)
    if smallest <= SINGULAR * largest:
        return np.nan
    inverse = np.linalg.inv(covariance)
    gram = jacobian.T @ inverse @ jacobian
    rest = residuals - jacobian @ np.linalg.lstsq(gram, jacobian.T @ inverse @ residuals)[0]
    return float(rest @ inverse @ rest)
