"""Which law do ranks follow: maximum-likelihood fits on the truncated support 1..V from the rank histogram.

Every family is normalised over the same ranks 1..V, so likelihoods of different families are comparable. A search works
on the pivots in place of V ranks; what is reported is computed on all V ranks. Derived in book/derivations/rank_laws.
"""

from dataclasses import dataclass

import numpy as np

from rbplib.distributions.candidates import FAMILIES
from rbplib.distributions.pivots import pivots
from rbplib.settings import InputError, check_choice

RIDGE = 0.99  # correlation of two estimates above which they slide on a ridge
CONVERGED = 1e-12  # nats per token still to gain, by the quadratic model


@dataclass(frozen=True)
class RankHistogram:
    """Counts of ranks in bins low..high (inclusive), int64 (B,) each; count float64 (B,); ranks run to vocab_size."""

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    vocab_size: int

    @property
    def total(self):
        return float(self.count.sum())

    @property
    def single(self):
        """Whether every bin is one rank."""
        return bool((self.low == self.high).all())


def rank_histogram(ranks, vocab_size):
    """Histogram of raw ranks, one bin per distinct rank.

    Args:
        ranks: integer array (n,), each in [1, V].
        vocab_size: V.
    Raises:
        InputError: no ranks, ranks that are not whole, or ranks outside the vocabulary.
    """
    ranks = np.asarray(ranks)
    if ranks.size == 0:
        raise InputError("there are no ranks to count: the table holds no scored token.")
    if not np.issubdtype(ranks.dtype, np.integer):
        raise InputError("ranks must be whole numbers: use the 'greater+ties' or 'greater+1' definition.")
    if ranks.min() < 1 or ranks.max() > vocab_size:
        raise InputError(
            f"ranks run from {ranks.min()} to {ranks.max()}, outside 1 to {vocab_size}, the vocabulary size."
        )
    counts = np.bincount(ranks, minlength=1)
    seen = np.flatnonzero(counts)
    return RankHistogram(seen, seen, counts[seen].astype(float), int(vocab_size))


@dataclass(frozen=True)
class RankLaw:
    """One fitted family. Likelihoods in nats per token; `information` is Fisher's, per token."""

    family: str
    title: str
    vocab_size: int
    n_tokens: float
    names: tuple[str, ...]
    values: np.ndarray  # float64 (p,)
    se: np.ndarray  # float64 (p,), tokens taken as independent; NaN at a bound
    nll: float  # -log likelihood per token
    aic: float  # per token, 2 nll + 2 p / n
    kl: float  # of the observed shares from the fitted law, nats per token, in bins of a tenth of a decade
    max_drbp: float  # max over k of |fitted RBP_k - observed RBP_k|
    information: np.ndarray  # float64 (p, p); cutoffs and scales enter by their logarithm
    fisher_condition: float  # of `information` scaled to a unit diagonal, so that units do not matter
    conventional: dict  # parameters as the literature writes them, where that differs
    conventional_se: dict  # their standard errors, tokens taken as independent
    conventional_condition: float  # Fisher condition number in those
    correlation: float  # largest |correlation| between two estimates, in the conventional parameters
    ridge: bool  # the conventional parameters slide along a ridge
    status: str  # ok, ridge, bound, not converged
    pmf: np.ndarray  # float64 (V,)

    @property
    def parameters(self):
        return dict(zip(self.names, map(float, self.values), strict=True))

    def rbp(self, k):
        """Fitted RBP_k."""
        return self.pmf.cumsum()[np.asarray(k) - 1]

    def log_score(self, ranks):
        """log p of each rank, float64 (n,), nats."""
        with np.errstate(divide="ignore"):
            return np.log(self.pmf)[np.asarray(ranks) - 1]


class _Objective:
    """Negative log likelihood per token on the pivots, with gradient and Fisher information, in search coordinates."""

    def __init__(self, histogram, family):
        self.family, self.pivots = family, pivots(histogram.vocab_size)
        self.log_scale = np.array(family.log_scale)
        self.low, self.high = self.to_search(family.low), self.to_search(family.high)
        n = histogram.total
        self.single = histogram.single
        if self.single:
            counts = np.zeros(histogram.vocab_size)
            counts[histogram.low - 1] = histogram.count
            self.share = self.pivots.project(counts) / n
        else:
            self.matrix = self.pivots.bins(histogram.low, histogram.high)
            self.share = histogram.count / n

    def to_search(self, params):
        params = np.asarray(params, float)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.log_scale, np.log(np.abs(params)), params)

    def to_params(self, theta):
        return np.where(self.log_scale, np.exp(np.where(self.log_scale, theta, 0.0)), theta)

    def mass(self, theta):
        """log mass (P,) and the normalised pivot probabilities (P,)."""
        log_mass = self.family.log_mass(self.pivots.nodes, self.to_params(theta))
        top = log_mass.max()
        weighted = self.pivots.weights * np.exp(log_mass - top)
        total = weighted.sum()
        return log_mass - top - np.log(total), weighted / total

    def value(self, theta):
        log_mass, _ = self.mass(theta)
        if self.single:
            return -self.share @ log_mass
        cells = self.matrix @ np.exp(log_mass)
        return -self.share @ np.log(np.maximum(cells, 1e-300))

    def jacobian(self, theta):
        """d log mass / d theta at the pivots, (P, p), by differences that stay inside the bounds."""
        columns = []
        for j in range(len(theta)):
            h = 1e-5 * max(1.0, abs(theta[j]))
            up, down = theta.copy(), theta.copy()
            up[j], down[j] = min(theta[j] + h, self.high[j]), max(theta[j] - h, self.low[j])
            nodes = self.pivots.nodes
            rise = self.family.log_mass(nodes, self.to_params(up)) - self.family.log_mass(nodes, self.to_params(down))
            columns.append(rise / (up[j] - down[j]))
        return np.stack(columns, axis=1)

    def expand(self, theta):
        """(value, gradient (p,), Fisher information (p, p), curvature (p, p)) at theta."""
        log_mass, p = self.mass(theta)
        J = self.jacobian(theta)
        centred = J - p @ J
        information = (centred * p[:, None]).T @ centred
        if self.single:
            return -self.share @ log_mass, -(self.share @ centred), information
        density = np.exp(log_mass)
        cells = np.maximum(self.matrix @ density, 1e-300)
        slopes = (self.matrix @ (density[:, None] * centred)) / cells[:, None]
        return -self.share @ np.log(cells), -(self.share @ slopes), (slopes * cells[:, None]).T @ slopes


def _search(objective, start, steps=200):
    """Fisher scoring with damping, inside the bounds; (theta, value, converged).

    A parameter that pushes against its bound is held there, and the others move on.
    """
    theta = np.clip(start, objective.low, objective.high)
    damping, value = 1e-3, np.inf
    for _ in range(steps):
        value, gradient, information = objective.expand(theta)
        edge = 1e-12 * np.maximum(1.0, np.abs(theta))
        held = ((theta <= objective.low + edge) & (gradient > 0)) | ((theta >= objective.high - edge) & (gradient < 0))
        free = ~held
        if not free.any():
            return theta, value, True
        block, g = information[np.ix_(free, free)], gradient[free]
        scale = np.maximum(np.diag(block), 1e-14)
        if 0.5 * g @ np.linalg.lstsq(block + 1e-14 * np.diag(scale), g, rcond=None)[0] < CONVERGED:
            return theta, value, True
        for _ in range(30):
            step = np.zeros_like(theta)
            step[free] = -np.linalg.solve(block + damping * np.diag(scale), g)
            new = np.clip(theta + step, objective.low, objective.high)
            new_value = objective.value(new)
            if np.isfinite(new_value) and new_value < value:
                damping = max(damping / 8, 1e-10)
                break
            damping *= 6
        else:
            return theta, value, bool(np.abs(g * np.sqrt(1 / scale)).max() < 1e-5)
        theta = new
    return theta, value, False


def fit_rank_law(histogram, family="zipf_mandelbrot_cutoff", vocab_size=None, start=None):
    """Maximum-likelihood fit of one family of rank laws on the truncated support 1..V.

    Args:
        histogram: RankHistogram, or counts float or int (V,) with counts[k-1] tokens of rank k.
        family: a name in `rank_laws.FAMILIES`.
        vocab_size: V, when counts are given and V is not their length.
        start: optional parameter vector to start from, in place of the family's own.
    Returns:
        RankLaw.
    Raises:
        InputError: an unknown family, no counts, or ranks beyond V.
    Cost: a few hundred pivots per step; about 0.01 s at V = 50,257.

    >>> counts = 1e6 * np.arange(1, 101) ** -1.5
    >>> round(fit_rank_law(counts, "zipf").parameters["s"], 6)
    1.5
    """
    check_choice(family, tuple(FAMILIES), "rank law")
    histogram = _as_histogram(histogram, vocab_size)
    law = FAMILIES[family]
    objective = _Objective(histogram, law)
    starts = law.starts if start is None else (start,)
    tries = [_search(objective, objective.to_search(s), steps=6 if len(starts) > 1 else 200) for s in starts]
    theta, _, converged = min(tries, key=lambda found: found[1])
    if not converged:
        theta, _, converged = _search(objective, theta)
    return _record(histogram, law, objective, theta, converged)


def _as_histogram(histogram, vocab_size):
    if not isinstance(histogram, RankHistogram):
        counts = np.asarray(histogram, dtype=float)
        V = int(vocab_size or len(counts))
        if counts.ndim != 1 or len(counts) > V:
            raise InputError(
                f"a rank histogram has one count per rank up to V = {V}: got an array of shape {counts.shape}."
            )
        if (counts < 0).any() or not np.isfinite(counts).all():
            raise InputError("a rank histogram must hold counts of at least 0.")
        seen = np.flatnonzero(counts) + 1
        histogram = RankHistogram(seen, seen, counts[seen - 1], V)
    if histogram.total <= 0:
        raise InputError("the rank histogram is empty: no token was counted.")
    if histogram.vocab_size < 2:
        raise InputError("a rank law needs a vocabulary of at least two tokens.")
    if histogram.high.max() > histogram.vocab_size or histogram.low.min() < 1:
        raise InputError(f"the histogram has ranks outside 1 to {histogram.vocab_size}, the vocabulary size.")
    return histogram


def _record(histogram, law, objective, theta, converged):
    V, n = histogram.vocab_size, histogram.total
    params = objective.to_params(theta)
    log_pmf = law.log_mass(np.arange(1.0, V + 1), params)
    log_pmf -= log_pmf.max()
    log_pmf -= np.log(np.exp(log_pmf).sum())
    pmf = np.exp(log_pmf)
    cdf = np.concatenate([[0.0], pmf.cumsum()])
    share = histogram.count / n
    if histogram.single:
        log_cells = log_pmf[histogram.low - 1]
    else:
        log_cells = np.log(np.maximum(cdf[histogram.high] - cdf[histogram.low - 1], 1e-300))
    nll = float(-share @ log_cells)
    observed = share.cumsum()
    gaps = [np.abs(cdf[histogram.high] - observed), np.abs(cdf[histogram.low - 1] - observed + share)]
    _, p = objective.mass(theta)
    centred = objective.jacobian(theta)
    centred -= p @ centred
    information = (centred * p[:, None]).T @ centred
    edge = 1e-9 * np.maximum(1.0, np.abs(theta))
    bound = (theta <= objective.low + edge) | (theta >= objective.high - edge)
    se = np.sqrt(np.diag(np.linalg.pinv(information)) / n) * np.where(objective.log_scale, np.abs(params), 1.0)
    se = np.where(bound, np.nan, se)
    conventional, usual = _conventional(law, params, information)
    spread = np.sqrt(np.diag(np.linalg.pinv(usual, rcond=1e-16)) / n) if np.isfinite(usual).all() else usual[0]
    correlation = _correlation(usual)
    ridge = bool(correlation > RIDGE or (law.conventional is not None and bound.any()))
    status = "not converged" if not converged else "ridge" if ridge else "bound" if bound.any() else "ok"
    return RankLaw(
        family=law.name, title=law.title, vocab_size=V, n_tokens=n, names=law.parameters, values=params, se=se, nll=nll,
        aic=2 * nll + 2 * len(params) / n, kl=_binned_kl(histogram, share, cdf),
        max_drbp=float(max(g.max() for g in gaps)), information=information,
        fisher_condition=float(np.linalg.cond(information)), conventional=conventional,
        conventional_se=dict(zip(conventional, map(float, spread), strict=False)),
        conventional_condition=_condition(usual),
        correlation=correlation, ridge=ridge, status=status, pmf=pmf,
    )  # fmt: skip


def _binned_kl(histogram, share, cdf):
    """KL of observed from fitted shares in bins of a tenth of a decade: single ranks would add their own noise."""
    edges = np.unique(np.round(10 ** np.arange(0, np.log10(histogram.vocab_size), 0.1)).astype(int))
    edges = edges if histogram.single else histogram.low
    low = np.append(edges, histogram.vocab_size + 1)
    observed = np.bincount(np.searchsorted(low, histogram.low, side="right") - 1, share, minlength=len(edges))
    fitted = cdf[low[1:] - 1] - cdf[low[:-1] - 1]
    seen = observed > 0
    return float(observed[seen] @ np.log(observed[seen] / np.maximum(fitted[seen], 1e-300)))


def _conventional(law, params, information):
    """Parameters and Fisher information as the literature writes them (mu, sigma for the lognormal)."""
    if law.conventional is None:
        return {}, information
    names, values = law.conventional(params)
    if not np.isfinite(values).all():
        return dict(zip(names, map(float, values), strict=True)), np.full_like(information, np.nan)
    back = np.empty((len(params), len(values)))  # d values / d params, then inverted
    for j in range(len(params)):
        h = 1e-6 * max(abs(params[j]), 1e-6)
        up, down = params.copy(), params.copy()
        up[j], down[j] = params[j] + h, params[j] - h
        back[:, j] = (law.conventional(up)[1] - law.conventional(down)[1]) / (2 * h)
    inverse = np.linalg.inv(back)
    return dict(zip(names, map(float, values), strict=True)), inverse.T @ information @ inverse


def _condition(information):
    """Condition number after scaling to a unit diagonal; infinite where the parameters are."""
    if not np.isfinite(information).all():
        return float("inf")
    size = np.sqrt(np.maximum(np.diag(information), 1e-300))
    return float(np.linalg.cond(information / np.outer(size, size)))


def _correlation(information):
    """Largest absolute correlation between two estimates."""
    if len(information) == 1:
        return 0.0
    if not np.isfinite(information).all():
        return 1.0
    covariance = np.linalg.pinv(information, rcond=1e-16)
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    r = np.abs(covariance / np.outer(sd, sd))
    return float(min(1.0, np.max(r - np.eye(len(r)))))


def ridge_profile(histogram, mus, family="lognormal_rounded", vocab_size=None):
    """Largest log likelihood (nats, whole sample) of a lognormal at fixed mu, less that of the best fit; (len(mus),).

    Along the ridge mu = -lam sigma^2 this hardly falls; mu = -inf stands for the power-law edge beta = 0.
    """
    histogram = _as_histogram(histogram, vocab_size)
    law = FAMILIES[check_choice(family, ("lognormal", "lognormal_rounded"), "lognormal law")]
    objective = _Objective(histogram, law)
    best = objective.value(np.array(fit_rank_law(histogram, family).values))
    out = []
    for mu in np.atleast_1d(np.asarray(mus, float)):
        out.append(best - min(_profile_value(objective, mu, s0) for s0 in (1.2, 2.0)))
    return np.array(out) * histogram.total


def _profile_value(objective, mu, start):
    """Smallest value at fixed mu, by a bounded search in the exponent s; beta follows from mu = (1 - s) / (2 beta)."""
    from scipy.optimize import minimize_scalar

    if np.isneginf(mu):
        return minimize_scalar(lambda s: objective.value(np.array([s, 0.0])), bounds=(0.0, 8.0), method="bounded").fun

    def value(log_sigma):
        beta = 0.5 * np.exp(-2 * log_sigma)
        return objective.value(np.array([1 - 2 * beta * mu, beta]))

    centre = 0.5 * np.log(max(abs(mu), 1.0) / 0.4)
    width = 2.5 if start < 1.5 else 1.0
    bounds = (centre - width, centre + width)
    return minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-8}).fun


def rounded_lognormal_nll(histogram, mu, sigma, vocab_size=np.inf):
    """Negative log likelihood per token of the rounded lognormal with location mu and scale sigma.

    With an infinite support, conditioned on x > 1/2, this is what the `powerlaw` package fits to discrete data; with a
    finite one the same law on 1..V. Label eq-rounded.
    """
    from scipy.special import log_ndtr

    def log_above(x):  # log P(X > x)
        return log_ndtr((mu - np.log(x)) / sigma)

    def log_between(a, b):
        return log_above(a) + np.log(-np.expm1(log_above(b) - log_above(a)))

    cells = log_between(histogram.low - 0.5, histogram.high + 0.5)
    whole = log_above(0.5) if np.isinf(vocab_size) else log_between(0.5, vocab_size + 0.5)
    return float(-(histogram.count @ (cells - whole)) / histogram.total)
