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
from scipy import optimize, special

from rbplib.bootstrap import resampled_sums
from rbplib.table import distinct

PAPER = "lognormal"  # the paper's own, Eq. 10, on the support 1..V
IN_MU_SIGMA = ("lognormal", "lognormal_rounded")  # whose (s, beta) are written as (mu, sigma)
DECADE = 0.1  # width in decades of the bins in which ranks are shown and misfits taken
RIDGE = 0.99  # correlation of two estimates above which they slide on a ridge
CONVERGED = 1e-15  # nats per token by which a step still changes the likelihood
TINY = 1e-300
FOLDS = 5  # of sources, each held out once
SAME = 0.1  # nats over all tokens below which two fitted laws are one

# sums over 1..V: ranks up to EXACT one by one, then blocks a factor BLOCK wide with NODES nodes
EXACT, NODES, BLOCK = 48, 8, np.sqrt(2.0)
# Gauss-Legendre rules exact to rounding on the cell (1/2, 3/2], and on cells of ranks above NARROW
WIDE, SLIM, NARROW = np.polynomial.legendre.leggauss(12), np.polynomial.legendre.leggauss(3), 64


# --- what a rank table counts


def pairs(table):
    """Distinct (greater, ties) of the whole corpus and their tokens, int64 (3, R)."""
    return distinct(table.greater, table.ties)


def by_source(table):
    """Distinct (source, rank) and their tokens, int64 (3, R)."""
    return distinct(table.source[table.document], table.rank())


# --- the candidates


class Range(NamedTuple):
    """Where a parameter is looked for: evenly, or evenly in its logarithm."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Candidate:
    """One candidate distribution. `formula(k, *parameters)` is its log mass up to a constant."""

    name: str
    title: str
    formula: Callable
    ranges: dict  # {parameter: Range}
    starts: tuple[tuple[float, ...], ...]


CANDIDATES = {}
S = Range(0.0, 8.0)
CUTOFF = Range(3.0, 1e7, log=True)  # a cutoff beyond 1e7 ranks is none at all
CURVED = {"s": Range(-8.0, 20.0), "beta": Range(0.0, 4.0)}
FRECHET = {"C": Range(1e-3, 50.0, log=True), "nu": Range(0.02, 8.0, log=True)}


def candidate(title, *starts, **ranges):
    """Enter the function below into CANDIDATES by name; ranges in the order of its parameters."""

    def enter(formula):
        name = formula.__name__
        CANDIDATES[name] = Candidate(name, title, formula, ranges, starts)
        return formula

    return enter


@candidate("Zipf", (1.4,), s=S)
def zipf(k, s):
    return -s * np.log(k)


@candidate("Zipf with cutoff", (1.2, 3e3), (0.8, 200.0), s=Range(-1.0, 8.0), tau=CUTOFF)
def zipf_cutoff(k, s, tau):
    return -s * np.log(k) - k / tau


@candidate(
    "Zipf-Mandelbrot with cutoff",
    (1.2, -0.5, 5e3),
    (1.0, 0.5, 500.0),
    s=Range(-1.0, 12.0),
    q=Range(-0.999, 500.0),
    tau=CUTOFF,
)
def zipf_mandelbrot_cutoff(k, s, q, tau):
    return -s * np.log(k + q) - k / tau


@candidate(
    "lognormal density at k, either curvature",
    (1.4, 0.0),
    (1.0, 0.05),
    s=CURVED["s"],
    beta=Range(-2.0, 4.0),
)
def log_quadratic(k, s, beta):
    t = np.log(k)
    return -s * t - beta * t**2


@candidate("lognormal density at k (paper Eq. 10)", (1.3, 0.01), (1.0, 0.05), **CURVED)
def lognormal(k, s, beta):
    return log_quadratic(k, s, beta)


@candidate("lognormal, rounded", (1.3, 0.01), (1.0, 0.05), **CURVED)
def lognormal_rounded(k, s, beta):
    """By Gauss-Legendre over the cell: stable also as beta goes to 0, a rounded Pareto."""
    out = np.empty(len(k))
    for near, (nodes, weights) in ((k <= NARROW, WIDE), (k > NARROW, SLIM)):
        terms = log_quadratic(k[near, None] + nodes / 2, s, beta)
        top = terms.max(axis=1, keepdims=True)
        out[near] = top[:, 0] + np.log(np.exp(terms - top) @ (weights / 2))
    return out


@candidate("Pareto, rounded", (1.4,), s=S)
def pareto_rounded(k, s):
    return lognormal_rounded(k, s, 0.0)


@candidate(
    "lognormal, ceiling",
    (0.7, 3.5),
    (2.0, 2.0),
    mu=Range(-60.0, 12.0),
    sigma=Range(0.2, 30.0, log=True),
)
def lognormal_ceiling(k, mu, sigma):
    """log[Phi(upper) - Phi(lower)] of the cell's edges, exact in both tails; lower may be -inf."""
    with np.errstate(divide="ignore"):
        upper, lower = (np.log(k) - mu) / sigma, (np.log(k - 1) - mu) / sigma
        flip = lower > 0
        top = special.log_ndtr(np.where(flip, -lower, upper))
        rest = special.log_ndtr(np.where(flip, -upper, lower))
        return top + np.log(-np.expm1(np.minimum(rest - top, -TINY)))


@candidate("Fréchet", (0.9, 0.5), **FRECHET)
def frechet(k, C, nu):
    with np.errstate(divide="ignore"):  # minus log F gained over the cell is infinite at k = 1
        gain = C * k**-nu * np.expm1(-nu * np.log1p(-1 / k))
    return -C * k**-nu + np.log(-np.expm1(-np.maximum(gain, TINY)))


@candidate("Fréchet with cutoff", (0.9, 0.4, 5e3), (0.9, 0.4, 500.0), **FRECHET, tau=CUTOFF)
def frechet_cutoff(k, C, nu, tau):
    return frechet(k, C, nu) - k / tau


@candidate(
    "two lognormals, ceiling",
    (0.6, -1.0, 2.0, 4.0, 2.2),
    (0.85, 0.0, 2.5, 6.0, 1.5),
    (0.4, -1.0, 1.0, 2.5, 2.8),
    weight=Range(1e-4, 0.9999),
    mu1=Range(-30.0, 8.0),
    sigma1=Range(0.2, 20.0, log=True),
    mu2=Range(-10.0, 12.0),
    sigma2=Range(0.2, 10.0, log=True),
)
def two_lognormals(k, weight, mu1, sigma1, mu2, sigma2):
    first = np.log(weight) + lognormal_ceiling(k, mu1, sigma1)
    return np.logaddexp(first, np.log1p(-weight) + lognormal_ceiling(k, mu2, sigma2))


# --- histograms of ranks


@dataclass(frozen=True)
class RankHistogram:
    """Counts of ranks in bins low..high (inclusive), int64 (B,) each; count float64 (B,)."""

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

    def wide(self):
        """(low, high, share of tokens) in bins a tenth of a decade wide; wide bins stay."""
        share = self.count / self.total
        if not self.single:
            return self.low, self.high, share
        edges = 10 ** np.arange(0, np.log10(self.vocab_size), DECADE)
        low = np.unique(np.round(edges).astype(np.int64))
        high = np.append(low[1:] - 1, self.vocab_size)
        return low, high, np.bincount(np.searchsorted(high, self.low), share, minlength=len(low))


def rank_histogram(ranks, vocab_size, tokens=None):
    """Histogram of ranks, integers (n,) in 1..V, each of one token or of some number (n,)."""
    return as_histogram(np.bincount(ranks - 1, tokens, minlength=vocab_size))


def table_histogram(table):
    """Histogram of the ranks of a RankTable."""
    greater, ties, tokens = pairs(table)
    return rank_histogram(greater + ties, int(table.record["vocab_size"]), tokens)


def as_histogram(counts):
    """A RankHistogram as it is, or one of counts (V,) with counts[k-1] tokens of rank k."""
    if isinstance(counts, RankHistogram):
        return counts
    counts = np.asarray(counts, dtype=float)
    seen = np.flatnonzero(counts)
    return RankHistogram(seen + 1, seen + 1, counts[seen], len(counts))


# --- the likelihood, by short sums over pivots in place of V ranks


def project(counts, blocks):
    """Weights (P,) whose sum with g(pivots) is the sum of counts[k-1] g(k), counts (V,)."""
    return np.concatenate([counts[ranks] @ matrix for ranks, matrix in blocks])


@lru_cache(maxsize=8)
def pivots(V):
    """Where a smooth function of 1..V has to be known: (k float64 (P,), weights (P,), blocks).

    A block is a slice of the ranks with the matrix (ranks, its pivots) that interpolates there: in
    a block a smooth function of ln k is its own polynomial through NODES points. Error below 1e-9
    of the sum for every candidate (tested). Label eq-pivots. Cost: NODES numbers per rank, once per
    V.
    """
    last = min(V, EXACT)
    k, blocks = [np.arange(1.0, last + 1)], [(slice(last), np.eye(last))]
    chebyshev = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    while last < V:
        # the next block, and its nodes in ln k
        first, last = last, min(V, int((last + 1) * BLOCK))
        last = V if V - last < 8 else last
        left, right = np.log(first + 1), np.log(last)
        x = (left + right) / 2 + max((right - left) / 2, 1e-3) * chebyshev

        # Lagrange's polynomials of the nodes at every rank of the block
        t = np.log(np.arange(first + 1.0, last + 1))[:, None]
        matrix = np.empty((last - first, NODES))
        for j in range(NODES):
            others = np.delete(x, j)
            matrix[:, j] = np.prod((t - others) / (x[j] - others), axis=1)
        blocks.append((slice(first, last), matrix))
        k.append(np.exp(x))
    return np.concatenate(k), project(np.ones(V), blocks), blocks


class Likelihood:
    """Negative log likelihood per token of a candidate on a RankHistogram, summed over the pivots.

    theta (p,) are the parameters as they are searched for, between `low` and `high`: logarithms
    where `log` says so. `share` of tokens is float64 (P,) at the pivots where ranks are single;
    else it is that of the bins, (B,), and `bins` (B, P) gives their mass from that at the pivots.
    """

    def __init__(self, histogram, candidate):
        V, self.candidate, self.bins = histogram.vocab_size, candidate, None
        self.k, self.weights, blocks = pivots(V)
        ranks = np.arange(1, V + 1)
        if histogram.single:
            counts = np.zeros(V)
            counts[histogram.low - 1] = histogram.count
            self.share = project(counts, blocks) / histogram.total
        else:
            self.share, rows = histogram.count / histogram.total, []
            for low, high in zip(histogram.low, histogram.high, strict=True):
                rows.append(project(((low <= ranks) & (ranks <= high)).astype(float), blocks))
            self.bins = np.stack(rows)
        low, high, log = np.transpose(list(candidate.ranges.values()))
        self.log = log > 0
        self.low, self.high = self.to_search(low), self.to_search(high)

    def to_search(self, params):
        return np.log(params, where=self.log, out=np.array(params, float))

    def to_params(self, theta):
        return np.exp(theta, where=self.log, out=np.array(theta, float))

    def log_mass(self, theta):
        """Normalised log mass at the pivots, and the probability that each stands for: (P,)."""
        log_mass = self.candidate.formula(self.k, *self.to_params(theta))
        log_mass = log_mass - log_mass.max()
        weighted = self.weights * np.exp(log_mass)
        total = weighted.sum()
        return log_mass - np.log(total), weighted / total

    def value(self, theta):
        return self._value(self.log_mass(theta)[0])

    def _value(self, log_mass):
        return -self.share @ (log_mass if self.bins is None else np.log(self._cells(log_mass)))

    def _cells(self, log_mass):
        return np.maximum(self.bins @ np.exp(log_mass), TINY)

    def expand(self, theta):
        """(value, gradient (p,), Fisher information of single ranks (p, p)); inside the bounds."""
        # slopes of the log mass, by central differences
        columns = []
        for j, h in enumerate(1e-5 * np.maximum(1.0, np.abs(theta))):
            up, down = theta.copy(), theta.copy()
            up[j], down[j] = min(theta[j] + h, self.high[j]), max(theta[j] - h, self.low[j])
            rise = self.candidate.formula(self.k, *self.to_params(up))
            rise = rise - self.candidate.formula(self.k, *self.to_params(down))
            columns.append(rise / (up[j] - down[j]))
        slopes = np.stack(columns, axis=1)

        # normalised, and of the bins where ranks are in bins
        log_mass, p = self.log_mass(theta)
        centred = slopes - p @ slopes
        information = (centred * p[:, None]).T @ centred
        if self.bins is not None:
            mass = self.bins @ (np.exp(log_mass)[:, None] * centred)
            centred = mass / self._cells(log_mass)[:, None]
        return self._value(log_mass), -(self.share @ centred), information


# --- fits


@dataclass(frozen=True)
class RankDistribution:
    """One candidate fitted. Likelihoods in nats per token.

    What is called conventional is in the parameters that the literature uses: (mu, sigma) for the
    lognormals that are fitted in (s, beta), the fitted ones for all others.
    """

    candidate: Candidate
    n_tokens: float
    values: np.ndarray  # float64 (p,)
    bound: np.ndarray  # bool (p,), whether a value stands at the edge of its range
    converged: bool
    nll: float  # -log likelihood per token
    kl: float  # of observed from fitted shares, nats per token, in bins of a tenth of a decade
    max_drbp: float  # max over k of |fitted RBP_k - observed RBP_k|
    information: np.ndarray  # float64 (p, p), Fisher's, per token; scales by their logarithm
    pmf: np.ndarray  # float64 (V,)

    @property
    def name(self):
        return self.candidate.name

    @property
    def title(self):
        return self.candidate.title

    @property
    def parameters(self):
        return dict(zip(self.candidate.ranges, map(float, self.values), strict=True))

    @property
    def aic(self):
        """Per token, 2 nll + 2 p / n."""
        return 2 * self.nll + 2 * len(self.values) / self.n_tokens

    @property
    def conventional(self):
        """{"mu", "sigma"} of a lognormal in (s, beta), infinite at beta = 0; empty for others."""
        if self.name not in IN_MU_SIGMA:
            return {}
        s, beta = self.values
        with np.errstate(divide="ignore"):
            return {"mu": float((1 - s) / (2 * beta)), "sigma": float(np.sqrt(0.5 / beta))}

    @property
    def conventional_information(self):
        """Fisher information in the conventional parameters (label eq-jacobian); NaN if
        infinite.
        """
        if not self.conventional:
            return self.information
        mu, sigma = self.conventional.values()
        if not np.isfinite(mu + sigma):
            return np.full_like(self.information, np.nan)
        J = np.array([[-1 / sigma**2, 2 * mu / sigma**3], [0.0, -1 / sigma**3]])
        return J.T @ self.information @ J

    @property
    def correlation(self):
        """Largest |correlation| between two conventional estimates; 1 where they are infinite."""
        if not np.isfinite(self.conventional_information).all():
            return 1.0
        covariance = np.linalg.pinv(self.conventional_information, rcond=1e-16)
        sd = np.sqrt(np.maximum(np.diag(covariance), TINY))
        apart = np.abs(covariance / np.outer(sd, sd)) - np.eye(len(sd))
        return float(min(1.0, apart.max()))

    @property
    def status(self):
        if not self.converged:
            return "not converged"
        if self.correlation > RIDGE or (self.conventional and self.bound.any()):
            return "ridge"  # the conventional parameters slide along it
        return "bound" if self.bound.any() else "ok"

    def log_score(self, ranks):
        """log p of each rank, float64 (n,), nats."""
        with np.errstate(divide="ignore"):
            return np.log(self.pmf)[np.asarray(ranks) - 1]


def fit_rank_law(histogram, candidate, start=None):
    """Maximum-likelihood fit of one candidate distribution of ranks on the truncated support 1..V.

    Args:
        histogram: RankHistogram, or counts float or int (V,) with counts[k-1] tokens of rank k.
        candidate: a name in CANDIDATES.
        start: optional parameter vector to start from, in place of the candidate's own.
    Returns:
        RankDistribution.
    Cost: a few hundred pivots per step; about 0.02 s at V = 50,257.

    >>> counts = 1e6 * np.arange(1, 101) ** -1.5
    >>> round(fit_rank_law(counts, "zipf").parameters["s"], 6)
    1.5
    """
    histogram = as_histogram(histogram)
    objective = Likelihood(histogram, CANDIDATES[candidate])
    low, high = objective.low, objective.high

    def slope(theta):
        return objective.expand(theta)[:2]

    options = {"ftol": CONVERGED, "maxiter": 500}
    how = {"method": "SLSQP", "bounds": optimize.Bounds(low, high), "options": options}
    ends = []
    for params in objective.candidate.starts if start is None else (start,):
        theta = np.clip(objective.to_search(params), low, high)
        ends.append(optimize.minimize(slope, theta, jac=True, **how))
    best = min(ends, key=lambda search: search.fun)
    return _record(histogram, objective, best.x, best.success)


def _record(histogram, objective, theta, converged):
    """The RankDistribution at theta; what it reports is computed on all V ranks."""
    candidate, params = objective.candidate, objective.to_params(theta)
    k = np.arange(1.0, histogram.vocab_size + 1)
    log_pmf = special.log_softmax(candidate.formula(k, *params))
    pmf = np.exp(log_pmf)
    cdf = np.concatenate([[0.0], pmf.cumsum()])

    # the misfit of shares and of RBP at both ends of every bin
    share = histogram.count / histogram.total
    below, above, observed = cdf[histogram.low - 1], cdf[histogram.high], share.cumsum()
    log_cells = np.log(np.maximum(above - below, TINY))
    if histogram.single:
        log_cells = log_pmf[histogram.low - 1]
    misses = np.abs([above - observed, below - observed + share])

    # divergence in wide bins: single ranks would add their own noise to it
    low, high, wide = histogram.wide()
    fitted = np.maximum(cdf[high] - cdf[low - 1], TINY)[wide > 0]
    wide = wide[wide > 0]
    edge = 1e-9 * np.maximum(1.0, np.abs(theta))
    return RankDistribution(
        candidate=candidate,
        n_tokens=histogram.total,
        values=params,
        bound=(theta <= objective.low + edge) | (theta >= objective.high - edge),
        converged=converged,
        nll=float(-share @ log_cells),
        kl=float(wide @ np.log(wide / fitted)),
        max_drbp=float(misses.max()),
        information=objective.expand(theta)[2],
        pmf=pmf,
    )


# --- the contest


def scored_sources(table):
    """Number of sources of a RankTable that hold a scored token."""
    return len(np.unique(by_source(table)[0]))


@dataclass(frozen=True)
class Contest:
    """Candidates against the best on held-out text, F of them, best first.

    `loss`: nats per token above the best; `interval`: 95%, over sources, (2, F).
    """

    fits: tuple[RankDistribution, ...]  # to all tokens
    nll: np.ndarray  # held out, nats per token
    loss: np.ndarray
    interval: np.ndarray
    drawn: np.ndarray  # float64 (B, F), `loss` of the same resampled sources

    @property
    def best(self):
        return self.fits[0]

    def place(self, name):
        """Where a candidate comes, 0 for the best."""
        return [fit.name for fit in self.fits].index(name)

    def fit(self, name):
        return self.fits[self.place(name)]

    def lead(self, first, second):
        """(nats per token by which the first leads, its 95% interval over paired sources)."""
        a, b = self.place(first), self.place(second)
        ends = np.quantile(self.drawn[:, b] - self.drawn[:, a], [0.025, 0.975])
        return float(self.loss[b] - self.loss[a]), ends


def table_contest(table, candidates=tuple(CANDIDATES), n_bootstrap=10_000, seed=42):
    """The Contest of candidates on a RankTable: each is scored on sources it was not fitted to.

    Sources, not tokens, are dealt into FOLDS folds: tokens of one source are alike, and a token's
    own source must not help to predict it. Where documents share no source, each is its own. The
    intervals come from resampled sources, the same for all candidates.
    """
    (source, ranks, tokens), V = by_source(table), int(table.record["vocab_size"])
    names, source = np.unique(source, return_inverse=True)
    D = len(names)
    fold = np.random.default_rng(seed).permutation(D) % FOLDS
    fits = [fit_rank_law(table_histogram(table), name) for name in candidates]

    # held-out log scores of every source, (D, F)
    scores = np.zeros((D, len(fits)))
    for i in range(FOLDS):
        test = fold[source] == i
        train = rank_histogram(ranks[~test], V, tokens[~test])
        for j, whole in enumerate(fits):
            fit = fit_rank_law(train, whole.name, start=whole.values)  # only a starting point
            score = tokens[test] * fit.log_score(ranks[test])
            scores[:, j] += np.bincount(source[test], score, minlength=D)

    # best first, and what resampled sources make of the differences
    tokens = np.bincount(source, tokens)
    nll = -scores.sum(0) / tokens.sum()
    order = np.argsort(nll)
    scores, nll = scores[:, order], nll[order]
    sums = resampled_sums(np.column_stack([tokens, scores[:, :1] - scores]), n_bootstrap, seed)
    drawn = sums[:, 1:] / sums[:, :1]
    ends = np.quantile(drawn, [0.025, 0.975], axis=0)
    return Contest(tuple(fits[i] for i in order), nll, nll - nll[0], ends, drawn)


def contains(whole, part):
    """Whether one fit's candidate can imitate the other's fitted law to SAME nats over all tokens.

    It can where it has that law as a special case, inside, at an edge of its parameters or in the
    limit.
    """
    again = fit_rank_law(part.n_tokens * part.pmf, whole.name)
    return bool(part.n_tokens * (again.nll - special.entr(part.pmf).sum()) < SAME)
