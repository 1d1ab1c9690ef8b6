"""Which distribution do ranks follow? Maximum likelihood on 1..V, and a contest on held-out text.

A candidate is one function: the log mass of rank k up to a constant. All are normalised by the same
sum over 1..V, so likelihoods are comparable. Those continuous in origin are cut into cells the same
way, rank k holding (k-1, k] ("ceiling"), except where the name says `rounded`: (k-1/2, k+1/2].
Derived in book/derivations/rank_laws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial import chebyshev, legendre
from scipy import optimize, sparse, special

from rbplib.bootstrap import resampled_sums

PAPER = "lognormal"  # the paper's own, Eq. 10, on the support 1..V
IN_MU_SIGMA = ("lognormal", "lognormal_rounded")  # whose (s, beta) are written as (mu, sigma)
DECADE = 0.1  # width in decades of the bins in which ranks are shown and misfits taken
RIDGE = 0.99  # correlation of two estimates above which they slide on a ridge
CONVERGED = 1e-15  # nats per token by which a step still changes the likelihood
TINY = 1e-300
FOLDS = 5  # of sources, each held out once

# sums over 1..V: ranks up to EXACT one by one, then blocks a factor BLOCK wide with NODES nodes
EXACT = 48
NODES = 8
BLOCK = np.sqrt(2.0)
# a Gauss-Legendre rule exact to rounding on the cell (1/2, 3/2]
CELL, WEIGHTS = np.array(legendre.leggauss(12)) / 2


# --- the candidates


def zipf(k, s):
    return -s * np.log(k)


def zipf_cutoff(k, s, log_tau):
    return zipf(k, s) - k / np.exp(log_tau)


def zipf_mandelbrot_cutoff(k, s, q, log_tau):
    return zipf_cutoff(k + q, s, log_tau)


def log_quadratic(k, s, beta):
    t = np.log(k)
    return -s * t - beta * t**2


def lognormal_rounded(k, s, beta):
    """By Gauss-Legendre over the cell: stable also as beta goes to 0, a rounded Pareto."""
    terms = log_quadratic(k[:, None] + CELL, s, beta)
    top = terms.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(terms - top) @ WEIGHTS)


def pareto_rounded(k, s):
    return lognormal_rounded(k, s, 0.0)


def lognormal_ceiling(k, mu, log_sigma):
    """log[Phi(upper) - Phi(lower)] of the cell's edges, exact in both tails; lower may be -inf."""
    with np.errstate(divide="ignore"):
        upper, lower = (np.log([k, k - 1]) - mu) / np.exp(log_sigma)
    # right of the middle by what lies beyond the edges
    upper, lower = special.log_ndtr(np.where(lower > 0, [-lower, -upper], [upper, lower]))
    return upper + np.log(-np.expm1(np.minimum(lower - upper, -TINY)))


class Candidate(NamedTuple):
    """A title, the log mass `formula(k, *parameters)`, where each parameter is looked for,
    starts."""

    title: str
    formula: Callable
    ranges: dict
    starts: list


POWER = {"s": (0, 8)}
CURVED = {"s": (-8, 20), "beta": (0, 4)}
CUTOFF = {"log_tau": np.log([3, 1e7])}  # a cutoff beyond 1e7 ranks is none at all
CUT = {"s": (-1, 8)} | CUTOFF
MANDELBROT = {"s": (-1, 12), "q": (-0.999, 500)} | CUTOFF
CEILING = {"mu": (-60, 12), "log_sigma": np.log([0.2, 30])}
BENT = [(1.3, 0.01), (1.0, 0.05)]
CANDIDATES = {
    "zipf": Candidate("Zipf", zipf, POWER, [(1.4,)]),
    "zipf_cutoff": Candidate("Zipf with cutoff", zipf_cutoff, CUT, [(1.2, 8.0), (0.8, 5.3)]),
    "zipf_mandelbrot_cutoff": Candidate(
        "Zipf-Mandelbrot with cutoff",
        zipf_mandelbrot_cutoff,
        MANDELBROT,
        [(1.2, -0.5, 8.5), (1.0, 0.5, 6.2)],
    ),
    "log_quadratic": Candidate(
        "lognormal density at k, either curvature",
        log_quadratic,
        CURVED | {"beta": (-2, 4)},
        [(1.4, 0.0), (1.0, 0.05)],
    ),
    "lognormal": Candidate("lognormal density at k (paper Eq. 10)", log_quadratic, CURVED, BENT),
    "lognormal_rounded": Candidate("lognormal, rounded", lognormal_rounded, CURVED, BENT),
    "pareto_rounded": Candidate("Pareto, rounded", pareto_rounded, POWER, [(1.4,)]),
    "lognormal_ceiling": Candidate(
        "lognormal, ceiling",
        lognormal_ceiling,
        CEILING,
        [(0.7, 1.25), (2.0, 0.7)],
    ),
}


# --- histograms of ranks


@dataclass(frozen=True)
class RankHistogram:
    """Counts of ranks in bins low..high (inclusive), int64 (B,) each; count float64 (B,)."""

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray
    vocab_size: int

    @property
    def share(self):
        return self.count / self.count.sum()

    @property
    def single(self):
        """Whether every bin is one rank."""
        return bool((self.low == self.high).all())

    def wide(self):
        """(low, high, share of tokens) in bins a tenth of a decade wide; wide bins stay. NaN of an
        empty one."""
        low, high, share = self.low, self.high, self.share
        if self.single:
            edges = 10 ** np.arange(0, np.log10(self.vocab_size), DECADE)
            low = np.unique(np.round(edges).astype(np.int64))
            high = np.append(low[1:] - 1, self.vocab_size)
            bins = np.searchsorted(high, self.low)
            share = np.bincount(bins, self.share, minlength=len(low))
        return low, high, np.where(share > 0, share, np.nan)


def table_histogram(table):
    """Histogram of the ranks of a RankTable."""
    return as_histogram(np.bincount(table.rank() - 1, minlength=int(table.record["vocab_size"])))


def as_histogram(counts):
    """A RankHistogram as it is, or one of counts (V,) with counts[k-1] tokens of rank k."""
    if isinstance(counts, RankHistogram):
        return counts
    counts = np.asarray(counts, dtype=float)
    seen = np.flatnonzero(counts)
    return RankHistogram(seen + 1, seen + 1, counts[seen], len(counts))


# --- the likelihood, by short sums over pivots in place of V ranks


@lru_cache(maxsize=8)
def pivots(V):
    """Where a smooth function of 1..V has to be known: k float64 (P,), and a sparse matrix (V, P).

    The matrix gives the function at every rank from its values at the pivots: in each block of
    ranks by the polynomial in ln k through NODES points. Sums of a candidate's mass are off by less
    than 1e-9 of the sum (tested). Label eq-pivots. Cost: NODES numbers per rank, once per V.
    """
    nodes = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    coefficients = np.linalg.inv(chebyshev.chebvander(nodes, NODES - 1))
    last = min(V, EXACT)
    k = [np.arange(1.0, last + 1)]
    blocks = [np.eye(last)]
    while last < V:
        # the next block, and its ranks in ln k from -1 to 1
        first, last = last, min(V, int((last + 1) * BLOCK))
        t = np.log(np.arange(first + 1.0, last + 1))
        middle = (t[0] + t[-1]) / 2
        half = max((t[-1] - t[0]) / 2, 1e-3)
        blocks.append(chebyshev.chebvander((t - middle) / half, NODES - 1) @ coefficients)
        k.append(np.exp(middle + half * nodes))
    return np.concatenate(k), sparse.csr_array(sparse.block_diag(blocks))


class Likelihood:
    """Negative log likelihood per token of a candidate on a RankHistogram, summed over the pivots.

    `share` of tokens is float64 (P,) at the pivots where ranks are single; else it is that of the
    bins, (B,), and `bins` (B, P) gives their mass from that at the pivots.
    """

    def __init__(self, histogram, candidate):
        self.formula = candidate.formula
        self.share = histogram.share
        self.bins = None
        self.low, self.high = np.transpose(list(candidate.ranges.values())).astype(float)
        # sums over ranks as sums over pivots
        self.k, matrix = pivots(histogram.vocab_size)
        self.weights = matrix.sum(axis=0)
        if histogram.single:
            self.share = self.share @ matrix[histogram.low - 1]
            return
        # bins that hold several ranks
        bins = zip(histogram.low, histogram.high, strict=True)
        self.bins = np.stack([matrix[low - 1 : high].sum(axis=0) for low, high in bins])

    def log_mass(self, params):
        """Normalised log mass at the pivots, and the probability that each stands for: (P,)."""
        log_mass = self.formula(self.k, *params)
        log_mass = log_mass - log_mass.max()
        weighted = self.weights * np.exp(log_mass)
        return log_mass - np.log(weighted.sum()), weighted / weighted.sum()

    def value(self, params):
        log_mass, _ = self.log_mass(params)
        if self.bins is not None:
            log_mass = np.log(np.maximum(self.bins @ np.exp(log_mass), TINY))
        return -self.share @ log_mass

    def slopes(self, params):
        """Of the log mass at the pivots, by central differences inside the bounds, centred:
        (P, p)."""
        columns = []
        for step in 1e-5 * np.diag(np.maximum(1.0, np.abs(params))):
            up = np.minimum(params + step, self.high)
            down = np.maximum(params - step, self.low)
            rise = self.formula(self.k, *up) - self.formula(self.k, *down)
            columns.append(rise / (up - down).max())
        slopes = np.stack(columns, axis=1)
        return slopes - self.log_mass(params)[1] @ slopes

    def gradient(self, params):
        slopes = self.slopes(params)
        if self.bins is not None:
            mass = np.exp(self.log_mass(params)[0])[:, None]
            slopes = (self.bins @ (mass * slopes)) / np.maximum(self.bins @ mass, TINY)
        return -(self.share @ slopes)

    def information(self, params):
        """Fisher's, of single ranks, per token: (p, p)."""
        slopes = self.slopes(params)
        return (slopes * self.log_mass(params)[1][:, None]).T @ slopes


# --- fits


@dataclass(frozen=True)
class RankDistribution:
    """One candidate fitted."""

    name: str
    values: np.ndarray  # float64 (p,)
    bound: np.ndarray  # bool (p,), whether a value stands at the edge of its range
    converged: bool
    nll: float  # -log likelihood, nats per token
    max_drbp: float  # max over k of |fitted RBP_k - observed RBP_k|
    information: np.ndarray  # float64 (p, p), Fisher's, per token
    pmf: np.ndarray  # float64 (V,)

    @property
    def title(self):
        return CANDIDATES[self.name].title

    @property
    def ranks(self):
        return np.arange(1, len(self.pmf) + 1)

    def between(self, low, high):
        """Its mass of ranks low..high (inclusive)."""
        below = np.append(0, self.pmf.cumsum())
        return below[high] - below[low - 1]

    @property
    def parameters(self):
        return dict(zip(CANDIDATES[self.name].ranges, map(float, self.values), strict=True))

    @property
    def conventional(self):
        """{"mu", "sigma"} of a lognormal in (s, beta), infinite at beta = 0; empty for others."""
        if self.name not in IN_MU_SIGMA:
            return {}
        s, beta = self.values
        with np.errstate(divide="ignore"):
            return {"mu": float((1 - s) / (2 * beta)), "sigma": float(np.sqrt(0.5 / beta))}

    @property
    def correlation(self):
        """Of the estimates of a finite mu and sigma, without its sign (label eq-jacobian)."""
        mu, sigma = self.conventional.values()
        J = np.array([[-1 / sigma**2, 2 * mu / sigma**3], [0.0, -1 / sigma**3]])
        A = J.T @ self.information @ J
        return float(abs(A[0, 1]) / np.sqrt(A[0, 0] * A[1, 1]))

    @property
    def status(self):
        if not self.converged:
            return "not converged"
        if self.conventional and (self.bound.any() or self.correlation > RIDGE):
            return "ridge"  # mu and sigma slide along it
        return "bound" if self.bound.any() else "ok"


def fit_rank_law(histogram, name, start=None):
    """Maximum-likelihood fit of one candidate distribution of ranks on the truncated support 1..V.

    Args:
        histogram: RankHistogram, or counts float or int (V,) with counts[k-1] tokens of rank k.
        name: of a candidate in CANDIDATES.
        start: optional parameter vector to start from, in place of the candidate's own.
    Returns:
        RankDistribution.
    Cost: a few hundred pivots per step; about 0.02 s at V = 50,257.

    >>> counts = 1e6 * np.arange(1, 101) ** -1.5
    >>> round(fit_rank_law(counts, "zipf").parameters["s"], 6)
    1.5
    """
    histogram = as_histogram(histogram)
    candidate = CANDIDATES[name]
    objective = Likelihood(histogram, candidate)
    bounds = optimize.Bounds(objective.low, objective.high)
    how = {"jac": objective.gradient, "method": "SLSQP", "bounds": bounds}
    how["options"] = {"ftol": CONVERGED, "maxiter": 500}
    ends = []
    for params in candidate.starts if start is None else [start]:
        params = np.clip(params, objective.low, objective.high)
        ends.append(optimize.minimize(objective.value, params, **how))
    best = min(ends, key=lambda search: search.fun)

    # a value that rounding keeps from the edge of its range is at the edge
    near = 1e-9 * np.maximum(1.0, np.abs(best.x))
    values = best.x
    for edge in (objective.low, objective.high):
        values = np.where(np.abs(values - edge) <= near, edge, values)

    # the misfit of RBP at both ends of every bin
    k = np.arange(1.0, histogram.vocab_size + 1)
    pmf = special.softmax(candidate.formula(k, *values))
    fitted = np.append(0, pmf.cumsum())
    observed = np.append(0, histogram.share.cumsum())
    above = np.abs(fitted[histogram.high] - observed[1:])
    below = np.abs(fitted[histogram.low - 1] - observed[:-1])
    return RankDistribution(
        name=name,
        values=values,
        bound=(values == objective.low) | (values == objective.high),
        converged=best.success,
        nll=float(best.fun),
        max_drbp=float(max(above.max(), below.max())),
        information=objective.information(values),
        pmf=pmf,
    )


# --- the contest


class Contest(NamedTuple):
    """Candidates on held-out text, best first: by name, F of them.

    Losses are in nats per token above the best, on sources that the fit did not see.
    """

    fits: dict  # {name: RankDistribution} to all tokens
    loss: pd.Series
    drawn: pd.DataFrame  # (B, F), `loss` of the same resampled sources

    @property
    def best(self):
        return next(iter(self.fits.values()))

    @property
    def interval(self):
        """Of `loss`, 95%, over sources: data frame (2, F)."""
        return self.drawn.quantile([0.025, 0.975])


def table_contest(table, candidates=tuple(CANDIDATES), n_bootstrap=10_000, seed=42):
    """The Contest of candidates on a RankTable: each is scored on sources it was not fitted to.

    Sources, not tokens, are dealt into FOLDS folds: tokens of one source are alike, and a token's
    own source must not help to predict it. Where documents share no source, each is its own. The
    intervals come from resampled sources, the same for all candidates. None for fewer than FOLDS
    sources.
    """
    ranks = table.rank()
    V = int(table.record["vocab_size"])
    names, source = np.unique(table.source[table.document], return_inverse=True)
    D = len(names)
    if D < FOLDS:
        return None
    fold = np.random.default_rng(seed).permutation(D) % FOLDS
    fits = {name: fit_rank_law(table_histogram(table), name) for name in candidates}

    # held-out log scores of every source
    scores = pd.DataFrame(0.0, range(D), list(fits))
    for i in range(FOLDS):
        test = fold[source] == i
        train = np.bincount(ranks[~test] - 1, minlength=V)
        for name, whole in fits.items():
            fit = fit_rank_law(train, name, start=whole.values)  # only a starting point
            with np.errstate(divide="ignore"):
                score = np.log(fit.pmf)[ranks[test] - 1]
            scores[name] += np.bincount(source[test], score, minlength=D)

    # best first, and what resampled sources make of the differences
    tokens = np.bincount(source)
    scores = scores[scores.sum().sort_values(ascending=False).index]
    behind = scores.iloc[:, 0].to_numpy()[:, None] - scores
    sums = resampled_sums(np.column_stack([tokens, behind]), n_bootstrap, seed)
    drawn = pd.DataFrame(sums[:, 1:] / sums[:, :1], columns=scores.columns)
    fits = {name: fits[name] for name in scores}
    return Contest(fits, behind.sum() / tokens.sum(), drawn)


# --- for a page


def fit_frame(fits):
    """One row per fitted RankDistribution, in the order given: nats per token above the best,
    misfit, parameters."""
    best = min(fit.nll for fit in fits)
    rows = []
    for fit in fits:
        row = {"law": fit.title, "status": fit.status, "nats above the best": fit.nll - best}
        parameters = [f"{name} {value:.4g}" for name, value in fit.parameters.items()]
        rows.append(row | {"max |ΔRBP|": fit.max_drbp, "fitted": ", ".join(parameters)})
    return pd.DataFrame(rows)
